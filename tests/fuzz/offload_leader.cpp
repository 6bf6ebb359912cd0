// What anybody may send to a leader: raw bytes, and packets of its own group in any state, as if
// from the switch or from other leaders. It may be misled by those who know the key, but never
// written beyond its vector, nor end with a result of another length.
#include <cstdlib>

#include "coll/offload/enrolment.hpp"
#include "coll/offload/leader.hpp"
#include "coll/offload/placement.hpp"
#include "script.hpp"

using namespace weft;
using namespace weft::innet;

namespace {

struct Sink : offload::Leader::Wire, offload::Enrolment::Wire {
  void to_switch(std::span<const std::byte> packet) override {
    if (!read_packet(packet)) std::abort();
  }
  void to_leader(int leader, std::span<const std::byte> packet) override {
    if (leader < 0 || leader > 2 || !read_packet(packet)) std::abort();
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Script script{data, size};
  Sink sink;
  offload::Leader leader(sink);
  offload::LeaderOptions options;
  options.group = 1;
  options.key = 1;
  options.ticket = 1;
  options.num_leaders = 3;
  options.window = 2;
  options.payload_bytes = 64;
  options.fixed = size % 2 == 1;
  leader.open(options);
  offload::Enrolment enrolment(sink);
  enrolment.notify({}, {}, 1, 1000);
  std::uint64_t now = 1'000'000;
  std::vector<std::byte> vector;
  while (script.size > 0) {
    const auto mode = script.take<std::uint8_t>();
    now += std::uint64_t{script.take<std::uint8_t>()} * 10'000'000;
    using State = offload::Leader::State;
    if (mode % 8 == 0 && (leader.state() == State::idle || leader.state() == State::done)) {
      vector.assign(script.take<std::uint16_t>() % 1024 / 8 * 8, std::byte{1});
      leader.begin(options.fixed ? Element::f32 : Element::f64, Operation::sum, vector, now);
      continue;
    }
    if (leader.state() == State::host) leader.finish(vector);
    if (leader.state() == State::done && leader.result().size() != vector.size()) std::abort();
    if (mode % 8 == 1) {
      leader.on_time(now);
      enrolment.on_time(now);
      continue;
    }
    std::vector<std::byte> bytes;
    if (mode % 8 == 2) {
      bytes = script.take_bytes(script.take<std::uint16_t>() % (kMaxPacketBytes + 8));
      if (const auto packet = read_packet(bytes)) {
        (void)decode_capabilities(packet->payload);
        (void)decode_branch(packet->payload);
        (void)decode_host_port(packet->payload);
      }
      std::vector<offload::Location> places;
      std::string error;
      (void)offload::read_placement({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, 4,
                                    places, error);
    } else {
      Header header;
      header.kind = static_cast<Kind>(1 + script.take<std::uint8_t>() % 17);
      header.group = header.ticket = 1;
      header.key = 1;
      header.answer = static_cast<Answer>(script.take<std::uint8_t>() % 12);
      header.operation = leader.operation() + script.take<std::uint8_t>() % 4 - 1;
      header.offset = script.take<std::uint16_t>();
      header.element = options.fixed ? Element::fixed : Element::f64;
      header.arithmetic = Operation::sum;
      const auto body = script.take_bytes(script.take<std::uint8_t>() % 80);
      bytes.resize(kMaxPacketBytes);
      bytes.resize(write_packet(bytes, header, body));
    }
    if (mode & 16)
      leader.on_switch(bytes, now);
    else
      leader.on_leader(mode >> 5, bytes, now);
    enrolment.on_switch(bytes);
  }
  return 0;
}
