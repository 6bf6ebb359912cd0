// Spilled objects that are wanted: one after the other, as there is room for them.
#include <algorithm>

#include "objstore/shared/clock.hpp"
#include "server.hpp"

namespace weft::objstore {
namespace {

constexpr std::uint64_t kWantedNs = 20'000'000'000;  // by another host, which asks again
// A restored object stays this long for those that wanted it: otherwise the next ones that are
// wanted would evict it before it was taken, and none of many would ever be.
constexpr std::uint64_t kGraceNs = 50'000'000;

}  // namespace

void Server::restore(const ObjectId& id) {
  if (restores_.empty() && objects_.restore(id)) return;
  if (restoring_.insert(id).second) restores_.push_back({id, monotonic_ns() + kWantedNs});
}

void Server::advance_restores() {
  while (!graces_.empty() && graces_.front().until_ns <= monotonic_ns()) {
    objects_.drop(graces_.front().entry);
    graces_.pop_front();
    room_may_have_come_ = true;
  }
  while (!restores_.empty()) {
    const Restore& next = restores_.front();
    const bool is_left = monotonic_ns() > next.until_ns && !waiting_for_.contains(next.id) &&
                         std::none_of(intos_.begin(), intos_.end(),
                                      [&](const auto& into) { return into.second.id == next.id; });
    if (!is_left && !objects_.restore(next.id)) return;
    restoring_.erase(next.id);
    restores_.pop_front();
  }
}

void Server::restored(const ObjectId& id) {
  const std::uint32_t entry = objects_.find_sealed(id);
  objects_.hold(entry);
  graces_.push_back({entry, monotonic_ns() + kGraceNs});
  appeared(id);
  if (remote_ != nullptr) remote_->restored(id);
}

// Ends reads that wait for a spilled object that does not come back; other hosts may have it.
void Server::end_intos_of_spilled(const ObjectId& id, Outcome outcome) {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, into] : intos_)
    if (into.id == id && !into.is_remote) numbers.push_back(number);
  for (const std::uint64_t number : numbers) end_into(number, outcome);
}

void Server::unreadable(const ObjectId& id) {
  end_intos_of_spilled(id, {Code::corrupt, Reason::unreadable});
  if (remote_ == nullptr) return fail_waits(id, Code::corrupt, Reason::unreadable);
  remote_->gone(id, false);
  if (waiting_for_.contains(id)) remote_->wanted(id);
}

}  // namespace weft::objstore
