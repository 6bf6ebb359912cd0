// rate: how fast the threaded transport is between two processes.
//
//   weftrun -n 2 rate [--only LIST] [--threads LIST] [--ms N] [--json FILE]
//
// --only: rate, runs, unbatched, block, quiesce, read, atomics, idle, memory (default: all)
// --threads: thread counts of rate, runs, quiesce and memory (default 1,2,4)
// --ms: how long a measurement takes, about (default 200)
// --json: appends one object a measurement
//
// --only memory runs with any number of ranks. What is measured, and what came out, is in
// docs/use/performance.md; measure runs this program and its MPI twins in turn and takes medians.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "report.hpp"
#include "weft/weft.hpp"

namespace {

using namespace std::chrono_literals;

void require(weft::Code code, const char* what) {
  if (code == weft::Code::ok) return;
  std::fprintf(stderr, "rate: %s: %s\n", what, std::string(weft::code_name(code)).c_str());
  std::exit(1);
}
void require(const weft::Status& status, const char* what) {
  if (!status.ok()) std::fprintf(stderr, "rate: %s: %s\n", what, status.text().c_str());
  require(status.code(), what);
}

// Sends the numbers below `num`, a call each.
template <class Message>
void send_all(weft::Exchange<Message>& exchange, int thread, std::uint64_t num) {
  for (std::uint64_t i = 0; i < num; ++i) require(exchange.send(1, thread, i), "send");
}

// Receives `num` messages, waiting where none is there; returns their sum, so that none is skipped.
template <class Message>
std::uint64_t receive_all(weft::Exchange<Message>& exchange, int thread, std::uint64_t num) {
  std::uint64_t sum = 0;
  Message message;
  while (num > 0) {
    if (exchange.receive(thread, message)) {
      sum += message;
      --num;
    } else {
      require(exchange.wait(thread, 10s), "wait");
    }
  }
  return sum;
}

// The same, a run of messages at a time.
std::uint64_t receive_runs(weft::Exchange<std::uint64_t>& exchange, int thread, std::uint64_t num) {
  std::uint64_t sum = 0;
  std::span<const std::uint64_t> messages;
  while (num > 0) {
    if (exchange.receive(thread, messages)) {
      for (const std::uint64_t message : messages) sum += message;
      num -= messages.size();
    } else {
      require(exchange.wait(thread, 10s), "wait");
    }
  }
  exchange.release(thread);
  return sum;
}

// Batching by hand, as in the MPI twins: 256 messages are gathered and sent by one call.
void send_runs(weft::Exchange<std::uint64_t>& exchange, int thread, std::uint64_t num) {
  std::uint64_t messages[256];
  for (std::uint64_t i = 0; i < num;) {
    const auto count = std::min<std::uint64_t>(std::size(messages), num - i);
    for (std::uint64_t k = 0; k < count; ++k) messages[k] = i + k;
    require(exchange.send(1, thread, std::span<const std::uint64_t>(messages, count)), "send");
    i += count;
  }
}

// 8-byte messages from rank 0 to rank 1, in blocks as they come: a call a message, or runs of them.
void measure_rate(weft::Job& job, Report& report, bool runs, int num_threads, double seconds) {
  weft::Exchange<std::uint64_t> exchange(job, num_threads);
  std::uint64_t per_thread = 200'000;
  for (bool last = false;; last = true) {
    require(job.barrier(), "barrier");
    const auto start = Clock::now();
    with_threads(num_threads, [&](int t) {
      if (job.rank() == 0) {
        if (runs)
          send_runs(exchange, t, per_thread);
        else
          send_all(exchange, t, per_thread);
        require(exchange.flushSend(t), "flushSend");
      } else {
        const std::uint64_t sum =
            runs ? receive_runs(exchange, t, per_thread) : receive_all(exchange, t, per_thread);
        if (sum != per_thread * (per_thread - 1) / 2) require(weft::Code::corrupt, "the sum");
      }
    });
    require(job.barrier(), "barrier");
    const double took = seconds_since(start);
    if (last) {
      if (job.rank() == 0)
        report.add(runs ? "rate_runs" : "rate", 2, num_threads, 8,
                   static_cast<double>(per_thread) * num_threads / took / 1e6, "million/s");
      return;
    }
    // The first round has measured the number of messages that fills the time.
    double factor = std::clamp(seconds / took, 1.0, 1000.0);
    require(job.all_reduce(factor, weft::Min()), "all_reduce");
    per_thread = static_cast<std::uint64_t>(static_cast<double>(per_thread) * factor);
  }
}

// One message there, one back, each sent at once. Half the time of the round trip is one way.
template <class Use>
double round_trip_us(weft::Job& job, double seconds, Use&& once) {
  int num = 200;
  for (int turn = 0;; ++turn) {
    require(job.barrier(), "barrier");
    const auto start = Clock::now();
    for (int i = 0; i < num; ++i) once();
    double took = seconds_since(start);
    require(job.all_reduce(took, weft::Max()), "all_reduce");
    if (turn == 2) return took / num * 1e6;
    num = std::max(num, static_cast<int>(num * std::clamp(seconds / took, 1.0, 100.0)));
  }
}

void measure_unbatched(weft::Job& job, Report& report, double seconds) {
  weft::Exchange<std::uint64_t> exchange(job, 1);
  std::uint64_t message = 0;
  const double us = round_trip_us(job, seconds, [&] {
    const auto send = [&] {
      (void)exchange.send(1 - job.rank(), 0, message);
      (void)exchange.flushSend(0);
    };
    const auto receive = [&] {
      while (!exchange.receive(0, message)) {
      }
    };
    if (job.rank() == 0) send();
    receive();
    if (job.rank() == 1) send();
  });
  if (job.rank() == 0) report.add("unbatched_round_trip", 2, 1, 8, us, "us");
}

// The paper's figure 15: a thread's block of data crosses, and is read at the other side; then one
// comes back.
void measure_blocks(weft::Job& job, Report& report, double seconds) {
  for (std::size_t bytes = 64; bytes <= 256 * 1024; bytes *= 4) {
    weft::Exchange<weft::Bytes> exchange(job, 1);
    std::vector<std::uint64_t> block(bytes / 8, 1);
    std::uint64_t sum = 0;
    const double us = round_trip_us(job, seconds, [&] {
      const auto send = [&] {
        (void)exchange.send(1 - job.rank(), 0, std::as_bytes(std::span(block)));
        (void)exchange.flushSend(0);
      };
      const auto receive = [&] {
        weft::Bytes message;
        while (!exchange.receive(0, message)) {
        }
        std::uint64_t word;
        for (std::size_t i = 0; i < message.size(); i += sizeof word) {
          std::memcpy(&word, message.data() + i, sizeof word);
          sum += word;
        }
        exchange.release(0);
      };
      if (job.rank() == 0) send();
      receive();
      if (job.rank() == 1) send();
    });
    if (sum == 0) require(weft::Code::corrupt, "the sum");
    if (job.rank() == 0)
      report.add("block_latency", 2, 1, static_cast<long long>(bytes), us / 2, "us");
  }
}

// The end of a phase: without any message, and with one message of each thread to the other rank.
// Beside it an allreduce of the counts that quiesce adds up.
void measure_quiesce(weft::Job& job, Report& report, int num_threads, double seconds) {
  weft::Exchange<std::uint64_t> exchange(job, num_threads);
  for (const bool sends : {false, true}) {
    int num = 200;
    for (int turn = 0;; ++turn) {
      require(job.barrier(), "barrier");
      const auto start = Clock::now();
      with_threads(num_threads, [&](int t) {
        for (int i = 0; i < num; ++i) {
          if (sends) require(exchange.send(1 - job.rank(), t, 1), "send");
          require(exchange.quiesce(t, [](std::uint64_t) {}), "quiesce");
        }
      });
      double took = seconds_since(start);
      require(job.all_reduce(took, weft::Max()), "all_reduce");
      if (turn == 2) {
        if (job.rank() == 0)
          report.add(sends ? "quiesce_one" : "quiesce_none", 2, num_threads, 8, took / num * 1e6,
                     "us");
        break;
      }
      num = std::max(num, static_cast<int>(num * std::clamp(seconds / took, 1.0, 100.0)));
    }
  }
  if (num_threads != 1) return;
  std::uint64_t counts[4] = {};
  const double us = round_trip_us(job, seconds, [&] {
    require(job.all_reduce(std::span(counts), std::plus<>()), "all_reduce");
  });
  if (job.rank() == 0) report.add("all_reduce", 2, 1, sizeof counts, us, "us");
}

// Time of one copy of `bytes` bytes by `copy`, us.
double copy_us(double seconds, auto&& copy) {
  int num = 100;
  double took = 0;
  for (int turn = 0; turn < 2; ++turn) {
    if (turn == 1) num = std::max(100, static_cast<int>(num * seconds / took));
    const auto start = Clock::now();
    for (int i = 0; i < num; ++i) copy();
    took = seconds_since(start);
  }
  return took / num * 1e6;
}

// Rank 0 accesses memory of rank 1, which waits. Beside it the same between threads of one process,
// which is the machine's limit.
void measure_reads(weft::Job& job, Report& report, double seconds) {
  void* address = nullptr;
  weft::RemoteMemory mine;
  require(job.allocate(1 << 20, address, mine), "allocate");
  std::memset(address, 1, 1 << 20);
  std::vector<weft::RemoteMemory> all;
  require(job.all_gather(mine, all), "all_gather");
  if (job.rank() == 0) {
    std::vector<char> local(1 << 20);
    // Page-aligned, as allocated memory is: alignment changes the copy's speed.
    const std::unique_ptr<void, void (*)(void*)> other(std::aligned_alloc(4096, 1 << 20),
                                                       std::free);
    std::thread([&] { std::memset(other.get(), 1, 1 << 20); }).join();
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{4096}, std::size_t{1} << 20}) {
      const auto size = static_cast<long long>(bytes);
      report.add(
          "rdma_read", 2, 1, size,
          copy_us(seconds,
                  [&] { require(job.rdma_read(0, all[1], local.data(), bytes), "rdma_read"); }),
          "us");
      // The compiler must not know the length, as in any other program.
      const volatile std::size_t length = bytes;
      report.add("machine_read", 1, 2, size,
                 copy_us(seconds, [&] { std::memcpy(local.data(), other.get(), length); }), "us");
    }
  }
  require(job.barrier(), "barrier");
  require(job.release(address), "release");
}

