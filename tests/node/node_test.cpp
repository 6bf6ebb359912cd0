// Nodes of one process, over every fabric.
#include "weft/node.hpp"

#include <dirent.h>
#include <malloc.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include "base/stats.hpp"
#include "base/wait.hpp"
#include "two_nodes.hpp"
#include "weft/job.hpp"
#ifdef WEFT_HAVE_OFI
#include "tests/support/native_ofi.hpp"
#endif

using namespace weft;
using namespace weft::test;
using fabric::loopback::Network;

namespace {

int count_entries(const char* path) {
  int count = 0;
  DIR* folder = ::opendir(path);
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

const Way kHostWays[] = {
    {"shared memory", "shm", {}, false}, {"shared memory, with threads", "shm", {}, true},
    {"tcp", "tcp", {}, false},           {"tcp, with threads", "tcp", {}, true},
#ifdef WEFT_HAVE_OFI
    {"ofi", "ofi", {}, false},           {"ofi, with threads", "ofi", {}, true},
#endif
};
const Way kOfiWays[] = {
    {"ofi", "ofi", {}, false},
    {"ofi, with threads", "ofi", {}, true},
};
const Way kVerbsWays[] = {
    {"verbs", "verbs", {}, false},
    {"verbs, with threads", "verbs", {}, true},
};
// WEFT_FABRIC=verbs, or ofi: that alone.
std::vector<Way> ways() {
  const char* only = std::getenv("WEFT_FABRIC");
  if (only != nullptr && std::string_view(only) == "verbs")
    return {std::begin(kVerbsWays), std::end(kVerbsWays)};
  if (only != nullptr && std::string_view(only) == "ofi")
    return {std::begin(kOfiWays), std::end(kOfiWays)};
  std::vector<Way> all(std::begin(kHostWays), std::end(kHostWays));
  all.insert(all.end(), std::begin(kLoopbackWays), std::end(kLoopbackWays));
  return all;
}

template <class F>
void over_each(F&& body) {
  for (const Way& way : ways()) {
    INFO("over " << way.name);
    body(way);
  }
}

}  // namespace

TEST_CASE("put, get, cas and fetch_add reach allocated and registered memory") {
  over_each([](const Way& way) {
    Two two(way);
    constexpr std::size_t kWords = 20'000;
    std::vector<std::uint64_t> own(kWords), source(kWords), copy(kWords);
    for (std::size_t i = 0; i < kWords; ++i) source[i] = i * 7 + 1;
    void* allocated = nullptr;
    REQUIRE(two.server.allocate(kWords * 8, allocated).ok());
    REQUIRE(two.server.register_memory(own.data(), kWords * 8).ok());
    for (void* memory : {allocated, static_cast<void*>(own.data())}) {
      const auto* words = static_cast<std::uint64_t*>(memory);
      MemoryKey key;
      REQUIRE(two.server.key(memory, kAllRights, key).ok());
      const PeerMemory remote = two.client.memory(two.at_client, key);
      Operation operation;
      two.client.put(remote, 0, source.data(), kWords * 8, operation);
      CHECK(two.wait(operation) == Code::ok);
      CHECK(std::memcmp(words, source.data(), kWords * 8) == 0);
      two.client.get(remote, 8, copy.data(), (kWords - 1) * 8, operation);
      CHECK(two.wait(operation) == Code::ok);
      CHECK(std::memcmp(words + 1, copy.data(), (kWords - 1) * 8) == 0);
      two.client.fetch_add(remote, 16, 5, operation);
      CHECK(two.wait(operation) == Code::ok);
      CHECK(operation.previous() == 15);
      two.client.cas(remote, 16, 20, 99, operation);
      CHECK(two.wait(operation) == Code::ok);
      CHECK(operation.previous() == 20);
      CHECK(words[2] == 99);
      two.client.cas(remote, 16, 20, 1, operation);
      CHECK(two.wait(operation) == Code::ok);
      CHECK(operation.previous() == 99);

      two.client.get(remote, kWords * 8 - 4, copy.data(), 8, operation);
      CHECK(two.wait(operation) == Code::bad_argument);
      two.client.put(remote, ~0ull, copy.data(), 8, operation);
      CHECK(two.wait(operation) == Code::bad_argument);
      two.client.fetch_add(remote, 4, 1, operation);
      CHECK(two.wait(operation) == Code::bad_argument);
      two.client.get(remote, kWords * 8, copy.data(), 0, operation);
      CHECK(two.wait(operation) == Code::ok);
      two.client.put(remote, 0, copy.data(), 0, operation);
      CHECK(two.wait(operation) == Code::ok);

      std::vector<Transfer> parts;
      for (std::size_t i = 0; i < 300; ++i) parts.push_back({&remote, i * 8, &copy[299 - i], 8});
      two.client.get_all(parts, operation);
      CHECK(two.wait(operation) == Code::ok);
      for (std::size_t i = 0; i < 300; ++i) REQUIRE(copy[299 - i] == words[i]);
      parts[150].offset = kWords * 8;
      two.client.get_all(parts, operation);
      CHECK(two.wait(operation) == Code::bad_argument);
      two.client.get_all({}, operation);
      CHECK(two.wait(operation) == Code::ok);
    }
  });
}

TEST_CASE("keys give the rights they were made for, to whom they were made for, in one life") {
  over_each([](const Way& way) {
    Two two(way);
    void* memory = nullptr;
    REQUIRE(two.server.allocate(4096, memory).ok());
    std::vector<std::byte> own(4096), copy(4096);
    REQUIRE(two.server.register_memory(own.data(), 4096).ok());
    for (void* at : {memory, static_cast<void*>(own.data())}) {
      MemoryKey readable, writable, others, mine;
      REQUIRE(two.server.key(at, kRead, readable).ok());
      REQUIRE(two.server.key(at, kWrite, writable).ok());
      REQUIRE(two.server.key(at, kAllRights, others, two.at_client).ok());  // the server itself
      REQUIRE(two.server.key(at, kAllRights, mine, two.at_server).ok());
      auto code = [&](const MemoryKey& key, bool puts) {
        const PeerMemory remote = two.client.memory(two.at_client, key);
        Operation operation;
        if (puts)
          two.client.put(remote, 0, copy.data(), 8, operation);
        else
          two.client.get(remote, 0, copy.data(), 8, operation);
        return two.wait(operation);
      };
      CHECK(code(readable, false) == Code::ok);
      CHECK(code(readable, true) == Code::not_permitted);
      CHECK(code(writable, true) == Code::ok);
      CHECK(code(writable, false) == Code::not_permitted);
      CHECK(code(others, false) == Code::not_permitted);
      CHECK(code(mine, false) == Code::ok);
      for (std::size_t byte = 0; byte < readable.bytes.size(); byte += 5) {
        MemoryKey forged = readable;
        forged.bytes[byte] ^= 0x10;
        CHECK(code(forged, false) == Code::not_permitted);
      }
      CHECK(code(MemoryKey{}, false) == Code::not_permitted);
      CHECK(two.server.key(at, 0, mine).code() == Code::bad_argument);
      MemoryKey same;
      REQUIRE(two.server.key(at, kRead, same).ok());
      CHECK(same == readable);
    }
    MemoryKey none;
    CHECK(two.server.key(copy.data(), kRead, none).code() == Code::not_found);
  });
}

TEST_CASE("what was begun with memory that is taken back ends, and nobody looks at it again") {
  const Way way{"loopback that does messages only",
                "loopback",
                {.message_max = 512, .puts = false, .gets = false, .atomics = false},
                false};
  const bool breaks = GENERATE(false, true);
  INFO((breaks ? "gets, over links that break" : "puts that are partly sent"));
  Two two(way);
  std::uint64_t counter = 0;
  REQUIRE(two.server.register_memory(&counter, 8).ok());
  MemoryKey key;
  REQUIRE(two.server.key(&counter, kAllRights, key).ok());
  const PeerMemory counted = two.client.memory(two.at_client, key);
  // More than may be under way at a time.
  constexpr std::uint64_t kRounds = 300;
  std::vector<std::byte> taken(2 << 20), own(taken.size());
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    REQUIRE(two.server.register_memory(taken.data(), taken.size()).ok());
    REQUIRE(two.server.key(taken.data(), kAllRights, key).ok());
    PeerMemory remote = two.client.memory(two.at_client, key);
    auto operation = std::make_unique<Operation>();
    two.client.get(remote, 0, own.data(), 8, *operation);
    REQUIRE(two.wait(*operation) == Code::ok);
    if (breaks) {
      Network::of_process()->set_faults({round + 1, 0, 1});
      two.client.get(remote, 0, own.data(), 4096, *operation);
    } else {
      two.client.put(remote, 0, own.data(), own.size(), *operation);
    }
    std::atomic<bool> is_back{false};
    std::thread owner([&] {
      is_back = two.server.deregister_memory(taken.data()).ok();
      while (!operation->is_done()) two.server.progress();
    });
    if (breaks) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      Network::of_process()->set_faults({});
    }
    for (const std::uint64_t limit = now_ns() + kDeadlineNs;
         !(operation->is_done() && is_back) && now_ns() < limit;)
      two.client.progress();
    REQUIRE(operation->is_done());
    owner.join();
    REQUIRE(is_back);
    CHECK((operation->code() == Code::ok || operation->code() == Code::not_permitted));
    operation.reset();
    Operation add;
    two.client.fetch_add(counted, 0, 1, add);
    REQUIRE(two.wait(add) == Code::ok);
    REQUIRE(add.previous() == round);
  }
}

