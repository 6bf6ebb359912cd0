#include "weft/node.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include "base/log.hpp"
#include "base/os/descriptor.hpp"
#include "base/os/process_id.hpp"
#include "base/os/thread.hpp"
#include "base/settings.hpp"
#include "base/shortage.hpp"
#include "base/stats.hpp"
#include "base/trace.hpp"
#include "base/wait.hpp"
#include "fabric/registry.hpp"
#include "node/transport.hpp"
#include "weft/copy.hpp"

extern char** environ;

namespace weft {

using transport::NodeRequest;

class PeerImpl {
 public:
  std::shared_ptr<transport::Session> session;
  void* context = nullptr;
  const pid_t process = process_id();
};

class PeerMemoryImpl {
 public:
  explicit PeerMemoryImpl(std::shared_ptr<transport::Session> session,
                          std::shared_ptr<transport::RemoteRegion> region)
      : use(std::move(session), std::move(region)) {}
  transport::RegionUse use;
};

class NodeImpl final : public transport::Transport::Events {
 public:
  explicit NodeImpl(const NodeSettings& settings);
  ~NodeImpl();

  // Under the progress lock:
  void on_connected(transport::Session& session) override;
  void on_lost(transport::Session& session, const Status& why) override;
  void on_message(transport::Session& session, fabric::Bytes bytes) override {
    notify(message_call, peer_of(session), bytes);
  }
  void on_notify(transport::Session& session, const NotifyTag& tag) override {
    notify(notify_call, peer_of(session), tag);
  }
  // The Peer exists as long as its session is known, or the program keeps a copy.
  static const Peer& peer_of(transport::Session& session) {
    return *static_cast<const Peer*>(session.user);
  }
  // Null: an empty handle, or one of the parent process.
  static transport::RegionUse* use_of(const PeerMemory& memory) noexcept {
    PeerMemoryImpl* impl = memory.impl_.get();
    return impl != nullptr && impl->use.process == process_id() ? &impl->use : nullptr;
  }
  static transport::Session* session_of(const Peer& peer) noexcept {
    const PeerImpl* impl = peer.impl_.get();
    return impl != nullptr && impl->process == process_id() ? impl->session.get() : nullptr;
  }
  // In a forked child the locks, the links and the thread are the parent's.
  bool is_own_process() const noexcept { return process_id() == process_; }
  static Status refuse_child() {
    return {Code::bad_argument, "this Node is of the parent process: connect anew after fork"};
  }
  // Calls the program. An exception is rethrown at the end of the poll, as the fabrics are not
  // exception-safe.
  template <class Call, class... Arguments>
  void notify(const Call& call, const Arguments&... arguments) {
    if (!call) return;
    ++num_notifying_;
    try {
      call(arguments...);
    } catch (...) {
      // Without memory the exception is dropped.
      or_no_memory([&] { thrown_.push_back(std::current_exception()); });
      has_thrown_.store(!thrown_.empty(), std::memory_order_release);
    }
    --num_notifying_;
  }
  // Rethrows the oldest exception; the others follow in later polls.
  void rethrow();

  bool poll() {
    if (!is_own_process()) [[unlikely]]
      return false;
    // relaxed: the thread polls periodically.
    const bool any = transport_->poll();
    if (thread_sleeps_.load(std::memory_order_relaxed)) [[unlikely]]
      wake_thread();
    if (num_connects_.load(std::memory_order_relaxed) > 0) [[unlikely]]
      finish_connects();
    // acquire: pairs with the release in notify().
    if (has_thrown_.load(std::memory_order_acquire)) [[unlikely]]
      rethrow();
    return any;
  }
  void finish_connects();
  void wake_thread();
  void run_thread();
  Status add(void* address, std::size_t bytes, bool allocated) noexcept;
  Status take_back(void* address, bool allocated);
  void free_allocated(void* address);
  using Connecting = transport::Transport::Connecting;
  std::shared_ptr<Connecting> begin_connect(std::string_view address, int timeout_ms);
  // The result of a connect that has ended.
  static Status outcome(const Connecting& connecting, Peer& peer);

  struct WaitingConnect {
    std::shared_ptr<Connecting> connecting;
    std::function<void(Status, Peer)> done;
  };

