#pragma once
// OfiEndpoint: the fabric "ofi". Links are in links.cpp, messages in messages.cpp, puts, gets and
// atomics in accesses.cpp, their ends where they must not last in overdue.cpp, and what the
// provider has completed comes in through progress.cpp.
//
// Puts, gets and atomics of the provider keep what the contract promises thus:
//
// - Messages wait here for the puts before them (hold()): no order of libfabric's is about when
//   bytes are there, FI_ORDER_SAW neither.
// - libfabric takes nothing back, and closes no connection to a single peer. So a link to a peer
//   comes up only after the accesses of earlier links to it have ended (waits_for_old()).
// - What ends when its endpoint is closed is posted on one of its own (access_ep_): that is closed
//   where accesses must end and do not, which breaks other links with accesses under way. Other
//   providers move only memory of this endpoint, which stays until they have completed.
#include <rdma/fi_errno.h>
#include <sys/random.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/os/mapping.hpp"
#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "fabric/endpoint.hpp"
#include "fabric/ofi/endpoint.hpp"
#include "fabric/ofi/library.hpp"

namespace weft::fabric::ofi {

namespace lib = weft::ofi;

// given_up: the sender's hello is withdrawn; messages behind it would reach no link.
enum class Kind : std::uint16_t { hello = 1, accept, message, closed, given_up };

struct Head {
  // Of the link, as its receiver chose it; hello, given_up: as its sender did.
  std::uint64_t token;
  Kind kind;
  // Of message: the provider replaces a broken connection silently, and a gap in these numbers
  // shows that messages were lost with it.
  std::uint16_t sequence;
  std::uint32_t length;  // of what follows
};
static_assert(sizeof(Head) == 16);
struct HelloBody {
  std::uint16_t address_bytes, hello_bytes;
  char address[kMaxAddressBytes];
  std::byte hello[kMaxHelloBytes];
};

// The native endpoints over TCP take a buffer when a message comes: few are enough, and stay in the
// caches.
constexpr std::size_t kNumReceives = 64, kFewReceives = 16;
constexpr int kBatch = kFewReceives;  // completions that are read at once: no more receives end
constexpr std::size_t kSendsOfLink = 32, kAccessesOfLink = 64;
constexpr std::size_t kMostBuffers = 4096;
constexpr std::size_t kMaxInject = 512;
constexpr std::size_t kMaxEvents = 4;  // of a link, other than messages, that wait at a time

// An operation of the provider, identified by the address of its context.
struct Posted {
  fi_context2 context;
  bool is_access = false;  // a PostedAccess, else a Buffer
};

struct Buffer : Posted {
  fid_mr* mr = nullptr;            // of its data, where the provider wants that
  fid_ep* receives = nullptr;      // that it is posted to; null: it sends
  std::uint64_t link = 0;          // own token of the link that sends
  WorkRequest* request = nullptr;  // of a message in place
  std::byte* data = nullptr;
  // Of what it sends: so many bytes of data, and a body in place.
  std::size_t filled = 0;
  Bytes body = {};
  // While it is held: for the puts before it.
  std::uint64_t num_puts_before = 0;
  Buffer* next = nullptr;  // held after it
};

struct PostedAccess;

// The accesses of a link. They live until the provider has completed all, which may be after the
// link's end.
struct Accesses {
  std::string address;                             // the peer's, as of its link
  PostedAccess *first = nullptr, *last = nullptr;  // under way, in the order of posting
  std::size_t num = 0, num_puts = 0;               // of these
  std::uint64_t puts_posted = 0;                   // ever
  std::uint64_t moved_ns = 0;  // the last time that one ended, or was posted when there was none
  bool is_told = false;        // a link waits for them, which was logged
};

// For lines of the log.
inline std::string text_of(const std::string& address) {
  std::string text = address_text(address);
  return text.empty() ? "the peer" : text;
}

// A put, get or atomic. Lives until the provider has completed it, even if no request waits for it.
struct PostedAccess : Posted {
  enum class What : std::uint8_t { put, get, fetch_add, compare_swap };
  What what = What::get;
  fid_ep* ep = nullptr;            // that it was posted on; null: closed since
  std::uint64_t link = 0;          // own token
  WorkRequest* request = nullptr;  // null: none waits any more
  std::shared_ptr<Accesses> accesses;
  PostedAccess *before = nullptr, *after = nullptr;
  std::uint64_t put_number = 0;  // of a put, from 1 on
  void* here = nullptr;
  std::size_t bytes = 0;
  // What the provider moves in place of `here`; neither: `here` itself. Of an atomic: the previous
  // word, the operand and what is compared.
  Buffer* bounce = nullptr;
  std::unique_ptr<std::byte[]> copy;
  fid_mr* local = nullptr;  // of what it moves, where the provider wants that

