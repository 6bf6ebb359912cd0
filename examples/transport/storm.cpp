// storm: every thread of every rank sends messages to random ranks, receives messages meanwhile,
// and ends each phase together with all others. No message may be lost or duplicated.
//
//   weftrun -n 2 storm [--threads T] [--messages N] [--phases P]
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "report.hpp"
#include "weft/weft.hpp"

namespace {

struct Message {
  std::uint32_t phase;
  std::uint32_t value;
};

int number(int argc, char** argv, const char* name, int otherwise) {
  const char* text = option(argc, argv, name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const int num_threads = number(argc, argv, "--threads", 4);
  const int num_messages = number(argc, argv, "--messages", 1'000'000);
  const int num_phases = number(argc, argv, "--phases", 5);

  weft::Job job;
  weft::Exchange<Message> exchange(job, num_threads);
  // Numbers and sums of values: sent to each rank, and received here.
  std::vector<std::atomic<std::uint64_t>> sent(static_cast<std::size_t>(job.size()));
  std::atomic<std::uint64_t> received{0}, sum_sent{0}, sum_received{0};
  std::atomic<bool> failed{false};
  const auto start = std::chrono::steady_clock::now();

  const auto work = [&](int thread) {
    std::minstd_rand random(static_cast<unsigned>(job.rank() * 1000 + thread + 1));
    std::vector<std::uint64_t> counts(static_cast<std::size_t>(job.size()));
    std::uint64_t out = 0, in = 0, num_in = 0;
    for (std::uint32_t phase = 0; phase < static_cast<unsigned>(num_phases); ++phase) {
      const auto handle = [&](const Message& message) {
        if (message.phase != phase) failed = true;
        in += message.value;
        ++num_in;
      };
      Message message{};
      for (int i = 0; i < num_messages; ++i) {
        const auto to = random() % static_cast<unsigned>(job.size());
        const auto value = static_cast<std::uint32_t>(random());
        if (exchange.send(static_cast<int>(to), thread, {phase, value}) != weft::Code::ok)
          failed = true;
        ++counts[to];
        out += value;
        // Poll regularly, so that the rings do not fill.
        if (i % 64 == 0)
          while (exchange.receive(thread, message)) handle(message);
      }
      // Receives all messages of this phase and none of the next.
      if (!exchange.quiesce(thread, handle).ok()) failed = true;
    }
    for (std::size_t to = 0; to < counts.size(); ++to) sent[to] += counts[to];
    received += num_in;
    sum_sent += out;
    sum_received += in;
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < num_threads; ++t) threads.emplace_back(work, t);
  work(0);
  for (auto& thread : threads) thread.join();
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  // Each rank compares the messages it received with those that all report as sent to it.
  std::vector<std::uint64_t> to_each(sent.begin(), sent.end());
  std::uint64_t sums[2] = {sum_sent, sum_received};
  std::uint32_t bad = failed;
  if (!job.all_reduce(std::span(to_each), std::plus<>()).ok() ||
      !job.all_reduce(std::span(sums), std::plus<>()).ok() ||
      to_each[static_cast<std::size_t>(job.rank())] != received || sums[0] != sums[1])
    bad = 1;
  if (!job.all_reduce(bad, weft::Max()).ok()) bad = 1;
  if (job.rank() == 0) {
    std::uint64_t total = 0;
    for (const std::uint64_t num : to_each) total += num;
    std::printf("%llu messages between %d ranks of %d threads, %.1f million/s: %s\n",
                static_cast<unsigned long long>(total), job.size(), num_threads,
                static_cast<double>(total) / took / 1e6, bad ? "WRONG" : "all received once");
  }
  return bad ? 1 : 0;
}
