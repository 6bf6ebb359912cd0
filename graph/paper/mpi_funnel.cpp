// mpi_funnel: the paper's BASE, to compare with: shortest paths and PageRank by push as in
// weft-graph --mode paper, where one thread of each process makes all MPI calls (its figure 1b).
//
//   mpirun -n 2 mpi_funnel sssp|pagerank GRAPH CUT THREADS SOURCE|ITERATIONS
//
// GRAPH: the paper's binary. CUT: boundaries of the processes' vertices, as 0,100,200. THREADS of a
// process: one communicates, the others have equal shares of the vertices. A worker appends blocks
// of messages to the queue of all (gather), the communicating thread sends them and puts what comes
// into another queue, from which workers take it (scatter). Prints one line: seconds and the sum of
// the results.
#include <mpi.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <limits>
#include <list>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace {

constexpr std::size_t kBlock = 256;  // messages sent together
constexpr int kDataTag = 0, kEndTag = 1;

struct Edge {
  std::uint32_t source, destination, weight;
};

struct Part {
  int rank = 0, size = 1;
  std::vector<std::uint32_t> cut;
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint32_t> to, weights;
  std::uint32_t first() const { return cut[static_cast<std::size_t>(rank)]; }
  std::uint32_t last() const { return cut[static_cast<std::size_t>(rank) + 1]; }
  int owner(std::uint32_t v) const {
    int owner = 0;
    while (v >= cut[static_cast<std::size_t>(owner) + 1]) ++owner;
    return owner;
  }
};

bool load(const char* path, Part& part) {
  std::vector<Edge> mine, block(1 << 16);
  std::ifstream in(path, std::ios::binary);
  if (!in) return false;
  part.offsets.resize(part.last() - part.first() + 1);
  for (;;) {
    in.read(reinterpret_cast<char*>(block.data()),
            static_cast<std::streamsize>(block.size() * sizeof(Edge)));
    const auto count = static_cast<std::size_t>(in.gcount()) / sizeof(Edge);
    if (count == 0) break;
    for (std::size_t i = 0; i < count; ++i) {
      const Edge& edge = block[i];
      if (edge.source >= part.cut.back() || edge.destination >= part.cut.back()) return false;
      if (edge.source < part.first() || edge.source >= part.last()) continue;
      mine.push_back(edge);
      ++part.offsets[edge.source - part.first() + 1];
    }
  }
  for (std::size_t i = 1; i < part.offsets.size(); ++i) part.offsets[i] += part.offsets[i - 1];
  part.to.resize(mine.size());
  part.weights.resize(mine.size());
  std::vector<std::uint64_t> next(part.offsets.begin(), part.offsets.end() - 1);
  for (const Edge& edge : mine) {
    const std::uint64_t at = next[edge.source - part.first()]++;
    part.to[at] = edge.destination;
    part.weights[at] = edge.weight;
  }
  return true;
}

template <class T>
struct Message {
  std::uint32_t vertex;
  T value;
};

// Blocks of messages between the workers and the thread that communicates.
template <class T>
class Queue {
 public:
  struct Block {
    int place = 0;
    std::vector<Message<T>> messages;
  };
  void put(Block block) {
    const std::lock_guard lock(mutex_);
    blocks_.push_back(std::move(block));
  }
  bool take(Block& block) {
    const std::lock_guard lock(mutex_);
    if (blocks_.empty()) return false;
    block = std::move(blocks_.front());
    blocks_.pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  std::deque<Block> blocks_;
};

// T: uint64 for shortest paths (minimum), double for PageRank (sum).
template <class T>
class Engine {
 public:
  static constexpr bool kIsSum = std::is_same_v<T, double>;
  static constexpr T kEmpty = kIsSum ? T{0} : std::numeric_limits<T>::max();

  Engine(const Part& part, int num_workers)
      : values(part.cut.back(), kEmpty),
        given(kIsSum ? part.cut.back() : 0),
        in(part.cut.back()),
        out(part.cut.back()),
        part_(part),
        num_workers_(num_workers),
        barrier_(num_workers + 1) {}

