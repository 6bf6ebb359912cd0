// Accesses that must end: for the end of their link, for the next one to their peer, or as nothing
// is heard of them.
#include <sched.h>

#include <algorithm>

#include "base/log.hpp"
#include "fabric/ofi/endpoint_impl.hpp"

namespace weft::fabric::ofi {

namespace {

// What close() waits for accesses of the program's own memory, and a link that has gone down.
constexpr std::uint64_t kCloseNs = 20'000'000, kDownNs = 1'000'000'000;
// What the next link to a peer waits for the accesses of the last one.
constexpr std::uint64_t kOldNs = 500'000'000;
// A link of which no access has ended for so long, and for so much longer as the eldest has bytes,
// is of no use: the provider has lost them, or the peer does not answer.
constexpr std::uint64_t kSilentNs = 30'000'000'000, kSilentNsOfByte = 100;
constexpr std::uint64_t kLookNs = 1'000'000'000;

bool has_in_place(const Accesses& accesses) {
  for (const PostedAccess* access = accesses.first; access != nullptr; access = access->after)
    if (access->is_in_place()) return true;
  return false;
}

}  // namespace

// Ends all that was posted on the endpoint for accesses: that of the link `closing` with this code,
// others' with their links. Their completions may still come, so what these name is not used again.
void OfiEndpoint::end_access_ep(std::uint64_t closing, Code code, Lock& lock) {
  if (access_ep_ == nullptr) return;
  fid_ep* const ep = std::exchange(access_ep_, nullptr);
  ep_->close_opener(ep);
  // All of them before any is told: another endpoint may get the same place.
  for (PostedAccess& access : accesses_) {
    if (access.ep != ep || access.accesses == nullptr) continue;
    access.ep = nullptr;
    unlist(access);
    let_go(access);
    if (access.request != nullptr) ++num_untold_;
    if (OfiLink* link = find(access.link); link != nullptr && access.link != closing)
      take_down(*link, Code::peer_lost);
  }
  while (num_untold_ > 0) {
    const auto access = std::ranges::find_if(accesses_, [](const PostedAccess& one) {
      return one.ep == nullptr && one.request != nullptr;
    });
    const Code its = access->link == closing ? code : Code::peer_lost;
    WorkRequest* request = std::exchange(access->request, nullptr);
    --num_untold_;
    lock.unlock();
    request->done(*request, its);
    lock.lock();
  }
}

// Takes a request of this link that ended with the endpoint, and was not told yet; null: none.
WorkRequest* OfiEndpoint::take_untold(std::uint64_t link) {
  if (num_untold_ == 0) [[likely]]
    return nullptr;
  for (PostedAccess& access : accesses_)
    if (access.ep == nullptr && access.request != nullptr && access.link == link) {
      --num_untold_;
      return std::exchange(access.request, nullptr);
    }
  return nullptr;
}

// When this returns the provider touches no memory of the program for these any more.
void OfiEndpoint::end_in_place(std::uint64_t token, const std::shared_ptr<Accesses>& accesses,
                               Code code, Lock& lock) {
  if (!has_in_place(*accesses)) return;
  for (const std::uint64_t limit = now_ns() + kCloseNs; now_ns() < limit;) {
    const bool any = read_completions(nullptr, lock);
    if (!has_in_place(*accesses)) return;
    if (any) continue;
    lock.unlock();
    sched_yield();
    lock.lock();
  }
  end_access_ep(token, code, lock);
}

// A link that is down gets some time for that, so that no other link breaks for it.
bool OfiEndpoint::accesses_end_soon(const OfiLink& link, Event& event) const {
  if (!has_in_place(*link.accesses)) return false;
  const std::uint64_t now = now_ns();
  if (event.until_ns == 0) event.until_ns = now + kDownNs;
  return now < event.until_ns;
}

// Of a closed link to the same peer.
bool OfiEndpoint::has_old_accesses(const OfiLink& link) const {
  for (const auto& old : old_)
    if (old->address == link.accesses->address) return true;
  return false;
}

// Returns true if the link may not come up yet: a put of an earlier one could land after its own.
// Where the provider does not end them in time, their endpoint is closed, or this link goes down.
bool OfiEndpoint::waits_for_old(OfiLink& link, Event& event, Lock& lock) {
  if (!has_old_accesses(link)) return false;
  const std::uint64_t now = now_ns();
  if (event.until_ns == 0) event.until_ns = now + kOldNs;
  if (now < event.until_ns) return true;
  if (one_sided_.is_in_place) {
    end_access_ep(0, Code::cancelled, lock);
    return false;
  }
  for (const auto& one : old_)
    if (one->address == link.accesses->address && !std::exchange(one->is_told, true))
      log_line(LogLevel::warn, -1,
               "ofi: no new link to {} comes up while {} puts, gets or atomics of an earlier one "
               "are under way; the provider {} has not ended them",
               text_of(one->address), one->num, ep_->info().fabric_attr->prov_name);
  take_down(link, Code::peer_lost);
  return true;
}

// Takes links down whose accesses do not end.
void OfiEndpoint::look_at_accesses() {
  const std::uint64_t now = now_ns();
  if (now < looked_ns_ + kLookNs) return;
  looked_ns_ = now;
  for (auto& [token, link] : links_) {
    const Accesses& all = *link->accesses;
    if (all.num == 0 || link->is_down) continue;
    if (now < all.moved_ns + kSilentNs + all.first->bytes * kSilentNsOfByte) continue;
    log_line(LogLevel::warn, -1,
             "ofi: none of {} puts, gets and atomics at {} has ended for {} s: their link ends",
             all.num, text_of(all.address), (now - all.moved_ns) / 1'000'000'000);
    take_down(*link, Code::peer_lost);
  }
}

}  // namespace weft::fabric::ofi
