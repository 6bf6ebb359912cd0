// mcast_bench: times one-to-many transfers by every algorithm, as ranks of a job.
//
//   weftrun -n 4 mcast_bench --algorithms pipeline,chain --bytes 1048576,67108864 --blocks 64
//
// A line a case: algorithm, members, bytes, block bytes, microseconds from the root's send until
// the last member has the message (median), MB/s, microseconds between the first member's and the
// last one's end, microseconds of processor time of all members together. Members must share the
// machine, whose clock they are timed by.
#include <fmt/core.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "tools/cli/cli.hpp"
#include "weft/job.hpp"
#include "weft/multicast.hpp"

namespace {

double now_us() {
  timespec time;
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}
double processor_us() {
  rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  const auto us = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
  };
  return us(usage.ru_utime) + us(usage.ru_stime);
}
double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}
std::byte content(std::size_t at, int iteration) {
  return static_cast<std::byte>(at * 31 + at / 4096 + static_cast<std::size_t>(iteration));
}

struct Options {
  std::vector<std::string> algorithms = {"pipeline", "chain", "tree", "sequential"};
  std::vector<std::uint64_t> bytes = {64 << 20};
  std::vector<std::uint64_t> block_bytes = {};
  std::uint64_t blocks = 0;
  int iterations = 5, warmup = 1, ranks_per_rack = 0, in_flight = 1;
  double ms = 300;
  std::size_t small_bytes = 10240;
  bool posts = false, checks = false, delivery_all = false, must_be_native = false;
};