  Settings settings_;
  std::uint64_t timeout_ns_ = 0, spin_ns_ = 0, yield_ns_ = 0;
  std::unique_ptr<transport::Transport> transport_;
  std::map<const void*, std::shared_ptr<transport::Region>> regions_;
  std::vector<WaitingConnect> waiting_connects_;  // under the progress lock
  std::atomic<int> num_connects_{0};
  std::function<void(const Peer&)> peer_call;
  std::function<void(const Peer&, const Status&)> lost_call;
  std::function<void(const Peer&, std::span<const std::byte>)> message_call;
  std::function<void(const Peer&, const NotifyTag&)> notify_call;
  int num_notifying_ = 0;                  // active calls of the program; under the progress lock
  std::deque<std::exception_ptr> thrown_;  // the same
  std::atomic<bool> has_thrown_{false};

  std::atomic<bool> thread_sleeps_{false};
  std::atomic<bool> stops_{false};
  std::atomic<std::uint32_t> wake_word_{0};
  Descriptor wake_pipe_[2];  // if there is a thread
  std::thread thread_;
  const pid_t process_ = keep_process_id();
};

// Peer.

const std::string& Peer::name() const noexcept {
  static const std::string none;
  return impl_ != nullptr ? impl_->session->theirs().name : none;
}
std::uint64_t Peer::generation() const noexcept {
  return impl_ != nullptr ? impl_->session->theirs().generation : 0;
}
std::string_view Peer::fabric() const noexcept {
  return impl_ != nullptr ? impl_->session->fabric() : "";
}
bool Peer::is_mapped() const noexcept { return impl_ != nullptr && impl_->session->is_mapped(); }
bool Peer::is_lost() const noexcept {
  return impl_ == nullptr || impl_->session->state() == transport::Session::State::lost;
}
std::size_t Peer::message_max() const noexcept {
  return impl_ != nullptr ? impl_->session->message_max() : 0;
}
void* Peer::context() const noexcept { return impl_ != nullptr ? impl_->context : nullptr; }
void Peer::set_context(void* context) const noexcept {
  if (impl_ != nullptr) impl_->context = context;
}

PeerMemory::~PeerMemory() = default;
PeerMemory::PeerMemory() noexcept = default;
PeerMemory::PeerMemory(PeerMemory&&) noexcept = default;
PeerMemory& PeerMemory::operator=(PeerMemory&&) noexcept = default;
PeerMemory::PeerMemory(const PeerMemory& other) { *this = other; }
PeerMemory& PeerMemory::operator=(const PeerMemory& other) {
  if (this == &other) return *this;
  impl_ = other.impl_ == nullptr
              ? nullptr
              : std::make_unique<PeerMemoryImpl>(other.impl_->use.session, other.impl_->use.region);
  return *this;
}

// NodeImpl.

NodeImpl::NodeImpl(const NodeSettings& settings) {
  if (Status status = Settings::from_environment(environ, settings_); !status) throw Error(status);
  log::set_level(static_cast<LogLevel>(settings_.number(Setting::log)));
  if (settings_.flag(Setting::stats)) stats::print_at_exit();
  if (const std::string& path = settings_.text(Setting::trace); !path.empty())
    if (Status status = trace::open(
            path, getpid(),
            settings.name.empty() ? fmt::format("pid {}", getpid()) : std::string(settings.name));
        !status)
      throw Error(status);
  if (settings.name.size() > peer::kMaxNameBytes)
    throw Error({Code::bad_argument,
                 fmt::format("the name of a Node has at most {} letters", peer::kMaxNameBytes)});
  if (settings.name.find('\0') != std::string::npos)
    throw Error({Code::bad_argument, "the name of a Node has no byte 0 in it"});
  if (settings.timeout_ms > 0)
    if (Status status = settings_.set("PEER_TIMEOUT_MS", std::to_string(settings.timeout_ms));
        !status)
      throw Error(status);
  timeout_ns_ = settings_.ns(Setting::peer_timeout_ms);
  spin_ns_ = settings_.ns(Setting::spin_us);
  yield_ns_ = settings_.ns(Setting::yield_us);
  std::vector<std::unique_ptr<fabric::Endpoint>> endpoints;
  const std::string& fabrics =
      settings.fabrics.empty() ? settings_.text(Setting::fabric) : settings.fabrics;
  if (Status status = fabric::make_endpoints(fabrics, settings_, endpoints); !status)
    throw Error(status);
  transport_ = std::make_unique<transport::Transport>(
      *this, peer::Secret(settings.secret), settings.name, timeout_ns_, std::move(endpoints));
  if (!settings.progress_thread) return;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    throw Error({Code::no_memory, "no descriptors are left for a Node"});
  for (int i = 0; i < 2; ++i) wake_pipe_[i] = Descriptor(ends[i]);
  if (Status status = start_thread(thread_, [this] { run_thread(); }); !status) throw Error(status);
}

NodeImpl::~NodeImpl() {
  if (!is_own_process()) {
    // A forked child must not send goodbyes for its parent or withdraw its memory, and does not
    // have the thread.
    if (thread_.joinable()) thread_.detach();
    static_cast<void>(transport_.release());
    return;
  }
  stops_.store(true);
  if (thread_.joinable()) {
    wake_word_.fetch_add(1);
    futex_wake_all(&wake_word_);
    [[maybe_unused]] const auto written = ::write(wake_pipe_[1].get(), "", 1);
    thread_.join();
  }
  {
    // The program's objects may be destroyed already: members after the Node end before it.
    std::lock_guard lock(transport_->progress_lock());
    waiting_connects_.clear();
    peer_call = nullptr;
    lost_call = nullptr;
    message_call = nullptr;
    notify_call = nullptr;
  }
  transport_->close_all();
  transport_->end();
  for (auto& [address, region] : regions_)
    if (region->is_allocated) free_allocated(const_cast<void*>(address));
}

void NodeImpl::free_allocated(void* address) {
  if (transport_->mapped() != nullptr)
    transport_->mapped()->release(address);
  else
    std::free(address);
}

void NodeImpl::on_connected(transport::Session& session) {
  auto impl = std::make_shared<PeerImpl>();
  impl->session = session.shared_from_this();
  session.user = new Peer(std::move(impl));
  notify(peer_call, peer_of(session));
}

void NodeImpl::on_lost(transport::Session& session, const Status& why) {
  if (session.user == nullptr) return;  // never reported to the program
  const std::unique_ptr<const Peer> peer(&peer_of(session));
  session.user = nullptr;
  or_no_memory([&] { trace::mark("peer lost", why.text()); });
  notify(lost_call, *peer, why);
}

void NodeImpl::rethrow() {
  std::unique_lock lock(transport_->progress_lock());
  if (thrown_.empty() || num_notifying_ > 0) return;  // not into another call of the program
  const std::exception_ptr oldest = std::move(thrown_.front());
  thrown_.pop_front();
  has_thrown_.store(!thrown_.empty(), std::memory_order_relaxed);
  lock.unlock();
  std::rethrow_exception(oldest);
}

void NodeImpl::finish_connects() {
  std::unique_lock lock(transport_->progress_lock(), std::try_to_lock);
  if (!lock.owns_lock()) return;
  for (std::size_t i = 0; i < waiting_connects_.size();) {
    if (!waiting_connects_[i].connecting->is_done) {
      ++i;
      continue;
    }
    const WaitingConnect connect = std::move(waiting_connects_[i]);
    waiting_connects_.erase(waiting_connects_.begin() + static_cast<std::ptrdiff_t>(i));
    --num_connects_;
    Peer peer;
    Status status = outcome(*connect.connecting, peer);
    connect.done(std::move(status), std::move(peer));
  }
}

void NodeImpl::wake_thread() {
  if (!thread_sleeps_.exchange(false)) return;
  [[maybe_unused]] const auto written = ::write(wake_pipe_[1].get(), "", 1);
}

// Makes progress while no thread of the program does.
void NodeImpl::run_thread() {
  constexpr std::uint64_t kQuietUs = 5'000;
  std::uint64_t seen = transport_->num_polls();
  while (!stops_.load(std::memory_order_relaxed)) {
    const std::uint32_t word = wake_word_.load();
    futex_wait(&wake_word_, word, kQuietUs);
    if (transport_->num_polls() != seen) {  // a thread of the program does
      seen = transport_->num_polls();
      continue;
    }
    while (!stops_.load(std::memory_order_relaxed)) {
      while (transport_->poll()) continue;
      finish_connects();
      if (has_thrown_.load(std::memory_order_acquire)) rethrow();
      seen = transport_->num_polls();
      if (!transport_->arm()) {
        if (transport_->num_polls() != seen) break;
        sched_yield();
        continue;
      }
      thread_sleeps_.store(true);
      if (transport_->num_polls() == seen && !stops_.load()) {
        pollfd wait[2] = {{transport_->wait_fd(), POLLIN, 0}, {wake_pipe_[0].get(), POLLIN, 0}};
        ::poll(wait, 2, transport_->sleep_ms());
      }
      thread_sleeps_.store(false);
      char bytes[16];
      while (::read(wake_pipe_[0].get(), bytes, sizeof bytes) > 0) continue;
      if (transport_->num_polls() != seen) break;
    }
    seen = transport_->num_polls();
  }
}

Status NodeImpl::add(void* address, std::size_t bytes, bool allocated) noexcept {
  return or_no_memory([&]() -> Status {
    const auto entry = regions_.try_emplace(address).first;
    Status status = or_no_memory([&] {
      return transport_->add_region(static_cast<std::byte*>(address), bytes, allocated,
                                    entry->second);
    });
    if (!status) regions_.erase(entry);
    return status;
  });
}

Status NodeImpl::take_back(void* address, bool allocated) {
  if (!is_own_process()) return refuse_child();
  std::shared_ptr<transport::Region> region;
  {
    std::lock_guard lock(transport_->progress_lock());
    const auto found = regions_.find(address);
    if (found == regions_.end() || found->second->is_allocated != allocated)
      return {Code::not_found, "no such memory of this Node"};
    region = found->second;
    regions_.erase(found);
    transport_->withdraw(region);
  }
  // A peer that does not release the memory in time may be slow or hostile; its mapping stays.
  const std::uint64_t limit = now_ns() + timeout_ns_;
  for (;;) {
    {
      std::lock_guard lock(transport_->progress_lock());
      if (transport_->is_free(*region) || now_ns() > limit) break;
    }
    if (!poll()) sched_yield();
  }
  std::lock_guard lock(transport_->progress_lock());
  transport_->drop(region);
  if (allocated) free_allocated(address);
  return {};
}

std::shared_ptr<NodeImpl::Connecting> NodeImpl::begin_connect(std::string_view address,
                                                              int timeout_ms) {
  auto connecting = std::make_shared<Connecting>();
  const std::uint64_t within =
      timeout_ms > 0 ? static_cast<std::uint64_t>(timeout_ms) * 1'000'000 : timeout_ns_;
  std::lock_guard lock(transport_->progress_lock());
  transport_->connect(address, now_ns() + within, connecting);
  return connecting;
}

Status NodeImpl::outcome(const Connecting& connecting, Peer& peer) {
  if (!connecting.status) return connecting.status;
  if (connecting.session->user == nullptr) return {Code::peer_lost, "the peer left at once"};
  peer = peer_of(*connecting.session);
  return {};
}

// Node.

Node::Node(const NodeSettings& settings) try : impl_(std::make_unique<NodeImpl>(settings)) {
} catch (const std::bad_alloc&) {
  throw Error(Code::no_memory);
}
Node::~Node() = default;

Status Node::listen(std::string_view address) {
  if (!impl_->is_own_process()) return NodeImpl::refuse_child();
  std::lock_guard lock(impl_->transport_->progress_lock());
  Status status = or_no_memory([&] { return impl_->transport_->listen(address); });
  impl_->wake_thread();
  return status;
}

Status Node::address(std::string& text) {
  if (!impl_->is_own_process()) return NodeImpl::refuse_child();
  std::lock_guard lock(impl_->transport_->progress_lock());
  Status status = or_no_memory([&] { return impl_->transport_->address(text); });
  impl_->wake_thread();
  return status;
}

Status Node::connect(std::string_view address, Peer& peer, int timeout_ms) {
  if (!impl_->is_own_process()) return NodeImpl::refuse_child();
  const trace::Span span("connect");
  std::shared_ptr<NodeImpl::Connecting> connecting;
  if (or_no_memory([&] { connecting = impl_->begin_connect(address, timeout_ms); }) != Code::ok)
    return Code::no_memory;
  for (;;) {
    {
      std::lock_guard lock(impl_->transport_->progress_lock());
      if (connecting->is_done) return NodeImpl::outcome(*connecting, peer);
    }
    wait_some(20);
  }
}

void Node::connect_async(std::string_view address, std::function<void(Status, Peer)> done,
                         int timeout_ms) {
  if (!impl_->is_own_process()) return done(NodeImpl::refuse_child(), {});
  std::lock_guard lock(impl_->transport_->progress_lock());
  make_room(impl_->waiting_connects_);
  auto connecting = impl_->begin_connect(address, timeout_ms);
  impl_->waiting_connects_.push_back({std::move(connecting), std::move(done)});
  ++impl_->num_connects_;
  impl_->wake_thread();
}

void Node::close(const Peer& peer) {
  if (!peer || !impl_->is_own_process()) return;
  std::lock_guard lock(impl_->transport_->progress_lock());
  impl_->transport_->close(*peer.impl_->session);
}

void Node::on_peer(std::function<void(const Peer&)> call) {
  if (!impl_->is_own_process()) return;
  std::lock_guard lock(impl_->transport_->progress_lock());
  impl_->peer_call = std::move(call);
}
void Node::on_lost(std::function<void(const Peer&, const Status&)> call) {
  if (!impl_->is_own_process()) return;
  std::lock_guard lock(impl_->transport_->progress_lock());
  impl_->lost_call = std::move(call);
}
void Node::on_message(std::function<void(const Peer&, std::span<const std::byte>)> call) {
  if (!impl_->is_own_process()) return;
  std::lock_guard lock(impl_->transport_->progress_lock());
  impl_->message_call = std::move(call);
}
void Node::on_notify(std::function<void(const Peer&, const NotifyTag&)> call) {
  if (!impl_->is_own_process()) return;
  std::lock_guard lock(impl_->transport_->progress_lock());
  impl_->notify_call = std::move(call);
}

Status Node::register_memory(void* address, std::size_t bytes) {
  if (!impl_->is_own_process()) return NodeImpl::refuse_child();
  const trace::Span span("register_memory");
  if (address == nullptr || bytes == 0) return Code::bad_argument;
  std::lock_guard lock(impl_->transport_->progress_lock());
  if (impl_->regions_.contains(address))
    return {Code::bad_argument, "this memory is registered already"};
  return impl_->add(address, bytes, false);
}

Status Node::allocate(std::size_t bytes, void*& address) {
  if (!impl_->is_own_process()) return NodeImpl::refuse_child();
  if (bytes == 0) return Code::bad_argument;
  std::lock_guard lock(impl_->transport_->progress_lock());
  if (fabric::Mapped* mapped = impl_->transport_->mapped(); mapped != nullptr) {
    if (Status status = or_no_memory([&] { return mapped->allocate(bytes, address); }); !status)
      return status;
  } else {
    address = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (address == nullptr) return Code::no_memory;
    std::memset(address, 0, bytes);
  }
  Status status = impl_->add(address, bytes, true);
  if (!status) impl_->free_allocated(address);
  return status;
}

Status Node::deregister_memory(void* address) { return impl_->take_back(address, false); }
Status Node::release(void* address) { return impl_->take_back(address, true); }

Status Node::key(const void* address, std::uint32_t rights, MemoryKey& key, const Peer& only) {
  if (!impl_->is_own_process()) return NodeImpl::refuse_child();
  std::lock_guard lock(impl_->transport_->progress_lock());
  const auto found = impl_->regions_.find(address);
  if (found == impl_->regions_.end()) return {Code::not_found, "no such memory of this Node"};
  return or_no_memory([&] {
    return impl_->transport_->make_key(*found->second, rights, only ? only.generation() : 0, key);
  });
}

PeerMemory Node::memory(const Peer& peer, const MemoryKey& key) {
  PeerMemory memory;
  if (NodeImpl::session_of(peer) == nullptr) return memory;
  const auto& session = peer.impl_->session;
  memory.impl_ = std::make_unique<PeerMemoryImpl>(session, session->import(key));
  return memory;
}

namespace {

void describe(NodeRequest& request, Access access, const transport::RegionUse& use,
              std::uint64_t offset, void* local, std::size_t bytes) {
  request.access = access;
  request.region = use.region;
  request.local = static_cast<std::byte*>(local);
  request.bytes = bytes;
  request.offset = offset;
}

NodeRequest& begin(Operation& operation, Access access, const transport::RegionUse& use,
                   std::uint64_t offset, void* local, std::size_t bytes) {
  NodeRequest& request = OperationAccess::begin(operation);
  describe(request, access, use, offset, local, bytes);
  return request;
}

// Most copies are one word, which needs no call.
inline void copy(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes == 8)
    std::memcpy(to, from, 8);
  else
    weft::detail::copy(to, from, bytes);
}

void finish_at_once(Operation& operation, Code code) {
  OperationAccess::begin_inline(operation);
  OperationAccess::finish(operation, code);
}

// Returns true if the memory is mapped here, and the bytes are copied.
template <Access kAccess>
inline bool move_now(transport::RegionUse& use, std::uint64_t offset, void* local,
                     std::size_t bytes) noexcept {
  constexpr bool kPuts = kAccess == Access::put;
  std::byte* at = use.enter(kPuts ? kWrite : kRead, offset, bytes);
  if (at != nullptr) [[likely]]
    copy(kPuts ? at : local, kPuts ? local : at, bytes);
  use.leave();
  return at != nullptr;
}

template <Access kAccess>
inline void move(transport::RegionUse* use, std::uint64_t offset, void* local, std::size_t bytes,
                 Operation& operation) {
  if (use == nullptr) [[unlikely]]
    return finish_at_once(operation, Code::bad_argument);
  if (move_now<kAccess>(*use, offset, local, bytes)) [[likely]]
    return finish_at_once(operation, Code::ok);
  use->session->start(begin(operation, kAccess, *use, offset, local, bytes));
}

}  // namespace

