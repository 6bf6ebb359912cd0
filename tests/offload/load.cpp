// offload_load INTERFACE OWN_IPV4 SWITCH_IPV4 PID CHILDREN WINDOW BYTES SECONDS: keeps weft-switch,
// which is process PID on the other side of INTERFACE, busy as CHILDREN hosts with WINDOW packets
// each under way. Prints how many contributions it took a second, and how many a second of its
// processor's time. It speaks RoCEv2 from a MAC address of its own by AF_XDP, so that it costs less
// than the switch.
#include <fmt/core.h>
#include <poll.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>

#include "base/wait.hpp"
#include "coll/switch/packet.hpp"
#include "tools/weft-switch/xdp_port.hpp"

namespace {

using namespace weft;         // NOLINT(google-build-using-namespace): a program's main file
using namespace weft::innet;  // NOLINT(google-build-using-namespace)

[[noreturn]] void fail(const std::string& why) {
  fmt::print(stderr, "offload_load: {}\n", why);
  std::exit(1);
}

Mac mac_of_switch(std::uint32_t ipv4) {
  Mac mac{0x02, 0x57};
  for (std::size_t i = 0; i < 4; ++i) mac[2 + i] = static_cast<std::uint8_t>(ipv4 >> (24 - 8 * i));
  return mac;
}

// What a process has had of processors.
double processor_seconds(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/schedstat");
  double ns = 0;
  if (!(file >> ns)) fail("process " + pid + " has no schedstat");
  return ns / 1e9;
}

// All contributions under way are repeated after a silence of so long.
constexpr std::uint64_t kPatienceNs = 200'000'000;

class Hosts {
 public:
  Hosts(const std::string& interface, std::uint32_t own, std::uint32_t to, int children, int window,
        int bytes)
      : own_(own),
        to_(to),
        children_(children),
        window_(window),
        payload_(static_cast<std::size_t>(bytes), std::byte{1}),
        places_(static_cast<std::size_t>(children * window)) {
    if (const Status opened = port_.open(interface, own_mac_, own, false); !opened)
      fail(opened.text());
    std::random_device random;
    header_.group = random();
    header_.key = random();
  }
  bool make_group() {
    Branch branch;
    branch.num_children = static_cast<std::uint8_t>(children_);
    branch.window = static_cast<std::uint16_t>(window_);
    branch.payload_bytes = static_cast<std::uint16_t>(payload_.size());
    branch.lease_s = 60;
    header_.kind = Kind::notify;
    for (int attempt = 0; attempt < 100 && header_.ticket == 0; ++attempt) {
      for (int child = 0; child < children_; ++child) send(child, encode(branch));
      port_.out().flush();
      receive(100, [&](const Packet& packet) {
        if (packet.header.kind == Kind::notify_reply && packet.header.answer == Answer::ok)
          header_.ticket = packet.header.ticket;
      });
    }
    header_.kind = Kind::data;
    header_.element = Element::f32;
    header_.arithmetic = Operation::sum;
    return header_.ticket != 0;
  }
  void contribute_all() {
    for (int slot = 0; slot < window_; ++slot)
      for (int child = 0; child < children_; ++child) contribute(child, slot);
    port_.out().flush();
  }
  void take_results() {
    receive(20, [&](const Packet& packet) {
      const Header& header = packet.header;
      if (header.kind != Kind::result || header.child >= children_ || header.slot >= window_)
        return;
      std::uint32_t& place = this->place(header.child, header.slot);
      if (header.operation != place) return;
      ++results_;
      last_ns_ = now_ns();
      ++place;
      contribute(header.child, header.slot);
    });
    port_.out().flush();
    if (now_ns() - last_ns_ < kPatienceNs) return;
    ++repetitions_;
    last_ns_ = now_ns();
    contribute_all();
  }
  std::uint64_t results() const { return results_; }
  std::uint64_t repetitions() const { return repetitions_; }

 private:
  std::uint32_t& place(int child, int slot) {
    return places_[static_cast<std::size_t>(slot * children_ + child)];
  }
  void contribute(int child, int slot) {
    header_.slot = static_cast<std::uint16_t>(slot);
    header_.operation = place(child, slot);
    if (header_.operation == 0) header_.operation = place(child, slot) = 1;
    send(child, payload_);
  }
  void send(int child, std::span<const std::byte> payload) {
    const auto frame = port_.out().room();
    if (frame.empty()) return;
    header_.child = static_cast<std::uint8_t>(child);
    std::byte packet[kMaxPacketBytes];
    const std::size_t length = write_packet(packet, header_, payload);
    RoceHeader roce;
    roce.from_ipv4 = own_;
    roce.to_ipv4 = to_;
    roce.from_port = 0xc002;
    roce.from_queue_pair = static_cast<std::uint32_t>(0x800000 + child);
    roce.to_queue_pair = kSwitchQueuePair;
    const Mac to = mac_of_switch(to_);
    std::memcpy(frame.data(), to.data(), 6);
    std::memcpy(frame.data() + 6, own_mac_.data(), 6);
    frame[12] = std::byte{8}, frame[13] = std::byte{0};
    port_.out().send(kEthernetBytes +
                     write_roce(frame.subspan(kEthernetBytes), roce, {packet, length}));
  }
  template <class Take>
  void receive(int timeout_ms, Take&& take) {
    std::vector<pollfd> readable;
    for (const auto& socket : port_.sockets())
      readable.push_back({socket->descriptor(), POLLIN, 0});
    (void)poll(readable.data(), readable.size(), timeout_ms);
    for (const auto& socket : port_.sockets())
      socket->receive(64, [&](std::span<const std::byte> frame) {
        const auto roce = read_roce(frame.subspan(kEthernetBytes));
        if (!roce) return;
        if (const auto packet = read_packet(roce->payload)) take(*packet);
      });
  }

  XdpPort port_;
  Mac own_mac_{0x02, 0x58, 0, 0, 0, 1};
  std::uint32_t own_, to_;
  int children_, window_;
  std::vector<std::byte> payload_;
  std::vector<std::uint32_t> places_;
  Header header_;
  std::uint64_t results_ = 0, repetitions_ = 0, last_ns_ = now_ns();
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 9) fail("wrong number of arguments: see the source");
  const auto own = parse_address(std::string(argv[2]) + ":4791");
  const auto to = parse_address(std::string(argv[3]) + ":4791");
  if (!own || !to) fail("no IPv4 address");
  const std::string pid = argv[4];
  Hosts hosts(argv[1], own->ipv4, to->ipv4, std::atoi(argv[5]), std::atoi(argv[6]),
              std::atoi(argv[7]));
  if (!hosts.make_group()) fail("the switch does not make the group");
  hosts.contribute_all();
  const double seconds = std::atof(argv[8]);
  const auto run_for = [&](double time) {
    const std::uint64_t end = now_ns() + static_cast<std::uint64_t>(time * 1e9);
    while (now_ns() < end) hosts.take_results();
  };
  run_for(0.2);
  const std::uint64_t results = hosts.results(), begin = now_ns(),
                      repetitions = hosts.repetitions();
  const double busy = processor_seconds(pid);
  run_for(seconds);
  const double time = static_cast<double>(now_ns() - begin) / 1e9;
  const double cost = processor_seconds(pid) - busy;
  const auto count = static_cast<double>(hosts.results() - results);
  if (count == 0) fail("the switch sends no results");
  fmt::print(
      "{:.0f} packets/s, {:.0f} packets a second of its processor's time, which was {:.0f} % busy; "
      "{} times repeated\n",
      count / time, count / cost, 100 * cost / time, hosts.repetitions() - repetitions);
}
