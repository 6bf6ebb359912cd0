#pragma once
// Ranks that are threads of this process, and threads of a rank, for the tests of the transport.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "weft/transport.hpp"

namespace weft::testing {

// Whether ranks share memory, as they do unless WEFT_FABRIC takes it away.
inline bool over_shm() {
  const char* fabrics = std::getenv("WEFT_FABRIC");
  return fabrics == nullptr || std::strstr(fabrics, "shm") != nullptr;
}

// Runs `body` once for each rank, in threads of their own.
inline void with_ranks(int num_ranks, const std::function<void(transport::Job&)>& body) {
  transport::LocalRanks ranks(num_ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank)
    threads.emplace_back([&, rank] {
      transport::Job job(ranks, rank);
      body(job);
    });
  for (auto& thread : threads) thread.join();
}

// Runs `body` once for each thread of a rank.
inline void with_threads(int num_threads, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int t = 1; t < num_threads; ++t) threads.emplace_back(body, t);
  body(0);
  for (auto& thread : threads) thread.join();
}

// Catch's assertions are for one thread only; ranks count what went wrong, and the test's own
// thread checks that there is nothing.
inline std::atomic<int> num_wrong{0};
#define EXPECT(...)                                                                  \
  do {                                                                               \
    if (!(__VA_ARGS__) && ::weft::testing::num_wrong.fetch_add(1) < 10)              \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #__VA_ARGS__); \
  } while (0)
#define CHECK_NOTHING_WRONG() CHECK(::weft::testing::num_wrong.exchange(0) == 0)

}  // namespace weft::testing
