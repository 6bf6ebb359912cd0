// Progress of a Node: polling, waiting, and the thread that polls while the program does not.
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <limits>

#include "base/trace.hpp"
#include "base/wait.hpp"
#include "node/node_impl.hpp"

namespace weft {

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

}  // namespace weft
