#include "peer/resolver.hpp"

#include <errno.h>
#include <fmt/core.h>
#include <sys/socket.h>

#include <cstring>
#include <deque>
#include <mutex>

#include "base/os/thread.hpp"
#include "base/shortage.hpp"

namespace weft::peer {

namespace {
// Of one Resolver: as many names may have no answer before others have to wait.
constexpr int kMaxLookupThreads = 64;
}  // namespace

struct Resolver::Queue {
  std::mutex lock;
  std::deque<std::weak_ptr<Lookup>> waiting;  // under lock
  std::vector<std::weak_ptr<Lookup>> begun;   // under lock: by threads, not done
  int num_threads = 0;                        // under lock

  // Under lock. Null: no lookup of it is under way.
  std::shared_ptr<Lookup> find(std::string_view text) const {
    const auto find_in = [text](const auto& list) {
      for (const auto& one : list)
        if (auto lookup = one.lock(); lookup != nullptr && lookup->text == text) return lookup;
      return std::shared_ptr<Lookup>();
    };
    auto found = find_in(begun);
    return found != nullptr ? found : find_in(waiting);
  }
};

Resolver::Resolver() : queue_(std::make_shared<Queue>()) {}

Status Resolver::start(std::string_view text, std::shared_ptr<Lookup>& lookup, Descriptor& fd) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return {Code::no_memory, fmt::format("cannot look up {}: {}", text, std::strerror(errno))};
  Descriptor theirs(ends[0]), mine(ends[1]);
  const auto begin = [&]() -> Status {
    const std::lock_guard guard(queue_->lock);
    lookup = queue_->find(text);
    const bool is_new = lookup == nullptr;
    if (is_new) lookup = std::make_shared<Lookup>(text);
    lookup->done_fds.reserve(lookup->done_fds.size() + 1);
    if (is_new) {
      queue_->begun.reserve(queue_->begun.size() + kMaxLookupThreads);
      queue_->waiting.push_back(lookup);
      if (queue_->num_threads < kMaxLookupThreads) {
        std::thread thread;
        Status status = start_thread(thread, [queue = queue_] { serve(queue); });
        if (status) {
          // The thread is not waited for: a lookup cannot be interrupted.
          thread.detach();
          ++queue_->num_threads;
        } else if (queue_->num_threads == 0) {
          queue_->waiting.pop_back();
          return status;
        }
      }
    }
    lookup->done_fds.push_back(std::move(theirs));
    return {};
  };
  const Status status = or_no_memory(begin);
  if (status)
    fd = std::move(mine);
  else
    lookup = nullptr;
  return status;
}

void Resolver::serve(const std::shared_ptr<Queue>& queue) {
  std::unique_lock guard(queue->lock);
  while (!queue->waiting.empty()) {
    const std::shared_ptr<Lookup> lookup = queue->waiting.front().lock();
    queue->waiting.pop_front();
    if (lookup == nullptr) continue;
    queue->begun.push_back(lookup);  // room was reserved
    guard.unlock();
    const Status status = or_no_memory([&] { return resolve(lookup->text, lookup->address); });
    guard.lock();
    std::erase_if(queue->begun, [&](const auto& one) { return one.lock() == lookup; });
    lookup->status = status;
    // release: the result; pairs with Bootstrap::go_on_to.
    lookup->is_done.store(true, std::memory_order_release);
    for (const Descriptor& fd : lookup->done_fds)
      [[maybe_unused]] const auto sent = ::send(fd.get(), "", 1, MSG_NOSIGNAL);
  }
  --queue->num_threads;
}

}  // namespace weft::peer
