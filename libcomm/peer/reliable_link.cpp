#include "peer/reliable_link.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/mix.hpp"
#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "weft/copy.hpp"

namespace weft::transport {

namespace {

constexpr std::size_t kMaxBacklog = 4096;
constexpr std::uint32_t kAckMessages = 64;
constexpr std::size_t kAckBytes = 4 << 10;
constexpr std::uint64_t kFirstBackoffNs = 2'000'000, kMostBackoffNs = 250'000'000;
// The longest silence of a link before another one is tried, if the timeout allows for it. TCP
// sends again at intervals that double, so after an outage of some seconds its next try comes too
// late.
constexpr std::uint64_t kPatienceNs = 2'000'000'000;
// A peer's host that answers while the link is silent has a busy process: the link gets more time.
constexpr std::uint64_t kBusyFactor = 4;
// What a process sent before it ended may still have to be read when its host says so.
constexpr std::uint64_t kLastWordsNs = 50'000'000;
// The least time that a link is up, so that one whose turn it is gets something done.
constexpr std::uint64_t kTurnNs = 20'000'000, kMostTurnNs = 200'000'000;

std::uint64_t patience_of(std::uint64_t timeout_ns) {
  return std::min(timeout_ns / 2, kPatienceNs);
}

}  // namespace

ReliableLink::ReliableLink(Owner& owner) : owner_(owner), began_ns_(now_ns()) {}

bool ReliableLink::floods() const { return backlog_.size() > kMaxBacklog; }

// Links.

void ReliableLink::set_opened(fabric::Link& link) {
  link_ = &link;
  linked_at_ns_ = now_ns();
  is_opener_ = true;
  if (state_ == State::connecting) peer_opens_ = false;
  ++num_openings_;
}

bool ReliableLink::take(fabric::Link& link, std::uint32_t received, std::uint32_t opening) {
  if (state_ == State::lost) return false;
  if (is_resting()) break_off(now_ns());
  note_left(opening);
  link_ = &link;
  linked_at_ns_ = now_ns();
  is_opener_ = false;
  if (state_ == State::connecting) peer_opens_ = true;
  if (!resume(received)) return false;
  wants_resume_ = true;
  owner_.make_busy();
  return true;
}

fabric::Link* ReliableLink::drop(std::uint64_t now_ns) {
  const Update update(*this);
  if (state_ == State::up) break_off(now_ns);
  if (is_resting()) owner_.make_busy();  // what was posted meanwhile wants the next one
  wants_resume_ = false;
  return std::exchange(link_, nullptr);
}

void ReliableLink::break_off(std::uint64_t now_ns) {
  state_ = State::broken;
  broken_since_ns_ = now_ns;
  backoff_ns_ = kFirstBackoffNs;
  num_openings_ = 0;
  // The host is asked anew, and at once.
  listens_ns_ = refused_ns_ = knocked_ns_ = 0;
}

void ReliableLink::set_up() {
  const Update update(*this);
  if (state_ == State::connecting) become_up(now_ns());
}

void ReliableLink::become_up(std::uint64_t now_ns) {
  state_ = State::up;
  peer_opens_ = !is_opener_;
  linked_at_ns_ = used_ns_ = now_ns;
  waits_since_ns_ = 0;
  is_woken_ = false;
}

void ReliableLink::note_down(Code why, std::uint64_t now_ns) {
  const bool is_full_here = why == Code::no_memory;
  if (!is_full_here) end_waiting();
  if (!is_full_here && why != Code::again) {
    if (why == Code::not_found) note_refused(now_ns);
    if (!is_resting()) back_off(now_ns);
    return;
  }
  wake(now_ns, true);
  if (!is_full_here || !is_opener_) restart_wait(now_ns);  // the peer has said something
  is_woken_ = true;
  if (is_full_here && waits_since_ns_ == 0) waits_since_ns_ = now_ns;
  // Of many that try again at once none might succeed.
  back_off(now_ns);
  open_at_ns_ += mix(now_ns ^ reinterpret_cast<std::uintptr_t>(this)) % backoff_ns_;
}

// For how long there has been no room for a link here, which is not the peer's silence.
std::uint64_t ReliableLink::waited_ns(std::uint64_t now_ns) const {
  const std::uint64_t until = link_ != nullptr ? linked_at_ns_ : now_ns;
  return waits_since_ns_ != 0 && until > waits_since_ns_ ? until - waits_since_ns_ : 0;
}

void ReliableLink::end_waiting() {
  const std::uint64_t waited = waited_ns(linked_at_ns_);
  for (std::uint64_t* time : {&began_ns_, &broken_since_ns_})
    if (*time != 0) *time += waited;
  if (const std::uint64_t last = last_received_ns(); last != 0) note_received(last + waited);
  waits_since_ns_ = 0;
}

void ReliableLink::back_off(std::uint64_t now_ns) {
  if (broken_since_ns_ == 0) broken_since_ns_ = began_ns_;
  open_at_ns_ = now_ns + backoff_ns_;
  backoff_ns_ = std::clamp(backoff_ns_ * 2, kFirstBackoffNs, kMostBackoffNs);
}

void ReliableLink::back_off_most(std::uint64_t now_ns) { open_at_ns_ = now_ns + kMostBackoffNs; }

bool ReliableLink::lose() {
  const Update update(*this);
  if (state_ == State::lost) return false;
  state_ = State::lost;
  wants_resume_ = false;
  waits_since_ns_ = 0;
  knock_ = {};
  backlog_.clear();
  resend_ = {};
  return true;
}

bool ReliableLink::resume(std::uint32_t received) {
  if (!drop_acknowledged(received)) return false;
  resend_.rewind();
  return true;
}

// Messages.

Code ReliableLink::post(Head& head, std::size_t head_bytes, fabric::Bytes body, bool is_backlog) {
  const Update update(*this);
  if (state_ == State::lost) return Code::peer_lost;
  if (!is_backlog && !backlog_.empty()) return Code::again;
  if (!retains()) {
    if (state_ != State::up) return Code::again;
    const Code code =
        endpoint_->message(*link_, {reinterpret_cast<const std::byte*>(&head), head_bytes}, body);
    was_sent_ = true;
    if (code == Code::ok) {
      if (std::exchange(was_full_, false)) [[unlikely]]
        has_room_again_ = true;
      return code;
    }
    was_full_ = true;
    owner_.make_busy();
    return Code::again;  // if the link is down, its end is reported next
  }
  const bool is_next = state_ == State::up && !is_held_ && resend_.all_sent();
  const std::span<std::byte> to = resend_.append(head_bytes + body.size());
  if (to.empty()) {
    owner_.make_busy();
    return Code::again;
  }
  head.flags |= kNumbered;
  head.number = ++num_posted_;
  head.acked = num_received_;
  // The message leaves before it is copied for a break of the link, so that the copy does not delay
  // it.
  const bool is_sent =
      is_next && endpoint_->message(*link_, {reinterpret_cast<const std::byte*>(&head), head_bytes},
                                    body) == Code::ok;
  std::memcpy(to.data(), &head, head_bytes);
  if (!body.empty()) weft::detail::copy(to.data() + head_bytes, body.data(), body.size());
  if (is_sent) {
    resend_.mark_sent();
    note_acknowledged();
  } else if (state_ == State::up && !is_held_) {
    send_unsent();
  } else {
    want();
  }
  return Code::ok;
}

void ReliableLink::post_control(Head& head, std::size_t head_bytes) noexcept {
  const Code code = post(head, head_bytes, {});
  if (code != Code::again) return;
  const auto* bytes = reinterpret_cast<const std::byte*>(&head);
  if (or_no_memory([&] { backlog_.emplace_back(bytes, bytes + head_bytes); }) != Code::ok)
    lacks_memory_ = true;
  owner_.make_busy();
}

Code ReliableLink::send_once(Head& head, std::size_t head_bytes, fabric::Bytes body,
                             fabric::WorkRequest* request) {
  if (state_ != State::up) return Code::peer_lost;
  // Messages that were kept before go first, so that all arrive in the order of posting, unless
  // those are held.
  if (!resend_.all_sent() && !is_held_) return Code::again;
  head.acked = num_received_;
  const fabric::Bytes first{reinterpret_cast<const std::byte*>(&head), head_bytes};
  const Code code = request != nullptr ? endpoint_->message_in_place(*link_, first, body, *request)
                                       : endpoint_->message(*link_, first, body);
  if (code != Code::ok) return code;
  note_acknowledged();
  return Code::ok;
}

Code ReliableLink::write_once(fabric::Bytes from, const fabric::Registration& source,
                              const fabric::Key& key, std::uint64_t offset, std::uint32_t number,
                              fabric::WorkRequest& request) {
  if (state_ != State::up) return Code::peer_lost;
  if (!resend_.all_sent() && !is_held_) return Code::again;
  return write_clear(from, source, key, offset, number, request);
}

void ReliableLink::send_unsent() {
  while (!resend_.all_sent()) {
    const std::span<std::byte> message = resend_.next();
    std::memcpy(message.data() + offsetof(Head, acked), &num_received_, sizeof num_received_);
    const Code code = endpoint_->message(*link_, message, {});
    if (code != Code::ok) return owner_.make_busy();
    resend_.mark_sent();
    note_acknowledged();
  }
}

void ReliableLink::send_ack() {
  Head head{.kind = Kind::ack, .acked = num_received_};
  if (endpoint_->message(*link_, as_bytes(head), {}) != Code::ok) return owner_.make_busy();
  note_acknowledged();
}

void ReliableLink::note_acknowledged() {
  unacked_messages_ = 0;
  unacked_bytes_ = 0;
  ack_ = Ack::none;
}

bool ReliableLink::drop_acknowledged(std::uint32_t acked) {
  const std::uint64_t dropped = resend_.num_dropped();
  const auto more = static_cast<std::int32_t>(acked - static_cast<std::uint32_t>(dropped));
  // An older word of it may come late.
  return more <= 0 || resend_.drop_until(dropped + static_cast<std::uint32_t>(more));
}

// False: invalid. is_new: it has not been received before.
bool ReliableLink::note_received(const Head& head, std::size_t bytes, bool& is_new) {
  is_new = true;
  if (!drop_acknowledged(head.acked)) return false;
  if ((head.flags & kNumbered) == 0) return true;
  const auto ahead = static_cast<std::int32_t>(head.number - num_received_);
  if (ahead > 1) return false;
  is_new = ahead == 1;
  if (is_new) num_received_ = head.number;
  unacked_bytes_ += bytes;
  const bool is_much = ++unacked_messages_ >= kAckMessages || unacked_bytes_ >= kAckBytes;
  if (is_much && ack_ == Ack::none) {
    ack_ = Ack::next_pump;
    owner_.make_busy();
  }
  return true;
}

ReliableLink::Received ReliableLink::receive(const Head& head, std::size_t bytes,
                                             std::uint64_t now_ns) {
  const Update update(*this);
  // A ping is no answer: where only the way back is broken, that is all that comes.
  if (head.kind != Kind::ping) note_sign_of_life(now_ns);
  bool is_new = true;
  if (retains()) {
    if (head.kind == Kind::resume && is_opener_ &&
        (state_ == State::connecting || state_ == State::broken)) {
      if (!resume(head.acked)) return Received::corrupt;
      note_left(head.id);
      become_up(now_ns);
      owner_.make_busy();
      return Received::up;
    }
    if (!note_received(head, bytes, is_new)) return Received::corrupt;
  }
  if (head.kind == Kind::ping) want_ack();
  const bool is_own =
      head.kind == Kind::ping || head.kind == Kind::ack || head.kind == Kind::resume;
  return is_new && !is_own ? Received::fresh : Received::nothing;
}

void ReliableLink::want_ack() {
  ack_ = Ack::now;
  owner_.make_busy();
}

// Progress.

bool ReliableLink::pump() {
  const Update update(*this);
  bool is_up_now = false;
  if (wants_resume_ && link_ != nullptr) {
    Head head{.kind = Kind::resume, .acked = num_received_, .id = num_opened_};
    if (endpoint_->message(*link_, as_bytes(head), {}) == Code::ok) {
      wants_resume_ = false;
      become_up(now_ns());
      is_up_now = true;
    } else {
      owner_.make_busy();
    }
  }
  if (is_leaving()) pump_rest();
  if (state_ != State::up || is_held_) return is_up_now;
  if (retains()) send_unsent();
  while (!backlog_.empty()) {
    auto& bytes = backlog_.front();
    // The head is written to, so it lies at the start of all.
    if (post(*reinterpret_cast<Head*>(bytes.data()), bytes.size(), {}, true) != Code::ok) break;
    backlog_.pop_front();
  }
  if (ack_ == Ack::now) send_ack();
  if (ack_ == Ack::next_pump) want_ack();
  return is_up_now;
}

// Turns.

bool ReliableLink::may_rest(std::uint64_t now) const {
  return state_ == State::up && retains() && !is_held_ && now > linked_at_ns_ + kTurnNs &&
         (now > linked_at_ns_ + kMostTurnNs || !owner_.is_starting());
}

void ReliableLink::rest() {
  const Update update(*this);
  state_ = State::resting;
  is_rest_sent_ = is_wanted_ = has_peers_rest_ = false;
  owner_.make_busy();
}

bool ReliableLink::on_rest(bool answers) {
  if (link_ == nullptr || !retains()) return false;
  if (state_ == State::up) rest();
  if (!is_resting()) return false;
  const bool is_first = !std::exchange(has_peers_rest_, true);
  const bool has_acknowledged = is_rest_sent_ && rest_acked_ == num_received_;
  if (answers && has_acknowledged) return true;
  if (is_first || !has_acknowledged) {  // it is answered, or another acknowledges the rest
    is_rest_sent_ = false;
    owner_.make_busy();
  }
  return false;
}

void ReliableLink::pump_rest() {
  if (!is_rest_sent_ && !owner_.is_at_work()) {  // else the next tick tries again
    Head head{.kind = Kind::rest, .acked = num_received_, .id = has_peers_rest_ ? 1u : 0u};
    if (endpoint_->message(*link_, as_bytes(head), {}) != Code::ok) return owner_.make_busy();
    note_acknowledged();
    is_rest_sent_ = true;
    rest_acked_ = num_received_;
  }
  if (ack_ == Ack::now) send_ack();
}

bool ReliableLink::wake(std::uint64_t now, bool is_wanted) {
  if (!is_resting() || link_ != nullptr || !(is_wanted || is_wanted_ || has_unsent())) return false;
  break_off(now);
  note_received(now);
  open_at_ns_ = 0;
  is_wanted_ = false;
  is_woken_ = true;
  return true;
}

// While a link rests the peer is silent, and lives.
ReliableLink::Due ReliableLink::tick_resting(std::uint64_t now, std::uint64_t timeout_ns,
                                             bool waits) {
  if (link_ != nullptr) {
    owner_.make_busy();
    return tick_up(now, timeout_ns, true);
  }
  if (!waits) note_received(now);
  // It may have ended: the next link tells.
  const bool is_due = waits && now > last_received_ns() + timeout_ns / 4;
  return wake(now, is_due) ? Due::open : Due::nothing;
}

// What the peer answers to a ping is no use of the link.
void ReliableLink::note_use(std::uint64_t now) {
  if (num_posted_ != seen_posted_ || owner_.is_at_work() ||
      (last_received_ns() != seen_received_ns_ && last_asked_ns_ <= seen_received_ns_))
    used_ns_ = now;
  seen_posted_ = num_posted_;
}

// Asks the peer's host whether its process is there, once in a period.
void ReliableLink::ask_host(std::uint64_t now, std::uint64_t period_ns) {
  switch (knock_.look(now)) {
    case Knock::Answer::none:
      break;
    case Knock::Answer::listens:
      listens_ns_ = now;
      refused_ns_ = 0;
      break;
    case Knock::Answer::refused:
      listens_ns_ = 0;
      note_refused(now);
      break;
  }
  if (knock_.is_asking() || now < knocked_ns_ + period_ns) return;
  knocked_ns_ = now;
  knock_.begin(listener_, now);
}

ReliableLink::Due ReliableLink::tick_broken(std::uint64_t now, std::uint64_t timeout_ns,
                                            bool opens) {
  const bool is_first = state_ == State::connecting;
  const std::uint64_t patience = patience_of(timeout_ns);
  if (now > (is_first ? began_ns_ : silent_since_ns()) + waited_ns(now) + timeout_ns)
    return Due::gone;
  // A first link has no reason to fail.
  if (!is_first || now > began_ns_ + patience / 4) {
    ask_host(now, patience / 4);
    // A firewall may refuse this side, and let the peer open links: then that one's comes.
    const std::uint64_t grace_ns = peer_opens_ ? kLastWordsNs + patience / 2 : kLastWordsNs;
    if (refused_ns_ != 0 && now > std::max(refused_ns_, broken_since_ns_) + grace_ns)
      return Due::ended;
  }
  // No answer from there: try again. Before the first answer the peer may be slow, and one that
  // has not answered yet gets a little longer.
  const std::uint64_t most =
      is_first ? std::min(timeout_ns / 2, kBusyFactor * kPatienceNs)
               : std::min(timeout_ns / 4, num_openings_ > 1 ? 2 * kPatienceNs : kPatienceNs);
  if (link_ != nullptr && now > linked_at_ns_ + most) return Due::stalled;
  return opens && link_ == nullptr && endpoint_ != nullptr && now >= open_at_ns_ ? Due::open
                                                                                 : Due::nothing;
}

ReliableLink::Due ReliableLink::tick_up(std::uint64_t now, std::uint64_t timeout_ns, bool waits) {
  const std::uint64_t patience = patience_of(timeout_ns);
  // A ring that is full whenever a ping would go is not silence, nor is it if nothing is awaited.
  if (std::exchange(has_room_again_, false)) note_received(now);
  note_use(now);
  if (!waits && !was_sent_) note_received(now);
  const std::uint64_t last_ns = seen_received_ns_ = last_received_ns();
  if (now <= last_ns + patience / 2) {
    if (knock_.is_asking()) knock_ = {};
    return Due::nothing;
  }
  if (now > last_ns + timeout_ns) return Due::gone;
  if (retains()) {
    ask_host(now, patience / 2);
    // The process has ended, or the link must go another way: its end shows which.
    if (refused_ns_ > last_ns && now > refused_ns_ + kLastWordsNs) return Due::stalled;
    const bool is_busy = listens_ns_ != 0 && now < listens_ns_ + patience;
    if (last_asked_ns_ > last_ns && now > last_ns + (is_busy ? kBusyFactor : 1) * patience)
      return Due::stalled;
  }
  if (now > last_asked_ns_ + patience / 2) {
    last_asked_ns_ = now;
    Head head{.kind = Kind::ping, .acked = num_received_};
    // If there is no room, or the link is down, the other side ends it by silence.
    [[maybe_unused]] const Code code = endpoint_->message(*link_, as_bytes(head), {});
  }
  return Due::nothing;
}

ReliableLink::Due ReliableLink::tick(std::uint64_t now, std::uint64_t timeout_ns, bool waits,
                                     bool opens) {
  switch (state_) {
    case State::connecting:
    case State::broken:
      return tick_broken(now, timeout_ns, opens);
    case State::up:
      return tick_up(now, timeout_ns, waits);
    case State::resting:
      return tick_resting(now, timeout_ns, waits);
    case State::lost:
      break;
  }
  return Due::nothing;
}

}  // namespace weft::transport