  bool is_atomic() const noexcept { return what >= What::fetch_add; }
  bool is_in_place() const noexcept { return bounce == nullptr && copy == nullptr; }
};

// An endpoint that links are opened from. Endpoints of the provider that connect by themselves have
// one connection to each peer, which stays as long as the endpoint, so that a new connection takes
// a new one.
struct Opener {
  fid_ep* ep = nullptr;
  std::string address;
  std::size_t num_links = 0;
  std::vector<std::string> distrusted;  // addresses of peers to which it has a silent connection
};

struct OfiLink : Link {
  fid_ep* ep = nullptr;      // the opener's, or the one that the peer opened
  Opener* opener = nullptr;  // null: the peer's
  fi_addr_t peer = FI_ADDR_UNSPEC;
  // Of the other end: of the peer's opener, until it is let in, or of the endpoint that is opened.
  char address[kMaxAddressBytes];
  std::uint64_t own_token = 0, peer_token = 0;
  bool is_up = false, is_down = false;
  bool is_cut_off = false;                       // closed here while it was up
  std::size_t num_sends = 0;                     // under way
  std::uint16_t num_sent = 0, num_received = 0;  // messages
  std::shared_ptr<Accesses> accesses;
  Buffer *held_first = nullptr, *held_last = nullptr;
};

class OfiEndpoint final : public Endpoint {
 public:
  explicit OfiEndpoint(std::unique_ptr<lib::Endpoint> endpoint);
  ~OfiEndpoint() override;

  Status start();
  std::string_view name() const noexcept override { return "ofi"; }
  const Limits& limits() const noexcept override { return limits_; }
  std::string address() const override { return ep_->address(); }
  std::string kind() const override;
  std::string way_to(Bytes address) const override;
  Bytes listener_of(Bytes address) const override { return is_over_tcp_ ? address : Bytes(); }
  std::string interface_address() const override {
    return is_over_tcp_ ? ep_->interface().address : std::string();
  }
  Status open(Bytes address, Bytes hello, Link*& link) override;
  void distrust(Link& link) override;
  void close(Link& link) override;
  Status register_memory(void* address, std::size_t bytes, std::uint32_t rights,
                         Registration& registration) override;
  void deregister(Registration& registration) override;
  Code put(Link& link, const void* from, std::size_t bytes, const Key& key, std::uint64_t offset,
           WorkRequest& request) override;
  Code get(Link& link, void* to, std::size_t bytes, const Key& key, std::uint64_t offset,
           WorkRequest& request) override;
  Code atomic(Link& link, Atomic kind, const Key& key, std::uint64_t offset, std::uint64_t operand,
              std::uint64_t compare, std::uint64_t& previous, WorkRequest& request) override;
  Code message(Link& link, Bytes head, Bytes body) override {
    return post(static_cast<OfiLink&>(link), head, body, nullptr);
  }
  Code message_in_place(Link& link, Bytes head, Bytes body, WorkRequest& request) override {
    return post(static_cast<OfiLink&>(link), head, body, &request);
  }
  bool poll(Events& events) override;
  bool arm() override;
  int wait_fd() const noexcept override { return ep_->wait_fd(); }

 private:
  using Lock = std::unique_lock<std::mutex>;
  enum class EventKind { incoming, accept_again, hello_again, up, down, message };
  struct Event {
    EventKind kind;
    std::uint64_t link;
    Code code = Code::ok;
    std::vector<std::byte> data = {};
    Buffer* buffer = nullptr;    // message: posted again afterwards
    std::uint64_t at_ns = 0;     // hello_again: not before
    std::uint64_t until_ns = 0;  // the end of a wait for accesses; 0: it has not begun
  };
  struct Words {  // of an atomic
    std::uint64_t previous, operand, compare;
  };

  // All under mutex_.
  OfiLink* find(std::uint64_t token) {
    const auto found = links_.find(token);
    return found == links_.end() ? nullptr : found->second;
  }
  void take_down(OfiLink& link, Code why) {
    if (std::exchange(link.is_down, true)) return;
    events_.push_back({EventKind::down, link.own_token, why});
  }

  // links.cpp
  OfiLink* add_link(fid_ep* ep, fi_addr_t peer, std::string_view address, Opener* opener = nullptr);
  Status open_locked(Bytes address, Bytes hello, Link*& link);
  Status add_opener();
  void close_unused_openers();
  void on_hello(const Head& head, Bytes bytes);
  void on_given_up(std::uint64_t token);
  void accept(OfiLink& link, Event& event, Lock& lock);
  void greet(OfiLink& link, Event& event, Lock& lock);
  void dispatch(Events& events, Event& event);
  void let_in(Events& events, Event& event);
  void drop(std::uint64_t token);
  void end_requests(std::uint64_t token, const std::shared_ptr<Accesses>& accesses, Code code,
                    Lock& lock);

