// Two Nodes of one process that do a little of everything with each other, for tests/shortage/run.
// It says in one line how that ended, and what is left of it.
#include <dirent.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <vector>
#include <weft/node.hpp>
#include <weft/weft.hpp>

namespace {

using namespace weft;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBytes = 100'000;
constexpr std::chrono::seconds kLimit(15);

int num_entries(const char* folder, const char* but) {
  int num = 0;
  DIR* files = opendir(folder);
  while (files != nullptr) {
    const dirent* file = readdir(files);
    if (file == nullptr) break;
    char target[64] = {};
    (void)!readlinkat(dirfd(files), file->d_name, target, sizeof target - 1);
    num += std::strstr(target, but) == nullptr;
  }
  if (files != nullptr) closedir(files);
  return num;
}

std::atomic<bool> server_has_ended{false}, client_has_ended{false};

struct Told {
  std::string what;
  Code code;
};

void must(Code code, const char* what) {
  if (code != Code::ok) throw Told{what, code};
}
void must(const Status& status, const char* what) { must(status.code(), what); }
void must(bool right, const char* what) {
  if (!right) throw Told{std::string(what) + " is wrong", Code::internal};
}

template <class F>
void wait_until(Node& node, const char* what, F&& done) {
  for (const auto limit = Clock::now() + kLimit; !done();) {
    if (Clock::now() > limit) throw Told{what, Code::timed_out};
    node.wait_some(10);
  }
}

// Asks, is answered with a key, uses the memory, and says that it is done.
void use(Node& node, const std::string& address) {
  std::vector<std::byte> answer;
  Status lost;
  std::string messages;
  node.on_message([&](const Peer&, std::span<const std::byte> bytes) {
    answer.assign(bytes.begin(), bytes.end());
  });
  node.on_lost([&](const Peer&, const Status& why) { lost = why; });
  Peer peer;
  for (const auto limit = Clock::now() + kLimit;;) {
    const Status status = node.connect(address, peer, 4000);
    if (status) break;
    if (status != Code::not_found || server_has_ended || Clock::now() > limit)
      must(status, "connect");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const auto gone = [&] { return !lost.ok() || peer.is_lost(); };
  const auto send = [&](const std::vector<std::byte>& message) {
    for (;;) {
      const Code code = node.send(peer, message.data(), message.size());
      if (code == Code::ok) return;
      if (code != Code::again) must(lost ? Status(code) : lost, "send");
      node.wait_some(10);
    }
  };
  const auto ended = [&](const Operation& operation, const char* what) {
    const Code code = node.wait(operation);
    must(code == Code::peer_lost && !lost ? lost.code() : code, what);
  };

  send({std::byte{1}});
  wait_until(node, "the key", [&] { return answer.size() == 2 * sizeof(MemoryKey) || gone(); });
  if (gone()) must(lost, "the key");
  MemoryKey keys[2];
  std::memcpy(keys, answer.data(), sizeof keys);
  for (const MemoryKey& key : keys) {
    const PeerMemory memory = node.memory(peer, key);
    std::vector<std::byte> out(kBytes, std::byte{7}), in(kBytes);
    std::uint64_t word = 0;
    Operation operation;
    node.get(memory, 0, &word, 8, operation);
    ended(operation, "get");
    must(word == 42, "what was read");
    node.put(memory, 4096, out.data(), 50'000, operation);
    ended(operation, "put");
    node.get(memory, 4096, in.data(), 50'000, operation);
    ended(operation, "get");
    must(std::memcmp(in.data(), out.data(), 50'000) == 0, "what was written");
    node.fetch_add(memory, 8, 1, operation);
    ended(operation, "fetch_add");
    Transfer parts[20];
    for (std::size_t i = 0; i < std::size(parts); ++i)
      parts[i] = {&memory, 4096 + 1024 * i, in.data() + 1024 * i, 1024};
    node.get_all(parts, operation);
    ended(operation, "get_all");
    node.put_notify(memory, 4096, out.data(), 100, NotifyTag{5}, operation);
    ended(operation, "put_notify");
  }
  {
    Operation operation;
    const std::vector<std::byte> large(300'000, std::byte{2});
    node.send(peer, large.data(), large.size(), operation);
    ended(operation, "a long message");
  }
  for (int i = 0; i < 50; ++i) send(std::vector<std::byte>(100, std::byte{3}));
  answer.clear();
  send({std::byte{4}});
  wait_until(node, "the last answer", [&] { return !answer.empty() || gone(); });
  if (answer.empty()) must(lost, "the last answer");
  node.close(peer);
}

// Until one client has come and gone.
void serve(Node& node, const std::string& address) {
  void* allocated = nullptr;
  must(node.allocate(kBytes, allocated), "allocate");
  static std::vector<std::byte> own(kBytes);
  must(node.register_memory(own.data(), own.size()), "register");
  *static_cast<std::uint64_t*>(allocated) = 42;
  std::memcpy(own.data(), allocated, 8);
  MemoryKey keys[2];
  must(node.key(allocated, kRead | kWrite | kAtomic, keys[0]), "key");
  must(node.key(own.data(), kRead | kWrite | kAtomic, keys[1]), "key");
  Status lost;
  bool came = false, left = false;
  int num_small = 0, num_notified = 0;
  bool has_large = false, is_last = false;
  // An answer is sent outside the callback, where it may wait for room.
  Peer asks;
  node.on_peer([&](const Peer&) { came = true; });
  node.on_lost([&](const Peer&, const Status& why) {
    lost = why;
    left = true;
  });
  node.on_notify([&](const Peer&, const NotifyTag&) { ++num_notified; });
  node.on_message([&](const Peer& peer, std::span<const std::byte> bytes) {
    num_small += bytes.size() == 100;
    has_large = has_large || bytes.size() == 300'000;
    is_last = bytes.size() == 1 && bytes[0] == std::byte{4};
    if (bytes.size() == 1) asks = peer;
  });
  must(node.listen(address), "listen");
  wait_until(node, "a client", [&] { return came || left || client_has_ended; });
  if (!came) return;
  while (!left) {
    wait_until(node, "the client", [&] { return left || asks; });
    if (!asks) break;
    for (Code code = Code::again; code == Code::again && !left;) {
      code = node.send(asks, keys, is_last ? 1 : sizeof keys);
      if (code == Code::again) node.wait_some(10);
    }
    asks = {};
  }
  // That the client has left is how it ends; it says so itself if that was too early.
  must(lost == Code::peer_lost ? Status() : lost, "the client");
  if (is_last) {
    must(num_small == 50 && has_large && num_notified == 2, "what was received");
    must(std::to_integer<int>(own[8]) == 1, "what was added");
  }
  must(node.deregister_memory(own.data()), "deregister");
  must(node.release(allocated), "release");
}

struct Side {
  std::string told = {};
  Code code = Code::ok;
};

template <class F>
Side run(const char* name, F&& body) {
  try {
    // Without a thread of its own, so that callbacks come while this one waits.
    Node node({.name = name, .progress_thread = false});
    body(node);
  } catch (const Error& error) {
    return {"a Node", error.status().code()};
  } catch (const Told& told) {
    return {told.what, told.code};
  }
  return {};
}

}  // namespace

int main() {
  const std::string address = "unix:@weft-shortage-" + std::to_string(getpid());
  const char* but = "memfd:weft-stats";
  const int files = num_entries("/proc/self/fd", but);
  Side server, client;
  try {
    std::thread serves([&] {
      server = run("server", [&](Node& node) { serve(node, address); });
      server_has_ended = true;
    });
    client = run("client", [&](Node& node) {
      const Node idle({.name = "with a thread"});
      use(node, address);
    });
    client_has_ended = true;
    serves.join();
  } catch (const std::system_error&) {
    client = {"a thread", Code::no_memory};
  }
  // What the one lacked, the other heard of in other words.
  const Side& first = server.code == Code::no_memory ? server
                      : client.code != Code::ok      ? client
                                                     : server;
  // What libfabric keeps is its own.
  const bool remote = std::getenv("WEFT_FABRIC") == std::string("ofi");
  const int left_files = remote ? 0 : num_entries("/proc/self/fd", but) - files;
  const bool leaks = left_files != 0;
  if (first.code == Code::ok)
    std::printf("rank 0: fine%s\n", leaks ? ", and leaks" : "");
  else
    std::printf("rank 0: told %s: %s%s\n", first.told.c_str(), code_name(first.code).data(),
                leaks ? ", and leaks" : "");
  if (leaks) std::printf("%d files\n", left_files);
  return 0;
}
