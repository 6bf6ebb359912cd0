// mcast_overlap: many groups that share members, as ranks of a job on one machine (their clock).
//
//   weftrun -n 16 mcast_overlap replicas     figure 9 of the RDMC paper: rank 0 copies objects, one
//       after the other or some at a time, to three of the others at random. There is a group for
//       every three, made before. Sizes are log-normal, by default an n-th of the paper's.
//   weftrun -n 8 mcast_overlap senders       figure 10: groups of all ranks that differ in their
//       root, one, half and all of them, send at the same time.
//   weftrun -n 8 mcast_overlap share         two groups with the same members and root send as much
//       as they can; the share of the bytes that each has moved when the first one completes.
#include <fmt/core.h>
#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>

#include "tools/cli/cli.hpp"
#include "weft/job.hpp"
#include "weft/multicast.hpp"

namespace {

double now_us() {
  timespec time;
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}
void check(const weft::Status& status) {
  if (!status) throw weft::Error(status);
}
void fail(const weft::Status& why) {
  fmt::print(stderr, "mcast_overlap: {}\n", why.text());
  std::_Exit(1);
}

struct Options {
  std::string what;
  std::vector<std::string> algorithms = {"pipeline", "tree", "sequential"};
  std::uint64_t bytes = 8 << 20;
  std::size_t block_bytes = 64 << 10;
  int transfers = 100, in_flight = 1, messages = 20;
  double median = 1e6, sigma = 1.33;
  unsigned seed = 1;
};

// A buffer whose ends say which transfer it is.
void stamp(std::byte* data, std::uint64_t bytes, std::uint64_t number) {
  const std::size_t length = std::min<std::uint64_t>(bytes, sizeof number);
  std::memcpy(data, &number, length);
  std::memcpy(data + bytes - length, &number, length);
}
bool is_stamped(const std::byte* data, std::uint64_t bytes, std::uint64_t number) {
  const std::size_t length = std::min<std::uint64_t>(bytes, sizeof number);
  return std::memcmp(data + bytes - length, &number, length) == 0;
}

// The last time at any rank, for each transfer.
std::vector<double> last_of_all(weft::transport::Job& job, std::vector<double> own) {
  check(job.all_reduce(std::span<double>(own), weft::transport::Max()));
  return own;
}

// Buffers of equal size, each of one message at a time. Any thread.
class Memory {
 public:
  Memory(weft::Multicast& multicast, std::size_t count, std::uint64_t bytes)
      : node_(multicast.node()), bytes_(bytes) {
    while (all_.size() < count) free_.push_back(add());
  }
  ~Memory() {
    for (std::byte* data : all_) static_cast<void>(node_.release(data));
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* take() {
    std::lock_guard guard(lock_);
    if (free_.empty()) return add();
    std::byte* data = free_.back();
    free_.pop_back();
    return data;
  }
  void give_back(void* data) {
    std::lock_guard guard(lock_);
    free_.push_back(static_cast<std::byte*>(data));
  }

 private:
  std::byte* add() {
    void* data = nullptr;
    if (const weft::Status status = node_.allocate(bytes_, data); !status) fail(status);
    return all_.emplace_back(static_cast<std::byte*>(data));
  }

  weft::Node& node_;
  const std::uint64_t bytes_;
  std::mutex lock_;
  std::vector<std::byte*> all_, free_;
};

// --- figure 9

struct Transfer {
  std::size_t group;
  std::uint64_t bytes;
};

void run_replicas(weft::transport::Job& job, weft::Multicast& multicast, const Options& options,
                  const std::string& algorithm, std::uint64_t first_id) {
  std::vector<std::vector<int>> lists;
  for (int a = 1; a < job.size(); ++a)
    for (int b = a + 1; b < job.size(); ++b)
      for (int c = b + 1; c < job.size(); ++c) lists.push_back({0, a, b, c});
  // The same at all ranks.
  std::mt19937_64 random(options.seed);
  std::lognormal_distribution<double> size(std::log(options.median), options.sigma);
  std::vector<Transfer> transfers;
  for (int i = 0; i < options.transfers; ++i) {
    const std::size_t group = random() % lists.size();
    // Cut as the paper's, whose median is 12 MB, at 100 bytes and 500 MB.
    const double bytes = std::clamp(size(random), 100.0, options.median * 500 / 12);
    transfers.push_back({group, static_cast<std::uint64_t>(bytes)});
  }
  std::uint64_t most = 0;
  for (const Transfer& transfer : transfers) most = std::max(most, transfer.bytes);
  const auto in_flight = static_cast<std::size_t>(options.in_flight);
  Memory memory(multicast, in_flight, most);

  std::mutex lock;
  std::condition_variable changed;
  std::vector<std::deque<std::size_t>> ending(lists.size());
  std::vector<bool> is_done(transfers.size());
  std::vector<double> began(transfers.size(), 0), ended(transfers.size(), 0);
  bool is_right = true;
  for (std::size_t i = 0; i < transfers.size(); ++i) ending[transfers[i].group].push_back(i);
  const double made = now_us();
  const std::size_t allocated = ::mallinfo2().uordblks;
  std::vector<std::unique_ptr<weft::Group>> groups(lists.size());
  for (std::size_t g = 0; g < lists.size(); ++g) {
    const auto& ranks = lists[g];
    if (std::find(ranks.begin(), ranks.end(), job.rank()) == ranks.end()) continue;
    groups[g] = std::make_unique<weft::Group>(
        multicast,
        weft::GroupSettings{.id = first_id + g,
                            .ranks = ranks,
                            .block_bytes = options.block_bytes,
                            .algorithm = algorithm,
                            .delivery_all = true},
        weft::GroupEvents{.on_incoming = [&](std::uint64_t) -> void* { return memory.take(); },
                          .on_complete =
                              [&, g](void* data, std::uint64_t bytes) {
                                const double now = now_us();
                                std::lock_guard guard(lock);
                                const std::size_t i = ending[g].front();
                                ending[g].pop_front();
                                ended[i] = now;
                                is_done[i] = true;
                                is_right = is_right && bytes == transfers[i].bytes &&
                                           is_stamped(static_cast<std::byte*>(data), bytes, i);
                                memory.give_back(data);
                                changed.notify_all();
                              },
                          .on_failure = fail});
  }
  for (auto& group : groups)
    if (group != nullptr) check(group->ready());
  check(job.barrier());
  const double ready = now_us();
  const std::size_t grown = ::mallinfo2().uordblks - allocated;
  if (job.rank() == 0)
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      std::unique_lock guard(lock);
      changed.wait(guard, [&] { return i < in_flight || is_done[i - in_flight]; });
      guard.unlock();
      std::byte* data = memory.take();
      stamp(data, transfers[i].bytes, i);
      began[i] = now_us();
      check(groups[transfers[i].group]->send(data, transfers[i].bytes));
    }
  for (auto& group : groups)
    if (group != nullptr) check(group->close(600'000));
  groups.clear();
  if (!is_right) fail({weft::Code::corrupt, "a transfer arrived damaged"});
  began = last_of_all(job, began);
  ended = last_of_all(job, ended);
  if (job.rank() != 0) return;
  std::vector<double> latency;
  double bytes = 0;
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    latency.push_back((ended[i] - began[i]) / 1e3);
    bytes += static_cast<double>(transfers[i].bytes);
  }
  const double total_us = *std::max_element(ended.begin(), ended.end()) - began[0];
  std::sort(latency.begin(), latency.end());
  const auto at = [&](double part) {
    return latency[static_cast<std::size_t>(part * static_cast<double>(latency.size() - 1))];
  };
  fmt::print(
      "{:<11} {} groups made in {:.0f} ms, {} bytes each; latency ms: 10 % {:.1f}, 50 % {:.1f}, 90 "
      "% {:.1f}, "
      "99 % {:.1f}; {:.1f} MB of {} objects in {:.2f} s, {:.1f} MB/s of copies\n",
      algorithm, lists.size(), (ready - made) / 1e3, grown / lists.size(), at(0.1), at(0.5),
      at(0.9), at(0.99), bytes / 1e6, transfers.size(), total_us / 1e6, 3 * bytes / total_us);
  std::fflush(stdout);
}

// --- figure 10, and the shares of two groups

struct Stream {  // one group of all ranks
  std::unique_ptr<weft::Group> group;
  std::atomic<int> num_complete{0};
};

// Groups with these roots each send so many messages. Returns the times of their ends at all ranks.
void run_streams(weft::transport::Job& job, weft::Multicast& multicast, const Options& options,
                 const std::string& algorithm, const std::vector<int>& roots, int num_messages,
                 std::uint64_t first_id, bool shows_shares) {
  Memory memory(multicast, 2 * roots.size(), options.bytes);
  std::byte* sent = memory.take();  // many times
  std::vector<Stream> streams(roots.size());
  std::atomic<double> last{0};
  // The bytes of every group when the first one completes here.
  std::vector<double> seen(roots.size(), 0);
  std::atomic<bool> has_seen{false};
  for (std::size_t g = 0; g < roots.size(); ++g) {
    std::vector<int> ranks;
    for (int i = 0; i < job.size(); ++i) ranks.push_back((roots[g] + i) % job.size());
    streams[g].group = std::make_unique<weft::Group>(
        multicast,
        weft::GroupSettings{.id = first_id + g,
                            .ranks = ranks,
                            .block_bytes = options.block_bytes,
                            .algorithm = algorithm},
        weft::GroupEvents{.on_incoming = [&](std::uint64_t) -> void* { return memory.take(); },
                          .on_complete =
                              [&, g](void* data, std::uint64_t) {
                                if (data != sent) memory.give_back(data);
                                last.store(now_us(), std::memory_order_relaxed);
                                if (++streams[g].num_complete < num_messages ||
                                    has_seen.exchange(true))
                                  return;
                                for (std::size_t other = 0; other < seen.size(); ++other)
                                  seen[other] = streams[other].num_complete;
                              },
                          .on_failure = fail});
  }
  for (Stream& stream : streams) check(stream.group->ready());
  check(job.barrier());
  double began = now_us();
  for (std::size_t g = 0; g < roots.size(); ++g)
    for (int i = 0; i < num_messages && roots[g] == job.rank(); ++i)
      check(streams[g].group->send(sent, options.bytes));
  for (Stream& stream : streams) check(stream.group->close(600'000));
  double ended = last.load(std::memory_order_relaxed);
  check(job.all_reduce(began, weft::transport::Min()));
  check(job.all_reduce(ended, weft::transport::Max()));
  for (Stream& stream : streams) stream.group.reset();
  if (job.rank() != 1 % job.size()) return;
  const double bytes =
      static_cast<double>(options.bytes) * num_messages * static_cast<double>(roots.size());
  fmt::print("{:<11} {:>2} of {} send {} x {} bytes: {:.2f} s, {:.1f} MB/s in all", algorithm,
             roots.size(), job.size(), num_messages, options.bytes, (ended - began) / 1e6,
             bytes / (ended - began));
  if (shows_shares) {
    double sum = 0;
    for (const double part : seen) sum += part;
    fmt::print("; shares");
    for (const double part : seen) fmt::print(" {:.0f} %", 100 * part / sum);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  weft::cli::Command app("mcast_overlap",
                         "Times groups that share members, as ranks of a job on one machine.");
  app.option("what", options.what,
             "replicas: objects go from rank 0 to three others at random; senders: groups of "
             "all ranks with one, half and all as roots; share: two equal groups")
      .required()
      .one_of({"replicas", "senders", "share"});
  app.option("--algorithms", options.algorithms).separated_by_commas();
  app.option("--block-bytes", options.block_bytes);
  app.option("--transfers", options.transfers, "of replicas").range(1, 1'000'000);
  app.option("--in-flight", options.in_flight, "of replicas: transfers at a time").range(1, 1000);
  app.option("--median", options.median, "of replicas: bytes (the paper's are 12e6)")
      .range_real(100.0, 1e9);
  app.option("--sigma", options.sigma, "of replicas: of the logarithm of the size");
  app.option("--seed", options.seed, "of replicas");
  app.option("--bytes", options.bytes, "of senders and share: a message").range(1ull, 1ull << 40);
  app.option("--messages", options.messages, "of share: by each group").range(1, 1'000'000);
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    weft::transport::Job job;
    weft::Multicast multicast(job);
    std::uint64_t id = 1;
    for (const std::string& algorithm : options.algorithms) {
      if (options.what == "replicas") {
        if (job.size() < 4) throw weft::Error({weft::Code::bad_argument, "4 ranks at least"});
        run_replicas(job, multicast, options, algorithm, id);
      } else if (options.what == "share") {
        run_streams(job, multicast, options, algorithm, {0, 0}, options.messages, id, true);
      } else {
        for (const int count : {1, std::max(1, job.size() / 2), job.size()}) {
          std::vector<int> roots;
          for (int i = 0; i < count; ++i) roots.push_back(i * job.size() / count);
          run_streams(job, multicast, options, algorithm, roots, 1, id, false);
          id += 1'000;
        }
      }
      id += 1'000'000;
    }
    check(job.barrier());
  } catch (const weft::Error& error) {
    fmt::print(stderr, "mcast_overlap: {}\n", error.status().text());
    return 1;
  }
}
