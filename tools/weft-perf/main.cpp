// weft-perf: latency and bandwidth of put, get, cas, fetch_add and messages between two Nodes, on
// any two hosts, without a launcher.
#include <fmt/core.h>
#include <fmt/os.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/wait.hpp"
#include "tools/cli/cli.hpp"
#include "weft/job.hpp"
#include "weft/node.hpp"

namespace {

using namespace weft;

enum class Test : std::uint32_t {
  get_lat,
  put_lat,
  cas,
  fetch_add,
  send_lat,
  get_bw,
  put_bw,
  send_bw,
  batch
};
constexpr const char* kNames[] = {"get_lat", "put_lat", "cas",     "fetch_add", "send_lat",
                                  "get_bw",  "put_bw",  "send_bw", "batch"};
// True for one-sided tests, which any number of threads can run.
constexpr bool is_one_sided(Test test) {
  return test != Test::put_lat && test != Test::send_lat && test != Test::send_bw;
}

// The test that the client asks the server to take part in.
struct Order {
  std::uint64_t serial;  // identifies a run
  Test test;
  std::uint32_t magic;
  std::uint64_t bytes, count;
  MemoryKey back;  // put_lat: of the client's memory
};
struct Welcome {
  MemoryKey key;
};

constexpr std::uint32_t kYieldPolls = 64;
constexpr std::size_t kMostBytes = 64 << 20;
constexpr std::uint32_t kMagic = 0x6f726472;

volatile sig_atomic_t is_over = 0;

[[noreturn]] void fail(const std::string& what) {
  fmt::print(stderr, "weft-perf: {}\n", what);
  exit(1);
}
void check(const Status& status) {
  if (!status) fail(status.text());
}
void check(Code code, const Peer& peer) {
  if (code != Code::ok) fail(fmt::format("{}: {}", peer.name(), code_name(code)));
}

// One side of a test. Memory that the other side puts to ends in a count.
struct Side {
  explicit Side(const NodeSettings& settings) : node(settings) {
    check(node.allocate(kMostBytes, memory));
    node.on_message([this](const Peer&, std::span<const std::byte> bytes) {
      ++received;
      Order order;
      if (bytes.size() != sizeof order) return;
      std::memcpy(&order, bytes.data(), sizeof order);
      if (order.magic != kMagic) return;
      last = order;
      received_before = received;
    });
  }
  // A server continues when a client is lost.
  void check_peer(Code code, const Peer& peer) const {
    if (!is_server || code != Code::peer_lost) check(code, peer);
  }
  bool is_gone(const Peer& peer) const {
    if (peer.is_lost() && !is_server) fail(peer.name() + " is gone");
    return peer.is_lost();
  }
  void send(const Peer& peer, const void* message, std::size_t bytes) {
    if (bytes <= peer.message_max()) {
      Code code;
      while ((code = node.send(peer, message, bytes)) == Code::again) node.progress();
      return check_peer(code, peer);
    }
    Operation operation;
    node.send(peer, message, bytes, operation);
    check_peer(node.wait(operation), peer);
  }
  void wait_messages(const Peer& peer, std::uint64_t count) {
    while (received < count) {
      if (!node.progress() && is_gone(peer)) return;
    }
  }
  // Waits until the last word that the peer puts has this value.
  void wait_word(const Peer& peer, std::size_t bytes, std::uint64_t value) {
    auto* word = reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(memory) + bytes - 8);
    std::atomic_ref<std::uint64_t> last_word(*word);
    const bool is_shared = peer.is_mapped();
    for (std::uint32_t polls = 1; last_word.load(std::memory_order_acquire) != value; ++polls)
      if (!is_shared || polls % 1024 == 0) {
        node.progress();
        if (is_gone(peer)) return;
        // A software device may need this core.
        if (!is_shared && polls % kYieldPolls == 0) ::sched_yield();
      }
  }
  void put_word(const PeerMemory& to, const Peer& peer, std::vector<std::byte>& data,
                std::size_t bytes, std::uint64_t value, Operation& operation) {
    std::memcpy(data.data() + bytes - 8, &value, 8);
    node.put(to, 0, data.data(), bytes, operation);
    if (!operation.is_done()) node.wait(operation);
    check_peer(operation.code(), peer);
  }

  Node node;
  bool is_server = false;
  void* memory = nullptr;
  std::uint64_t received = 0;         // messages
  std::uint64_t received_before = 0;  // up to and with the last order
  Order last{};
};

std::uint64_t first_value(const Order& order) { return order.serial << 32; }