  // A step of all threads; by the thread that communicates.
  std::uint64_t communicate() {
    barrier_.arrive_and_wait();
    std::list<std::pair<typename Queue<T>::Block, MPI_Request>> under_way;
    int num_ended = 0;
    bool reported = false;
    while (!reported || num_ended + 1 < part_.size || !under_way.empty()) {
      typename Queue<T>::Block block;
      // Read before the queue: what was put there before the last worker ended is seen.
      const bool all_put = num_sending_.load(std::memory_order_acquire) == 0;
      if (outgoing_.take(block)) {
        under_way.emplace_back(std::move(block), MPI_REQUEST_NULL);
        auto& [sent, request] = under_way.back();
        MPI_Isend(sent.messages.data(), bytes(sent), MPI_BYTE, sent.place, kDataTag, MPI_COMM_WORLD,
                  &request);
      } else if (all_put && !reported) {
        reported = true;
        for (int peer = 0; peer < part_.size; ++peer)
          if (peer != part_.rank) MPI_Send(nullptr, 0, MPI_BYTE, peer, kEndTag, MPI_COMM_WORLD);
      }
      int flag = 0;
      MPI_Status status;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
      if (flag != 0) {
        int count = 0;
        MPI_Get_count(&status, MPI_BYTE, &count);
        block.messages.resize(static_cast<std::size_t>(count) / sizeof(Message<T>));
        MPI_Recv(block.messages.data(), count, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (status.MPI_TAG == kEndTag)
          ++num_ended;
        else
          incoming_.put(std::move(block));
      }
      while (!under_way.empty()) {
        int done = 0;
        MPI_Test(&under_way.front().second, &done, MPI_STATUS_IGNORE);
        if (done == 0) break;
        under_way.pop_front();
      }
    }
    all_received_.store(true, std::memory_order_release);
    barrier_.arrive_and_wait();
    all_received_ = false;
    num_sending_ = num_workers_;
    std::uint64_t active = num_active_.exchange(0);
    MPI_Allreduce(MPI_IN_PLACE, &active, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    in.swap(out);
    std::fill(out.begin(), out.end(), 0);
    ended_ = active == 0 || --steps_left_ == 0;
    barrier_.arrive_and_wait();
    return active;
  }

  void work(int worker) {
    const auto share = [&](std::uint64_t first, std::uint64_t last, int w) {
      return first +
             (last - first) * static_cast<unsigned>(w) / static_cast<unsigned>(num_workers_);
    };
    do {
      barrier_.arrive_and_wait();
      const std::uint32_t first = part_.first(), last = part_.last();
      for (std::uint64_t v = share(first, last, worker); v < share(first, last, worker + 1); ++v) {
        if (in[v] == 0) continue;
        const T mine = kIsSum ? static_cast<T>(given[kIsSum ? v : 0]) : read(values[v]);
        for (std::uint64_t e = part_.offsets[v - first]; e < part_.offsets[v - first + 1]; ++e)
          apply(part_.to[e], kIsSum ? mine : static_cast<T>(mine + part_.weights[e]));
        if (v % 128 == 0) receive();
      }
      mirrors_done_.arrive_and_wait_for(num_workers_);
      for (int step = 1; step < part_.size; ++step) {
        const int peer = (part_.rank + step) % part_.size;
        const std::uint32_t begin = part_.cut[static_cast<std::size_t>(peer)];
        const std::uint32_t end = part_.cut[static_cast<std::size_t>(peer) + 1];
        typename Queue<T>::Block block{peer, {}};
        for (std::uint64_t v = share(begin, end, worker); v < share(begin, end, worker + 1); ++v) {
          if (out[v] == 0) continue;
          block.messages.push_back({static_cast<std::uint32_t>(v), values[v]});
          out[v] = 0;
          if (kIsSum) values[v] = kEmpty;
          if (block.messages.size() < kBlock) continue;
          outgoing_.put(std::move(block));
          block = {peer, {}};
          receive();
        }
        if (!block.messages.empty()) outgoing_.put(std::move(block));
      }
      num_sending_.fetch_sub(1, std::memory_order_release);
      for (bool last_look = false;;) {
        if (receive()) continue;
        if (last_look) break;
        last_look = all_received_.load(std::memory_order_acquire);
        std::this_thread::yield();
      }
      end_step(share(first, last, worker), share(first, last, worker + 1));
      barrier_.arrive_and_wait();
      barrier_.arrive_and_wait();
    } while (!ended_);
  }

  std::vector<T> values, given;
  std::vector<unsigned char> in, out;
  int steps_left_ = std::numeric_limits<int>::max();

 private:
  // A barrier of the workers alone, who spin.
  struct Meeting {
    std::atomic<int> come{0}, round{0};
    void arrive_and_wait_for(int num) {
      const int now = round.load();
      if (come.fetch_add(1) + 1 == num) {
        come = 0;
        ++round;
        return;
      }
      while (round.load() == now) std::this_thread::yield();
    }
  };

  static int bytes(const typename Queue<T>::Block& block) {
    return static_cast<int>(block.messages.size() * sizeof(Message<T>));
  }
  static T read(T& value) { return std::atomic_ref(value).load(std::memory_order_relaxed); }

  void apply(std::uint32_t v, T value) {
    std::atomic_ref shared(values[v]);
    if constexpr (kIsSum) {
      shared.fetch_add(value, std::memory_order_relaxed);
    } else {
      T found = shared.load(std::memory_order_relaxed);
      do {
        if (value >= found) return;
      } while (!shared.compare_exchange_weak(found, value, std::memory_order_relaxed));
    }
    std::atomic_ref(out[v]).store(1, std::memory_order_relaxed);
  }
  bool receive() {
    typename Queue<T>::Block block;
    if (!incoming_.take(block)) return false;
    for (const Message<T>& message : block.messages)
      if (message.vertex >= part_.first() && message.vertex < part_.last())
        apply(message.vertex, message.value);
    return true;
  }
  // Called when no worker receives any more.
  void end_step(std::uint64_t begin, std::uint64_t end) {
    mirrors_done_.arrive_and_wait_for(num_workers_);
    std::uint64_t active = 0;
    for (std::uint64_t v = begin; v < end; ++v) {
      if constexpr (kIsSum) {
        const std::uint64_t degree =
            part_.offsets[v - part_.first() + 1] - part_.offsets[v - part_.first()];
        const double rank = 0.15 + 0.85 * values[v];
        given[v] = degree > 0 ? rank / static_cast<double>(degree) : 0;
        values[v] = steps_left_ > 1 ? 0 : rank;
        out[v] = 1;
      }
      active += out[v];
    }
    num_active_.fetch_add(active);
  }

  const Part& part_;
  int num_workers_;
  std::barrier<> barrier_;
  Meeting mirrors_done_;
  Queue<T> outgoing_, incoming_;
  std::atomic<int> num_sending_{num_workers_};
  std::atomic<bool> all_received_{false};
  std::atomic<std::uint64_t> num_active_{0};
  bool ended_ = false;
};

template <class T>
void run(const Part& part, int num_threads, std::uint64_t argument) {
  const int num_workers = std::max(1, num_threads - 1);
  Engine<T> engine(part, num_workers);
  for (std::uint32_t v = part.first(); v < part.last(); ++v) {
    if constexpr (Engine<T>::kIsSum) {
      const std::uint64_t degree =
          part.offsets[v - part.first() + 1] - part.offsets[v - part.first()];
      engine.given[v] = degree > 0 ? 1 / static_cast<double>(degree) : 0;
      engine.in[v] = 1;
    } else if (v == argument) {
      engine.values[v] = 0;
      engine.in[v] = 1;
    }
  }
  if constexpr (Engine<T>::kIsSum) engine.steps_left_ = static_cast<int>(argument);
  std::vector<std::thread> workers;
  MPI_Barrier(MPI_COMM_WORLD);
  const auto start = std::chrono::steady_clock::now();
  for (int w = 0; w < num_workers; ++w) workers.emplace_back([&engine, w] { engine.work(w); });
  int steps = 0;
  do ++steps;
  while (engine.communicate() > 0 && engine.steps_left_ > 0);
  for (std::thread& worker : workers) worker.join();
  MPI_Barrier(MPI_COMM_WORLD);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  double sum = 0;
  for (std::uint32_t v = part.first(); v < part.last(); ++v)
    if (engine.values[v] != Engine<T>::kEmpty || Engine<T>::kIsSum)
      sum += static_cast<double>(engine.values[v]);
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (part.rank == 0) std::printf("seconds=%.6f sum=%.10g steps=%d\n", seconds, sum, steps);
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  Part part;
  MPI_Comm_rank(MPI_COMM_WORLD, &part.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &part.size);
  bool good = argc == 6 && provided >= MPI_THREAD_FUNNELED;
  if (good) {
    std::istringstream cut(argv[3]);
    for (std::string word; std::getline(cut, word, ',');)
      part.cut.push_back(static_cast<std::uint32_t>(std::strtoul(word.c_str(), nullptr, 10)));
    good = part.cut.size() == static_cast<std::size_t>(part.size) + 1 && load(argv[2], part);
  }
  if (!good) {
    if (part.rank == 0)
      std::fprintf(stderr, "usage: mpi_funnel sssp|pagerank GRAPH CUT THREADS SOURCE|ITERATIONS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const std::uint64_t argument = std::strtoull(argv[5], nullptr, 10);
  if (std::strcmp(argv[1], "sssp") == 0)
    run<std::uint64_t>(part, std::atoi(argv[4]), argument);
  else
    run<double>(part, std::atoi(argv[4]), argument);
  MPI_Finalize();
}
