#include "mpi/file/threads.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "base/os/thread.hpp"
#include "mpi/core/state.hpp"

namespace weft::mpi {
namespace {

// The number of threads that a disk and the kernel's copies of one process can use.
constexpr std::size_t kMostThreads = 4;

struct Workers {
  std::mutex mutex;
  std::condition_variable has_task;
  std::deque<std::function<void()>> queue;
  std::vector<std::thread> threads;
  std::size_t num_idle = 0;
  bool ends = false;
};
Immortal<Workers> workers;

void run_tasks() {
  std::unique_lock lock(workers->mutex);
  for (;;) {
    ++workers->num_idle;
    workers->has_task.wait(lock, [] { return workers->ends || !workers->queue.empty(); });
    --workers->num_idle;
    if (workers->queue.empty()) return;
    const std::function<void()> next = std::move(workers->queue.front());
    workers->queue.pop_front();
    lock.unlock();
    next();
    lock.lock();
  }
}

// Adds a thread; the caller holds the mutex.
void add_thread() {
  workers->threads.reserve(kMostThreads);
  std::thread thread;
  if (start_thread(thread, run_tasks))
    workers->threads.push_back(std::move(thread));
  else if (workers->threads.empty())
    throw std::bad_alloc();
}

}  // namespace

void run_in_background(std::function<void()> task) {
  const std::lock_guard lock(workers->mutex);
  if (workers->queue.size() >= workers->num_idle && workers->threads.size() < kMostThreads)
    add_thread();
  workers->queue.push_back(std::move(task));
  workers->has_task.notify_one();
}

void end_background() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(workers->mutex);
    workers->ends = true;
    threads.swap(workers->threads);
  }
  workers->has_task.notify_all();
  for (std::thread& thread : threads) thread.join();
  const std::lock_guard lock(workers->mutex);
  workers->ends = false;
}

}  // namespace weft::mpi