// Operations a second on an uncontended word, beside the same between threads of one process, which
// is the machine's limit.
void measure_atomics(weft::Job& job, Report& report, double seconds) {
  void* address = nullptr;
  weft::RemoteMemory mine;
  require(job.allocate(4096, address, mine), "allocate");
  std::vector<weft::RemoteMemory> all;
  require(job.all_gather(mine, all), "all_gather");
  if (job.rank() == 0) {
    const auto rate = [&](auto&& once) {
      long num = 10000;
      double took = 0;
      for (int turn = 0; turn < 3; ++turn) {
        if (turn > 0)
          num = std::max(10000L, static_cast<long>(static_cast<double>(num) * seconds / took));
        const auto start = Clock::now();
        for (long i = 0; i < num; ++i) once();
        took = seconds_since(start);
      }
      return static_cast<double>(num) / took / 1e6;
    };
    const weft::RemoteMemory word = all[1].word(0);
    report.add("fetch_add", 2, 1, 8,
               rate([&] { require(job.fetch_add(0, word, 1).code, "fetch_add"); }), "million/s");
    std::uint64_t seen = job.fetch_add(0, word, 0).value;
    report.add("cas", 2, 1, 8, rate([&] {
                 const weft::Fetched before = job.cas(0, word, seen, seen + 1);
                 require(before.code, "cas");
                 seen = before.value + 1;
               }),
               "million/s");
    // A word that another thread of this process has made and written.
    auto shared = std::make_unique<std::atomic<std::uint64_t>>();
    std::thread([&] { shared->store(1); }).join();
    report.add("machine_fetch_add", 1, 2, 8, rate([&] { shared->fetch_add(1); }), "million/s");
    std::uint64_t expected = shared->load();
    report.add("machine_cas", 1, 2, 8, rate([&] {
                 if (shared->compare_exchange_strong(expected, expected + 1)) ++expected;
               }),
               "million/s");
  }
  require(job.barrier(), "barrier");
  require(job.release(address), "release");
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Rank 1 waits through a second of silence; how much of a core that costs, and how long the answer
// to the next message takes.
void measure_idle(weft::Job& job, Report& report) {
  weft::Exchange<std::uint64_t> exchange(job, 1);
  std::vector<double> answers;
  double share = 0;
  for (int i = 0; i < 7; ++i) {
    require(job.barrier(), "barrier");
    std::uint64_t message = 0;
    if (job.rank() == 1) {
      const double before = cpu_seconds();
      require(exchange.wait(0, 10s), "wait");
      share = std::max(share, cpu_seconds() - before);
      while (!exchange.receive(0, message)) {
      }
      require(exchange.send(0, 0, message), "send");
      require(exchange.flushSend(0), "flushSend");
    } else {
      std::this_thread::sleep_for(1s);
      const auto start = Clock::now();
      require(exchange.send(1, 0, 7), "send");
      require(exchange.flushSend(0), "flushSend");
      while (!exchange.receive(0, message)) {
      }
      answers.push_back(seconds_since(start) * 1e6);
    }
  }
  require(job.all_reduce(share, weft::Max()), "all_reduce");
  if (job.rank() != 0) return;
  std::sort(answers.begin(), answers.end());
  report.add("idle_cpu", 2, 1, 8, share * 100, "%");
  report.add("idle_answer", 2, 1, 8, answers[answers.size() / 2], "us");
}

// Memory of this process in KiB, as the kernel counts it.
struct Memory {
  double resident = 0;  // all that it has mapped and touched
  double share = 0;     // of that, pages that others have mapped as well by their part only
};
Memory memory_of_process() {
  Memory memory;
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    const auto number = [&line] { return std::atof(line.c_str() + line.find(':') + 1); };
    if (line.starts_with("Rss:")) memory.resident = number();
    if (line.starts_with("Pss:")) memory.share = number();
  }
  return memory;
}

