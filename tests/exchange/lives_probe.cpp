// One rank of a job that makes and ends many of everything the transport has: lives KIND TIMES.
// Prints "ok" if in the second half of them maps, descriptors, threads and resident memory stayed
// where they were, and every handle did what it should. Started by meson for some seconds; by hand
// with 100000 times.
#include <dirent.h>
#include <malloc.h>

#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/exchange/probe.hpp"

namespace weft::testing {
namespace {

struct Usage {
  long maps = 0, descriptors = 0, threads = 0, resident_kib = 0;
};

// The sanitizer keeps 256 MiB of what was freed.
#ifdef __SANITIZE_ADDRESS__
constexpr long kKeptKib = 256 * 1024;
#else
constexpr long kKeptKib = 0;
#endif

long entries_of(const char* folder) {
  long count = 0;
  DIR* opened = opendir(folder);
  REQUIRE(opened != nullptr);
  while (readdir(opened) != nullptr) ++count;
  closedir(opened);
  return count;
}

Usage usage() {
  Usage now;
  malloc_trim(0);  // what threads that have ended left free in their arenas is no leak
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++now.maps;
  now.descriptors = entries_of("/proc/self/fd");
  now.threads = entries_of("/proc/self/task");
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) now.resident_kib = std::atol(line.c_str() + 6);
  return now;
}

// Calls `once(i)` so many times, and compares what the process has at half of them, at three
// quarters and at the end: a leak grows in both.
template <class Once>
void many_times(int times, Once&& once) {
  Usage half, later;
  for (int i = 0; i < times; ++i) {
    if (i == times / 2) half = usage();
    if (i == times - times / 4) later = usage();
    once(i);
  }
  const Usage end = usage();
  // What is cached may come and go; what leaks would be thousands.
  const auto is_flat = [](const Usage& from, const Usage& to) {
    return to.maps <= from.maps + 128 && to.descriptors <= from.descriptors + 4 &&
           to.threads <= from.threads + 1 &&
           to.resident_kib <= from.resident_kib + 4096 + kKeptKib / 2;
  };
  const bool flat = is_flat(half, later) || is_flat(later, end);
  if (!flat)
    std::fprintf(stderr,
                 "at half of %d times, three quarters and the end: maps %ld, %ld, %ld, descriptors "
                 "%ld, %ld, %ld, threads %ld, %ld, %ld, resident KiB %ld, %ld, %ld\n",
                 times, half.maps, later.maps, end.maps, half.descriptors, later.descriptors,
                 end.descriptors, half.threads, later.threads, end.threads, half.resident_kib,
                 later.resident_kib, end.resident_kib);
  REQUIRE(flat);
}

// Each rank reads and changes what its neighbour names; the first name of all stays bad.
void use(Job& job, const RemoteMemory& mine, RemoteMemory& first, bool is_first) {
  std::vector<RemoteMemory> all;
  REQUIRE(job.all_gather(mine, all).ok());
  const RemoteMemory& other = all[static_cast<std::size_t>((job.rank() + 1) % job.size())];
  std::uint64_t word = 1;
  REQUIRE(job.rdma_read(0, other, &word, sizeof word) == Code::ok);
  REQUIRE(word == 0);
  REQUIRE(job.fetch_add(0, other.word(1), 5).value == 0);
  if (is_first)
    first = other;
  else
    REQUIRE(job.rdma_read(0, first, &word, sizeof word) == Code::bad_argument);
  REQUIRE(job.barrier().ok());
}

void allocations(Job& job, int times) {
  RemoteMemory first;
  many_times(times, [&](int i) {
    void* address = nullptr;
    RemoteMemory mine;
    REQUIRE(job.allocate(4096 + static_cast<std::size_t>(i % 3) * 5000, address, mine).ok());
    use(job, mine, first, i == 0);
    REQUIRE(static_cast<std::uint64_t*>(address)[1] == 5);
    REQUIRE(job.release(address).ok());
    REQUIRE(job.barrier().ok());
  });
}

void shares(Job& job, int times) {
  RemoteMemory first;
  alignas(64) std::uint64_t words[16];
  many_times(times, [&](int i) {
    std::memset(words, 0, sizeof words);
    RemoteMemory mine;
    REQUIRE(job.share(words, sizeof words, mine).ok());
    use(job, mine, first, i == 0);
    REQUIRE(words[1] == 5);
    REQUIRE(job.unshare(mine).ok());
    REQUIRE(job.barrier().ok());
  });
}

void exchanges(Job& job, int times) {
  std::vector<std::byte> data(40'000, std::byte{7});
  many_times(times, [&](int i) {
    ExchangeSettings settings;
    settings.ring_bytes = 262144 + 4096 * static_cast<std::size_t>(i % 100);
    Exchange<Bytes> exchange(job, 1, settings);
    for (int to = 0; to < job.size(); ++to)
      for (const std::size_t length : {std::size_t{10}, data.size()})
        REQUIRE(exchange.send(to, 0, {data.data(), length}) == Code::ok);
    std::size_t received = 0;
    REQUIRE(exchange.quiesce(0, [&](Bytes message) { received += message.size(); }).ok());
    REQUIRE(received == static_cast<std::size_t>(job.size()) * (data.size() + 10));
  });
}

// Jobs of ranks that are threads of this process.
void jobs(Job&, int times) {
  many_times(times, [&](int) {
    LocalRanks ranks(2);
    const auto live = [&ranks](int rank) {
      Job job(ranks, rank);
      std::uint64_t sum = 1;
      REQUIRE(job.all_reduce(sum, std::plus<>()).ok());
      REQUIRE(sum == 2);
    };
    std::thread other(live, 1);
    live(0);
    other.join();
  });
}

int run(std::string_view kind, int times) {
  Job job;
  if (kind == "allocations") allocations(job, times);
  if (kind == "shares") shares(job, times);
  if (kind == "exchanges") exchanges(job, times);
  if (kind == "jobs") jobs(job, times);
  std::puts("ok");
  return 0;
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: lives allocations|shares|exchanges|jobs TIMES\n");
    return 2;
  }
  return weft::testing::run(argv[1], std::atoi(argv[2]));
}
