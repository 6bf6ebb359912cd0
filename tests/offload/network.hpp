#pragma once
// A network of bad luck, by seed: leaders, switches, and packets that are lost, doubled, delayed
// and overtaken. Time is simulated; hosts' own messages between leaders are reliable and take no
// time. For tests; one thread.
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>

#include "coll/offload/enrolment.hpp"
#include "coll/offload/leader.hpp"
#include "coll/offload/placement.hpp"
#include "coll/offload/tree.hpp"
#include "coll/switch/aggregator.hpp"

namespace weft::testing {

struct Luck {
  double loss = 0, twice = 0;
  std::uint64_t delay_ns = 5'000, jitter_ns = 0;  // of a packet; jitter makes them overtake
  double long_delay = 0;                          // of packets that come much later
  std::uint64_t long_delay_ns = 0;
};

class Network {
 public:
  using Address = innet::Address;
  using Bytes = std::vector<std::byte>;
  using Receiver = std::function<void(const Address&, std::span<const std::byte>)>;

  explicit Network(std::uint64_t seed, Luck luck) : random(seed), luck_(luck) {}

  void attach(const Address& at, Receiver receiver) { receivers_[key(at)] = std::move(receiver); }
  void detach(const Address& at) { receivers_.erase(key(at)); }
  // Sees all that is sent, also what is lost; empty: nobody does.
  std::function<void(const Address& from, const Address& to, std::span<const std::byte>)> tap;
  void send(const Address& from, const Address& to, std::span<const std::byte> bytes) {
    if (tap) tap(from, to, bytes);
    ++sent[{key(from), key(to)}];
    payload[{key(from), key(to)}] += bytes.size() - innet::kHeaderBytes;
    if (chance(luck_.loss)) return;
    const int copies = chance(luck_.twice) ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      std::uint64_t delay = luck_.delay_ns;
      if (luck_.jitter_ns != 0) delay += random() % luck_.jitter_ns;
      if (chance(luck_.long_delay)) delay += random() % luck_.long_delay_ns;
      flights_.push({now_ns + delay, next_++, from, to, Bytes(bytes.begin(), bytes.end())});
    }
  }
  // Delivers what is due until then.
  void run_until(std::uint64_t limit_ns) {
    while (!flights_.empty() && flights_.top().at_ns <= limit_ns) {
      const Flight flight = flights_.top();
      flights_.pop();
      now_ns = flight.at_ns;
      const auto found = receivers_.find(key(flight.to));
      if (found != receivers_.end()) found->second(flight.from, flight.bytes);
    }
    now_ns = limit_ns;
  }
  bool chance(double p) { return p > 0 && std::uniform_real_distribution<>(0, 1)(random) < p; }
  static std::uint64_t key(const Address& at) { return std::uint64_t{at.ipv4} << 16 | at.port; }

  std::mt19937_64 random;
  std::uint64_t now_ns = 1'000'000;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> sent, payload;

 private:
  struct Flight {
    std::uint64_t at_ns, number;
    Address from, to;
    Bytes bytes;
    bool operator<(const Flight& other) const {
      return std::tie(at_ns, number) > std::tie(other.at_ns, other.number);
    }
  };
  Luck luck_;
  std::uint64_t next_ = 0;
  std::priority_queue<Flight> flights_;
  std::map<std::uint64_t, Receiver> receivers_;
};

// A switch at an address of the network, which can be switched off and begun anew.
class Switch : public innet::Wire {
 public:
  Switch(Network& network, innet::Address at, innet::AggregatorOptions options)
      : network_(network), at_(at), options_(std::move(options)) {
    start();
  }
  void start() {
    ++options_.seed;
    core = std::make_unique<innet::Aggregator>(options_, *this);
    network_.attach(at_, [this](const innet::Address& from, std::span<const std::byte> bytes) {
      core->on_packet(from, bytes, network_.now_ns);
    });
  }
  void stop() { network_.detach(at_); }
  void send(const innet::Address& to, std::span<const std::byte> bytes) override {
    network_.send(at_, to, bytes);
  }
  const innet::Address& at() const { return at_; }
  std::unique_ptr<innet::Aggregator> core;

 private:
  Network& network_;
  innet::Address at_;
  innet::AggregatorOptions options_;
};

inline innet::Address address(int kind, int number) {
  return {static_cast<std::uint32_t>(10 << 24 | kind << 16 | number), 1000};
}

