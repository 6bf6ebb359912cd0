#pragma once
// Session: the connection of this Node to one peer in one life of it. Written once for all fabrics.
//
// A session has a link. If links can break (Limits::breaks), the side that connected opens another,
// at growing intervals, and the other side if that fails; both report the last message received,
// messages are numbered, kept until acknowledged and sent again, unfinished puts and gets are
// posted again, and an atomic ends with outcome_unknown. After the timeout the session is lost, for
// good: all its requests end with peer_lost. For fabrics without puts, gets or atomics target-side
// emulation does them, by messages.
//
// Threads. start(), send(), import(): any thread; one short lock. All others: under the transport's
// progress lock, by the thread that polls.
#include <pthread.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/containers/slots.hpp"
#include "base/spin_lock.hpp"
#include "base/stats.hpp"
#include "node/rails.hpp"
#include "node/request.hpp"
#include "peer/bootstrap.hpp"
#include "peer/messages.hpp"
#include "peer/reliable_link.hpp"
#include "rma/regions.hpp"
#include "rma/target_side.hpp"

namespace weft::transport {

class Transport;

inline constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 30;

class Session final : public std::enable_shared_from_this<Session>, TargetSide::Memory {
 public:
  using State = ReliableLink::State;

  Session(Transport& transport, peer::Connection& connection, bool opens);

  const peer::NodeAddress& theirs() const { return theirs_; }
  const peer::Bytes16& cookie() const { return cookie_; }
  State state() const { return link_.state(); }
  bool is_opening() const { return link_.is_opening(); }
  std::string_view fabric() const { return endpoint() != nullptr ? endpoint()->name() : "none"; }
  bool is_mapped() const { return endpoint() != nullptr && endpoint()->mapped() != nullptr; }
  void* user = nullptr;  // the facade's

  // Posts the request, or queues it. It ends by finish(), maybe before the return.
  void start(NodeRequest& request);
  // Copies a message of at most message_max() bytes. again: no room now.
  Code send(fabric::Bytes bytes);
  std::size_t message_max() const { return message_max_; }
  // The region of this key, resolved at its first use.
  std::shared_ptr<RemoteRegion> import(const MemoryKey& key);
  void add_use(RegionUse& use);
  void remove_use(RegionUse& use);

  // Called by the transport.
  Status begin(fabric::Endpoint& endpoint);  // opens the first link
  // Takes a link that the peer opened, over that device of the peer.
  void take_link(fabric::Endpoint& endpoint, fabric::Link& link, std::uint32_t received,
                 std::uint32_t device, std::uint32_t opening);
  bool take_rail(fabric::Endpoint& endpoint, fabric::Link& link, const LinkHello& hello);
  void on_down(Code why);
  void on_rail_up(Rail& rail);
  void on_rail_down(Rail& rail, Code why);
  void on_message(fabric::Bytes bytes);
  bool on_frame(peer::FrameType type, std::string_view body, std::span<int> descriptors);
  void on_connection_end(const Status& why);
  // Advances queued requests; false once none is queued.
  bool pump();
  void tick(std::uint64_t now_ns);
  // After a long time without polls: the peer's silence counts from now on.
  void note_away(std::uint64_t now_ns, bool is_first);
  // Any thread. 0: the link is up, or the session is lost.
  std::uint64_t unreachable_ns(std::uint64_t now_ns);
  void lose(Code code, std::string_view why) noexcept;
  void withdraw(const std::shared_ptr<Region>& region);
  void note_used();  // the endpoints that it has links over
  // Returns true if there are messages that the peer has not acknowledged, and now can.
  bool is_sending() const { return link_.has_unsent() && (link_.is_up() || link_.takes_turns()); }
  void say_goodbye();

 private:
  friend class Transport;
  struct Granted {
    std::shared_ptr<Region> region;
    std::uint32_t rights = 0;
    bool is_withdrawn = false;
  };

  // session.cpp; under lock_.
  fabric::Endpoint* endpoint() const { return link_.endpoint(); }
  template <class Message>
  Code post(Message& message, fabric::Bytes body = {}) {
    const Code code = link_.post(message, sizeof message, body);
    if (code == Code::ok) count_sent(sizeof message + body.size());
    return code;
  }
  template <class Message>
  void post_control(Message& message) {
    link_.post_control(message, sizeof message);
  }
  bool dispatch(Kind kind, fabric::Bytes bytes);
  void count_sent(std::size_t bytes) noexcept {
    stats_.row().add(stats::Counter::sent, 1);
    stats_.row().add(stats::Counter::sent_bytes, bytes);
  }
  // Counts a put, get or atomic that the fabric has done.
  void count_moved(const NodeRequest& request) noexcept {
    if (request.access == Access::get)
      stats_.row().add(stats::Counter::copied_bytes, request.bytes);
    else
      count_sent(request.bytes);
  }
  void make_busy() noexcept override;
  bool is_at_work() const override;
  bool waits() const;
  bool is_unwatched() const;
  void open_next_link(std::uint64_t now_ns);
  void rest();
  void on_rest(bool answers);
  void try_another_device();
  void note_up();
  void use(fabric::Endpoint& endpoint);
  Status open_link();
  Status open_over(fabric::Endpoint& endpoint, std::size_t own, std::size_t theirs,
                   std::size_t rail, std::uint32_t opening, fabric::Link*& link);
  void drop_link();
  std::string way() const;
  std::size_t num_their_devices() const { return theirs_.num_devices(fabric()); }