void check(const weft::Status& status, const char* what) {
  if (status.ok()) return;
  fmt::print(stderr, "mcast_bench: {}: {}\n", what, status.text());
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  weft::cli::Command app("mcast_bench",
                         "Times one-to-many transfers by every algorithm, as ranks of a job.");
  app.option("--algorithms", options.algorithms).separated_by_commas();
  app.option("--bytes", options.bytes, "of a message").separated_by_commas();
  app.option("--block-bytes", options.block_bytes, "of a block (0: chosen)").separated_by_commas();
  app.option("--blocks", options.blocks, "cut every message into so many");
  app.option("--iterations", options.iterations, "at least (5)");
  app.option("--ms", options.ms, "that the transfers of a case take together at least (300)");
  app.option("--warmup", options.warmup);
  app.option("--in-flight", options.in_flight, "messages that the root sends at a time")
      .range(1, 1000);
  app.option("--small-bytes", options.small_bytes, "up to which a message is sent at once");
  app.option("--ranks-per-rack", options.ranks_per_rack);
  app.flag("--posts", options.posts, "buffers are posted ahead");
  app.flag("--check", options.checks, "compare every byte");
  app.flag("--delivery-all", options.delivery_all);
  app.flag("--require-native", options.must_be_native,
           "fail where the network does not copy messages of native");
  if (const auto status = app.parse(argc, argv)) return *status;
  if (options.block_bytes.empty()) options.block_bytes = {0};

  try {
    weft::transport::Job job;
    weft::Multicast multicast(job);
    const std::uint64_t most = *std::max_element(options.bytes.begin(), options.bytes.end());
    const bool is_root = job.rank() == 0;
    // The root sends one memory many times; a receiver has one for each message under way.
    std::vector<std::byte*> memory(is_root ? 1 : static_cast<std::size_t>(options.in_flight));
    for (std::byte*& at : memory) {
      void* allocated = nullptr;
      check(multicast.node().allocate(most == 0 ? 1 : most, allocated), "memory");
      at = static_cast<std::byte*>(allocated);
    }
    std::uint64_t id = 0;
    for (const std::uint64_t bytes : options.bytes)
      for (const std::uint64_t given : options.block_bytes)
        for (const std::string& algorithm : options.algorithms) {
          const std::uint64_t block_bytes =
              options.blocks > 0
                  ? std::max<std::uint64_t>(1, (bytes + options.blocks - 1) / options.blocks)
                  : given;
          weft::GroupSettings settings;
          settings.id = ++id;
          settings.block_bytes = block_bytes;
          settings.algorithm = algorithm;
          settings.small_bytes = options.small_bytes;
          settings.delivery_all = options.delivery_all;
          if (options.ranks_per_rack > 0)
            for (int rank = 0; rank < job.size(); ++rank)
              settings.racks.push_back(rank / options.ranks_per_rack);
          std::atomic<int> num_complete{0};
          std::atomic<double> ended{0};
          std::size_t num_incoming = 0;
          weft::Group group(multicast, settings,
                            {.on_incoming = [&](std::uint64_t) -> void* {
                               return memory[num_incoming++ % memory.size()];
                             },
                             .on_complete =
                                 [&](void*, std::uint64_t) {
                                   ended.store(now_us(), std::memory_order_relaxed);
                                   num_complete.fetch_add(1, std::memory_order_release);
                                   num_complete.notify_all();
                                 },
                             .on_failure =
                                 [&](const weft::Status& why) {
                                   fmt::print(stderr, "mcast_bench: {}\n", why.text());
                                   std::_Exit(1);
                                 }});
          check(group.ready(), "group");
          std::vector<double> times, spreads, processor;
          double spent_us = 0;  // the same at all ranks
          for (int i = -options.warmup; i < options.iterations || spent_us < options.ms * 1e3;
               ++i) {
            const int before = num_complete.load(std::memory_order_relaxed);
            if (options.checks && is_root)
              for (std::uint64_t b = 0; b < bytes; ++b) memory[0][b] = content(b, i);
            else if (options.checks)
              for (std::byte* at : memory) std::memset(at, 0, bytes);
            if (options.posts && !is_root)
              for (std::byte* at : memory) check(group.post(at, most == 0 ? 1 : most), "post");
            check(job.barrier(), "barrier");
            const double began = now_us();
            const double used = processor_us();
            if (is_root)
              for (int k = 0; k < options.in_flight; ++k)
                check(group.send(memory[0], bytes), "send");
            for (int seen; (seen = num_complete.load(std::memory_order_acquire)) <
                           before + options.in_flight;)
              num_complete.wait(seen, std::memory_order_acquire);
            struct Sample {
              double began, ended, processor;
            };
            std::vector<Sample> samples;
            check(job.all_gather(
                      Sample{began, ended.load(std::memory_order_relaxed), processor_us() - used},
                      samples),
                  "times");
            std::uint64_t wrong = bytes;
            for (const std::byte* at : memory)
              for (std::uint64_t b = 0; options.checks && b < bytes; ++b)
                if (at[b] != content(b, i)) wrong = std::min(wrong, b);
            if (wrong < bytes) {
              fmt::print(stderr, "mcast_bench: byte {} of {} is wrong at rank {}\n", wrong, bytes,
                         job.rank());
              return 1;
            }
            if (i < 0) continue;
            double first = 1e300, last = 0, total = 0;
            for (std::size_t rank = 0; rank < samples.size(); ++rank) {
              if (rank > 0) first = std::min(first, samples[rank].ended);
              if (rank > 0 || samples.size() == 1) last = std::max(last, samples[rank].ended);
              total += samples[rank].processor;
            }
            spent_us += last - samples[0].began;
            times.push_back((last - samples[0].began) / options.in_flight);
            spreads.push_back(last - first);
            processor.push_back(total / options.in_flight);
          }
          if (const weft::Status native = group.native();
              is_root && algorithm == "native" && !native) {
            fmt::print(stderr, "mcast_bench: not native: {}\n", native.text());
            if (options.must_be_native) return 1;
          }
          check(group.close(), "close");
          if (job.rank() == 0) {
            const double us = median(times);
            fmt::print(
                "{:<14} {:>3} {:>11} {:>9} {:>12.1f} us {:>9.1f} MB/s {:>10.1f} us {:>12.1f} us\n",
                algorithm, job.size(), bytes, block_bytes, us, static_cast<double>(bytes) / us,
                median(spreads), median(processor));
            std::fflush(stdout);
          }
        }
    check(job.barrier(), "barrier");
  } catch (const weft::Error& error) {
    fmt::print(stderr, "mcast_bench: {}\n", error.status().text());
    return 1;
  }
}