TEST_CASE("memory that was taken back is refused, and its user does not crash") {
  over_each([](const Way& way) {
    Two two(way);
    void* memory = nullptr;
    REQUIRE(two.server.allocate(4096, memory).ok());
    std::vector<std::byte> own(4096), copy(4096);
    REQUIRE(two.server.register_memory(own.data(), 4096).ok());
    for (const bool allocated : {true, false}) {
      void* at = allocated ? memory : own.data();
      MemoryKey key;
      REQUIRE(two.server.key(at, kAllRights, key).ok());
      const PeerMemory remote = two.client.memory(two.at_client, key);
      Operation operation;
      two.client.put(remote, 0, copy.data(), 8, operation);
      REQUIRE(two.wait(operation) == Code::ok);
      std::atomic<bool> stop{false};
      std::atomic<Code> unexpected{Code::ok};
      std::thread user([&] {  // lets go by its progress
        const PeerMemory own_handle = remote;
        Operation more;
        while (!stop) {
          two.client.put(own_handle, 8, copy.data(), 8, more);
          two.client.progress();
          const Code code = two.client.wait(more);
          if (code != Code::ok && code != Code::not_permitted) unexpected = code;
        }
      });
      Status status = allocated ? two.server.release(at) : two.server.deregister_memory(at);
      CHECK(status.ok());
      stop = true;
      user.join();
      CHECK(unexpected.load() == Code::ok);
      two.client.get(remote, 0, copy.data(), 8, operation);
      CHECK(two.wait(operation) == Code::not_permitted);
      const PeerMemory again = two.client.memory(two.at_client, key);
      two.client.get(again, 0, copy.data(), 8, operation);
      CHECK(two.wait(operation) == Code::not_permitted);
      CHECK(two.server.release(at).code() == Code::not_found);
    }
  });
}

