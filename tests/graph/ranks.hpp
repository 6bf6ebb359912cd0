#pragma once
// What tests of the engine share: ranks in one process, and files of edges for them.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "weft/job.hpp"

// A file that goes with the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& suffix) {
    std::string name = "/tmp/weft-graph-XXXXXX" + suffix;
    const int descriptor = mkstemps(name.data(), static_cast<int>(suffix.size()));
    if (descriptor >= 0) close(descriptor);
    path_ = name;
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Edge {
  std::uint32_t source, destination, weight;
};

// Few vertices with many edges, self-loops, duplicates, and some vertices without any.
inline std::vector<Edge> some_edges(std::uint32_t num_vertices, std::size_t num_edges) {
  std::vector<Edge> edges;
  std::uint64_t state = 88172645463325252ull;
  const auto random = [&](std::uint32_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<std::uint32_t>(state % below);
  };
  for (std::size_t i = 0; i < num_edges; ++i) {
    const std::uint32_t u = random(4) == 0 ? random(8) : random(num_vertices);
    const std::uint32_t v = random(5) == 0 ? u : random(num_vertices - num_vertices / 10);
    edges.push_back({u, v, 1 + random(100)});
  }
  edges.push_back({num_vertices - 1, num_vertices - 1, 1});
  return edges;
}

inline void write_binary(const std::string& path, const std::vector<Edge>& edges) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(edges.data()),
            static_cast<std::streamsize>(edges.size() * sizeof(Edge)));
}

// body(job) on ranks that are threads of this process. What one of them throws fails the test.
template <class Body>
void on_ranks(int num_ranks, Body&& body) {
  weft::transport::LocalRanks ranks(num_ranks);
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::string failure;
  for (int r = 0; r < num_ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        weft::transport::Job job(ranks, r);
        body(job);
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        failure = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (!failure.empty()) FAIL(failure);
}