// The memory that an exchange adds to rank 0: when opened, and after a storm between all ranks,
// beside the maximum that docs/use/transport.md states.
void measure_memory(weft::Job& job, Report& report, int num_threads) {
  require(job.barrier(), "barrier");
  const Memory before = memory_of_process();
  weft::Exchange<std::uint64_t> exchange(job, num_threads);
  const Memory opened = memory_of_process();
  with_threads(num_threads, [&](int t) {
    std::uint64_t message, sum = 0;
    for (std::uint64_t i = 0; i < 4'000'000 / static_cast<unsigned>(num_threads); ++i) {
      for (int d = 0; d < job.size(); ++d) require(exchange.send(d, t, i), "send");
      if (i % 64 == 0)
        while (exchange.receive(t, message)) sum += message;
    }
    require(exchange.quiesce(t, [&](std::uint64_t last) { sum += last; }), "quiesce");
  });
  const Memory after = memory_of_process();
  require(job.barrier(), "barrier");
  if (job.rank() != 0) return;
  constexpr double kRingKib = 2048 + 4;
  const double block_kib = static_cast<double>(weft::ExchangeSettings().block_bytes) / 1024;
  const double lanes = num_threads * job.size();
  const auto add = [&](const char* what, double value) {
    report.add(what, job.size(), num_threads, 8, value, "KiB");
  };
  add("memory_opened", opened.resident - before.resident);
  add("memory_after_storm", after.resident - before.resident);
  add("memory_formula", lanes * (2 * kRingKib + block_kib));
  // Rings between two processes of a host are in both, and one memory.
  add("memory_share", after.share - before.share);
}

