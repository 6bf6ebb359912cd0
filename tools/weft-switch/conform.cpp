#include "tools/weft-switch/conform.hpp"

#include <fmt/core.h>
#include <poll.h>

#include <cstring>
#include <functional>
#include <memory>
#include <random>

#include "base/wait.hpp"
#include "coll/offload/port.hpp"

namespace weft::innet {
namespace {

constexpr int kHosts = 3;
constexpr int kAnswerMs = 300;  // to wait for an answer
// To wait for a result: a second one, requested because the first is late, would be taken for the
// next.
constexpr int kResultMs = 2000;
constexpr int kSilenceMs = 50;  // time in which no answer may come

using Bytes = std::vector<std::byte>;

// Some hosts under one switch, each with a port of its own.
class Players {
 public:
  Players() {
    std::random_device random;
    group_ = random();
    key_ = std::uint64_t{random()} << 32 | random();
  }
  Status open(const Address& to) {
    Status status;
    for (auto& port : ports_)
      if (status) port = offload::open_port(to, status);
    return status;
  }
  Header header(Kind kind, int child) const {
    Header header;
    header.kind = kind;
    header.group = group_;
    header.key = key_;
    header.ticket = ticket_;
    header.epoch = 1;
    header.child = static_cast<std::uint8_t>(child);
    return header;
  }
  Header data(int child, std::uint32_t operation, Element element, Operation arithmetic) const {
    Header header = this->header(Kind::data, child);
    header.operation = operation;
    header.slot = static_cast<std::uint16_t>(0);
    header.element = element;
    header.arithmetic = arithmetic;
    return header;
  }
  void send(int host, const Header& header, std::span<const std::byte> payload) {
    std::byte packet[kMaxPacketBytes];
    ports_[host]->send({packet, write_packet(packet, header, payload)});
  }
  void send_raw(int host, std::span<const std::byte> bytes) { ports_[host]->send(bytes); }
  // Waits for the first answer of that kind to this host; false if none comes within the time.
  bool receives(int host, Kind kind, Header* header = nullptr, Bytes* payload = nullptr,
                int patience_ms = kAnswerMs) {
    bool found = false;
    const std::uint64_t limit = now_ns() + static_cast<std::uint64_t>(patience_ms) * 1'000'000;
    while (!found && now_ns() < limit)
      receive(host, 10, [&](std::span<const std::byte> bytes) {
        const auto packet = read_packet(bytes);
        if (found || !packet || packet->header.kind != kind) return;
        found = true;
        if (header != nullptr) *header = packet->header;
        if (payload != nullptr) payload->assign(packet->payload.begin(), packet->payload.end());
      });
    return found;
  }
  bool is_silent(int host) {
    bool silent = true;
    receive(host, kSilenceMs, [&](auto) { silent = false; });
    return silent;
  }
  // Repeats until an answer comes.
  bool ask(int host, const Header& header, std::span<const std::byte> payload, Kind kind,
           Header* answer = nullptr, Bytes* body = nullptr) {
    for (int attempt = 0; attempt < 10; ++attempt) {
      send(host, header, payload);
      if (receives(host, kind, answer, body)) return true;
    }
    return false;
  }
  Capabilities can_;
  std::uint32_t group_;
  std::uint64_t key_;
  std::uint32_t ticket_ = 0;

 private:
  // Takes the packets that are there, or come within the time.
  template <class Take>
  void receive(int host, int timeout_ms, Take&& take) {
    offload::Port& port = *ports_[host];
    pollfd readable{port.descriptor(), POLLIN, 0};
    (void)poll(&readable, 1, timeout_ms);
    std::byte packet[kMaxPacketBytes + 1];
    for (long bytes = 0; (bytes = port.receive(packet)) >= 0;)
      if (bytes > 0) take(std::span<const std::byte>(packet, static_cast<std::size_t>(bytes)));
  }

  std::unique_ptr<offload::Port> ports_[kHosts];
};

class Report {
 public:
  bool check(const std::string& claim, bool ok) {
    fmt::print("{} {}\n", ok ? "ok    " : "FAILED", claim);
    failed_ = failed_ || !ok;
    return ok;
  }
  void skip(const std::string& claim, const char* why) {
    fmt::print("skip   {}: {}\n", claim, why);
  }
  int result() const { return failed_ ? 1 : 0; }

