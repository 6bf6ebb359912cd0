#pragma once
// Nodes that all talk to all, with several threads each: messages that are numbered by thread, puts
// that are got again, and atomics that are counted. For devices that have fewer links than peers;
// turns_test.cpp runs it with Nodes of one process, turns.cpp with one in each process.
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/wait.hpp"
#include "weft/node.hpp"

namespace weft::test {

struct Talk {
  std::size_t nodes, threads, steps;
  int timeout_ms;
  std::uint64_t limit_ns;  // for each wait
  bool is_faulty = false;  // links break, so that an atomic may be unknown
  std::size_t words = 64;  // of a put
};

// What the Nodes have beside their fabric.
struct Board {
  virtual ~Board() = default;
  virtual std::vector<std::string> exchange(std::size_t self, const std::string& address) = 0;
  virtual void barrier() = 0;  // after which each has all
};

class Talker {
 public:
  Talker(const Talk& talk, std::size_t self, Board& board)
      : talk_(talk),
        self_(self),
        board_(board),
        memory_(1 + talk.nodes * talk.threads * talk.words),
        next_(talk.nodes * talk.threads),
        peers_(talk.nodes),
        keys_(talk.nodes),
        node_({.name = std::to_string(self), .secret = "talk", .timeout_ms = talk.timeout_ms}) {}

  // What went wrong; empty: nothing.
  std::string run() {
    node_.on_message([this](const Peer& peer, std::span<const std::byte> bytes) {
      on_message(index_of(peer), bytes);
    });
    node_.on_peer([this](const Peer& peer) {
      const std::lock_guard lock(lock_);
      peers_[index_of(peer)] = peer;
    });
    node_.on_lost([this](const Peer& peer, const Status& why) {
      if (!is_over_) fail("lost " + peer.name() + ": " + why.text());
    });
    std::string address;
    if (Status status = node_.address(address); !status) return status.text();
    const std::vector<std::string> all = board_.exchange(self_, address);
    for (std::size_t to = self_ + 1; to < talk_.nodes; ++to) {
      Peer peer;
      if (Status status =
              node_.connect(all[to], peer, static_cast<int>(talk_.limit_ns / 1'000'000));
          !status)
        fail("connect to " + std::to_string(to) + ": " + status.text());
      const std::lock_guard lock(lock_);
      peers_[to] = peer;
    }
    if (!until([this] { return num_of_peers() == talk_.nodes - 1; })) fail("has not all peers");
    MemoryKey own;
    if (!node_.register_memory(memory_.data(), memory_.size() * 8) ||
        !node_.key(memory_.data(), kAllRights, own))
      fail("has no memory");
    if (has_failed()) {
      is_over_ = true;
      board_.barrier();
      return why_;
    }
    for_each_peer([&](std::size_t to) { send(to, &own, sizeof own); });
    if (!until([this] { return num_keys_ == talk_.nodes - 1; })) fail("has not all keys");
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < talk_.threads && !has_failed(); ++thread)
      threads.emplace_back([this, thread] { work(thread); });
    for (std::thread& thread : threads) thread.join();
    const std::size_t most = (talk_.nodes - 1) * talk_.threads * talk_.steps;
    if (!until([&] { return num_received_ == most; }))
      fail("received " + std::to_string(num_received_) + " messages of " + std::to_string(most));
    // Those of others may still be under way.
    board_.barrier();
    is_over_ = true;
    const std::uint64_t added = std::atomic_ref(memory_[0]).load();
    if (added > most || (added < most && !talk_.is_faulty))
      fail("counts " + std::to_string(added) + " of " + std::to_string(most));
    return why_;
  }
  Node& node() { return node_; }
  const Peer& peer(std::size_t index) const { return peers_[index]; }

