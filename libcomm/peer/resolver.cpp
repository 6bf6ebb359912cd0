#include "peer/resolver.hpp"

#include <errno.h>
#include <fmt/core.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <mutex>

#include "base/thread.hpp"

namespace weft::peer {

namespace {
constexpr int kMaxThreads = 8;  // of one Resolver; more lookups wait
}

struct Resolver::Queue {
  std::mutex lock;
  std::deque<std::weak_ptr<Lookup>> waiting;  // under lock
  int num_threads = 0;                        // under lock
};

Lookup::~Lookup() {
  if (done_fd >= 0) ::close(done_fd);
}

Resolver::Resolver() : queue_(std::make_shared<Queue>()) {}

Status Resolver::start(std::string_view text, std::shared_ptr<Lookup>& lookup, int& fd) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return {Code::no_memory, fmt::format("cannot look up {}: {}", text, std::strerror(errno))};
  lookup = std::make_shared<Lookup>(text);
  lookup->done_fd = ends[0];
  {
    const std::lock_guard guard(queue_->lock);
    queue_->waiting.push_back(lookup);
    if (queue_->num_threads < kMaxThreads) {
      std::thread thread;
      Status status = start_thread(thread, [queue = queue_] { serve(queue); });
      if (status) {
        // Nobody waits for it: a lookup cannot be broken off.
        thread.detach();
        ++queue_->num_threads;
      } else if (queue_->num_threads == 0) {
        queue_->waiting.pop_back();
        lookup = nullptr;
        ::close(ends[1]);
        return status;
      }
    }
  }
  fd = ends[1];
  return {};
}

void Resolver::serve(const std::shared_ptr<Queue>& queue) {
  std::unique_lock guard(queue->lock);
  while (!queue->waiting.empty()) {
    const std::shared_ptr<Lookup> lookup = queue->waiting.front().lock();
    queue->waiting.pop_front();
    if (lookup == nullptr) continue;
    guard.unlock();
    lookup->status = resolve(lookup->text, lookup->address);
    // release: the result; pairs with Bootstrap::go_on_to.
    lookup->is_done.store(true, std::memory_order_release);
    [[maybe_unused]] const auto sent = ::send(lookup->done_fd, "", 1, MSG_NOSIGNAL);
    guard.lock();
  }
  --queue->num_threads;
}

}  // namespace weft::peer
