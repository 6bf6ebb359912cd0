// Two Nodes that do a little of everything, rank 0 the server and rank 1 its client, for
// tests/shortage/run. Each says in one line how that ended, and what is left of it.
//   shortage_node calls|thread    who moves things on: these calls, or the Node's own thread
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <vector>
#include <weft/node.hpp>

#include "left.hpp"

namespace {

using namespace weft;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kWords = 8192;
constexpr std::size_t kLongBytes = 300'000;

struct Told {
  const char* what;
  Code why;
};

void must(Code code, const char* what) {
  if (code != Code::ok) throw Told{what, code};
}
void must(const Status& status, const char* what) { must(status.code(), what); }
void must(bool right, const char* what) {
  if (!right) throw Told{what, Code::internal};
}

// Of the other's end; the calls may come from the Node's thread.
struct Ends {
  std::atomic<bool> is_lost{false};
  std::atomic<Code> why{Code::ok};
  void watch(Node& node) {
    node.on_lost([this](const Peer&, const Status& status) {
      why = status.code();
      is_lost = true;
    });
  }
};

template <class F>
void wait_until(Node& node, Ends& ends, const char* what, F&& is_done, int seconds = 10) {
  for (const auto limit = Clock::now() + std::chrono::seconds(seconds); !is_done();) {
    if (ends.is_lost) throw Told{what, ends.why};
    if (Clock::now() > limit) throw Told{what, Code::timed_out};
    node.wait_some(5);
  }
}

void send(Node& node, const Peer& peer, const void* bytes, std::size_t length) {
  Code code = Code::again;
  for (int i = 0; i < 1000 && code == Code::again; ++i) {
    code = node.send(peer, bytes, length);
    if (code == Code::again) node.wait_some(5);
  }
  must(code, "send");
}

struct Keys {
  MemoryKey allocated, own;
};

void serve(Node& node, const std::string& address) {
  Ends ends;
  ends.watch(node);
  std::atomic<int> num_peers{0}, num_notified{0};
  std::atomic<std::size_t> longest{0};
  std::atomic<bool> says_bye{false}, asks{false};
  std::vector<Peer> peers(64);
  node.on_peer([&](const Peer& peer) { peers[static_cast<std::size_t>(num_peers++)] = peer; });
  node.on_notify([&](const Peer&, const NotifyTag&) { ++num_notified; });
  node.on_message([&](const Peer&, std::span<const std::byte> bytes) {
    if (bytes.size() > longest) longest = bytes.size();
    if (bytes.size() == 1) (bytes[0] == std::byte{'k'} ? asks : says_bye) = true;
  });
  static std::uint64_t own[kWords];
  void* address_of = nullptr;
  must(node.allocate(kWords * 8, address_of), "allocate");
  must(node.register_memory(own, sizeof own), "register_memory");
  Keys keys;
  must(node.key(address_of, kAllRights, keys.allocated), "key");
  must(node.key(own, kAllRights, keys.own), "key");
  must(node.listen(address), "listen");
  wait_until(
      node, ends, "a client", [&] { return asks.load(); }, 4);
  const Peer client = peers[static_cast<std::size_t>(num_peers - 1)];
  send(node, client, &keys, sizeof keys);
  wait_until(node, ends, "the goodbye", [&] { return says_bye.load(); });
  must(num_notified == 2 && longest == kLongBytes, "what has come");
  must(own[0] == 3 && static_cast<std::uint64_t*>(address_of)[0] == 3, "what was written");
  send(node, client, "b", 1);
  while (!ends.is_lost) wait_until(node, ends, "the end", [] { return false; });
}

void use(Node& node, const std::string& address) {
  Ends ends;
  ends.watch(node);
  std::atomic<bool> says_bye{false}, has_keys{false};
  Keys keys;
  node.on_message([&](const Peer&, std::span<const std::byte> bytes) {
    if (bytes.size() == 1) says_bye = true;
    if (bytes.size() != sizeof keys) return;
    std::memcpy(&keys, bytes.data(), sizeof keys);
    has_keys = true;
  });
  Peer server;
  Status status;
  // Until it listens.
  const auto limit = Clock::now() + std::chrono::seconds(2);
  do {
    status = node.connect(address, server, 3000);
    if (!status) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (!status && status.code() != Code::no_memory && Clock::now() < limit);
  must(status, "connect");
  send(node, server, "k", 1);
  wait_until(node, ends, "keys", [&] { return has_keys.load(); });
  static std::uint64_t words[kWords], back[kWords];
  must(node.register_memory(words, sizeof words), "register_memory");
  for (const MemoryKey& key : {keys.allocated, keys.own}) {
    const PeerMemory there = node.memory(server, key);
    for (std::size_t i = 0; i < kWords; ++i) words[i] = i + 1;
    Operation operation;
    node.put(there, 0, words, sizeof words, operation);
    must(node.wait(operation), "put");
    node.get(there, 0, back, sizeof back, operation);
    must(node.wait(operation), "get");
    must(std::memcmp(words, back, sizeof words) == 0, "what was read");
    node.fetch_add(there, 0, 1, operation);
    must(node.wait(operation), "fetch_add");
    node.cas(there, 0, 2, 3, operation);
    must(node.wait(operation), "cas");
    must(operation.previous() == 2, "what was there");
    std::vector<Transfer> parts;
    for (std::size_t i = 1; i < 40; ++i) parts.push_back({&there, i * 64, &words[i * 8], 64});
    node.put_all(parts, operation);
    must(node.wait(operation), "put_all");
    node.put_notify(there, 8, &words[1], 8, NotifyTag{}, operation);
    must(node.wait(operation), "put_notify");
  }
  const std::vector<std::byte> much(kLongBytes);
  Operation sent;
  node.send(server, much.data(), much.size(), sent);
  must(node.wait(sent), "the long message");
  send(node, server, "b", 1);
  wait_until(node, ends, "the goodbye", [&] { return says_bye.load(); });
  must(node.deregister_memory(words), "deregister_memory");
  node.close(server);
}

}  // namespace

int main(int, char** arguments) {
  const char* rank = std::getenv("WEFT_RANK");
  const bool serves = std::strcmp(rank, "0") == 0;
  const std::string address = "unix:@weft-short-" + std::to_string(getppid());
  const weft::testing::Left left;
  std::string result = "fine";
  try {
    Node node({.name = serves ? "server" : "client",
               .progress_thread = std::strcmp(arguments[1], "thread") == 0});
    (serves ? serve : use)(node, address);
  } catch (const Told& told) {
    // Who is left at the end is no loss.
    const bool is_end = serves && std::strcmp(told.what, "the end") == 0;
    if (!is_end || (told.why != Code::peer_lost && told.why != Code::cancelled))
      result = std::string("told ") + told.what + ": " + std::string(code_name(told.why));
  } catch (const Error& error) {
    result = "told " + std::string(code_name(error.status().code()));
  } catch (const std::bad_alloc&) {
    result = "told memory: out of memory";
  }
  left.print(rank, result);
  return 0;
}
