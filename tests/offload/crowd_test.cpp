// A switch with very many groups, and one that strangers flood with queries.
#include <catch2/catch.hpp>
#include <cstring>
#include <map>

#include "coll/switch/aggregator.hpp"

namespace weft::innet {
namespace {

using Bytes = std::vector<std::byte>;

// What was sent to each address last.
struct Ends : Wire {
  void send(const Address& to, std::span<const std::byte> bytes) override {
    ++num;
    num_bytes += bytes.size();
    last[std::uint64_t{to.ipv4} << 16 | to.port].assign(bytes.begin(), bytes.end());
  }
  std::optional<Packet> at(const Address& address) {
    return read_packet(last[std::uint64_t{address.ipv4} << 16 | address.port]);
  }
  std::uint64_t num = 0, num_bytes = 0;
  std::map<std::uint64_t, Bytes> last;
};

struct Group {
  explicit Group(std::uint32_t the_number) : number(the_number) {}
  Address child(int which) const { return {number, static_cast<std::uint16_t>(which + 1)}; }
  Header header(Kind kind, int which) const {
    Header header;
    header.kind = kind;
    header.group = number;
    header.key = number * 77ull;
    header.ticket = ticket;
    header.epoch = 1;
    header.child = static_cast<std::uint8_t>(which);
    return header;
  }
  void send(Aggregator& core, int which, const Header& header, std::span<const std::byte> body) {
    std::byte packet[kMaxPacketBytes];
    core.on_packet(child(which), {packet, write_packet(packet, header, body)}, 1);
  }
  Answer notify(Aggregator& core, Ends& ends) {
    Branch branch;
    branch.job = number;
    branch.num_children = 2;
    branch.ordered = true;
    branch.window = 4;
    branch.payload_bytes = 256;
    branch.lease_s = 60;
    for (const int which : {0, 1}) send(core, which, header(Kind::notify, which), encode(branch));
    const auto reply = ends.at(child(1));
    ticket = reply->header.ticket;
    return reply->header.answer;
  }
  // Whether the sum of one operation came to both.
  bool add(Aggregator& core, Ends& ends, std::uint32_t operation) {
    const auto value = static_cast<std::int32_t>(number + operation);
    for (const int which : {0, 1}) {
      Header data = header(Kind::data, which);
      data.operation = operation;
      data.element = Element::i32;
      data.arithmetic = Operation::sum;
      send(core, which, data, std::as_bytes(std::span(&value, 1)));
    }
    const std::int32_t sum = 2 * value;
    for (const int which : {0, 1}) {
      const auto result = ends.at(child(which));
      if (!result || result->header.kind != Kind::result || result->payload.size() != 4 ||
          std::memcmp(result->payload.data(), &sum, 4) != 0)
        return false;
    }
    return true;
  }
  std::uint32_t number, ticket = 0;
};

TEST_CASE("10,000 groups add at the same time, and leave nothing") {
  constexpr std::uint32_t kGroups = 10'000;
  Ends ends;
  AggregatorOptions options;
  options.seed = 1;
  Aggregator core(options, ends);
  std::vector<Group> groups;
  for (std::uint32_t i = 0; i < kGroups; ++i) {
    groups.emplace_back(i + 1);
    REQUIRE(groups.back().notify(core, ends) == Answer::ok);
  }
  CHECK(core.num_groups() == kGroups);
  for (std::uint32_t operation = 1; operation <= 3; ++operation)
    for (Group& group : groups) REQUIRE(group.add(core, ends, operation));
  // Two children and two results, of 256 bytes, in four slots.
  Branch branch;
  branch.ordered = true;
  branch.window = 4;
  branch.payload_bytes = 256;
  const std::size_t bytes = Aggregator::group_bytes(branch, 2);
  CHECK(bytes >= 4 * 4 * 256);
  CHECK(bytes <= 4 * 4 * 256 + 4 * 64);
  // Of half of them nobody says that they are over.
  for (std::uint32_t i = 0; i < kGroups; i += 2)
    for (const int which : {0, 1})
      groups[i].send(core, which, groups[i].header(Kind::kill, which), {});
  CHECK(core.num_groups() == kGroups / 2);
  core.expire(62'000'000'000);
  CHECK(core.num_groups() == 0);
  CHECK(groups[0].notify(core, ends) == Answer::ok);
}

TEST_CASE("a flood of queries takes no memory, gives no more than it takes, and stops nobody") {
  Ends ends;
  AggregatorOptions options;
  options.seed = 1;
  for (std::uint32_t spine = 1; spine <= kMaxSpines; ++spine) options.spines.push_back({spine, 9});
  Aggregator core(options, ends);
  Group group(5);
  REQUIRE(group.notify(core, ends) == Answer::ok);
  std::uint64_t taken = 0, num_asked = 0;
  const Bytes body = encode(HostPort{});
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    Header query;
    query.kind = i % 3 == 0 ? Kind::status : Kind::query;
    query.key = i;
    // From hosts and from switches, and from those who say that they are farther away.
    query.slot = static_cast<std::uint16_t>(i % 4);
    std::byte packet[kMaxPacketBytes];
    const std::size_t bytes = write_packet(packet, query, body);
    const std::uint64_t before = ends.num_bytes;
    // As if each came from somebody else, a microsecond after the last; here all answers go to few
    // ends.
    core.on_packet({0x7f000000 + i % 16, 7}, {packet, bytes}, 1 + i * std::uint64_t{1000});
    taken += bytes;
    // The answer, and seldom the question that is passed on to all spines.
    const bool is_passed_on = ends.num_bytes - before > bytes;
    if (is_passed_on) ++num_asked;
    REQUIRE(ends.num_bytes - before <= (is_passed_on ? 1 + kMaxSpines : 1) * bytes);
    if (i % 1000 == 0) REQUIRE(group.add(core, ends, i / 1000 + 1));
  }
  CHECK(core.num_groups() == 1);
  CHECK(core.counters().queries > 60'000);
  // In a tenth of a second, every 5 ms for each level below.
  CHECK(num_asked >= 2 * 19);
  CHECK(num_asked <= 2 * 21);
  CHECK(ends.num_bytes <=
        taken + num_asked * kMaxSpines * (kHeaderBytes + kQueryBytes) + 1'000'000);
}

}  // namespace
}  // namespace weft::innet