  // messages.cpp
  Code post(OfiLink& link, Bytes head, Bytes body, WorkRequest* request);
  Code send(OfiLink& link, Kind kind, std::uint64_t token, Bytes head, Bytes body,
            WorkRequest* request = nullptr);
  Code hold(OfiLink& link, Bytes head, Bytes body, WorkRequest* request);
  void send_held(OfiLink& link);
  void drop_held(std::uint64_t token, Code code, Lock& lock);
  Code post_send(OfiLink& link, Buffer& buffer);
  void post_receive(Buffer& buffer);
  // Posts new buffers to this endpoint; null: they are for sending.
  Status add_buffers(std::size_t count, fid_ep* receives);
  bool need_send_buffer();
  WorkRequest* take_body_request(std::uint64_t link);
  void on_received(Buffer& buffer, std::size_t length, Events* events, Lock& lock);
  void end_send(Buffer& buffer, bool is_good, Lock& lock);

  // accesses.cpp
  Status register_for(void* address, std::size_t bytes, std::uint64_t access, fid_mr*& mr);
  Code post_access(OfiLink& link, PostedAccess::What what, void* here, std::size_t bytes,
                   const Words& words, const Key& key, std::uint64_t offset, WorkRequest& request);
  Code need_free_access();
  Code prepare(PostedAccess& access, const Words& words, std::byte*& data, fid_mr*& mr);
  static ssize_t hand_over(PostedAccess& access, fi_addr_t peer, std::byte* data, void* descriptor,
                           std::uint64_t address, std::uint64_t key, std::uint64_t put_flags);
  void let_go(PostedAccess& access);
  void unlist(PostedAccess& access);
  void end_access(PostedAccess& access, const fi_cq_err_entry* error, Lock& lock);
  Code code_of(const PostedAccess& access, const fi_cq_err_entry& error) const;

  // overdue.cpp
  void end_access_ep(std::uint64_t closing, Code code, Lock& lock);
  WorkRequest* take_untold(std::uint64_t link);
  void end_in_place(std::uint64_t token, const std::shared_ptr<Accesses>& accesses, Code code,
                    Lock& lock);
  bool waits_for_old(OfiLink& link, Event& event, Lock& lock);
  bool accesses_end_soon(const OfiLink& link, Event& event) const;
  bool has_old_accesses(const OfiLink& link) const;
  void look_at_accesses();

  // progress.cpp
  bool read_completions(Events* events, Lock& lock);
  void end(Posted& posted, const fi_cq_err_entry* error, std::size_t length, Events* events,
           Lock& lock);

  std::mutex mutex_;
  std::unique_ptr<lib::Endpoint> ep_;
  Limits limits_;
  lib::OneSided one_sided_;
  bool is_over_tcp_ = false;
  std::vector<std::unique_ptr<Opener>> openers_;  // the last one opens links
  fid_ep closed_ep_{};                            // in place of those that were closed
  std::vector<Buffer*> spare_receives_;           // that were posted to those
  std::vector<fid_mr*> mrs_;
  std::size_t num_refused_ = 0;
  std::size_t buffer_bytes_ = 0, inject_max_ = 0, num_receives_ = 0;
  // There may be more than a descriptor shows: completions, or what the provider holds while
  // receive buffers wait in events_.
  bool may_hold_ = false;
  unsigned num_vain_arms_ = 0;  // since something came
  std::deque<Buffer> buffers_;
  std::deque<weft::Mapping> more_memory_;
  std::vector<Buffer*> free_;
  std::unordered_map<std::uint64_t, OfiLink*> links_;  // by own token
  std::vector<Event> events_;
  // Read and not yet ended: an event that waits for completions goes on where its caller was.
  fi_cq_data_entry entries_[kBatch];
  int num_entries_ = 0, next_entry_ = 0;

  fid_ep* access_ep_ =
      nullptr;  // null: accesses go over the links' endpoints, or it is to be opened
  std::deque<PostedAccess> accesses_;
  std::vector<PostedAccess*> free_accesses_;
  std::size_t num_untold_ = 0;                  // requests that ended with access_ep_
  std::size_t num_accesses_ = 0;                // under way
  std::vector<std::shared_ptr<Accesses>> old_;  // of links that are closed, under way
  std::size_t in_place_min_ = 0;
  bool is_stuck_ = false;  // held messages wait for room of the provider
  std::uint64_t looked_ns_ = 0;
};

}  // namespace weft::fabric::ofi
