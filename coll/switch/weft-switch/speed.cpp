#include "coll/switch/weft-switch/speed.hpp"

#include <fmt/core.h>

#include <cstring>

#include "base/wait.hpp"
#include "coll/switch/aggregator.hpp"

namespace weft::innet {
namespace {

struct Sink : Wire {
  void send(const Address&, std::span<const std::byte> bytes) override {
    sum += static_cast<unsigned>(bytes[kHeaderBytes % bytes.size()]);
    last.assign(bytes.begin(), bytes.end());
  }
  unsigned sum = 0;
  std::vector<std::byte> last;
};

Address child_address(int child) { return {static_cast<std::uint32_t>(child + 1), 1}; }

}  // namespace

void measure_speed(int children, int bytes, double seconds) {
  const auto limit_ns = static_cast<std::uint64_t>(seconds * 1e9);
  const std::vector<std::byte> payload(static_cast<std::size_t>(bytes), std::byte{1});
  const auto rate = [](std::uint64_t packets, std::uint64_t begin) {
    return static_cast<double>(packets) * 1e3 / static_cast<double>(now_ns() - begin);
  };
  // Contributions of many packets, so that they do not all lie in the first cache.
  constexpr std::size_t kPackets = 64;
  {
    std::vector<std::byte> sums(kPackets * payload.size());
    const Combine combine = find_combine(Element::f32, Operation::sum);
    std::uint64_t packets = 0;
    const std::uint64_t begin = now_ns();
    while (now_ns() - begin < limit_ns)
      for (int round = 0; round < 16; ++round)
        for (std::size_t i = 0; i < kPackets; ++i, ++packets)
          combine(payload.data(), sums.data() + i * payload.size(), payload.size() / 4);
    fmt::print("adding alone                  {:6.2f} million packets of {} bytes/s\n",
               rate(packets, begin), bytes);
  }
  for (const bool ordered : {false, true}) {
    Sink sink;
    AggregatorOptions options;
    options.seed = 1;
    Aggregator core(options, sink);
    Header header;
    header.kind = Kind::notify;
    header.group = 1;
    header.key = 1;
    Branch branch;
    branch.num_children = static_cast<std::uint8_t>(children);
    branch.ordered = ordered;
    branch.window = kPackets;
    branch.payload_bytes = static_cast<std::uint16_t>(bytes);
    branch.lease_s = 60;
    std::byte packet[kMaxPacketBytes];
    for (int child = 0; child < children; ++child) {
      header.child = static_cast<std::uint8_t>(child);
      core.on_packet(child_address(child), {packet, write_packet(packet, header, encode(branch))},
                     1);
    }
    header.ticket = read_packet(sink.last)->header.ticket;
    header.kind = Kind::data;
    header.element = Element::f32;
    header.arithmetic = Operation::sum;
    const std::size_t length = kHeaderBytes + payload.size();
    std::vector<std::byte> input(kPackets * static_cast<std::size_t>(children) * length);
    std::uint64_t packets = 0;
    std::uint64_t spent = 0;
    const std::uint64_t begin = now_ns();
    while (now_ns() - begin < limit_ns) {
      ++header.operation;
      for (std::size_t i = 0; i < kPackets; ++i)
        for (int child = 0; child < children; ++child) {
          header.slot = static_cast<std::uint16_t>(i);
          header.offset = static_cast<std::uint32_t>(i * payload.size());
          header.child = static_cast<std::uint8_t>(child);
          write_packet(std::span(input).subspan((i * static_cast<std::size_t>(children) +
                                                 static_cast<std::size_t>(child)) *
                                                    length,
                                                length),
                       header, payload);
        }
      const std::uint64_t start = now_ns();
      for (std::size_t i = 0; i < kPackets * static_cast<std::size_t>(children); ++i, ++packets)
        core.on_packet(child_address(static_cast<int>(i % static_cast<std::size_t>(children))),
                       std::span<const std::byte>(input).subspan(i * length, length), 1);
      spent += now_ns() - start;
    }
    fmt::print("from packet to packet{} {:6.2f} million packets of {} bytes/s, {} children\n",
               ordered ? ", in order" : "          ",
               static_cast<double>(packets) * 1e3 / static_cast<double>(spent), bytes, children);
    if (core.counters().completed != packets / static_cast<std::uint64_t>(children))
      fmt::print("but {} of them did not end in a result\n",
                 packets - core.counters().completed * static_cast<std::uint64_t>(children));
  }
}

}  // namespace weft::innet