void Node::put(const PeerMemory& to, std::uint64_t offset, const void* from, std::size_t bytes,
               Operation& operation) {
  move<Access::put>(NodeImpl::use_of(to), offset, const_cast<void*>(from), bytes, operation);
}

void Node::put_notify(const PeerMemory& to, std::uint64_t offset, const void* from,
                      std::size_t bytes, const NotifyTag& tag, Operation& operation) {
  transport::RegionUse* use = NodeImpl::use_of(to);
  if (use == nullptr) return finish_at_once(operation, Code::bad_argument);
  NodeRequest& request =
      begin(operation, Access::put, *use, offset, const_cast<void*>(from), bytes);
  request.has_tag = true;
  request.tag = tag;
  use->session->start(request);
}

void Node::get(const PeerMemory& from, std::uint64_t offset, void* to, std::size_t bytes,
               Operation& operation) {
  move<Access::get>(NodeImpl::use_of(from), offset, to, bytes, operation);
}

namespace {

inline void change(transport::RegionUse* named, Access access, std::uint64_t offset,
                   std::uint64_t operand, std::uint64_t compare, Operation& operation) {
  if (named == nullptr) [[unlikely]]
    return finish_at_once(operation, Code::bad_argument);
  transport::RegionUse& use = *named;
  std::byte* at = offset % 8 == 0 ? use.enter(kAtomic, offset, 8) : nullptr;
  if (at != nullptr) [[likely]] {
    const auto previous = fabric::apply(atomic_of(access), at, operand, compare);
    use.leave();
    OperationAccess::set_previous(operation, previous);
    return finish_at_once(operation, Code::ok);
  }
  use.leave();
  NodeRequest& request = begin(operation, access, use, offset, nullptr, 8);
  request.operand = operand;
  request.compare = compare;
  use.session->start(request);
}

}  // namespace

