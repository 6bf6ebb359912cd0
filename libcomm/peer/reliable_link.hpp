#pragma once
// ReliableLink: messages to and from one peer, in order and once, over fabric links that may break.
// Numbered messages are kept until the peer acknowledges them and sent again over the next link;
// the others end with the link that had them. Shared by a Node's sessions and a job's lanes, which
// open and close the links, and call all this under a lock of theirs.
//
// Tests: tests/peer/reliable_link_test.cpp, tests/peer/states_test.cpp.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <list>
#include <vector>

#include "peer/knock.hpp"
#include "peer/messages.hpp"
#include "peer/resend_buffer.hpp"

namespace weft::transport {

class ReliableLink {
 public:
  // resting: the link is given up, or about to be, as both ends agree; the next need opens one.
  enum class State : std::uint8_t { connecting, up, broken, resting, lost };
  // The result of a received message. fresh: it is to be handled; nothing: it is old, or the link's
  // own; up: the link is up from now on; corrupt: no correct peer sends it.
  enum class Received : std::uint8_t { fresh, nothing, up, corrupt };
  // stalled: the link has been silent for so long that a new one may help; the caller drops it, and
  // the next goes another way than it (fabric::Endpoint::distrust). ended: the peer's host says
  // that its process has ended. gone: nothing has been heard of it for the timeout.
  enum class Due : std::uint8_t { nothing, ended, gone, open, stalled };

  class Owner {
   public:
    // pump() is to be called by the next poll: something waits for room.
    virtual void make_busy() = 0;
    // Returns true while the fabric has requests that the end of the link would cut off.
    virtual bool is_at_work() const { return false; }
    // Returns true while the peer has not yet said what this side needs to go on over a new link.
    virtual bool is_starting() const { return false; }

   protected:
    ~Owner() = default;
  };

  explicit ReliableLink(Owner& owner);

  State state() const { return state_; }
  bool is_up() const { return state_ == State::up; }
  bool is_opening() const { return link_ != nullptr && is_opener_ && !is_up() && !is_resting(); }
  bool is_broken_for(std::uint64_t ns, std::uint64_t now_ns) const {
    return state_ == State::broken && now_ns > broken_since_ns_ + ns;
  }
  // For how long nothing has been heard of the peer; 0: the link is up, lost, or the first one.
  std::uint64_t unreachable_ns(std::uint64_t now_ns) const {
    return state_ == State::broken && now_ns > silent_since_ns() ? now_ns - silent_since_ns() : 0;
  }
  fabric::Endpoint* endpoint() const { return endpoint_; }
  fabric::Link* link() const { return link_; }
  // peer: its address there, which stays as it is.
  void use(fabric::Endpoint& endpoint, fabric::Bytes peer = {}) {
    endpoint_ = &endpoint;
    listener_ = endpoint.listener_of(peer);
  }
  std::uint32_t num_received() const { return num_received_; }  // for the hello of a link
  bool has_unsent() const { return !resend_.empty() || !backlog_.empty(); }
  // The numbered message that was posted last; 0: none was.
  std::uint32_t last_number() const {
    return num_posted_ + static_cast<std::uint32_t>(backlog_.size());
  }
  // Returns true if the peer has a message that was posted later than this.
  bool has_later_than(std::uint32_t number) const {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(resend_.num_dropped()) - number) >
           0;
  }
  // A message could not even be kept: the peer cannot go on without it.
  bool lacks_memory() const { return lacks_memory_; }
  bool floods() const;  // more waits for the peer than any peer asks for that reads its answers

  // The link that is being opened here, or is up where links do not break.
  void set_opened(fabric::Link& link);
  // The number of the link that is opened next, for its hello.
  std::uint32_t next_opening() { return ++num_opened_; }
  std::uint32_t num_opened() const { return num_opened_; }
  // The peer may know links with numbers up to this one, of a link object that is gone.
  void open_after(std::uint32_t number) { num_opened_ = number; }
  // Returns true if the peer has left the link that it numbered so, which comes late: it asked for
  // another one later, or took one from here.
  bool has_left(std::uint32_t opening) const { return is_late(opening, left_); }
  // Takes a link that the peer opened, having received so many messages. False: the number is not
  // valid. Nothing can be posted on it before on_incoming() has returned; pump() continues.
  [[nodiscard]] bool take(fabric::Link& link, std::uint32_t received, std::uint32_t opening = 0);
  // Where links do not break.
  void set_up();
  // Gives up the link, which the caller closes without the lock; null: there is no link.
  [[nodiscard]] fabric::Link* drop(std::uint64_t now_ns);
  // The link has ended, and was dropped.
  void note_down(Code why, std::uint64_t now_ns);
  // When the next one may be opened.
  void back_off(std::uint64_t now_ns);
  void back_off_most(std::uint64_t now_ns);
  // Ends it for good: nothing more is sent. False: it was lost before.
  bool lose();

