// rate_mpi: the MPI twins of rate, in the two ways that threaded MPI codes communicate.
//
//   funnel:    threads append every message to one shared send buffer, one more thread calls MPI
//              for all (MPI_THREAD_FUNNELED); at the receiver it hands what came to the threads.
//   multiple:  each thread calls MPI for every message (MPI_THREAD_MULTIPLE).
//   funnel-by-hand, multiple-by-hand: the same, but each thread gathers 256 messages in a block
//              before it appends or sends them: what Weft's blocks do, in the program's own code.
//
//   mpirun -n 2 rate_mpi --way WAY [--only rate,block,single] [--threads LIST] [--ms N]
//          [--json FILE] [--library NAME]
//
// "single" is one 8-byte MPI_Send a message from the main thread, 64 under way, as in osu_mbw_mr.
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "report.hpp"

namespace {

constexpr std::size_t kBlock = 256;         // messages
constexpr std::size_t kShared = 64 * 1024;  // messages in a shared buffer

int rank = 0;

// Yields while waiting, as there are more threads than cores.
template <class Done>
void wait_until(Done&& done) {
  for (unsigned i = 0; !done(); ++i)
    if (i % 64 == 63) sched_yield();
}

// A buffer that threads fill and one thread empties.
struct Shared {
  std::vector<std::uint64_t> data = std::vector<std::uint64_t>(kShared);
  std::atomic<std::size_t> taken{0};  // slots claimed by threads
  std::atomic<std::size_t> done{0};   // slots written
  std::size_t size = 0;               // where the first message that did not fit would have been
};

// Two buffers: one is filled while the other travels.
class SendFunnel {
 public:
  // Called by the threads.
  void append(const std::uint64_t* messages, std::size_t num) {
    for (;;) {
      const unsigned now = current_.load(std::memory_order_acquire);
      Shared& shared = buffers_[now % 2];
      const std::size_t place = shared.taken.fetch_add(num, std::memory_order_acq_rel);
      if (place + num <= kShared) {
        std::memcpy(&shared.data[place], messages, num * sizeof *messages);
        shared.done.fetch_add(num, std::memory_order_release);
        return;
      }
      // Full: `size` marks the messages that fit; the remaining slots stay empty.
      if (place < kShared) {
        shared.size = place;
        shared.done.fetch_add(kShared - place, std::memory_order_release);
      }
      wait_until([&] { return current_.load(std::memory_order_acquire) != now; });
    }
  }
  // Run by the MPI thread, until all threads have finished and everything is sent.
  void run(const std::atomic<int>& num_finished, int num_threads, int to) {
    for (unsigned i = 0;; ++i) {
      Shared& shared = buffers_[i % 2];
      bool last = false;
      wait_until([&] {
        if (shared.done.load(std::memory_order_acquire) >= kShared) return true;
        last = num_finished.load(std::memory_order_acquire) == num_threads;
        return last;
      });
      const bool full = shared.done.load(std::memory_order_acquire) >= kShared;
      last = last && !full;
      const std::size_t size =
          full ? (shared.size != 0 ? shared.size : kShared) : shared.done.load();
      if (!last) {
        // Reset for the next round before threads may fill it again.
        Shared& next = buffers_[(i + 1) % 2];
        next.size = 0;
        next.done.store(0, std::memory_order_relaxed);
        next.taken.store(0, std::memory_order_release);
        current_.store(i + 1, std::memory_order_release);
      }
      MPI_Send(shared.data.data(), static_cast<int>(size), MPI_UINT64_T, to, last ? 1 : 0,
               MPI_COMM_WORLD);
      if (last) return;
    }
  }