void Node::cas(const PeerMemory& memory, std::uint64_t offset, std::uint64_t compare,
               std::uint64_t swap, Operation& operation) {
  change(NodeImpl::use_of(memory), Access::cas, offset, swap, compare, operation);
}

void Node::fetch_add(const PeerMemory& memory, std::uint64_t offset, std::uint64_t value,
                     Operation& operation) {
  change(NodeImpl::use_of(memory), Access::fetch_add, offset, value, 0, operation);
}

namespace {

template <Access kAccess>
void move_all(std::span<const Transfer> parts, Operation& operation) {
  for (const Transfer& part : parts)
    if (part.memory == nullptr || NodeImpl::use_of(*part.memory) == nullptr)
      return finish_at_once(operation, Code::bad_argument);
  OperationAccess::begin_inline(operation);
  std::unique_ptr<transport::Batch> batch;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Transfer& part = parts[i];
    transport::RegionUse& use = *NodeImpl::use_of(*part.memory);
    if (move_now<kAccess>(use, part.offset, part.local, part.bytes)) continue;
    if (batch == nullptr) {
      const Code code = or_no_memory([&] {
        batch = std::make_unique<transport::Batch>();
        batch->requests.reserve(parts.size() - i);
      });
      if (code != Code::ok) return OperationAccess::finish(operation, code);
      batch->operation = &operation;
    }
    NodeRequest& request = batch->requests.emplace_back();
    describe(request, kAccess, use, part.offset, part.local, part.bytes);
    request.batch = batch.get();
    request.session = use.session.get();
  }
  if (batch == nullptr) return OperationAccess::finish(operation, Code::ok);
  // The last request that ends deletes the batch, so this loop counts as one until all are started.
  batch->left = batch->requests.size() + 1;
  transport::Batch* started = batch.release();
  for (NodeRequest& request : started->requests) request.session->start(request);
  NodeRequest last;
  last.batch = started;
  transport::finish(last);
}

}  // namespace