TEST_CASE("memory that is taken back before the answer about it has come is let go") {
  for (const Way& way : ways()) {
    if (way.progress_thread) continue;
    INFO("over " << way.name);
    Two two(way);
    void* memory = nullptr;
    REQUIRE(two.server.allocate(4096, memory).ok());
    MemoryKey key;
    REQUIRE(two.server.key(memory, kAllRights, key).ok());
    const PeerMemory remote = two.client.memory(two.at_client, key);
    for (int i = 0; i < 1000; ++i) two.server.progress();  // it answers
    Status released = Code::again;
    std::atomic<bool> is_released{false};
    std::thread releases([&] {
      released = two.server.release(memory);
      is_released = true;
    });
    // Only then does the client look at what has come.
    while (two.server.key(memory, kRead, key).code() != Code::not_found) std::this_thread::yield();
    while (!is_released) two.client.progress();
    releases.join();
    CHECK(released.ok());
    Operation operation;
    std::uint64_t word = 0;
    two.client.get(remote, 0, &word, 8, operation);
    CHECK(two.wait(operation) == Code::not_permitted);
  }
}

TEST_CASE("a region grows piece by piece, is read by the peer it is for, and loses a piece") {
  over_each([](const Way& way) {
    Two two(way);
    constexpr std::size_t kPiece = 8192;
    std::vector<void*> pieces;
    std::vector<PeerMemory> remote;
    const auto grow = [&] {
      REQUIRE(two.server.allocate(kPiece, pieces.emplace_back()).ok());
      std::memset(pieces.back(), static_cast<int>(pieces.size()), kPiece);
      MemoryKey key;
      REQUIRE(two.server.key(pieces.back(), kRead, key, two.at_server).ok());
      remote.push_back(two.client.memory(two.at_client, key));
    };
    const auto read = [&](std::size_t piece, std::uint64_t offset) {
      char byte = 0;
      Operation operation;
      two.client.get(remote[piece], offset, &byte, 1, operation);
      const Code code = two.wait(operation);
      CHECK((code != Code::ok || byte == static_cast<char>(piece + 1)));
      return code;
    };
    grow();
    grow();
    for (const std::size_t piece : {0, 1}) CHECK(read(piece, kPiece - 1) == Code::ok);
    grow();
    CHECK(read(2, 0) == Code::ok);
    Operation operation;
    two.client.put(remote[2], 0, "x", 1, operation);
    CHECK(two.wait(operation) == Code::not_permitted);
    std::atomic<bool> is_done{false};
    std::thread withdraws([&] {
      CHECK(two.server.release(pieces[1]).ok());
      is_done = true;
    });
    while (!is_done) two.client.progress();
    withdraws.join();
    CHECK(read(1, 0) == Code::not_permitted);
    for (const std::size_t piece : {0, 2}) CHECK(read(piece, kPiece / 2) == Code::ok);
  });
}

