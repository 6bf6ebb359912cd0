#pragma once
// Session: what this Node has with one peer in one life of it. Written once for all fabrics.
//
// A session has a link. Where links can break (Limits::breaks), the side that connected opens
// another, at growing intervals; both say what they have received, messages are numbered, kept
// until acknowledged and sent again, puts and gets that had not ended are posted again, and an
// atomic ends with outcome_unknown. After the timeout the session is lost, for good: all its works
// end with peer_lost. Fabrics that cannot put, get or do atomics have the owner's side do it, by
// messages.
//
// Threads. start(), send(), import(): any thread; one short lock. The rest: under the transport's
// progress lock, by whoever polls.
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/spin_lock.hpp"
#include "peer/bootstrap.hpp"
#include "transport/messages.hpp"
#include "transport/regions.hpp"
#include "transport/reliable_link.hpp"
#include "transport/work.hpp"

namespace weft::transport {

class Transport;

inline constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 30;
inline constexpr std::size_t kMaxByOwner =
    256;  // requests that one side has under way at the other

class Session final : public std::enable_shared_from_this<Session>, ReliableLink::Owner {
 public:
  using State = ReliableLink::State;

  Session(Transport& transport, peer::Connection& connection, bool opens);
  ~Session();

  const peer::NodeAddress& theirs() const { return theirs_; }
  const peer::Bytes16& cookie() const { return cookie_; }
  State state() const { return link_.state(); }
  std::string_view fabric() const { return endpoint() != nullptr ? endpoint()->name() : "none"; }
  void* user = nullptr;  // the facade's

  // Posts the work, or keeps it until it can be. It ends by finish(), maybe before the return.
  void start(Work& work);
  // Copies a message of at most message_max() bytes. again: no room now.
  Code send(fabric::Bytes bytes);
  std::size_t message_max() const { return message_max_; }
  // The region of this key, asked for at its first use.
  std::shared_ptr<RemoteRegion> import(const MemoryKey& key);
  void add_use(RegionUse& use);
  void remove_use(RegionUse& use);

  // By the transport.
  Status begin(fabric::Endpoint& endpoint);  // opens the first link
  // A link that the peer opened.
  void take_link(fabric::Endpoint& endpoint, fabric::Link& link, std::uint32_t received);
  void on_down(Code why);
  void on_message(fabric::Bytes bytes);
  bool on_frame(peer::FrameType type, std::string_view body, std::span<int> descriptors);
  void on_connection_end(peer::Ended how);
  // Moves on what waits; false once nothing does.
  bool pump();
  void tick(std::uint64_t now_ns);
  void lose(Code code, std::string why);
  void withdraw(const std::shared_ptr<Region>& region);
  bool has_unsent() const { return link_.has_unsent(); }
  void say_goodbye();

 private:
  friend class Transport;
  struct Granted {
    std::shared_ptr<Region> region;  // null: free
    std::uint32_t rights = 0;
    bool is_withdrawn = false;
    std::uint16_t num_uses = 0;  // of this place; the upper half of the handle
  };
  struct Answer {  // a get whose data are still to be sent
    std::uint32_t id;
    std::uint32_t handle;
    std::uint64_t offset, bytes, sent;
  };

  // session.cpp; under lock_.
  fabric::Endpoint* endpoint() const { return link_.endpoint(); }
  template <class Message>
  Code post(Message& message, fabric::Bytes body = {}) {
    return link_.post(message, sizeof message, body);
  }
  template <class Message>
  void post_control(Message& message) {
    link_.post_control(message, sizeof message);
  }
  bool dispatch(Kind kind, fabric::Bytes bytes);
  void make_busy() override;
  void note_up();
  Status open_link();
  void drop_link();

  // requests.cpp; under lock_. False: it must wait.
  bool advance(Work& work, WorkList& finished);
  bool post_by_owner(Work& work, WorkList& finished);
  bool post_pieces(Work& work, WorkList& finished);
  void do_mapped(Work& work, std::byte* at);
  void end_work(Work& work, Code code, WorkList& finished);
  void on_request_done(Work& work, Code code);
  static void request_done(fabric::Request& request, Code code) noexcept;
  bool give_id(Work& work);
  Work* work_of(std::uint32_t id);
  void drop_id(Work& work);
  void end_region(RemoteRegion& region, Code why);
  void drop_region(RemoteRegion& region);
  void let_go(RemoteRegion& region);
  void ask(RemoteRegion& region);
  // Of what the owner answers; they take lock_. False: it makes no sense.
  bool on_resolved(const ResolvedMessage& message, int* descriptor);
  bool on_data(const DataMessage& message, fabric::Bytes data);
  bool on_done(const DoneMessage& message);
  bool on_withdrawn(std::uint32_t handle);
  bool on_piece(const PieceMessage& message, fabric::Bytes data);

  // serving.cpp; under the progress lock.
  bool on_resolve(const ResolveMessage& message);
  Granted* find_granted(std::uint32_t handle);
  Region* granted(std::uint32_t handle, std::uint32_t right, std::uint64_t offset,
                  std::uint64_t bytes, Code& code);
  bool on_put(const AccessMessage& message, fabric::Bytes data);
  bool on_get(const AccessMessage& message);
  bool on_atomic(const AtomicMessage& message);
  bool on_let_go(std::uint32_t handle);
  void answer_done(std::uint32_t id, Code code, std::uint64_t previous = 0);
  bool pump_answers();
  void drop_grants();

  Transport& transport_;
  SpinLock lock_;
  ReliableLink link_;
  std::size_t message_max_ = 0;

  WorkList waiting_;  // in order
  WorkList posted_;   // the fabric has them, or the owner's side
  WorkList reposts_;  // the fabric had them when the link broke; messages must not overtake them
  std::size_t num_sends_ = 0;    // long messages in waiting_
  std::vector<Work*> by_owner_;  // by id
  std::vector<std::uint32_t> free_ids_;
  std::map<MemoryKey, std::shared_ptr<RemoteRegion>> regions_;
  std::uint32_t last_question_ = 0;
  std::size_t num_asked_ = 0;  // questions that have no answer yet

  std::atomic<bool> is_busy_{false};

  std::vector<std::byte> assembled_;  // of a long message
  std::uint64_t assembled_total_ = 0;

  std::vector<Granted> granted_;
  std::deque<Answer> answers_;

  peer::Connection* connection_;
  peer::NodeAddress theirs_;
  peer::Bytes16 cookie_;
  const bool opens_;
  bool is_told_ = false;   // the program knows of this peer
  bool has_left_ = false;  // it said goodbye
  std::string why_;
};

}  // namespace weft::transport