 private:
  bool failed_ = false;
};

Bytes some(Element element, int host, std::size_t bytes) {
  Bytes data(bytes);
  const std::size_t unit = element_bytes(element);
  // Small numbers, whose sums every type holds; the bytes of floats are those of small floats.
  for (std::size_t i = 0; i < bytes / unit; ++i) {
    const auto value = static_cast<int>((i + static_cast<std::size_t>(host)) % 7 + 1);
    std::byte* at = data.data() + i * unit;
    const float narrow = static_cast<float>(value);
    const double wide = value;
    switch (element) {
      case Element::f32:
      case Element::float_int:
        std::memcpy(at, &narrow, 4);
        break;
      case Element::f64:
      case Element::double_int:
        std::memcpy(at, &wide, 8);
        break;
      case Element::bf16:
        std::memcpy(at, reinterpret_cast<const char*>(&narrow) + 2, 2);
        break;
      default:
        std::memcpy(at, &value, std::min<std::size_t>(unit, 4));
    }
  }
  return data;
}

}  // namespace

int conform(const Address& address) {
  Report report;
  Players players;
  if (const Status opened = players.open(address); !opened) {
    fmt::print(stderr, "weft-switch: {}\n", opened.text());
    return 1;
  }
  Header query;
  query.kind = Kind::query;
  query.key = 5;
  Header answer;
  Bytes body;
  if (!report.check("a query is answered",
                    players.ask(0, query, encode(HostPort{}), Kind::query_reply, &answer, &body)))
    return 1;
  const auto can = decode_capabilities(body);
  if (!report.check("the answer can be read, and has the query's key", can && answer.key == 5))
    return 1;
  report.check("packets hold at least 16 bytes of data", can->payload_bytes >= 16);
  report.check("groups may have 2 to 64 children, and no more is free than there is",
               can->max_children >= 2 && can->max_children <= kMaxChildren &&
                   can->free_groups <= can->groups && can->free_slots <= can->slots);
  if (can->max_children < kHosts) {
    report.skip("groups", "it takes fewer than the three hosts that this is");
    return report.result();
  }

  Branch branch;
  branch.job = players.group_;
  branch.num_children = kHosts;
  branch.ordered = can->features & kFeatureOrdered;
  branch.window = 4;
  branch.payload_bytes = can->payload_bytes;
  branch.lease_s = 5;
  if (can->max_children < kMaxChildren) {
    Branch larger = branch;
    larger.num_children = static_cast<std::uint8_t>(can->max_children + 1);
    report.check("a group of more children than it takes is refused",
                 players.ask(0, players.header(Kind::notify, 0), encode(larger), Kind::notify_reply,
                             &answer) &&
                     answer.answer == Answer::unsupported);
  }
  const Bytes notify = encode(branch);
  bool pending = true, made = true;
  for (int child = 0; child < kHosts; ++child) {
    made = made && players.ask(child, players.header(Kind::notify, child), notify,
                               Kind::notify_reply, &answer, &body);
    if (child + 1 < kHosts) pending = pending && answer.answer == Answer::pending;
  }
  report.check("a group is pending until all children have come", made && pending);
  const auto grant = decode_grant(body);
  if (!report.check("then it is made, with a ticket and a window",
                    made && answer.answer == Answer::ok && answer.ticket != 0 && grant &&
                        grant->window >= 1 && grant->window <= branch.window))
    return 1;
  players.ticket_ = answer.ticket;
  Header foreign = players.header(Kind::notify, 0);
  report.check("another address cannot be a child that is there",
               players.ask(1, foreign, notify, Kind::notify_reply, &answer) &&
                   answer.answer == Answer::conflict);
  foreign.key ^= 1;
  report.check("another key cannot take the group",
               players.ask(0, foreign, notify, Kind::notify_reply, &answer) &&
                   answer.answer == Answer::conflict);

  std::uint32_t operation = 0;
  // All three contribute; every one must receive the same result.
  const auto reduce = [&](Element element, Operation arithmetic, std::size_t bytes) {
    ++operation;
    const ReduceFunction reduce = find_reduce(element, arithmetic);
    Bytes expected = some(element, 0, bytes);
    for (int child = 1; child < kHosts; ++child)
      reduce(some(element, child, bytes).data(), expected.data(), bytes / element_bytes(element));
    for (int child = 0; child < kHosts; ++child)
      players.send(child, players.data(child, operation, element, arithmetic),
                   some(element, child, bytes));
    bool right = true;
    for (int child = 0; child < kHosts; ++child) {
      if (!players.receives(child, Kind::result, &answer, &body, kResultMs))
        right = right && players.ask(child, players.data(child, operation, element, arithmetic),
                                     some(element, child, bytes), Kind::result, &answer, &body);
      right = right && body == expected && answer.operation == operation && answer.offset == 0 &&
              answer.child == child && answer.element == element && answer.arithmetic == arithmetic;
    }
    return right;
  };
  for (std::size_t e = 1; e < kNumElements; ++e)
    for (std::size_t o = 1; o < kNumOperations; ++o) {
      const auto element = static_cast<Element>(e);
      const auto arithmetic = static_cast<Operation>(o);
      if (find_reduce(element, arithmetic) == nullptr || !(can->elements >> e & 1) ||
          !(can->operations >> o & 1))
        continue;
      const std::size_t unit = element_bytes(element);
      report.check(fmt::format("{} of {}", name(arithmetic), name(element)),
                   reduce(element, arithmetic, can->payload_bytes / unit * unit) &&
                       reduce(element, arithmetic, unit));
    }

  const auto element = Element::i32;
  const auto sum = Operation::sum;
  if (!(can->elements >> static_cast<int>(element) & 1) ||
      !(can->operations >> static_cast<int>(sum) & 1)) {
    report.skip("duplicates, old packets, forgeries", "it cannot add 32-bit integers");
    return report.result();
  }
  const Bytes ours = some(element, 0, 8);
  ++operation;
  report.check("a contribution that comes twice is answered with wait",
               (players.send(0, players.data(0, operation, element, sum), ours), true) &&
                   players.ask(0, players.data(0, operation, element, sum), ours, Kind::wait));
  report.check("contributions that differ in length are refused",
               players.ask(1, players.data(1, operation, element, sum), some(element, 1, 4),
                           Kind::refuse, &answer) &&
                   answer.answer == Answer::mismatch);
  Header forged = players.data(1, operation, element, sum);
  forged.key ^= 1;
  players.send(1, forged, ours);
  report.check("a contribution with another key is not answered", players.is_silent(1));
  players.send(2, players.data(1, operation, element, sum), ours);
  report.check("nor one from another child's address", players.is_silent(2));
  Header old = players.data(1, operation, element, sum);
  old.ticket ^= 1;
  report.check(
      "one with an old ticket is refused",
      players.ask(1, old, ours, Kind::refuse, &answer) && answer.answer == Answer::no_group);
  Header later = players.data(0, operation + 1, element, sum);
  report.check(
      "a place after one that is not complete is refused",
      players.ask(0, later, ours, Kind::refuse, &answer) && answer.answer == Answer::out_of_step);
  Bytes garbage(200, std::byte{0x5a});
  players.send_raw(2, garbage);
  players.send_raw(2, std::span(garbage).first(3));
  report.check("garbage is not answered", players.is_silent(2));
  for (int child = 1; child < kHosts; ++child)
    players.send(child, players.data(child, operation, element, sum), some(element, child, 8));
  bool all = true;
  Bytes first;
  for (int child = 0; child < kHosts; ++child) {
    all = all && (players.receives(child, Kind::result, nullptr, &body, kResultMs) ||
                  players.ask(child, players.data(child, operation, element, sum),
                              some(element, child, 8), Kind::result, nullptr, &body));
    if (child == 0) first = body;
    all = all && body == first;
  }
  Bytes expected = ours;
  for (int child = 1; child < kHosts; ++child)
    find_reduce(element, sum)(some(element, child, 8).data(), expected.data(), 2);
  report.check("the result is right after all that", all && first == expected);
  const std::uint32_t complete = operation;
  ++operation;
  players.send(0, players.data(0, operation, element, sum), ours);
  report.check("the result before the current one is kept",
               players.ask(2, players.data(2, complete, element, sum), some(element, 2, 8),
                           Kind::result, nullptr, &body) &&
                   body == expected);
  players.send(1, players.data(1, complete - 1, element, sum), ours);
  report.check("an older packet is dropped", players.is_silent(1));
  for (int child = 0; child < kHosts; ++child)
    players.ask(child, players.header(Kind::kill, child), {}, Kind::kill_reply);
  report.check(
      "a group that all have killed is gone",
      players.ask(0, players.data(0, operation, element, sum), ours, Kind::refuse, &answer) &&
          answer.answer == Answer::no_group);
  return report.result();
}

}  // namespace weft::innet