TEST_CASE("messages of any length arrive in order, and a notification after its data") {
  over_each([](const Way& way) {
    Two two(way);
    std::vector<std::string> sent, received;
    std::vector<int> tags;
    void* memory = nullptr;
    REQUIRE(two.server.allocate(1 << 16, memory).ok());
    MemoryKey key;
    REQUIRE(two.server.key(memory, kWrite, key).ok());
    two.server.on_message([&](const Peer& peer, std::span<const std::byte> bytes) {
      if (!(peer == two.at_server)) std::abort();
      received.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    });
    bool data_there = true;
    two.server.on_notify([&](const Peer&, const NotifyTag& tag) {
      tags.push_back(tag[0]);
      data_there &= static_cast<std::uint8_t*>(memory)[0] == tag[0] &&
                    static_cast<std::uint8_t*>(memory)[60'000] == tag[0];
    });
    const PeerMemory remote = two.client.memory(two.at_client, key);
    std::mt19937 random(3);
    for (int i = 0; i < 200; ++i) {
      const std::size_t length = i % 20 == 7 ? 300'000 : random() % 200;
      std::string text(length, static_cast<char>('a' + i % 26));
      if (text.size() <= two.at_client.message_max()) {
        while (two.client.send(two.at_client, text.data(), text.size()) == Code::again) {
          two.client.progress();
          two.server.progress();
        }
      } else {
        CHECK(two.client.send(two.at_client, text.data(), text.size()) == Code::bad_argument);
        Operation operation;
        two.client.send(two.at_client, text.data(), text.size(), operation);
        REQUIRE(two.wait(operation) == Code::ok);
      }
      sent.push_back(std::move(text));
      if (i % 10 == 0) {
        const std::vector<char> data(60'001, static_cast<char>(i));
        Operation operation;
        two.client.put_notify(remote, 0, data.data(), data.size(), {std::uint8_t(i)}, operation);
        REQUIRE(two.wait(operation) == Code::ok);
        REQUIRE(two.progress_until([&] { return tags.size() == std::size_t(i / 10 + 1); }));
        CHECK(tags.back() == i);
      }
    }
    REQUIRE(two.progress_until([&] { return received.size() == sent.size(); }));
    CHECK(received == sent);
    CHECK(data_there);
  });
}

TEST_CASE("what goes to a peer and comes from it is counted under its name") {
  const auto count = [](const char* peer, stats::Counter counter) {
    return stats::sum(peer)[static_cast<std::size_t>(counter)];
  };
  over_each([&](const Way& way) {
    const std::uint64_t sent = count("server", stats::Counter::sent),
                        sent_bytes = count("server", stats::Counter::sent_bytes),
                        received = count("client", stats::Counter::received),
                        received_bytes = count("client", stats::Counter::received_bytes);
    Two two(way);
    std::atomic<int> num_here{0};
    two.server.on_message([&](const Peer&, std::span<const std::byte>) { ++num_here; });
    const std::string text(100, 'x');
    for (int i = 0; i < 5; ++i)
      REQUIRE(two.client.send(two.at_client, text.data(), text.size()) == Code::ok);
    REQUIRE(two.progress_until([&] { return num_here == 5; }));
    CHECK(count("server", stats::Counter::sent) - sent >= 5);
    CHECK(count("server", stats::Counter::sent_bytes) - sent_bytes >= 500);
    CHECK(count("client", stats::Counter::received) - received >= 5);
    CHECK(count("client", stats::Counter::received_bytes) - received_bytes >= 500);
  });
}

TEST_CASE("a peer that leaves, or a Node that ends, ends what is under way with its name") {
  over_each([](const Way& way) {
    auto two = std::make_unique<Two>(way);
    std::vector<std::byte> own(1 << 16);
    REQUIRE(two->server.register_memory(own.data(), own.size()).ok());
    MemoryKey key;
    REQUIRE(two->server.key(own.data(), kAllRights, key).ok());
    PeerMemory remote = two->client.memory(two->at_client, key);
    std::vector<Operation> operations(20);
    for (Operation& operation : operations)
      two->client.get(remote, 0, own.data(), own.size(), operation);
    two->server.close(two->at_server);
    REQUIRE(two->progress_until([&] { return two->lost_at_client.code() == Code::peer_lost; }));
    CHECK(two->lost_at_client.text().find("server") != std::string::npos);
    for (Operation& operation : operations) CHECK(operation.is_done());
    CHECK(two->at_client.is_lost());
    Operation late;
    two->client.get(remote, 0, own.data(), 8, late);
    CHECK(two->wait(late) == Code::peer_lost);
    CHECK(two->client.send(two->at_client, "x", 1) == Code::peer_lost);
    const Peer kept = two->at_client;
    two.reset();
    CHECK(kept.is_lost());
  });
}

TEST_CASE("connecting fails with a reason: another secret, nobody there, no address") {
  Node server({.name = "server", .secret = "secret", .fabrics = "shm"});
  REQUIRE(server.listen("127.0.0.1:0").ok());
  std::string address;
  REQUIRE(server.address(address).ok());
  Node stranger({.name = "stranger", .secret = "guess", .fabrics = "shm"});
  Peer peer;
  CHECK(stranger.connect(address, peer).code() == Code::not_permitted);
  CHECK(stranger.connect("unix:@weft-nobody", peer).code() == Code::not_found);
  CHECK(stranger.connect("nonsense", peer).code() == Code::bad_argument);
  CHECK(stranger.connect("weft:nonsense", peer).code() == Code::corrupt);
  CHECK_FALSE(peer);
  Node other({.name = "other", .secret = "secret", .fabrics = "loopback"});
  const Status status = other.connect(address, peer);
  CHECK(status.code() == Code::unsupported);
  CHECK(status.text().find("shm") != std::string::npos);
  Node friendly({.name = "friend", .secret = "secret", .fabrics = "loopback,shm"});
  REQUIRE(friendly.connect(address, peer).ok());
  CHECK(peer.fabric() == "shm");
  NodeSettings none;
  none.fabrics = "none";
  CHECK_THROWS_AS(Node(none), Error);
}

TEST_CASE("an address of host:port leads to shared memory where both are on one host") {
  Node server({.name = "server", .secret = "secret", .fabrics = "shm"});
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in free_port{};
  free_port.sin_family = AF_INET;
  REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&free_port), sizeof free_port) == 0);
  socklen_t length = sizeof free_port;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&free_port), &length);
  ::close(fd);
  const std::string at = "127.0.0.1:" + std::to_string(ntohs(free_port.sin_port));
  REQUIRE(server.listen(at).ok());
  Node client({.name = "client", .secret = "secret", .fabrics = "shm"});
  Peer peer;
  const Status status = client.connect(at, peer);
  INFO(status.text());
  REQUIRE(status.ok());
  CHECK(peer.fabric() == "shm");
}