// The server's part of an order.
void serve(Side& side, const Peer& peer, const Order order) {
  if (order.test > Test::batch || order.bytes > kMostBytes) return;
  std::vector<std::byte> data(order.bytes);
  const std::uint64_t before = side.received_before;
  if (order.test == Test::put_lat) {
    if (order.bytes < 8) return;
    const PeerMemory back = side.node.memory(peer, order.back);
    Operation operation;
    side.node.put(back, 0, data.data(), 0, operation);  // asks for it
    side.check_peer(side.node.wait(operation), peer);
    side.send(peer, "", 1);
    for (std::uint64_t i = 1; i <= order.count && !peer.is_lost(); ++i) {
      side.wait_word(peer, order.bytes, first_value(order) + i);
      side.put_word(back, peer, data, order.bytes, first_value(order) + i, operation);
    }
  } else if (order.test == Test::send_lat) {
    for (std::uint64_t i = 1; i <= order.count && !peer.is_lost(); ++i) {
      side.wait_messages(peer, before + i);
      side.send(peer, data.data(), order.bytes);
    }
  } else if (order.test == Test::send_bw) {
    side.wait_messages(peer, before + order.count);
    side.send(peer, "", 1);
  }
}

int run_server(const std::string& address, NodeSettings settings) {
  settings.name = "weft-perf server";
  settings.progress_thread = false;
  Side side(settings);
  side.is_server = true;
  Peer peer;
  side.node.on_peer([&](const Peer& came) { peer = came; });
  check(side.node.listen(address));
  std::string blob;
  check(side.node.address(blob));
  fmt::print("{}\n", blob);
  fflush(stdout);
  ::signal(SIGTERM, [](int) { is_over = 1; });
  ::signal(SIGINT, [](int) { is_over = 1; });
  MemoryKey key;
  check(side.node.key(side.memory, kAllRights, key));
  std::uint64_t served = 0;
  Peer welcomed;
  while (is_over == 0) {
    if (!peer || peer.is_lost() || side.last.serial == served) {
      if (peer && !(peer == welcomed)) {
        side.send(peer, &key, sizeof key);
        welcomed = peer;
        served = 0;
        side.last = {};
      }
      side.node.wait_some(20);
      continue;
    }
    const Order order = side.last;
    served = order.serial;
    serve(side, peer, order);
  }
  return 0;
}

// Times are of one operation, for the thread that waits for it, in us; of a ping-pong: one way.
// Each is the mean of a batch, and these are the batches' percentiles.
struct Result {
  Test test;
  std::uint64_t bytes, count;
  double p10, p50, p90, p99;
  int threads;
  // A larger spread is noise of the machine.
  bool is_steady() const { return p90 <= kMostSpread * p10; }
  static constexpr double kMostSpread = 2;
};

double percentile(const std::vector<double>& sorted, double part) {
  return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1) + 0.5)];
}

class Client {
 public:
  Client(Side& side, const Peer& peer, const MemoryKey& key, std::size_t depth, int threads)
      : side_(side),
        peer_(peer),
        memory_(side.node.memory(peer, key)),
        depth_(depth),
        threads_(threads),
        data_(kMostBytes) {
    check(side.node.key(side.memory, kAllRights, back_));
  }

  // Runs it for about this time.
  Result run(Test test, std::uint64_t bytes, double seconds) {
    std::uint64_t count = 16;
    for (;;) {
      const std::uint64_t ns = run_once(test, bytes, count);
      const double each_ns = static_cast<double>(ns) / static_cast<double>(count);
      const double wanted = seconds * 1e9 / std::max(each_ns, 1.0);
      // Long enough to know how many it takes.
      if (static_cast<double>(ns) >= seconds * 0.1e9)
        return run_batches(test, bytes, static_cast<std::uint64_t>(wanted));
      count = std::max<std::uint64_t>(
          count * 2, std::min<std::uint64_t>(static_cast<std::uint64_t>(wanted), count * 100));
    }
  }

 private:
  static constexpr std::uint64_t kBatches = 100, kLeastBatch = 16;

  Result run_batches(Test test, std::uint64_t bytes, std::uint64_t wanted) {
    const bool both_ways = test == Test::put_lat || test == Test::send_lat;
    const int threads = is_one_sided(test) ? threads_ : 1;
    const std::uint64_t least = std::max<std::uint64_t>(kLeastBatch, 4 * depth_);
    const std::uint64_t batches = std::clamp<std::uint64_t>(wanted / least, 5, kBatches);
    const std::uint64_t count = std::max<std::uint64_t>(wanted / batches, 1);
    std::vector<double> us;
    for (std::uint64_t i = 0; i < batches; ++i)
      us.push_back(static_cast<double>(run_once(test, bytes, count)) / static_cast<double>(count) /
                   1000 * threads / (both_ways ? 2 : 1));
    std::ranges::sort(us);
    return {test,
            bytes,
            count * batches,
            percentile(us, 0.1),
            percentile(us, 0.5),
            percentile(us, 0.9),
            percentile(us, 0.99),
            threads};
  }

