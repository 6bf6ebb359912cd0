// golden FOLDER: writes the captures of docs/switch, of both state machines themselves on a
// simulated network: what hosts and switches say to each other, as RoCEv2 packets, and what hosts
// say among themselves, as UDP. The same bytes with every run; a test compares them with those that
// are there.
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "coll/switch/roce.hpp"
#include "offload/network.hpp"

namespace weft::testing {
namespace {

using innet::Element;
using innet::Operation;
using State = offload::Leader::State;

// libpcap's format, with nanoseconds, of Ethernet frames.
class Capture {
 public:
  Capture(const std::string& file, Network& network) : out_(file, std::ios::binary) {
    put(0xa1b23c4d);
    put(4u << 16 | 2u);
    put(0);
    put(0);
    put(65535);
    put(1);
    network.tap = [this, &network](const innet::Address& from, const innet::Address& to,
                                   std::span<const std::byte> bytes) {
      add(network.now_ns, from, to, bytes);
    };
  }
  void close() {
    out_.close();
    if (!out_) std::exit(1);
  }

 private:
  void put(std::uint32_t value) { out_.write(reinterpret_cast<const char*>(&value), 4); }
  static bool is_switch(const innet::Address& at) {
    const auto kind = at.ipv4 >> 16 & 0xff;
    return kind == 2 || kind == 3;
  }
  static std::uint32_t queue_pair(const innet::Address& at) {
    return is_switch(at) ? innet::kSwitchQueuePair : 0x800000 + (at.ipv4 & 0xff);
  }
  static std::size_t write_udp(std::span<std::byte> out, const innet::Address& from,
                               const innet::Address& to, std::span<const std::byte> bytes) {
    // The IPv4 header is RoCE's but for its length and checksum.
    const std::size_t total = innet::kIpUdpBytes + bytes.size();
    std::byte whole[innet::kMaxRoceBytes];
    (void)innet::write_roce(whole, {from.ipv4, to.ipv4, from.port, 0, 0, 0, 0}, {});
    std::memcpy(out.data(), whole, innet::kIpUdpBytes);
    const auto number = [&](std::size_t at, std::size_t value) {
      out[at] = static_cast<std::byte>(value >> 8);
      out[at + 1] = static_cast<std::byte>(value);
    };
    number(2, total);
    number(10, 0);
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < 20; i += 2)
      sum += static_cast<std::uint32_t>(out[i]) << 8 | static_cast<std::uint32_t>(out[i + 1]);
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    number(10, ~sum & 0xffff);
    number(22, to.port);
    number(24, total - 20);
    std::memcpy(out.data() + innet::kIpUdpBytes, bytes.data(), bytes.size());
    return total;
  }
  void add(std::uint64_t now_ns, const innet::Address& from, const innet::Address& to,
           std::span<const std::byte> bytes) {
    std::byte frame[innet::kEthernetBytes + innet::kMaxRoceBytes] = {};
    const auto write_mac = [](std::byte* at, const innet::Address& of) {
      at[0] = std::byte{2};
      for (std::size_t i = 0; i < 4; ++i)
        at[2 + i] = static_cast<std::byte>(of.ipv4 >> (24 - 8 * i));
    };
    write_mac(frame, to);
    write_mac(frame + 6, from);
    frame[12] = std::byte{8};
    const auto packet = std::span(frame).subspan(innet::kEthernetBytes);
    std::size_t length;
    if (is_switch(from) || is_switch(to)) {
      const std::uint32_t sequence = sequence_[Network::key(from)]++;
      length = innet::write_roce(packet,
                                 {from.ipv4, to.ipv4, 0xc001, queue_pair(from), queue_pair(to),
                                  innet::kRoceQueueKey, sequence},
                                 bytes);
    } else {
      length = write_udp(packet, from, to, bytes);
    }
    length += innet::kEthernetBytes;
    put(static_cast<std::uint32_t>(now_ns / 1'000'000'000));
    put(static_cast<std::uint32_t>(now_ns % 1'000'000'000));
    put(static_cast<std::uint32_t>(length));
    put(static_cast<std::uint32_t>(length));
    out_.write(reinterpret_cast<const char*>(frame), static_cast<std::streamsize>(length));
  }
  std::ofstream out_;
  std::map<std::uint64_t, std::uint32_t> sequence_;
};

struct World {
  World(Luck luck, int num_hosts, int num_tors, const std::string& file)
      : network(1, luck), capture(file, network) {
    innet::AggregatorOptions options;
    options.payload_bytes = 64;
    options.seed = 1;
    if (num_tors > 1) {
      options.is_spine = true;
      spine = std::make_unique<Switch>(network, address(3, 0), options);
      options.is_spine = false;
      options.spines.push_back(address(3, 0));
    }
    std::vector<innet::Address> of_hosts;
    for (int i = 0; i < num_tors; ++i)
      tors.push_back(std::make_unique<Switch>(network, address(2, i), options));
    for (int i = 0; i < num_hosts; ++i) of_hosts.push_back(address(2, i % num_tors));
    hosts = std::make_unique<Hosts>(network, of_hosts, true);
  }
  void begin(Element element, std::size_t count) {
    const std::size_t unit = innet::element_bytes(element);
    for (auto& host : hosts->hosts) {
      Network::Bytes vector(count * unit);
      for (std::size_t i = 0; i < count; ++i) {
        const auto value = static_cast<std::int32_t>(i) + host->number + 1;
        const float number = static_cast<float>(value) / 4;
        std::memcpy(vector.data() + i * unit,
                    element == Element::f32 ? static_cast<const void*>(&number) : &value, 4);
      }
      host->leader.begin(element, Operation::sum, vector, network.now_ns);
    }
  }
  void settle() {
    const bool over = hosts->settle([](Hosts::Host& at) {
      return at.leader.state() == State::done || at.leader.state() == State::host;
    });
    if (!over) std::exit(1);
  }
  void end() {
    for (auto& host : hosts->hosts) {
      const innet::Header header = host->leader.header(innet::Kind::kill);
      std::byte packet[innet::kMaxPacketBytes];
      host->to_switch({packet, innet::write_packet(packet, header, {})});
    }
    network.run_until(network.now_ns + 1'000'000);
    capture.close();
  }
  void enrol() {
    if (!hosts->enrol(1, 4).empty()) std::exit(1);
  }
  Network network;
  Capture capture;
  std::unique_ptr<Switch> spine;
  std::vector<std::unique_ptr<Switch>> tors;
  std::unique_ptr<Hosts> hosts;
};

void write_all(const std::string& folder) {
  {
    World world({}, 2, 1, folder + "/one-switch.pcap");
    world.enrol();
    world.begin(Element::i32, 40);
    world.settle();
    world.end();
  }
  {
    World world({}, 4, 2, folder + "/two-levels.pcap");
    world.enrol();
    world.begin(Element::f32, 20);
    world.settle();
    world.end();
  }
  {
    World world({0.15, 0.1, 5'000, 40'000, 0, 0}, 3, 1, folder + "/loss.pcap");
    world.enrol();
    world.begin(Element::i32, 60);
    world.settle();
    world.end();
  }
  {
    World world({}, 2, 1, folder + "/fixed.pcap");
    world.hosts->fixed = true;
    world.enrol();
    world.begin(Element::f32, 40);
    world.settle();
    world.end();
  }
  {
    // One host has the result, the other hears of it no more; then the switch begins anew.
    World world({}, 2, 1, folder + "/restart.pcap");
    world.enrol();
    world.begin(Element::i32, 16);
    world.network.run_until(world.network.now_ns + 6'000);
    world.network.detach(address(1, 1));
    world.network.run_until(world.network.now_ns + 100'000);
    auto* deaf = world.hosts->hosts[1].get();
    world.network.attach(address(1, 1),
                         [&world, deaf](const innet::Address&, std::span<const std::byte> bytes) {
                           deaf->leader.on_switch(bytes, world.network.now_ns);
                         });
    world.tors[0]->start();
    world.settle();
    world.end();
  }
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: golden FOLDER\n");
    return 2;
  }
  weft::testing::write_all(argv[1]);
  return 0;
}
