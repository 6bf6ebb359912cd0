// Nodes whose network fails, for reconnects_test.py. Over WEFT_FABRIC.
//
//   node_reconnects server PORT TIMEOUT_MS         a counter, whose key it sends to each who comes
//   node_reconnects clients ADDRESS N TIMEOUT_MS   N Nodes that add 1 again and again, and connect
//                                                  again when they have lost the server
//   node_reconnects connect DEAD LIVING N          asks the first for a connection, and meanwhile N
//                                                  times the second; prints in which order all
//                                                  ended
//
// The first two print a line of numbers for each line of standard input, and end with it. Clients
// to whom it says "stop" add no more.
#include <dirent.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/wait.hpp"
#include "weft/node.hpp"

using namespace weft;

namespace {

constexpr std::uint64_t kRetryNs = 100'000'000;
constexpr std::uint64_t kConnectNs = 60'000'000'000;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}
void check(const Status& status) {
  if (!status.ok()) fail(status.text());
}

// What standard input has; sets `ended` at its end.
std::string asked(bool& ended) {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (poll(&input, 1, 0) <= 0) return {};
  char text[256];
  const ssize_t bytes = read(STDIN_FILENO, text, sizeof text);
  ended = bytes <= 0;
  return {text, static_cast<std::size_t>(std::max<ssize_t>(bytes, 0))};
}

int num_descriptors() {
  DIR* const folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

int serve(const std::string& port, int timeout_ms) {
  Node node(
      {.name = "server", .secret = "secret", .timeout_ms = timeout_ms, .progress_thread = false});
  void* memory = nullptr;
  check(node.allocate(sizeof(std::uint64_t), memory));
  MemoryKey key;
  check(node.key(memory, kRead | kAtomic, key));
  int met = 0, lost = 0;
  node.on_peer([&](const Peer& peer) {
    ++met;
    (void)node.send(peer, &key, sizeof key);
  });
  node.on_lost([&](const Peer&, const Status&) { ++lost; });
  check(node.listen("0.0.0.0:" + port));
  std::puts("ready");
  std::fflush(stdout);
  for (bool ended = false; !ended;) {
    node.wait_some(10);
    if (asked(ended).empty()) continue;
    std::printf("counter=%llu peers=%d lost=%d descriptors=%d\n",
                static_cast<unsigned long long>(*static_cast<std::uint64_t*>(memory)), met - lost,
                lost, num_descriptors());
    std::fflush(stdout);
  }
  return 0;
}

class Client {
 public:
  Client(const std::string& address, int number, int timeout_ms)
      : address_(address),
        node_({.name = "client " + std::to_string(number),
               .secret = "secret",
               .timeout_ms = timeout_ms,
               .progress_thread = false}) {
    // Its message may come before the answer to connect_async.
    node_.on_peer([this](const Peer& peer) { peer_ = peer; });
    node_.on_message([this](const Peer& peer, std::span<const std::byte> bytes) {
      if (bytes.size() != sizeof(MemoryKey) || peer != peer_) return;
      MemoryKey key;
      std::memcpy(&key, bytes.data(), sizeof key);
      memory_ = node_.memory(peer, key);
      has_memory_ = true;
    });
    node_.on_lost([this](const Peer& peer, const Status&) {
      if (peer == peer_) forget();
      ++lost;
    });
  }

  void step() {
    node_.progress();
    if (adds_ && operation_.is_done()) {
      adds_ = false;
      if (operation_.code() == Code::ok)
        ++added;
      else
        ++unknown;
    }
    if (!peer_) {
      if (!connects_ && now_ns() >= next_ns_) connect();
    } else if (has_memory_ && !adds_ && !stopped_) {
      adds_ = true;
      node_.fetch_add(memory_, 0, 1, operation_);
    }
  }
  void stop() { stopped_ = true; }
  bool is_ready() const { return has_memory_; }
  bool is_adding() const { return adds_; }
  std::uint64_t generation() const { return peer_ ? peer_.generation() : 0; }

  std::uint64_t added = 0, unknown = 0, lost = 0, refused = 0;

 private:
  void connect() {
    connects_ = true;
    node_.connect_async(address_, [this](const Status& status, const Peer&) {
      connects_ = false;
      next_ns_ = now_ns() + kRetryNs;
      refused += status.ok() ? 0 : 1;
    });
  }
  void forget() {
    peer_ = {};
    has_memory_ = false;
    next_ns_ = now_ns() + kRetryNs;
  }

  std::string address_;
  Peer peer_;
  PeerMemory memory_;
  Operation operation_;
  bool has_memory_ = false, adds_ = false, connects_ = false, stopped_ = false;
  std::uint64_t next_ns_ = 0;
  Node node_;  // ends first: what it calls uses the others
};

int run_clients(const std::string& address, int count, int timeout_ms) {
  rlimit descriptors{};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  descriptors.rlim_cur = descriptors.rlim_max;
  setrlimit(RLIMIT_NOFILE, &descriptors);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < count; ++i)
    clients.push_back(std::make_unique<Client>(address, i, timeout_ms));
  for (bool ended = false; !ended;) {
    for (const auto& client : clients) client->step();
    usleep(1000);  // others need the processor, too
    const std::string word = asked(ended);
    if (word.empty()) continue;
    std::uint64_t ready = 0, adding = 0, added = 0, unknown = 0, lost = 0, refused = 0;
    for (const auto& client : clients) {
      if (word == "stop\n") client->stop();
      adding += client->is_adding() ? 1 : 0;
      ready += client->is_ready() ? 1 : 0;
      added += client->added;
      unknown += client->unknown;
      lost += client->lost;
      refused += client->refused;
    }
    std::printf(
        "ready=%llu adding=%llu added=%llu unknown=%llu lost=%llu refused=%llu generation=%llu\n",
        static_cast<unsigned long long>(ready), static_cast<unsigned long long>(adding),
        static_cast<unsigned long long>(added), static_cast<unsigned long long>(unknown),
        static_cast<unsigned long long>(lost), static_cast<unsigned long long>(refused),
        static_cast<unsigned long long>(clients[0]->generation()));
    std::fflush(stdout);
  }
  return 0;
}

int connect_both(const std::string& dead, const std::string& living, int count) {
  Node node({.name = "client", .secret = "secret", .progress_thread = false});
  std::string order;
  int num_ended = 0;
  const auto ended = [&](const char* which, const Status& status) {
    order.append(which).append(status.ok() ? " ok\n" : " failed: " + status.text() + "\n");
    ++num_ended;
  };
  const std::uint64_t start = now_ns();
  node.connect_async(dead, [&](const Status& status, const Peer&) { ended("dead", status); });
  std::uint64_t living_ns = 0;
  const std::function<void(int)> connect_next = [&](int number) {
    node.connect_async(living, [&, number](const Status& status, const Peer& peer) {
      ended("living", status);
      living_ns = now_ns() - start;
      if (status.ok()) node.close(peer);
      if (number + 1 < count) connect_next(number + 1);
    });
  };
  connect_next(0);
  while (num_ended < count + 1) {
    node.wait_some(10);
    if (now_ns() - start > kConnectNs) fail("not all have ended after 60 s:\n" + order);
  }
  std::printf("%sliving_ms=%llu all_ms=%llu\n", order.c_str(),
              static_cast<unsigned long long>(living_ns / 1'000'000),
              static_cast<unsigned long long>((now_ns() - start) / 1'000'000));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 3 && words[0] == "server") return serve(words[1], std::atoi(argv[3]));
  if (words.size() == 4 && words[0] == "clients")
    return run_clients(words[1], std::atoi(argv[3]), std::atoi(argv[4]));
  if (words.size() == 4 && words[0] == "connect")
    return connect_both(words[1], words[2], std::atoi(argv[4]));
  std::fputs("usage: node_reconnects server|clients|connect ..., see its head\n", stderr);
  return 2;
}
