// The lock of short work: one holder at a time, however the others wait.
#include "base/short_lock.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

using weft::ShortLock;

TEST_CASE("one thread at a time holds it", "[short_lock]") {
  constexpr int kThreads = 4, kRounds = 20'000;
  ShortLock lock;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        if (round % 16 != 0 || !lock.try_lock()) lock.lock();
        ++count;
        lock.unlock();
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(count == kThreads * kRounds);
  CHECK(lock.try_lock());
  CHECK(!lock.try_lock());
  lock.unlock();
}

TEST_CASE("threads that sleep for it are woken", "[short_lock]") {
  constexpr int kThreads = 3;
  ShortLock lock;
  lock.lock();
  std::atomic<int> num_through{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      const std::lock_guard guard(lock);
      num_through.fetch_add(1);
    });
  // Long enough that they are asleep, on most machines; the result does not depend on it.
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK(num_through.load() == 0);
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  CHECK(num_through.load() == kThreads);
}