TEST_CASE("Nodes that come and go leave nothing") {
  over_each([](const Way& way) {
    auto round = [&] {
      Two two(way);
      void* memory = nullptr;
      REQUIRE(two.server.allocate(1 << 20, memory).ok());
      MemoryKey key;
      REQUIRE(two.server.key(memory, kAllRights, key).ok());
      const PeerMemory remote = two.client.memory(two.at_client, key);
      Operation operation;
      std::uint64_t word = 1;
      two.client.put(remote, 0, &word, 8, operation);
      CHECK(two.wait(operation) == Code::ok);
    };
    auto count_maps = [] {
      std::ifstream maps("/proc/self/maps");
      int count = 0;
      for (std::string line; std::getline(maps, line);)
        // The counters stay as long as the process.
        count += line.find("memfd:weft") != line.npos && line.find("weft-stats") == line.npos;
      return count;
    };
    round();
    const int descriptors = count_entries("/proc/self/fd"),
              threads = count_entries("/proc/self/task");
    for (int i = 0; i < 5; ++i) round();
    CHECK(count_entries("/proc/self/fd") == descriptors);
    CHECK(count_entries("/proc/self/task") == threads);
    CHECK(count_maps() == 0);
  });
}

TEST_CASE("a Node that ends calls nothing back") {
  over_each([](const Way& way) {
    Two two(way);
    std::atomic<bool> is_ending{false}, was_called{false};
    const auto called = [&](auto&&...) {
      if (is_ending) was_called = true;
    };
    two.client.on_lost(called);
    two.client.on_message(called);
    // Unread until the client says its goodbye.
    for (int i = 0; i < 3 && !way.progress_thread; ++i)
      REQUIRE(two.server.send(two.at_server, "unread", 6) == Code::ok);
    is_ending = true;
    std::atomic<bool> done{false};
    std::thread leaves([&] {
      two.owned.reset();
      done = true;
    });
    while (!done) two.server.progress();
    leaves.join();
    CHECK_FALSE(was_called);
  });
}