std::vector<int> list_of(const char* text) {
  std::vector<int> numbers;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');)
    numbers.push_back(std::atoi(part.c_str()));
  return numbers;
}

}  // namespace

int main(int argc, char** argv) {
  weft::Job job;
  Report report("weft");
  const char* json = option(argc, argv, "--json");
  const char* only = option(argc, argv, "--only");
  const bool fits = job.size() == 2 || (only != nullptr && std::strcmp(only, "memory") == 0);
  if (!fits || (job.rank() == 0 && json != nullptr && !report.open(json))) {
    std::fprintf(stderr,
                 "rate: needs 2 ranks (but for --only memory), and a file that can be written\n");
    return 2;
  }
  const char* ms = option(argc, argv, "--ms");
  const double seconds = (ms != nullptr ? std::atof(ms) : 200) / 1000;
  const char* threads = option(argc, argv, "--threads");
  const auto thread_counts = list_of(threads != nullptr ? threads : "1,2,4");
  const auto asked = [&](const char* what) { return wanted(argc, argv, what); };
  if (asked("rate"))
    for (const int num : thread_counts) measure_rate(job, report, false, num, seconds);
  if (asked("runs"))
    for (const int num : thread_counts) measure_rate(job, report, true, num, seconds);
  if (asked("unbatched")) measure_unbatched(job, report, seconds);
  if (asked("block")) measure_blocks(job, report, seconds / 4);
  if (asked("quiesce"))
    for (const int num : thread_counts) measure_quiesce(job, report, num, seconds / 4);
  if (asked("read")) measure_reads(job, report, seconds / 4);
  if (asked("atomics")) measure_atomics(job, report, seconds / 4);
  if (asked("idle")) measure_idle(job, report);
  if (asked("memory")) {
    require(job.barrier(), "barrier");
    if (job.rank() == 0)
      report.add("memory_job", job.size(), 1, 0, memory_of_process().resident, "KiB");
    for (const int num : thread_counts) measure_memory(job, report, num);
  }
}