 private:
  static std::size_t index_of(const Peer& peer) {
    return static_cast<std::size_t>(std::atoi(peer.name().c_str()));
  }
  std::size_t num_of_peers() {
    const std::lock_guard lock(lock_);
    std::size_t count = 0;
    for (const Peer& peer : peers_) count += peer ? 1 : 0;
    return count;
  }
  template <class F>
  void for_each_peer(F&& f) {
    for (std::size_t i = 1; i < talk_.nodes; ++i) f((self_ + i) % talk_.nodes);
  }
  template <class F>
  bool until(F&& done) {
    for (const std::uint64_t limit = now_ns() + talk_.limit_ns; !done();) {
      if (has_failed() || now_ns() > limit) return false;
      node_.wait_some(10);
    }
    return true;
  }
  void fail(const std::string& why) {
    const std::lock_guard lock(lock_);
    if (!has_failed_.exchange(true)) why_ = "Node " + std::to_string(self_) + ": " + why;
  }
  bool has_failed() const { return has_failed_; }

  void send(std::size_t to, const void* message, std::size_t bytes) {
    Code code = Code::again;
    if (!until([&] { return (code = node_.send(peers_[to], message, bytes)) != Code::again; }) ||
        code != Code::ok)
      fail("cannot send to " + std::to_string(to) + ": " + std::string(code_name(code)));
  }
  bool wait(const Operation& operation, const char* what, std::size_t to) {
    const Code code = node_.wait(operation, static_cast<int>(talk_.limit_ns / 1'000'000));
    if (code == Code::ok || (code == Code::outcome_unknown && talk_.is_faulty)) return true;
    fail(std::string(what) + " with " + std::to_string(to) + ": " + std::string(code_name(code)));
    return false;
  }

  void on_message(std::size_t from, std::span<const std::byte> bytes) {
    if (bytes.size() == sizeof(MemoryKey)) {
      std::memcpy(&keys_[from], bytes.data(), sizeof(MemoryKey));
      ++num_keys_;
      return;
    }
    std::array<std::uint32_t, 2> message{};  // thread and step
    if (bytes.size() != sizeof message) return fail("got a strange message");
    std::memcpy(message.data(), bytes.data(), sizeof message);
    if (message[0] >= talk_.threads || message[1] != next_[from * talk_.threads + message[0]]++)
      return fail("got a message out of order");
    ++num_received_;
  }

  void work(std::size_t thread) {
    std::mt19937 random(static_cast<unsigned>(self_ * talk_.threads + thread));
    std::map<std::size_t, PeerMemory> memories;
    for_each_peer([&](std::size_t to) { memories[to] = node_.memory(peers_[to], keys_[to]); });
    std::vector<std::uint64_t> data(talk_.words), copy(talk_.words);
    const std::size_t at = (1 + (self_ * talk_.threads + thread) * talk_.words) * 8;
    for (std::uint32_t step = 0; step < talk_.steps && !has_failed(); ++step)
      for_each_peer([&](std::size_t to) {
        if (has_failed()) return;
        Operation operation;
        const std::array<std::uint32_t, 2> message{static_cast<std::uint32_t>(thread), step};
        send(to, message.data(), sizeof message);
        node_.fetch_add(memories[to], 0, 1, operation);
        if (!wait(operation, "fetch_add", to) || random() % 4 != 0) return;
        data.assign(talk_.words, std::uint64_t{step} << 32 | to);
        node_.put(memories[to], at, data.data(), talk_.words * 8, operation);
        if (!wait(operation, "put", to)) return;
        node_.get(memories[to], at, copy.data(), talk_.words * 8, operation);
        if (wait(operation, "get", to) && copy != data) fail("gets what it did not put");
      });
  }

  const Talk talk_;
  const std::size_t self_;
  Board& board_;
  std::vector<std::uint64_t> memory_;  // a counter, and words for each thread of each Node
  std::vector<std::uint32_t> next_;    // messages, by Node and thread
  std::mutex lock_;
  std::string why_;
  std::vector<Peer> peers_;
  std::vector<MemoryKey> keys_;
  std::atomic<std::size_t> num_keys_{0}, num_received_{0};
  std::atomic<bool> has_failed_{false}, is_over_{false};
  Node node_;
};

}  // namespace weft::test