TEST_CASE("the thread of a Node takes none of the program's signals") {
  Node server({.name = "server", .secret = "secret", .fabrics = "shm"});
  std::string address;
  REQUIRE(server.address(address).ok());
  Node client({.name = "client", .secret = "secret", .fabrics = "shm", .progress_thread = false});
  Peer peer;
  REQUIRE(client.connect(address, peer).ok());  // so that thread runs
  static std::atomic<int> num_taken{0};
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) { ++num_taken; };
  REQUIRE(::sigaction(SIGUSR1, &action, &before) == 0);
  sigset_t own, mask;
  sigemptyset(&own);
  sigaddset(&own, SIGUSR1);
  REQUIRE(::pthread_sigmask(SIG_BLOCK, &own, &mask) == 0);
  REQUIRE(::kill(::getpid(), SIGUSR1) == 0);
  // It waits for this thread, if no other takes it; the Node's comes by here.
  REQUIRE(client.connect(address, peer).ok());
  CHECK(num_taken == 0);
  const timespec limit{5, 0};
  CHECK(::sigtimedwait(&own, nullptr, &limit) == SIGUSR1);
  REQUIRE(::pthread_sigmask(SIG_SETMASK, &mask, nullptr) == 0);
  REQUIRE(::sigaction(SIGUSR1, &before, nullptr) == 0);
}

TEST_CASE("a child that a process with Nodes has forked ends them for itself alone") {
  for (const bool progress_thread : {false, true}) {
    Two two({"shared memory", "shm", {}, progress_thread});
    void* memory = nullptr;
    REQUIRE(two.server.allocate(4096, memory).ok());
    MemoryKey key;
    REQUIRE(two.server.key(memory, kAllRights, key).ok());
    const PeerMemory remote = two.client.memory(two.at_client, key);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::alarm(20);
      two.owned.reset();
      two.server.~Node();
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
    Operation operation;
    std::uint64_t word = 7;
    two.client.put_notify(remote, 8, &word, 8, {}, operation);
    CHECK(two.wait(operation) == Code::ok);
    CHECK(static_cast<std::uint64_t*>(memory)[1] == 7);
    CHECK(!two.at_client.is_lost());
    CHECK(!two.at_server.is_lost());
  }
}

TEST_CASE("a forked child leaves its parent's links and memory alone, and is told to connect") {
  for (const Way& way : kHostWays) {
    INFO("over " << way.name);
    Two two(way);
    void* memory = nullptr;
    REQUIRE(two.server.allocate(4096, memory).ok());
    MemoryKey key;
    REQUIRE(two.server.key(memory, kAllRights, key).ok());
    PeerMemory remote = two.client.memory(two.at_client, key);
    Operation operation;
    std::uint64_t word = 7;
    two.client.put(remote, 8, &word, 8, operation);
    REQUIRE(two.wait(operation) == Code::ok);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::alarm(20);
      int num_wrong = 0;
      const auto expect_refused = [&](const Status& status) {
        num_wrong += status.code() != Code::bad_argument ||
                     status.text().find("connect anew after fork") == std::string::npos;
      };
      std::string text;
      Peer peer;
      MemoryKey other;
      void* address = nullptr;
      expect_refused(two.client.listen("127.0.0.1:0"));
      expect_refused(two.client.address(text));
      expect_refused(two.client.connect("unix:@nobody", peer));
      expect_refused(two.client.allocate(8, address));
      expect_refused(two.client.register_memory(&word, 8));
      expect_refused(two.server.key(memory, kRead, other));
      expect_refused(two.server.release(memory));
      num_wrong += two.client.send(two.at_client, "x", 1) != Code::bad_argument;
      const auto expect_ended = [&] { num_wrong += operation.code() != Code::bad_argument; };
      two.client.send(two.at_client, "x", 1, operation), expect_ended();
      two.client.put(remote, 8, &(word = 9), 8, operation), expect_ended();
      two.client.get(remote, 8, &word, 8, operation), expect_ended();
      two.client.put_notify(remote, 8, &word, 8, {}, operation), expect_ended();
      two.client.fetch_add(remote, 8, 1, operation), expect_ended();
      two.client.cas(remote, 8, 7, 1, operation), expect_ended();
      num_wrong += two.client.progress() || two.client.arm();
      two.client.wait_some(1);
      two.client.close(two.at_client);
      remote = {};
      two.at_client = {};
      two.owned.reset();
      // What a process does at its end, libraries' destructors among it.
      ::exit(num_wrong);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
    for (int i = 0; i < 3; ++i) {
      two.client.put_notify(remote, 16, &word, 8, {}, operation);
      CHECK(two.wait(operation) == Code::ok);
      two.client.get(remote, 8, &word, 8, operation);
      CHECK(two.wait(operation) == Code::ok);
      CHECK(word == 7);
    }
    CHECK(!two.at_client.is_lost());
    CHECK(!two.at_server.is_lost());
  }
}

