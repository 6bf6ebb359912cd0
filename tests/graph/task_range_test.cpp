// An owner and thieves race for the tasks of millions of short rounds: each is done once.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "weft/graph/task_range.hpp"
#include "weft/weft.hpp"

using weft::graph::TaskClaim;
using weft::graph::TaskRange;

TEST_CASE("claims take what is between the ends, and nothing when they have met") {
  std::uint64_t word = TaskRange::open(10);
  const auto front = [&](std::uint32_t n) {
    const TaskClaim claim = TaskRange::took_front(word, n);
    word += TaskRange::from_front(n);
    return std::pair(claim.begin, claim.end);
  };
  const auto back = [&](std::uint32_t n) {
    const TaskClaim claim = TaskRange::took_back(word, n);
    word += TaskRange::from_back(n);
    return std::pair(claim.begin, claim.end);
  };
  CHECK(front(4) == std::pair(0u, 4u));
  CHECK(back(4) == std::pair(6u, 10u));
  CHECK(TaskRange::num_left(word) == 2);
  CHECK(back(8) == std::pair(4u, 6u));  // and the back is below 0 now
  CHECK(TaskRange::num_left(word) == 0);
  CHECK(front(4) == std::pair(0u, 0u));
  CHECK(back(8) == std::pair(0u, 0u));
  CHECK(front(4) == std::pair(0u, 0u));
  word = TaskRange::open(0);
  CHECK(back(8) == std::pair(0u, 0u));
  CHECK(front(8) == std::pair(0u, 0u));
  word = TaskRange::open(TaskRange::kMaxTasks);
  CHECK(TaskRange::num_left(word) == TaskRange::kMaxTasks);
  CHECK(back(8) == std::pair(TaskRange::kMaxTasks - 8, TaskRange::kMaxTasks));
}

namespace {

// Rounds of the owner on `word`, while thieves run. fetch_add(count word) is the thread's way to
// it.
constexpr std::uint32_t kMostTasks = 24;

struct Race {
  std::atomic<std::uint64_t>* word;
  std::atomic<std::uint8_t> done[kMostTasks] = {};  // how often each task of the round was done
  std::atomic<std::uint32_t> num_done{0};
  std::atomic<bool> ended{false};
  std::atomic<std::uint64_t> num_stolen{0};

  void perform(TaskClaim claim) {
    for (std::uint32_t i = claim.begin; i < claim.end; ++i)
      done[i].fetch_add(1, std::memory_order_relaxed);
    // Pairs with the owner's load before it looks at `done`.
    num_done.fetch_add(claim.end - claim.begin, std::memory_order_release);
  }

  // True if every task of every round was done once.
  bool own(std::uint64_t num_rounds) {
    bool right = true;
    for (std::uint64_t round = 0; round < num_rounds && right; ++round) {
      const auto size = static_cast<std::uint32_t>(round * 2654435761u >> 7) % (kMostTasks + 1);
      for (std::uint32_t i = 0; i < size; ++i) done[i].store(0, std::memory_order_relaxed);
      num_done.store(0, std::memory_order_relaxed);
      word->store(TaskRange::open(size), std::memory_order_seq_cst);
      const std::uint32_t grain = 1 + static_cast<std::uint32_t>(round % 3);
      for (;;) {
        const std::uint64_t found =
            word->fetch_add(TaskRange::from_front(grain), std::memory_order_seq_cst);
        const TaskClaim claim = TaskRange::took_front(found, grain);
        if (claim.begin == claim.end) break;
        perform(claim);
      }
      while (num_done.load(std::memory_order_acquire) < size) std::this_thread::yield();
      for (std::uint32_t i = 0; i < size; ++i)
        right = right && done[i].load(std::memory_order_relaxed) == 1;
      right = right && num_done.load(std::memory_order_relaxed) == size;
    }
    ended.store(true, std::memory_order_relaxed);
    return right;
  }

  // A thief looks first, as one in another process does, and claims by `add`.
  template <class Look, class Add>
  void steal(std::uint32_t count, Look&& look, Add&& add) {
    std::uint64_t stolen = 0;
    while (!ended.load(std::memory_order_relaxed)) {
      if (TaskRange::num_left(look()) == 0) continue;
      const TaskClaim claim = TaskRange::took_back(add(TaskRange::from_back(count)), count);
      if (claim.begin == claim.end) continue;
      perform(claim);
      stolen += claim.end - claim.begin;
    }
    num_stolen.fetch_add(stolen, std::memory_order_relaxed);
  }
};

}  // namespace

TEST_CASE("an owner and two thieves, three million rounds") {
  std::atomic<std::uint64_t> word{0};
  Race race;
  race.word = &word;
  std::vector<std::thread> thieves;
  for (const std::uint32_t count : {3u, 8u})
    thieves.emplace_back([&, count] {
      race.steal(
          count, [&] { return word.load(std::memory_order_relaxed); },
          [&](std::uint64_t change) { return word.fetch_add(change, std::memory_order_seq_cst); });
    });
  CHECK(race.own(3'000'000));
  for (std::thread& thief : thieves) thief.join();
  CHECK(race.num_stolen > 0);
}

TEST_CASE("thieves that are other ranks, by rdma_read and fetch_add") {
  weft::LocalRanks ranks(3);
  Race race;
  std::atomic<int> num_ready{0};
  std::vector<std::thread> threads;
  std::atomic<bool> right{false};
  for (int r = 0; r < 3; ++r)
    threads.emplace_back([&, r] {
      weft::Job job(ranks, r);
      void* address = nullptr;
      weft::RemoteMemory mine;
      std::vector<weft::RemoteMemory> all;
      if (!job.allocate(64, address, mine).ok() || !job.all_gather(mine, all).ok()) std::abort();
      if (r == 0) race.word = reinterpret_cast<std::atomic<std::uint64_t>*>(address);
      if (!job.barrier().ok()) std::abort();
      if (r == 0) {
        right = race.own(100'000);
      } else {
        race.steal(
            4,
            [&] {
              std::uint64_t found = 0;
              return job.rdma_read(0, all[0], &found, 8) == weft::Code::ok ? found : 0;
            },
            [&](std::uint64_t change) { return job.fetch_add(0, all[0].word(0), change).value; });
      }
      if (!job.barrier().ok()) std::abort();
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(right);
}