  std::uint64_t run_once(Test test, std::uint64_t bytes, std::uint64_t count) {
    return is_one_sided(test) ? run_one_sided(test, bytes, count) : run_both(test, bytes, count);
  }

  std::uint64_t run_both(Test test, std::uint64_t bytes, std::uint64_t count) {
    const Order order{++serial_, test, kMagic, bytes, count, back_};
    const std::uint64_t before = side_.received;
    side_.send(peer_, &order, sizeof order);
    if (test == Test::put_lat) side_.wait_messages(peer_, before + 1);
    Operation operation;
    const std::uint64_t began = now_ns();
    if (test == Test::put_lat) {
      for (std::uint64_t i = 1; i <= count; ++i) {
        side_.put_word(memory_, peer_, data_, bytes, first_value(order) + i, operation);
        side_.wait_word(peer_, bytes, first_value(order) + i);
      }
    } else if (test == Test::send_lat) {
      for (std::uint64_t i = 1; i <= count; ++i) {
        side_.send(peer_, data_.data(), bytes);
        side_.wait_messages(peer_, before + i);
      }
    } else {
      for (std::uint64_t i = 0; i < count; ++i) side_.send(peer_, data_.data(), bytes);
      side_.wait_messages(peer_, before + 1);
    }
    return now_ns() - began;
  }

  // All threads begin together; the time is that from the first one's begin, as not each may have a
  // core at once, until the last has ended.
  std::uint64_t run_one_sided(Test test, std::uint64_t bytes, std::uint64_t count) {
    const auto threads = static_cast<std::uint64_t>(threads_);
    std::barrier begin(threads_);
    std::vector<std::uint64_t> began(threads);
    const auto work = [&](std::uint64_t share) {
      const PeerMemory memory = memory_;
      // Each thread uses cache lines of its own.
      std::byte* const data = data_.data() + share * (kMostBytes / threads);
      begin.arrive_and_wait();
      began[share] = now_ns();
      do_share(test, memory, data, bytes, count / threads + (share < count % threads ? 1 : 0));
    };
    {
      std::vector<std::jthread> others;
      for (std::uint64_t share = 1; share < threads; ++share) others.emplace_back(work, share);
      work(0);
    }
    return now_ns() - *std::min_element(began.begin(), began.end());
  }

  // One thread's part. At most kMostBytes / threads_ at a time.
  void do_share(Test test, const PeerMemory& memory, std::byte* data, std::uint64_t bytes,
                std::uint64_t count) {
    Node& node = side_.node;
    const auto end = [&](Operation& operation) {
      check(operation.is_done() ? operation.code() : node.wait(operation), peer_);
    };
    Operation operation;
    switch (test) {
      case Test::get_lat:
        for (std::uint64_t i = 0; i < count; ++i) {
          node.get(memory, 0, data, bytes, operation);
          end(operation);
        }
        return;
      case Test::cas:
        for (std::uint64_t i = 0; i < count; ++i) {
          node.cas(memory, 0, i, i + 1, operation);
          end(operation);
        }
        return;
      case Test::fetch_add:
        for (std::uint64_t i = 0; i < count; ++i) {
          node.fetch_add(memory, 0, 1, operation);
          end(operation);
        }
        return;
      case Test::batch: {
        const std::uint64_t room = kMostBytes / static_cast<std::uint64_t>(threads_) - bytes + 1;
        std::vector<Transfer> parts;
        for (std::size_t i = 0; i < depth_; ++i)
          parts.push_back({&memory, i * bytes % room, data + i * bytes % room, bytes});
        for (std::uint64_t i = 0; i < count; i += depth_) {
          const auto number = std::min<std::uint64_t>(depth_, count - i);
          node.get_all(std::span(parts).first(number), operation);
          end(operation);
        }
        return;
      }
      default: {
        std::vector<Operation> window(depth_);
        for (std::uint64_t i = 0; i < count; ++i) {
          Operation& next = window[i % depth_];
          end(next);
          if (test == Test::get_bw)
            node.get(memory, 0, data, bytes, next);
          else
            node.put(memory, 0, data, bytes, next);
        }
        for (Operation& last : window) end(last);
      }
    }
  }

  Side& side_;
  Peer peer_;
  PeerMemory memory_;
  std::size_t depth_;
  int threads_;
  std::vector<std::byte> data_;
  MemoryKey back_;
  std::uint64_t serial_ = 0;
};

std::uint64_t parse_bytes(std::string text) {
  std::uint64_t unit = 1;
  if (!text.empty()) {
    const char suffix = static_cast<char>(std::toupper(text.back()));
    unit = suffix == 'K' ? 1 << 10 : suffix == 'M' ? 1 << 20 : 1;
    if (unit > 1) text.pop_back();
  }
  try {
    return std::stoull(text) * unit;
  } catch (const std::exception&) {
    fail(fmt::format("'{}' is no number of bytes", text));
  }
}

}  // namespace