TEST_CASE("empty handles are bad arguments, and nothing else") {
  Two two(kHostWays[0]);
  const Peer nobody;
  const PeerMemory nothing;
  CHECK(nobody.name().empty());
  CHECK(nobody.fabric().empty());
  CHECK(nobody.generation() == 0);
  CHECK(nobody.message_max() == 0);
  CHECK(nobody.is_lost());
  CHECK(!nobody.is_mapped());
  nobody.set_context(&two);
  CHECK(nobody.context() == nullptr);
  two.client.close(nobody);
  CHECK(two.client.send(nobody, "x", 1) == Code::bad_argument);
  Operation operation;
  std::uint64_t word = 0;
  const auto expect_refused = [&] { CHECK(two.client.wait(operation) == Code::bad_argument); };
  two.client.send(nobody, "x", 1, operation), expect_refused();
  const PeerMemory of_nobody = two.client.memory(nobody, {});
  PeerMemory moved = two.client.memory(two.at_client, {});
  const PeerMemory taken = std::move(moved);
  for (const PeerMemory* memory : {&nothing, &of_nobody, &std::as_const(moved)}) {
    two.client.put(*memory, 0, &word, 8, operation), expect_refused();
    two.client.get(*memory, 0, &word, 8, operation), expect_refused();
    two.client.put_notify(*memory, 0, &word, 8, {}, operation), expect_refused();
    two.client.cas(*memory, 0, 0, 1, operation), expect_refused();
    two.client.fetch_add(*memory, 0, 1, operation), expect_refused();
    const Transfer parts[] = {{&taken, 0, &word, 8}, {memory, 0, &word, 8}};
    two.client.put_all(parts, operation), expect_refused();
    two.client.get_all(parts, operation), expect_refused();
  }
  const Transfer none[] = {{nullptr, 0, &word, 8}};
  two.client.get_all(none, operation), expect_refused();
  CHECK(two.client.wait(Operation{}) == Code::ok);  // one that was never begun
  MemoryKey key;
  CHECK(two.client.key(&word, kRead, key).code() == Code::not_found);
  CHECK(two.client.listen(std::string_view("127.0.0.1:0\0x", 13)).code() == Code::bad_argument);
  CHECK_THROWS_AS(Node({.name = std::string("a\0b", 3)}), Error);
}