  // Sends or keeps a numbered message. again: no room now, pump() follows. Where links do not break
  // no message is kept.
  Code post(Head& head, std::size_t head_bytes, fabric::Bytes body, bool is_backlog = false);
  // The same for messages that must not be refused: kept in any case, or lacks_memory().
  void post_control(Head& head, std::size_t head_bytes) noexcept;
  // Sends a message that is not numbered: ok, again, or peer_lost while no link is up.
  // request: the body stays as it is until done(), where the fabric has messages in place.
  Code send_once(Head& head, std::size_t head_bytes, fabric::Bytes body,
                 fabric::WorkRequest* request = nullptr);
  // The same for bytes that go into the peer's memory, with a number that its client gets.
  Code write_once(fabric::Bytes from, const fabric::Registration& source, const fabric::Key& key,
                  std::uint64_t offset, std::uint32_t number, fabric::WorkRequest& request);
  // While set, kept messages wait for something that must go before them.
  void hold(bool held) {
    is_held_ = held;
    update_clear();
  }

  // For threads without the caller's lock: true while the link is up and no message has to go
  // before what they write.
  bool is_clear() const noexcept { return is_clear_.load(std::memory_order_acquire); }
  // is_clear() is false from now on, until the next link. Threads that have seen it true may still
  // write: the caller waits for them before it drops the link.
  void block() noexcept { is_clear_.store(false, std::memory_order_release); }
  // As write_once(), by a thread that has seen is_clear() and that a caller of block() waits for.
  Code write_clear(fabric::Bytes from, const fabric::Registration& source, const fabric::Key& key,
                   std::uint64_t offset, std::uint32_t number, fabric::WorkRequest& request) {
    return endpoint_->write(*link_, from, source, key, offset, number, request);
  }

  Received receive(const Head& head, std::size_t bytes, std::uint64_t now_ns);
  // Any thread.
  void note_received(std::uint64_t now_ns) noexcept {
    last_received_ns_.store(now_ns, std::memory_order_relaxed);
  }
  void note_sign_of_life(std::uint64_t now_ns) {
    note_received(now_ns);
    was_sent_ = false;
  }
  // Silence counts anew, also that before the first link and since the last one: this process could
  // not have heard the peer.
  void restart_wait(std::uint64_t now_ns) {
    note_received(now_ns);
    began_ns_ = now_ns;
    if (broken_since_ns_ != 0) broken_since_ns_ = now_ns;
    if (waits_since_ns_ != 0) waits_since_ns_ = now_ns;
  }
  // This process has looked late, once or again and again: who always does so must hear of the end
  // of a peer, too.
  void note_away(std::uint64_t now_ns, bool is_first) {
    if (is_first)
      restart_wait(now_ns);
    else if (is_up())
      note_received(now_ns);
  }
  // The peer's host says that no process is there.
  void note_refused(std::uint64_t now_ns) noexcept {
    if (refused_ns_ == 0) refused_ns_ = now_ns;
  }
  void want_ack();

  // Turns, where an endpoint has fewer links than peers (turns.hpp). Each end that gives the link
  // up sends a `rest` once the fabric has no request of its own, and posts nothing on it from then
  // on; who gets one that answers its own, and has acknowledged everything, closes: all that
  // either has sent has come then. No end takes it for a break.
  bool is_resting() const { return state_ == State::resting; }
  bool is_leaving() const { return is_resting() && link_ != nullptr; }
  // Returns true if the next link is opened in turn, by either side.
  bool takes_turns() const { return is_resting() || is_woken_; }
  bool may_rest(std::uint64_t now_ns) const;
  std::uint64_t used_ns() const { return used_ns_; }
  // Since when there has been no room for it here; 0: that is not so.
  std::uint64_t waits_since_ns() const { return waits_since_ns_; }
  // Begins to give the link up. Threads without the caller's lock write on it no more.
  void rest();
  // The peer's rest has come, and the same holds. answers: the peer has got one from here. True:
  // the caller drops the link.
  bool on_rest(bool answers);
  // Something waits for a resting link.
  void want() {
    if (!is_resting()) return;
    is_wanted_ = true;
    owner_.make_busy();
  }
  // True: it rests no more, and the caller opens the next link.
  bool wake(std::uint64_t now_ns, bool is_wanted);

  // Sends the waiting messages, except held ones. True: the link has just come up.
  bool pump();
  // Returns the action that is due. waits: a request needs the peer, so that its silence counts. Up
  // to timeout_ns all is tried again, so that a network may fail for so long.
  Due tick(std::uint64_t now_ns, std::uint64_t timeout_ns, bool waits, bool opens);

