// Many ranks as threads of one process over the loopback fabric: they start, each sends every other
// one a message, and they end. Prints time and memory, in all and for each directed lane.
//
//   WEFT_FABRIC=loopback WEFT_PEER_TIMEOUT_MS=120000 scale_probe RANKS [MESSAGES]
//
// Each rank asks each other one four times in that time whether it is alive, which in one process
// is all its work with the default of 5 s.
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "weft/transport.hpp"

using namespace weft::transport;
using Clock = std::chrono::steady_clock;

namespace {

struct Message {
  std::uint32_t source, number;
};

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

std::atomic<int> num_wrong{0};
std::atomic<int> num_done{0};

void run(Job& job, int messages) {
  const int size = job.size(), self = job.rank();
  std::vector<int> next(static_cast<std::size_t>(size), 0);
  // Blocks of 32 messages: a thousand destinations have a block each.
  Exchange<Message> exchange(job, 1, {.block_bytes = 256});
  for (int number = 0; number < messages; ++number)
    for (int i = 1; i < size; ++i)
      if (exchange.send((self + i) % size, 0,
                        {static_cast<std::uint32_t>(self), static_cast<std::uint32_t>(number)}) !=
          weft::Code::ok)
        ++num_wrong;
  if (exchange.flushSend(0) != weft::Code::ok) ++num_wrong;
  Message message{};
  for (int left = messages * (size - 1); left > 0;) {
    if (!exchange.receive(0, message)) {
      if (!exchange.wait(0, std::chrono::seconds(60)).ok()) {
        ++num_wrong;
        break;
      }
      continue;
    }
    if (message.source >= static_cast<std::uint32_t>(size) ||
        next[message.source]++ != static_cast<int>(message.number))
      ++num_wrong;
    --left;
  }
  if (!exchange.quiesce().ok()) ++num_wrong;
}

}  // namespace

int main(int argc, char** argv) {
  const int size = argc > 1 ? std::atoi(argv[1]) : 100;
  const int messages = argc > 2 ? std::atoi(argv[2]) : 1;
  const auto begin = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  std::atomic<int> num_started{0};
  std::atomic<std::uint64_t> before{0}, after{0};
  double started = 0, sent = 0;
  {
    LocalRanks ranks(size);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] {
        Job job(ranks, rank);
        if (!job.barrier().ok()) ++num_wrong;
        if (rank == 0) {
          started = seconds();
          before = resident_bytes();
        }
        run(job, messages);
        if (!job.barrier().ok()) ++num_wrong;
        if (rank == 0) {
          sent = seconds();
          after = resident_bytes();
        }
      });
    for (auto& thread : threads) thread.join();
  }
  const double ended = seconds();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double lanes = static_cast<double>(size) * (size - 1);
  std::printf(
      "ranks %d lanes %.0f start_s %.2f all_to_all_s %.2f end_s %.2f before_MiB %.0f after_MiB "
      "%.0f "
      "peak_MiB %.0f bytes_a_lane %.0f cpu_s %.1f wrong %d\n",
      size, lanes, started, sent - started, ended - sent,
      static_cast<double>(before.load()) / (1 << 20), static_cast<double>(after.load()) / (1 << 20),
      static_cast<double>(usage.ru_maxrss) / 1024,
      static_cast<double>(after.load() - before.load()) / lanes,
      static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec), num_wrong.load());
  return num_wrong == 0 ? 0 : 1;
}
