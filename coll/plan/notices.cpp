#include "coll/plan/notices.hpp"

#include <algorithm>
#include <new>

#include "base/shortage.hpp"
#include "base/wait.hpp"

namespace weft::coll {

Notices::~Notices() {
  // The engine may still use what must outlive this object; that happens only after a loss.
  if (incoming_ != nullptr && !incoming_->is_over()) engine_.keep(std::move(incoming_));
  if (sent_ != nullptr && !sent_->is_over()) engine_.keep(std::move(sent_));
}

void Notices::open(std::uint32_t context, std::int32_t tag, std::span<const int> members,
                   std::span<const int> others) noexcept {
  context_ = context;
  tag_ = tag;
  members_ = {members, others};
}

template <class F>
void Notices::for_each_member(F&& f) const {
  for (const auto& group : members_)
    for (const int member : group) f(member);
}

bool Notices::is_over() noexcept {
  if (over_.load(std::memory_order_relaxed)) return true;
  constexpr std::uint64_t kPeriodNs = 1'000'000;
  const std::uint64_t now = coarse_now_ns();
  if (now < next_poll_ns_.load(std::memory_order_relaxed)) return false;
  next_poll_ns_.store(now + kPeriodNs, std::memory_order_relaxed);
  poll();
  return over_.load(std::memory_order_relaxed);
}

void Notices::poll() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  tagged::MessageInfo info;
  while (!over_.load(std::memory_order_relaxed)) {
    if (incoming_ == nullptr) {
      if (engine_.iprobe(tagged::kAnySource, context_, tag_, info) != Code::ok) return;
      incoming_.reset(new (std::nothrow) Incoming);
      if (incoming_ == nullptr) return;
      engine_.irecv(incoming_->request, info.source, context_, tag_, &incoming_->message,
                    sizeof(Message));
    }
    if (!incoming_->request.is_complete()) return;
    take(incoming_->request, incoming_->message);
    incoming_.reset();
  }
}

void Notices::take(const tagged::Request& request, const Message& message) noexcept {
  bool is_known = message.lost == kNobody, is_member = false;
  for_each_member([&](int member) {
    is_known = is_known || member == message.lost;
    is_member = is_member || member == request.peer;
  });
  // Otherwise it is of another communicator, which had this context before.
  if (request.code != Code::ok || request.received != sizeof(Message) || !is_known || !is_member)
    return;
  note(message.lost);
}

void Notices::note(int lost) noexcept {
  lost_.store(lost, std::memory_order_relaxed);
  if (lost != kNobody) engine_.note_reported_lost(lost);
  was_notified_.store(true, std::memory_order_relaxed);
  over_.store(true, std::memory_order_relaxed);
}

void Notices::send(int member) noexcept {
  if (member == engine_.rank() || !engine_.is_alive(member)) return;
  if (engine_.try_send(member, context_, tag_, &sent_->message, sizeof(Message))) return;
  (void)or_no_memory([&] {
    make_room(sent_->requests);
    sent_->requests.push_back(std::make_unique<tagged::Request>());
    engine_.isend(*sent_->requests.back(), member, context_, tag_, &sent_->message,
                  sizeof(Message));
  });
}

void Notices::notify() noexcept {
  over_.store(true, std::memory_order_relaxed);
  if (has_notified_.exchange(true, std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  notified_ns_ = now_ns();
  sent_.reset(new (std::nothrow) Sent);
  if (sent_ == nullptr) return;
  int seen = kNobody;
  for_each_member([&](int member) {
    if (member != engine_.rank() && !engine_.is_alive(member)) seen = member;
  });
  if (seen != kNobody) lost_.store(seen, std::memory_order_relaxed);
  const bool passes_on = seen == kNobody && was_notified_.load(std::memory_order_relaxed);
  // Foreign processes number the ranks differently, so the message cannot name the lost one.
  bool is_across = false;
  for_each_member([&](int member) { is_across = is_across || member >= engine_.size(); });
  sent_->message.lost = is_across ? kNobody : lost();
  constexpr std::size_t kFew = 16;
  for (const auto& group : members_) {
    const std::size_t size = group.size();
    const auto self = std::ranges::find(group, engine_.rank());
    if (!passes_on || size <= kFew || self == group.end()) {
      for (const int member : group) send(member);
      continue;
    }
    // To the members a power of two away, on both sides: what reaches one member reaches all.
    const auto place = static_cast<std::size_t>(self - group.begin());
    for (std::size_t distance = 1; distance < size; distance *= 2) {
      send(group[(place + distance) % size]);
      send(group[(place + size - distance) % size]);
    }
  }
}

bool Notices::Sent::is_over() const noexcept {
  return std::ranges::all_of(requests, [](const auto& each) { return each->is_over(); });
}

bool Notices::is_sent() noexcept {
  constexpr std::uint64_t kMostNs = 2'000'000'000;
  const std::lock_guard lock(mutex_);
  return sent_ == nullptr || now_ns() > notified_ns_ + kMostNs || sent_->is_over();
}

}  // namespace weft::coll