 private:
  Shared buffers_[2];
  std::atomic<unsigned> current_{0};
};

// One thread receives; the threads take 256 messages at a time.
std::uint64_t receive_funnel(int num_threads, std::uint64_t& num_received) {
  struct Buffer {
    std::vector<std::uint64_t> data = std::vector<std::uint64_t>(kShared);
    std::mutex mutex;
    unsigned round = 0;  // which buffer of the stream it holds; guarded by mutex, as the next two
    std::size_t size = 0;
    std::size_t taken = 0;
    std::atomic<std::size_t> done{0};
  } buffers[2];
  std::atomic<unsigned> ready{0};  // buffers filled so far
  std::atomic<bool> ended{false};
  std::atomic<std::uint64_t> sum{0}, num{0};
  std::thread communicator([&] {
    for (unsigned i = 0;; ++i) {
      Buffer& buffer = buffers[i % 2];
      wait_until([&] { return buffer.done.load(std::memory_order_acquire) == buffer.size; });
      MPI_Status status;
      MPI_Recv(buffer.data.data(), kShared, MPI_UINT64_T, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
      int count = 0;
      MPI_Get_count(&status, MPI_UINT64_T, &count);
      {
        const std::lock_guard lock(buffer.mutex);
        buffer.round = i;
        buffer.size = static_cast<std::size_t>(count);
        buffer.taken = 0;
        buffer.done.store(0);
      }
      const bool last = status.MPI_TAG == 1;
      if (last) ended.store(true);
      ready.store(i + 1, std::memory_order_release);
      if (last) return;
    }
  });
  with_threads(num_threads, [&](int) {
    std::uint64_t mine = 0, count = 0;
    for (unsigned i = 0;; ++i) {
      bool over = false;
      wait_until([&] {
        if (ready.load(std::memory_order_acquire) > i) return true;
        over = ended.load() && ready.load() <= i;
        return over;
      });
      if (over) break;
      Buffer& buffer = buffers[i % 2];
      for (;;) {
        std::size_t from = 0, to = 0;
        {
          const std::lock_guard lock(buffer.mutex);
          if (buffer.round != i || buffer.taken == buffer.size) break;
          from = buffer.taken;
          to = buffer.taken = std::min(from + kBlock, buffer.size);
        }
        for (std::size_t k = from; k < to; ++k) mine += buffer.data[k];
        count += to - from;
        buffer.done.fetch_add(to - from, std::memory_order_release);
      }
    }
    sum += mine;
    num += count;
  });
  communicator.join();
  num_received = num.load();
  return sum.load();
}

void fail(const char* what) {
  std::fprintf(stderr, "rate_mpi: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

// The threads call MPI themselves.
bool is_multiple(const char* way) { return std::strncmp(way, "multiple", 8) == 0; }
// Number of messages that a thread sends at a time.
std::size_t gathered(const char* way) {
  return std::strstr(way, "-by-hand") != nullptr ? kBlock : 1;
}

void turn_of_rate(const char* way, int num_threads, std::uint64_t per_thread) {
  const bool multiple = is_multiple(way);
  const std::size_t gather = gathered(way);
  const std::uint64_t total = per_thread * static_cast<unsigned>(num_threads);
  const std::uint64_t right =
      per_thread * (per_thread - 1) / 2 * static_cast<unsigned>(num_threads);
  if (multiple) {
    std::atomic<std::uint64_t> sum{0};
    with_threads(num_threads, [&](int t) {
      std::uint64_t block[kBlock], mine = 0;
      for (std::uint64_t i = 0; i < per_thread;) {
        const auto num = std::min<std::uint64_t>(gather, per_thread - i);
        if (rank == 0) {
          for (std::uint64_t k = 0; k < num; ++k) block[k] = i + k;
          MPI_Send(block, static_cast<int>(num), MPI_UINT64_T, 1, t, MPI_COMM_WORLD);
        } else {
          MPI_Recv(block, static_cast<int>(num), MPI_UINT64_T, 0, t, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
          for (std::uint64_t k = 0; k < num; ++k) mine += block[k];
        }
        i += num;
      }
      sum += mine;
    });
    if (rank == 1 && sum != right) fail("the sum is wrong");
    return;
  }
  if (rank == 0) {
    SendFunnel funnel;
    std::atomic<int> num_finished{0};
    // The thread that calls MPI is one more than those that compute.
    std::thread communicator([&] { funnel.run(num_finished, num_threads, 1); });
    with_threads(num_threads, [&](int) {
      std::uint64_t block[kBlock];
      for (std::uint64_t i = 0; i < per_thread;) {
        const auto num = std::min<std::uint64_t>(gather, per_thread - i);
        for (std::uint64_t k = 0; k < num; ++k) block[k] = i + k;
        funnel.append(block, num);
        i += num;
      }
      num_finished.fetch_add(1, std::memory_order_acq_rel);
    });
    communicator.join();
  } else {
    std::uint64_t num = 0;
    if (receive_funnel(num_threads, num) != right || num != total) fail("the sum is wrong");
  }
}

double agreed_max(double value) {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return value;
}

void measure_rate(Report& report, const char* way, int num_threads, double seconds) {
  std::uint64_t per_thread = 20'000;
  for (int turn = 0;; ++turn) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto start = Clock::now();
    turn_of_rate(way, num_threads, per_thread);
    MPI_Barrier(MPI_COMM_WORLD);
    const double took = agreed_max(seconds_since(start));
    if (turn == 2) {
      if (rank == 0)
        report.add((std::string("rate_") + way).c_str(), 2, num_threads, 8,
                   static_cast<double>(per_thread) * num_threads / took / 1e6, "million/s");
      return;
    }
    per_thread = static_cast<std::uint64_t>(static_cast<double>(per_thread) *
                                            std::clamp(seconds / took, 1.0, 100.0));
  }
}

// One message an MPI call, 64 under way, as osu_mbw_mr does it.
void measure_single(Report& report, double seconds) {
  constexpr int kWindow = 64;
  std::uint64_t data[kWindow] = {};
  MPI_Request requests[kWindow];
  long num = 200;
  for (int turn = 0;; ++turn) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto start = Clock::now();
    for (long i = 0; i < num; ++i) {
      for (int k = 0; k < kWindow; ++k) {
        if (rank == 0)
          MPI_Isend(&data[k], 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[k]);
        else
          MPI_Irecv(&data[k], 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[k]);
      }
      MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE);
      if (rank == 0)
        MPI_Recv(data, 4, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      else
        MPI_Send(data, 4, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
    const double took = agreed_max(seconds_since(start));
    if (turn == 2) {
      if (rank == 0)
        report.add("rate_single", 2, 1, 8, static_cast<double>(num) * kWindow / took / 1e6,
                   "million/s");
      return;
    }
    num = static_cast<long>(static_cast<double>(num) * std::clamp(seconds / took, 1.0, 100.0));
  }
}

// A block of a thread that another process's thread reads: in the funnel over the shared buffer
// and the thread that calls MPI on either side.
class BlockFunnel {
 public:
  explicit BlockFunnel(std::size_t bytes) : out_(bytes / 8), in_(bytes / 8) {
    communicator_ = std::thread([this] { run(); });
  }
  ~BlockFunnel() {
    state_.store(kEnd);
    communicator_.join();
  }
  void send(const std::vector<std::uint64_t>& block) {
    {
      const std::lock_guard lock(mutex_);
      std::memcpy(out_.data(), block.data(), block.size() * 8);
    }
    state_.store(kSend, std::memory_order_release);
    wait_until([this] { return state_.load(std::memory_order_acquire) == kIdle; });
  }
  const std::vector<std::uint64_t>& receive() {
    state_.store(kReceive, std::memory_order_release);
    wait_until([this] { return state_.load(std::memory_order_acquire) == kIdle; });
    return in_;
  }

 private:
  enum { kIdle, kSend, kReceive, kEnd };
  void run() {
    for (;;) {
      int state = kIdle;
      wait_until([&] { return (state = state_.load(std::memory_order_acquire)) != kIdle; });
      if (state == kEnd) return;
      if (state == kSend)
        MPI_Send(out_.data(), static_cast<int>(out_.size()), MPI_UINT64_T, 1 - rank, 0,
                 MPI_COMM_WORLD);
      else
        MPI_Recv(in_.data(), static_cast<int>(in_.size()), MPI_UINT64_T, 1 - rank, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      state_.store(kIdle, std::memory_order_release);
    }
  }

  std::mutex mutex_;
  std::vector<std::uint64_t> out_, in_;
  std::atomic<int> state_{kIdle};
  std::thread communicator_;
};

class BlockMultiple {
 public:
  explicit BlockMultiple(std::size_t bytes) : in_(bytes / 8) {}
  void send(const std::vector<std::uint64_t>& block) {
    MPI_Send(block.data(), static_cast<int>(block.size()), MPI_UINT64_T, 1 - rank, 0,
             MPI_COMM_WORLD);
  }
  const std::vector<std::uint64_t>& receive() {
    MPI_Recv(in_.data(), static_cast<int>(in_.size()), MPI_UINT64_T, 1 - rank, 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    return in_;
  }

 private:
  std::vector<std::uint64_t> in_;
};

template <class Channel>
void measure_blocks(Report& report, const char* way, double seconds) {
  for (std::size_t bytes = 64; bytes <= 256 * 1024; bytes *= 4) {
    Channel channel(bytes);
    std::vector<std::uint64_t> block(bytes / 8, 1);
    std::uint64_t sum = 0;
    int num = 20;
    for (int turn = 0;; ++turn) {
      MPI_Barrier(MPI_COMM_WORLD);
      const auto start = Clock::now();
      for (int i = 0; i < num; ++i) {
        if (rank == 0) channel.send(block);
        for (const std::uint64_t word : channel.receive()) sum += word;
        if (rank == 1) channel.send(block);
      }
      const double took = agreed_max(seconds_since(start));
      if (turn == 2) {
        if (sum == 0) fail("nothing came");
        if (rank == 0)
          report.add((std::string("block_latency_") + way).c_str(), 2, 1,
                     static_cast<long long>(bytes), took / num / 2 * 1e6, "us");
        break;
      }
      num = static_cast<int>(num * std::clamp(seconds / took, 1.0, 100.0));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* way = option(argc, argv, "--way");
  if (way == nullptr) way = "funnel";
  const bool multiple = is_multiple(way);
  int provided = 0, size = 0;
  // The thread that calls MPI is not the main thread, but the only one at a time.
  MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char* library = option(argc, argv, "--library");
  Report report(library != nullptr ? library : "mpi");
  const char* json = option(argc, argv, "--json");
  if (size != 2 || provided < (multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED) ||
      (rank == 0 && json != nullptr && !report.open(json)))
    fail("needs 2 ranks, threads, and a file that can be written");
  const char* ms = option(argc, argv, "--ms");
  const double seconds = (ms != nullptr ? std::atof(ms) : 200) / 1000;
  const char* threads = option(argc, argv, "--threads");
  std::stringstream list(threads != nullptr ? threads : "1,2,4");
  if (wanted(argc, argv, "rate"))
    for (std::string part; std::getline(list, part, ',');)
      measure_rate(report, way, std::atoi(part.c_str()), seconds);
  if (wanted(argc, argv, "single")) measure_single(report, seconds);
  if (wanted(argc, argv, "block")) {
    if (multiple)
      measure_blocks<BlockMultiple>(report, way, seconds / 4);
    else if (std::strcmp(way, "funnel") == 0)
      measure_blocks<BlockFunnel>(report, way, seconds / 4);
  }
  MPI_Finalize();
}