 private:
  // When an acknowledgement without other messages is due. next_pump: messages of the program until
  // then carry it.
  enum class Ack : std::uint8_t { none, next_pump, now };

  // Of a broken link. Silence before the break counts, too.
  std::uint64_t silent_since_ns() const {
    const std::uint64_t last = last_received_ns();
    return last != 0 ? std::min(broken_since_ns_, last) : broken_since_ns_;
  }
  std::uint64_t last_received_ns() const noexcept {
    return last_received_ns_.load(std::memory_order_relaxed);
  }
  bool retains() const { return endpoint_->limits().breaks; }
  // Updates is_clear() at the end of what may change it.
  struct Update {
    explicit Update(ReliableLink& of) : link(of) {}
    ~Update() { link.update_clear(); }
    ReliableLink& link;
  };
  void update_clear() noexcept {
    const bool clear = state_ == State::up && resend_.all_sent() && !is_held_;
    // release: a thread that sees it true sees the link, too.
    if (clear != is_clear_.load(std::memory_order_relaxed))
      is_clear_.store(clear, std::memory_order_release);
  }
  Due tick_broken(std::uint64_t now_ns, std::uint64_t timeout_ns, bool opens);
  Due tick_up(std::uint64_t now_ns, std::uint64_t timeout_ns, bool waits);
  Due tick_resting(std::uint64_t now_ns, std::uint64_t timeout_ns, bool waits);
  void note_use(std::uint64_t now_ns);
  void become_up(std::uint64_t now_ns);
  void break_off(std::uint64_t now_ns);
  void pump_rest();
  std::uint64_t waited_ns(std::uint64_t now_ns) const;
  void end_waiting();
  void ask_host(std::uint64_t now_ns, std::uint64_t period_ns);
  void send_unsent();
  void send_ack();
  void note_acknowledged();  // a message has carried num_received_
  bool resume(std::uint32_t received);
  bool note_received(const Head& head, std::size_t bytes, bool& is_new);
  bool drop_acknowledged(std::uint32_t acked);
  void note_left(std::uint32_t opening) {
    if (opening != 0 && !has_left(opening)) left_ = opening;
  }

  Owner& owner_;
  fabric::Endpoint* endpoint_ = nullptr;
  fabric::Link* link_ = nullptr;
  State state_ = State::connecting;
  bool is_opener_ = false;  // of the link
  // The peer can open links to this side: it opened the one that was up last, or before that began
  // the last one.
  bool peer_opens_ = true;
  bool is_held_ = false;
  std::atomic<bool> is_clear_{false};
  Ack ack_ = Ack::none;
  bool lacks_memory_ = false;
  bool wants_resume_ = false;  // to be sent before all else on a new link

  ResendBuffer resend_;
  std::list<std::vector<std::byte>> backlog_;  // control messages for which there was no room
  std::uint32_t num_posted_ = 0;               // numbered messages
  std::uint32_t num_received_ = 0;
  std::uint32_t unacked_messages_ = 0;
  std::size_t unacked_bytes_ = 0;

  // For links that keep no messages. A message sent since the last sign of life needs the peer to
  // be alive, and room in a link that was full is a sign of life.
  bool was_sent_ = false, was_full_ = false, has_room_again_ = false;

  std::uint64_t began_ns_;
  // relaxed: written without the caller's lock, too, where requests end.
  std::atomic<std::uint64_t> last_received_ns_{0};
  std::uint64_t last_asked_ns_ = 0;
  std::uint64_t linked_at_ns_ = 0;  // when the current link began
  std::uint64_t broken_since_ns_ = 0, open_at_ns_ = 0, backoff_ns_ = 0;
  unsigned num_openings_ = 0;     // since it was up
  std::uint32_t num_opened_ = 0;  // ever, also by links of the owner's beside this one
  std::uint32_t left_ = 0;        // the peer has left the links that it opened up to this number

  bool is_rest_sent_ = false, has_peers_rest_ = false, is_wanted_ = false, is_woken_ = false;
  std::uint32_t rest_acked_ = 0;      // by the rest that was sent
  std::uint64_t waits_since_ns_ = 0;  // for room here
  std::uint64_t used_ns_ = 0;         // the last tick that saw messages, and what it saw
  std::uint64_t seen_received_ns_ = 0;
  std::uint32_t seen_posted_ = 0;

  Knock knock_;
  fabric::Bytes listener_;
  std::uint64_t knocked_ns_ = 0;                   // the last time
  std::uint64_t listens_ns_ = 0, refused_ns_ = 0;  // when that was the answer; 0: not since
};

}  // namespace weft::transport
