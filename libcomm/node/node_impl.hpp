#pragma once
// The implementation of the public Node, shared by its files: node.cpp (the calls of Node, Peer and
// PeerMemory), node_impl.cpp (setup, memory, connects, calls of the program), node_progress.cpp
// (polling, waiting, the progress thread), operations.cpp (put, get, atomics and messages).
#include <unistd.h>

#include <atomic>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "base/os/descriptor.hpp"
#include "base/os/process_id.hpp"
#include "base/settings.hpp"
#include "base/shortage.hpp"
#include "node/transport.hpp"
#include "weft/node.hpp"

namespace weft {

class PeerImpl {
 public:
  std::shared_ptr<transport::Session> session;
  void* context = nullptr;
  const pid_t process = process_id();
};

class PeerMemoryImpl : public transport::RegionUse {
  using RegionUse::RegionUse;
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
    return impl != nullptr && impl->process == process_id() ? impl : nullptr;
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
  // Sets what notify() calls.
  template <class Call>
  void set(Call& call, Call to) {
    if (!is_own_process()) return;
    std::lock_guard lock(transport_->progress_lock());
    call = std::move(to);
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

}  // namespace weft
