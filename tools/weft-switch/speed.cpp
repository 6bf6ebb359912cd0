#include "tools/weft-switch/speed.hpp"

#include <fmt/core.h>

#include <array>
#include <cstring>
#include <ctime>

#include "coll/switch/aggregator.hpp"
#include "coll/switch/roce.hpp"

namespace weft::innet {
namespace {

// The end of packets: with `roce`, in RoCEv2 packets with their ICRC.
struct Sink : Wire {
  explicit Sink(bool in_roce) : roce(in_roce) {}
  void send(const Address& to, std::span<const std::byte> bytes) override {
    if (roce) {
      RoceHeader header;
      header.to_ipv4 = to.ipv4;
      header.sequence = ++num & 0xffffff;
      length = write_roce(memory, header, bytes);
    } else {
      std::memcpy(memory.data(), bytes.data(), bytes.size());
      length = bytes.size();
    }
  }
  bool roce;
  std::uint32_t num = 0;
  std::size_t length = 0;
  std::array<std::byte, kMaxRoceBytes> memory;
};

// The processor time of this thread alone, so that others on its core are not counted.
std::uint64_t processor_ns() noexcept {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

Address child_address(int child) { return {static_cast<std::uint32_t>(child + 1), 1}; }

}  // namespace

void measure_speed(int children, int bytes, double seconds) {
  const auto limit_ns = static_cast<std::uint64_t>(seconds * 1e9);
  const std::vector<std::byte> payload(static_cast<std::size_t>(bytes), std::byte{1});
  const auto rate = [](std::uint64_t packets, std::uint64_t begin) {
    return static_cast<double>(packets) * 1e3 / static_cast<double>(processor_ns() - begin);
  };
  // Contributions of many packets, so that they do not all fit into the first-level cache.
  constexpr std::size_t kPackets = 64;
  {
    std::vector<std::byte> sums(kPackets * payload.size());
    const ReduceFunction reduce = find_reduce(Element::f32, Operation::sum);
    std::uint64_t packets = 0;
    const std::uint64_t begin = processor_ns();
    while (processor_ns() - begin < limit_ns)
      for (int round = 0; round < 16; ++round)
        for (std::size_t i = 0; i < kPackets; ++i, ++packets)
          reduce(payload.data(), sums.data() + i * payload.size(), payload.size() / 4);
    fmt::print("adding alone                    {:6.2f} million packets of {} bytes/s\n",
               rate(packets, begin), bytes);
  }
  struct How {
    bool ordered, roce;
    const char* name;
  };
  for (const How& how : {How{false, false, "from packet to packet          "},
                         How{true, false, "in order                       "},
                         How{false, true, "from RoCEv2 to RoCEv2 with ICRC"}}) {
    Sink sink(false);
    AggregatorOptions options;
    options.seed = 1;
    Aggregator core(options, sink);
    Header header;
    header.kind = Kind::notify;
    header.group = 1;
    header.key = 1;
    Branch branch;
    branch.num_children = static_cast<std::uint8_t>(children);
    branch.ordered = how.ordered;
    branch.window = kPackets;
    branch.payload_bytes = static_cast<std::uint16_t>(bytes);
    branch.lease_s = 60;
    std::byte packet[kMaxPacketBytes];
    for (int child = 0; child < children; ++child) {
      header.child = static_cast<std::uint8_t>(child);
      core.on_packet(child_address(child), {packet, write_packet(packet, header, encode(branch))},
                     1);
    }
    header.ticket = read_packet({sink.memory.data(), sink.length})->header.ticket;
    sink.roce = how.roce;
    header.kind = Kind::data;
    header.element = Element::f32;
    header.arithmetic = Operation::sum;
    const std::size_t plain = kHeaderBytes + payload.size();
    const std::size_t length = how.roce ? kRoceHeadBytes + (plain + 3) / 4 * 4 + kIcrcBytes : plain;
    std::vector<std::byte> input(kPackets * static_cast<std::size_t>(children) * length);
    std::uint64_t packets = 0;
    std::uint64_t spent = 0;
    const std::uint64_t begin = processor_ns();
    while (processor_ns() - begin < limit_ns) {
      ++header.operation;
      for (std::size_t i = 0; i < kPackets; ++i)
        for (int child = 0; child < children; ++child) {
          header.slot = static_cast<std::uint16_t>(i);
          header.offset = static_cast<std::uint32_t>(i * payload.size());
          header.child = static_cast<std::uint8_t>(child);
          const auto place = std::span(input).subspan(
              (i * static_cast<std::size_t>(children) + static_cast<std::size_t>(child)) * length,
              length);
          const std::size_t bytes_here = write_packet(packet, header, payload);
          if (how.roce)
            write_roce(place, {}, {packet, bytes_here});
          else
            std::memcpy(place.data(), packet, bytes_here);
        }
      const std::uint64_t start = processor_ns();
      for (std::size_t i = 0; i < kPackets * static_cast<std::size_t>(children); ++i, ++packets) {
        auto bytes_here = std::span<const std::byte>(input).subspan(i * length, length);
        if (how.roce) {
          const auto inner = read_roce(bytes_here);
          if (!inner) continue;
          bytes_here = inner->payload;
        }
        core.on_packet(child_address(static_cast<int>(i % static_cast<std::size_t>(children))),
                       bytes_here, 1);
      }
      spent += processor_ns() - start;
    }
    fmt::print("{} {:6.2f} million packets of {} bytes/s, {} children\n", how.name,
               static_cast<double>(packets) * 1e3 / static_cast<double>(spent), bytes, children);
    if (core.counters().completed != packets / static_cast<std::uint64_t>(children))
      fmt::print("but {} of them did not end in a result\n",
                 packets - core.counters().completed * static_cast<std::uint64_t>(children));
  }
}

}  // namespace weft::innet