TEST_CASE("a peer that stands still is lost within the timeout, even if it is only sent to") {
  for (const char* fabric : {
           "shm",
           "tcp",
#ifdef WEFT_HAVE_OFI
           "ofi",
#endif
       })
    for (const bool floods : {false, true}) {
      INFO("over " << fabric << (floods ? ", until there is no room" : ", one message"));
      int pipe[2];
      REQUIRE(::pipe(pipe) == 0);
      const NodeSettings settings{
          .name = "still", .secret = "secret", .timeout_ms = 1000, .fabrics = fabric};
      ::setenv("WEFT_INTERFACE", "lo", 1);
      const pid_t child = ::fork();
      REQUIRE(child >= 0);
      if (child == 0) {
        ::alarm(60);
        Node peer(settings);
        std::string address;
        if (!peer.address(address)) ::_exit(1);
        address += '\n';
        if (::write(pipe[1], address.data(), address.size()) < 0) ::_exit(1);
        for (;;) peer.wait_some(1000);
      }
      ::close(pipe[1]);
      std::string address;
      for (char letter; ::read(pipe[0], &letter, 1) == 1 && letter != '\n';) address += letter;
      ::close(pipe[0]);
      {
        Status why;
        bool is_lost = false;
        Node node(settings);
        node.on_lost([&](const Peer&, const Status& status) {
          why = status;
          is_lost = true;
        });
        Peer peer;
        const Status connected = node.connect(address, peer, 20'000);
        INFO(connected.text());
        CHECK(connected.ok());
        CHECK(::kill(child, SIGSTOP) == 0);
        int status = 0;
        CHECK(::waitpid(child, &status, WUNTRACED) == child);
        const std::string message(1000, 'm');
        bool sends = true;
        for (const std::uint64_t limit = now_ns() + kDeadlineNs; !is_lost && now_ns() < limit;) {
          if (sends) (void)node.send(peer, message.data(), message.size());
          sends = floods;
          node.progress();
        }
        CHECK(is_lost);
        CHECK(why.code() == Code::peer_lost);
        CHECK(peer.is_lost());
      }
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
}

TEST_CASE("keys that are refused, or not used, leave nothing behind") {
  Two two(kHostWays[0]);
  std::uint64_t word = 0;
  Operation operation;
  const auto refuse = [&](int times) {
    for (int i = 0; i < times; ++i) {
      MemoryKey key{};
      std::memcpy(key.bytes.data(), &(word = static_cast<std::uint64_t>(i) + 1), sizeof word);
      const PeerMemory remote = two.client.memory(two.at_client, key);
      two.client.get(remote, 0, &word, 8, operation);
      REQUIRE(two.wait(operation) == Code::not_permitted);
    }
  };
  refuse(100);
  const std::size_t before = ::mallinfo2().uordblks;
  refuse(5000);
  CHECK(::mallinfo2().uordblks < before + 100'000);

  void* memory[2] = {};
  MemoryKey keys[2];
  for (int i = 0; i < 2; ++i) {
    REQUIRE(two.server.allocate(4096, memory[i]).ok());
    REQUIRE(two.server.key(memory[i], kAllRights, keys[i]).ok());
  }
  // Given up before the answer, which comes before the next one.
  (void)two.client.memory(two.at_client, keys[0]);
  const PeerMemory used = two.client.memory(two.at_client, keys[1]);
  two.client.get(used, 0, &word, 8, operation);
  CHECK(two.wait(operation) == Code::ok);
  std::ifstream maps("/proc/self/maps");
  int num_maps = 0;
  for (std::string line; std::getline(maps, line);)
    num_maps += line.find("weft-memory") != line.npos;
  CHECK(num_maps == 3);  // two of the owner, one of the user
}

TEST_CASE("words that lie across the processor's are refused to atomics") {
  Two two(kHostWays[0]);
  alignas(8) std::byte memory[64] = {};
  REQUIRE(two.server.register_memory(memory + 1, 32).ok());
  MemoryKey key;
  REQUIRE(two.server.key(memory + 1, kAllRights, key).ok());
  const PeerMemory remote = two.client.memory(two.at_client, key);
  Operation operation;
  two.client.fetch_add(remote, 0, 1, operation);
  CHECK(two.wait(operation) == Code::bad_argument);
  two.client.cas(remote, 8, 0, 1, operation);
  CHECK(two.wait(operation) == Code::bad_argument);
  CHECK(memory[1] == std::byte{0});
}

TEST_CASE("who has no descriptors left takes no other Node's socket away") {
  const std::string path = "/tmp/weft-node-test-" + std::to_string(::getpid());
  Node server({.name = "server", .secret = "secret", .fabrics = "shm"});
  Node other({.name = "other", .secret = "secret", .fabrics = "shm"});
  std::string address;
  REQUIRE(other.address(address).ok());
  REQUIRE(server.listen("unix:" + path).ok());
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const int next = ::dup(0);
  REQUIRE(next >= 0);
  ::close(next);
  // One more, and no second one.
  const rlimit tight{static_cast<rlim_t>(next) + 1, limit.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &tight) == 0);
  const Status status = other.listen("unix:" + path);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(!status.ok());
  Node client({.name = "client", .secret = "secret", .fabrics = "shm"});
  Peer peer;
  REQUIRE(client.connect("unix:" + path, peer).ok());
  CHECK(peer.name() == "server");
}

TEST_CASE("an exception of a callback goes to the program, and the Node goes on") {
  over_each([](const Way& way) {
    if (way.progress_thread) return;
    Two two(way);
    std::string received, sent;
    two.server.on_message([&](const Peer&, std::span<const std::byte> bytes) {
      received += static_cast<char>(bytes[0]);
      if (received.size() % 3 == 1) throw std::runtime_error("the program's");
    });
    int num_thrown = 0;
    for (char message = 'a'; message <= 'z'; ++message) {
      REQUIRE(two.client.send(two.at_client, &message, 1) == Code::ok);
      sent += message;
      if (message % 5 != 0) continue;
      // Behind the one that throws others have come, and more come afterwards.
      two.client.progress();
      try {
        two.server.progress();
      } catch (const std::runtime_error&) {
        ++num_thrown;
      }
    }
    for (bool is_done = false; !is_done;) {
      try {
        is_done = two.progress_until([&] { return received.size() >= 26 && num_thrown == 9; });
        REQUIRE(is_done);
      } catch (const std::runtime_error&) {
        ++num_thrown;
      }
    }
    CHECK(received == sent);
    CHECK(!two.at_server.is_lost());
  });
}