int main(int argc, char** argv) {
  cli::Command app{"weft-perf",
                   "weft-perf: latency and bandwidth between two Nodes\n\n"
                   "  weft-perf --listen host:port     on one host; prints its address\n"
                   "  weft-perf host:port [options]    on the other, or the same"};
  std::string listen, address,
      tests = "get_lat,put_lat,cas,fetch_add,send_lat,get_bw,put_bw,send_bw,batch", bytes = "8:1M",
      json, secret = "weft-perf";
  std::size_t depth = 64;
  int threads = 1;
  double seconds = 0.3;
  app.option("address", address, "address of a weft-perf --listen");
  app.option("--listen", listen, "host:port or unix:/path to listen on");
  app.option("--test", tests, "of " + tests);
  app.option("--bytes", bytes, "one length, or FROM:TO in steps of 8 times (8:1M)");
  app.option("--depth", depth, "operations in flight in _bw and batch (64)").range(1, 4096);
  app.option("--threads", threads,
             "threads at work in get_lat, cas, fetch_add, get_bw, put_bw, batch (1)")
      .range(1, 256);
  app.option("--seconds", seconds, "time for each figure (0.3)");
  app.option("--secret", secret, "secret shared by both sides (weft-perf)");
  app.option("--json", json, "file for the results");
  if (const auto status = app.parse(argc, argv)) return *status;
  if (listen.empty() == address.empty()) fail("one of ADDRESS and --listen is wanted; see --help");

  NodeSettings settings;
  settings.secret = secret;
  try {
    if (!listen.empty()) return run_server(listen, settings);
    settings.name = "weft-perf client";
    settings.progress_thread = false;
    Side side(settings);
    MemoryKey key;
    bool has_key = false;
    side.node.on_message([&](const Peer&, std::span<const std::byte> got) {
      if (!has_key && got.size() == sizeof key) {
        std::memcpy(&key, got.data(), sizeof key);
        has_key = true;
      } else {
        ++side.received;
      }
    });
    Peer peer;
    check(side.node.connect(address, peer));
    while (!has_key && !peer.is_lost()) side.node.wait_some(20);
    if (!has_key) fail("the server is gone");
    const std::size_t colon = bytes.find(':');
    const std::uint64_t from = parse_bytes(bytes.substr(0, colon));
    const std::uint64_t to =
        colon == std::string::npos ? from : parse_bytes(bytes.substr(colon + 1));
    const std::uint64_t most = kMostBytes / static_cast<std::uint64_t>(threads);
    if (from < 8 || to < from || to > most)
      fail(fmt::format("--bytes: from 8 to {} with so many threads", most));
    Client client(side, peer, key, depth, threads);
    nlohmann::json results = nlohmann::json::array();
    bool are_steady = true;
    fmt::print(
        "over {} to {}; us: the median, and percentiles, of 5 to 100 batches\n"
        "{:10} {:>9} {:>8} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
        peer.fabric(), peer.name(), "test", "bytes", "threads", "count", "us", "p10", "p90", "p99",
        "MB/s");
    for (std::size_t i = 0; i < std::size(kNames); ++i) {
      const auto test = static_cast<Test>(i);
      if (("," + tests + ",").find(fmt::format(",{},", kNames[i])) == std::string::npos) continue;
      const bool is_word = test == Test::cas || test == Test::fetch_add;
      for (std::uint64_t size = is_word ? 8 : from; size <= (is_word ? 8 : to); size *= 8) {
        const Result result = client.run(test, size, seconds);
        const double mb = static_cast<double>(size) * result.threads / result.p50;
        are_steady = are_steady && result.is_steady();
        fmt::print("{:10} {:>9} {:>8} {:>12} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.1f}{}\n",
                   kNames[i], size, result.threads, result.count, result.p50, result.p10,
                   result.p90, result.p99, mb, result.is_steady() ? "" : " unsteady");
        fflush(stdout);
        results.push_back({{"test", kNames[i]},
                           {"bytes", size},
                           {"threads", result.threads},
                           {"count", result.count},
                           {"us", result.p50},
                           {"p10_us", result.p10},
                           {"p90_us", result.p90},
                           {"p99_us", result.p99},
                           {"is_steady", result.is_steady()},
                           {"mb_s", mb},
                           {"fabric", std::string(peer.fabric())}});
      }
    }
    if (!are_steady)
      fmt::print(stderr,
                 "weft-perf: figures marked unsteady mean little: their p90 is more than {} times "
                 "their p10. Other programs may use the processors; --seconds measures longer.\n",
                 Result::kMostSpread);
    if (!json.empty()) {
      auto file = fmt::output_file(json);
      file.print("{}\n", results.dump(1));
    }
  } catch (const Error& error) {
    fail(error.status().text());
  }
  return 0;
}