  // requests.cpp; under lock_. False: the request must wait.
  bool advance(NodeRequest& request, RequestList& finished);
  static Code check(const NodeRequest& request, const RemoteRegion& region);
  void post_tag(NodeRequest& request);
  void drop_posted(RemoteRegion& region);
  void repost(NodeRequest& request);
  bool send_fragments(NodeRequest& request, RequestList& finished);
  void do_mapped(NodeRequest& request, std::byte* at);
  void end_request(NodeRequest& request, Code code, RequestList& finished);
  void on_request_done(NodeRequest& request, Code code);
  static void request_done(fabric::WorkRequest& request, Code code) noexcept;
  void end_region(RemoteRegion& region, Code why);
  void drop_region(RemoteRegion& region);
  void let_go(RemoteRegion& region);
  void ask(RemoteRegion& region);
  // Answers of the owner; they take lock_. False: invalid.
  bool on_device_key(const DeviceKeyMessage& message);
  bool on_resolved(const ResolvedMessage& message, int* descriptor);
  bool on_target_side(Kind kind, fabric::Bytes bytes);
  bool on_withdrawn(std::uint32_t handle);
  bool on_piece(const PieceMessage& message, fabric::Bytes data);

  // rails.cpp
  Rail& rail_at(std::size_t number);
  void want(Rail& rail);
  Rail* rail_of_thread();
  void open_rails(std::uint64_t now_ns);
  void open_rail(Rail& rail, std::uint64_t now_ns);
  void set_link(Rail& rail, fabric::Endpoint& endpoint, fabric::Link* link, std::uint32_t theirs,
                std::uint32_t opening, std::uint64_t now_ns);
  void drop_rail(Rail& rail);
  void tick_rails(std::uint64_t now_ns);
  std::size_t num_leaving_rails(const fabric::Endpoint& endpoint);
  bool give_up_rail(const fabric::Endpoint& endpoint);
  void on_rail_rest(std::uint32_t opening, bool is_theirs);
  bool take_for(Rail& rail, NodeRequest& request);
  void post_on(Rail& rail, NodeRequest& request);
  static void leave_rail(NodeRequest& request);
  bool is_striped(const NodeRequest& request) const;
  void start_striped(NodeRequest& request, RequestList& finished);
  bool next_segment(const Rail& rail, Segment& segment, RequestList& finished);
  void pump_stripes(RequestList& finished);
  void hand_out(Rail& rail, fabric::Endpoint& endpoint, fabric::Link& link, RequestList& finished);
  static void stripe_done(fabric::WorkRequest& request, Code code) noexcept;
  void on_stripe_done(Rail::Stripe& stripe, Code code);
  void fail_striped(NodeRequest& request, Code code, RequestList& finished);
  void end_striped(NodeRequest& request, RequestList& finished);

  // serving.cpp; under the progress lock.
  bool on_resolve(const ResolveMessage& message);
  std::byte* find_shared(const RemoteRange& range, std::uint32_t rights, Code& code) override;
  bool on_let_go(std::uint32_t handle);

  Transport& transport_;
  SpinLock lock_;
  ReliableLink link_;
  TargetSide target_side_;
  std::size_t message_max_ = 0;

  RequestList waiting_;           // in order
  RequestList posted_;            // in the fabric, or in target-side emulation
  RequestList reposts_;           // in flight when the link broke; messages must not overtake them
  RequestList striped_;           // with segments that no rail has been given
  std::vector<Segment> retries_;  // pieces whose rail went down
  bool needs_puts_ = false;       // the first repost is a notified put, and this device has no puts
  bool retry_limit_reached_ = false;  // one of them has broken too many links
  std::size_t num_sends_ = 0;         // long messages in waiting_
  std::map<MemoryKey, std::shared_ptr<RemoteRegion>> regions_;
  std::uint32_t last_question_ = 0;
  std::size_t num_asked_ = 0;  // questions that have no answer yet
  // Handles whose withdrawal has overtaken the answer with them, which came by the socket.
  std::vector<std::uint32_t> withdrawn_early_;

  // This Node's devices of the fabric in use, from the first link on.
  const std::vector<fabric::Endpoint*>* devices_ = nullptr;
  std::size_t first_device_ = 0, num_attempts_ = 0;  // of the main link
  Rail main_{*this, 0};
  std::vector<std::unique_ptr<Rail>> rails_;  // from number 1 on; null: not used yet
  std::atomic<bool> has_rails_{false};
  std::vector<pthread_t> posters_;   // threads by their first post
  std::atomic<int> num_posting_{0};  // threads in post_on()

  std::atomic<bool> is_busy_{false};
  stats::Slot stats_;  // from the first link on

  std::vector<std::byte> assembled_;  // of a long message
  std::uint64_t assembled_total_ = 0;

  Slots<Granted> granted_;  // by handle

  peer::Connection* connection_;  // null: it has ended
  peer::NodeAddress theirs_;
  peer::Bytes16 cookie_;
  const bool opens_;
  bool is_reported_ = false;  // the program knows of this peer
  Status why_;                // once it is lost
};

}  // namespace weft::transport