void Node::put_all(std::span<const Transfer> parts, Operation& operation) {
  move_all<Access::put>(parts, operation);
}
void Node::get_all(std::span<const Transfer> parts, Operation& operation) {
  move_all<Access::get>(parts, operation);
}

Code Node::send(const Peer& peer, const void* message, std::size_t bytes) {
  transport::Session* session = NodeImpl::session_of(peer);
  if (session == nullptr) [[unlikely]]
    return Code::bad_argument;
  return session->send({static_cast<const std::byte*>(message), bytes});
}

void Node::send(const Peer& peer, const void* message, std::size_t bytes, Operation& operation) {
  transport::Session* session = NodeImpl::session_of(peer);
  if (session == nullptr || bytes > transport::kMaxMessageBytes)
    return finish_at_once(operation, Code::bad_argument);
  NodeRequest& request = OperationAccess::begin(operation);
  request.is_send = true;
  request.local = static_cast<std::byte*>(const_cast<void*>(message));
  request.bytes = bytes;
  session->start(request);
}

bool Node::progress() { return impl_->poll(); }

Code Node::wait(const Operation& operation) {
  return wait(operation, std::numeric_limits<int>::max());
}

Code Node::wait(const Operation& operation, int timeout_ms) {
  const trace::Span span("wait for an operation");
  if (!impl_->is_own_process()) return operation.is_done() ? operation.code() : Code::bad_argument;
  std::uint64_t began = 0, start = 0;
  for (std::uint32_t polls = 0; !operation.is_done(); ++polls) {
    if (impl_->poll()) {
      began = 0;
      if (polls % 1024 != 0) continue;  // the clock is read nevertheless now and then
    }
    if (polls % 32 != 0) continue;
    const std::uint64_t now = now_ns();
    if (began == 0) began = now;
    if (start == 0) start = now;
    if (timeout_ms != std::numeric_limits<int>::max() &&
        now - start >= static_cast<std::uint64_t>(std::max(timeout_ms, 0)) * 1'000'000)
      return operation.code();
    if (now - began < impl_->spin_ns_) continue;
    if (now - began < impl_->spin_ns_ + impl_->yield_ns_) {
      sched_yield();
      continue;
    }
    if (operation.is_done()) break;
    // Short sleeps: progress by another thread does not wake this one.
    if (arm()) {
      pollfd wait{event_fd(), POLLIN, 0};
      ::poll(&wait, 1, 1);
    } else {
      sched_yield();
    }
  }
  return operation.code();
}

void Node::wait_some(int timeout_ms) {
  if (!impl_->is_own_process())
    return static_cast<void>(::poll(nullptr, 0, std::max(timeout_ms, 0)));
  const std::uint64_t limit = now_ns() + static_cast<std::uint64_t>(timeout_ms) * 1'000'000;
  while (!impl_->poll()) {
    const std::uint64_t now = now_ns();
    if (now >= limit) return;
    if (!arm()) {
      sched_yield();
      continue;
    }
    const auto left_ms = static_cast<int>((limit - now) / 1'000'000) + 1;
    pollfd wait{event_fd(), POLLIN, 0};
    if (::poll(&wait, 1, std::min(left_ms, 20)) > 0) {
      impl_->poll();
      return;
    }
  }
}

int Node::event_fd() const noexcept { return impl_->transport_->wait_fd(); }
bool Node::arm() { return impl_->is_own_process() && impl_->transport_->arm(); }
std::uint64_t Node::generation() const noexcept { return impl_->transport_->generation(); }

}  // namespace weft