// Leaders that make one group and go through operations together.
class Hosts {
 public:
  struct Host : offload::Leader::Wire, offload::Enrolment::Wire {
    Host(Hosts& all, int number, innet::Address tor)
        : all(all), number(number), tor(tor), leader(*this), enrolment(*this) {}
    void to_switch(std::span<const std::byte> packet) override {
      all.network.send(address(1, number), tor, packet);
    }
    void to_leader(int other, std::span<const std::byte> packet) override {
      all.network.send(address(4, number), address(4, other), packet);
    }
    Hosts& all;
    int number;
    innet::Address tor;
    offload::Leader leader;
    offload::Enrolment enrolment;
    bool enrolling = true;
  };

  Hosts(Network& network, const std::vector<innet::Address>& tors, bool ordered)
      : network(network), order(offload::order_of_sums(tors)), ordered_(ordered) {
    for (std::size_t i = 0; i < tors.size(); ++i)
      hosts.push_back(std::make_unique<Host>(*this, static_cast<int>(i), tors[i]));
    for (auto& host : hosts) {
      Host* at = host.get();
      network.attach(address(1, at->number),
                     [this, at](const innet::Address& from, std::span<const std::byte> bytes) {
                       if (!(from == at->tor)) return;
                       at->enrolling ? at->enrolment.on_switch(bytes)
                                     : at->leader.on_switch(bytes, this->network.now_ns);
                     });
      network.attach(address(4, at->number), [this, at](const innet::Address& from,
                                                        std::span<const std::byte> bytes) {
        at->leader.on_leader(static_cast<int>(from.ipv4 & 0xffff), bytes, this->network.now_ns);
      });
    }
  }

  // What offload.cpp does with sockets and messages. "": the group is there.
  std::string enrol(std::uint16_t epoch, std::uint16_t window) {
    const std::uint64_t limit = network.now_ns + 2'000'000'000;
    for (auto& host : hosts) {
      host->enrolling = true;
      host->enrolment.query({}, network.now_ns, limit);
    }
    settle([](Host& host) { return host.enrolment.is_over(); });
    std::vector<offload::Report> reports;
    for (auto& host : hosts)
      reports.push_back({host->tor, host->enrolment.answers(), host->enrolment.can()});
    offload::Tree tree = offload::grow(reports, ordered_);
    if (!tree.refusal.empty()) return tree.refusal;
    order = tree.order;
    num_levels = tree.levels.size();
    innet::Header header;
    header.group = group;
    header.key = 0x1234'5678'9abc'def0;
    header.epoch = epoch;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      tree.branches[i].window = window;
      tree.branches[i].lease_s = 60;
      tree.branches[i].job = 1;
      header.child = tree.children[i];
      hosts[i]->enrolment.notify(header, tree.branches[i], network.now_ns,
                                 network.now_ns + 2'000'000'000);
    }
    settle([](Host& host) { return host.enrolment.is_over(); });
    std::uint16_t least = window;
    for (auto& host : hosts) {
      if (host->enrolment.answer() != innet::Answer::ok)
        return std::string(innet::text(host->enrolment.answer()));
      least = std::min(least, host->enrolment.window());
    }
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      offload::LeaderOptions options;
      options.group = header.group;
      options.key = header.key;
      options.epoch = epoch;
      options.child = tree.children[i];
      options.ticket = hosts[i]->enrolment.ticket();
      options.self = static_cast<int>(i);
      options.num_leaders = static_cast<int>(hosts.size());
      options.window = least;
      options.payload_bytes = tree.payload_bytes;
      options.silence_ns = 300'000'000;
      options.fixed = fixed;
      hosts[i]->enrolling = false;
      hosts[i]->leader.open(options);
    }
    return "";
  }

  // Runs the network until all hosts are so, at most a minute of its time.
  template <class Done>
  bool settle(Done done) {
    const std::uint64_t limit = network.now_ns + 60'000'000'000;
    for (;;) {
      bool all = true;
      for (auto& host : hosts) all = done(*host) && all;
      if (all) return true;
      if (network.now_ns > limit) return false;
      step();
    }
  }
  void step() {
    network.run_until(network.now_ns + 200'000);
    for (auto& host : hosts) {
      if (host->enrolling)
        host->enrolment.on_time(network.now_ns);
      else
        host->leader.on_time(network.now_ns);
    }
  }

  Network& network;
  std::vector<std::unique_ptr<Host>> hosts;
  std::uint32_t group = 77;
  bool fixed = false;
  offload::SumOrder order;  // of the last group
  std::size_t num_levels = 0;

 private:
  bool ordered_;
};

}  // namespace weft::testing
