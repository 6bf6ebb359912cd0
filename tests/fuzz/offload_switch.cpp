// What anybody may send to a switch: bytes as they are, and packets that begin well, of members of
// a group and of strangers. Whatever comes, no answer but a group's results is longer than its
// question, and the group's own operation ends with the right sum unless its members spoil it.
#include <cstdlib>

#include "coll/switch/aggregator.hpp"
#include "coll/switch/roce.hpp"
#include "script.hpp"

using namespace weft::innet;

namespace {

struct Sink : Wire {
  std::size_t most = 0;
  void send(const Address& to, std::span<const std::byte> bytes) override {
    const auto packet = read_packet(bytes);
    if (!packet) std::abort();
    if (packet->header.kind != Kind::result && packet->header.kind != Kind::data && to.ipv4 == 99 &&
        bytes.size() > most)
      std::abort();
    if (packet->header.kind == Kind::query_reply) (void)decode_capabilities(packet->payload);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Script script{data, size};
  Sink sink;
  AggregatorOptions options;
  options.seed = 1;
  options.max_groups = 4;
  options.max_slots = 64;
  options.spines = {{50, 1}, {51, 1}};
  Aggregator core(options, sink);
  while (script.size > 0) {
    const auto mode = script.take<std::uint8_t>();
    // 99 is a stranger; the rest may be children and spines.
    const Address from{mode & 1 ? 99u : 48u + (mode >> 4), 1};
    std::vector<std::byte> bytes;
    if (mode & 2) {
      bytes = script.take_bytes(script.take<std::uint16_t>() % (kMaxPacketBytes + 8));
      (void)read_roce(bytes);
    } else {
      Header header;
      header.kind = static_cast<Kind>(1 + script.take<std::uint8_t>() % 17);
      header.group = script.take<std::uint8_t>() % 4;
      header.key = script.take<std::uint8_t>() % 2;
      header.ticket = script.take<std::uint32_t>();
      header.epoch = script.take<std::uint8_t>();
      header.child = script.take<std::uint8_t>() % 66;
      header.operation = script.take<std::uint8_t>();
      header.offset = script.take<std::uint8_t>();
      header.slot = script.take<std::uint8_t>() % 9;
      header.element = static_cast<Element>(script.take<std::uint8_t>() % kNumElements);
      header.arithmetic = static_cast<Operation>(script.take<std::uint8_t>() % kNumOperations);
      std::vector<std::byte> body;
      if (mode & 4) {
        Branch branch;
        branch.num_children = static_cast<std::uint8_t>(1 + script.take<std::uint8_t>() % 65);
        branch.ordered = mode & 8;
        branch.window = script.take<std::uint8_t>();
        branch.payload_bytes = script.take<std::uint8_t>();
        branch.lease_s = 1;
        branch.num_above = script.take<std::uint8_t>() % 3;
        branch.above = {Parent{{50, 1}, 0, 2}, Parent{{51, 1}, 1, 2}};
        body = encode(branch);
      } else {
        body = script.take_bytes(script.take<std::uint8_t>());
      }
      bytes.resize(kMaxPacketBytes);
      bytes.resize(write_packet(bytes, header, body));
    }
    sink.most = bytes.size();
    core.on_packet(from, bytes, 1);
  }
  if (core.num_groups() > 4) std::abort();
  core.expire(5'000'000'000);
  if (core.num_groups() != 0) std::abort();
  return 0;
}
