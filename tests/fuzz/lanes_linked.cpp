// A hostile rank that knows the job's key: it opens a link to a rank's lanes over the loopback
// fabric and sends what the input says, and writes into the ring that it gets a key of, while the
// victim opens and accepts lanes, reads entries, lends memory and asks for the peer's. Whatever
// comes, nothing outside of what it lends or has asked for changes, and all that is under way ends
// with the peer, if not before.
//
// The input is a row of messages: two bytes of length, then the bytes. Numbers of messages and of
// rings are put in, as only chance would hit them.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "job/members.hpp"
#include "lanes/lane.hpp"
#include "lanes/linked/remote_lanes.hpp"
#include "lanes/mapped/host_lanes.hpp"
#include "peer/messages.hpp"
#include "script.hpp"
#include "tests/support/loopback/loopback.hpp"

using namespace weft;

namespace {

constexpr std::size_t kBytes = 64;
constexpr std::uint32_t kRing = 16384;

void must(bool good) {
  if (!good) std::abort();
}

std::string to_hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes)
    for (const int shift : {4, 0}) text += "0123456789abcdef"[byte >> shift & 15];
  return text;
}

std::uint64_t from_hex(std::string_view text) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    const std::size_t digit = std::string_view("0123456789abcdef").find(text[i]);
    value |= std::uint64_t{digit} << (i / 2 * 8 + (i % 2 == 0 ? 4 : 0));
  }
  return value;
}

// Of rank 0 in a job of two, of which the other says the same but for its address.
class TwoBoard final : public Board {
 public:
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 2; }
  std::string_view launcher() const noexcept override { return "threads"; }
  Status put(std::string_view key, std::string_view value) override {
    values[std::string(key)] = value;
    return {};
  }
  Status fence(int) override { return {}; }
  Status get(int rank, std::string_view key, std::string& value) override {
    const auto found =
        values.find(rank == 1 && key == "loopback.address" ? "other" : std::string(key));
    if (found == values.end()) return Code::not_found;
    value = found->second;
    return {};
  }
  void abort(int, std::string_view) override {}
  Status close() override { return {}; }

  std::map<std::string, std::string> values;
};

// In place of a message's kind: a write.
constexpr auto kWrite = static_cast<transport::Kind>(255);
struct Write : transport::Head {
  std::uint64_t offset;
  std::uint32_t bytes, line;  // how many lines were written before, as the number says it
};

struct Rogue final : fabric::Events {
  bool on_incoming(fabric::Link&, fabric::Bytes) override { return false; }
  void on_up(fabric::Link&) override { is_up = true; }
  void on_down(fabric::Link&, Code) override { is_down = true; }
  void on_message(fabric::Link&, fabric::Bytes bytes) override {
    transport::Head head;
    transport::LaneAnswerMessage answer;
    transport::LaneKeyMessage given;
    fabric::Bytes data;
    if (!transport::read_message(bytes, head, data)) return;
    if (head.kind == transport::Kind::lane_answer && transport::read_message(bytes, answer, data) &&
        answer.code == 0)
      ring = answer.ring;
    if (head.kind == transport::Kind::lane_key && transport::read_message(bytes, given, data))
      key = given.key;
  }

  bool is_up = false, is_down = false;
  std::uint32_t ring = 0;  // the victim's number of the last one
  fabric::Key key{};       // of a ring, the last
};

struct Request : fabric::WorkRequest {
  Request() {
    done = [](fabric::WorkRequest& of, Code) noexcept { --static_cast<Request&>(of).under_way; };
  }
  int under_way = 0;
};

struct World {
  World() {
    Settings settings;
    must(settings.set("FABRIC", "loopback").ok() && settings.set("LOG", "error").ok());
    auto made = std::make_unique<TwoBoard>();
    board = made.get();
    must(weft::Members::open(settings, std::move(made), job).ok());
    must(make_host_lanes(*job, local).ok());
  }
  TwoBoard* board = nullptr;
  std::unique_ptr<weft::Members> job;
  std::unique_ptr<HostLanes> local;
};

// What the victim does besides.
struct Victim {
  explicit Victim(transport::RemoteLanes& of) : lanes(of) {}

  transport::RemoteLanes& lanes;
  SendMemory send{};
  SendLane out;
  std::vector<std::unique_ptr<ReceiveLane>> in;

  void step() {
    lanes.poll();
    send.ring_bytes = kRing;
    if (!out.connected() && lanes.connect(1, 0, send).ok())
      out.open(lanes, send, send.ring_bytes, send.ring_bytes);
    if (out.connected()) (void)out.send(1, 7, "entry", 5);
    int rank = -1, channel = 0;
    ReceiveMemory memory;
    while (lanes.accept(0, rank, channel, memory).ok() && rank >= 0) {
      in.push_back(std::make_unique<ReceiveLane>());
      in.back()->open(lanes, memory, memory.ring_bytes, memory.ring_bytes);
    }
    for (const auto& lane : in) {
      Entry entry;
      std::vector<std::byte> copy;
      while (!lane->ring.broken() && lane->peek(entry)) {
        copy.assign(entry.data, entry.data + entry.length);
        lane->ring.pop(entry.length);
        lane->return_credit(false);
      }
    }
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static World world;
  Rogue rogue;
  const auto endpoint = fabric::loopback::make_endpoint();
  world.board->values["other"] =
      endpoint->kind() + " " + std::string(16, '0') + " " + to_hex(endpoint->address());
  auto lanes = std::make_unique<transport::RemoteLanes>(
      *world.job, *world.local, fabric::loopback::make_endpoint(),
      LaneLimits{.fabric = "loopback", .piece_max = std::size_t{4} << 20}, To::members);
  must(lanes->start().ok());
  const std::string own = world.board->values["loopback.address"];
  const std::size_t first = own.find(' '), second = own.find(' ', first + 1);
  std::string address;
  for (std::size_t i = second + 1; i < own.size(); i += 2)
    address += static_cast<char>(std::stoi(own.substr(i, 2), nullptr, 16));

  const weft::transport::RankHello hello{from_hex(std::string_view(own).substr(first + 1, 16)),
                                         world.job->id(),
                                         1,
                                         weft::transport::kLanesVersion,
                                         0,
                                         0};
  fabric::Link* link = nullptr;
  must(endpoint
           ->open({reinterpret_cast<const std::byte*>(address.data()), address.size()},
                  {reinterpret_cast<const std::byte*>(&hello), sizeof hello}, link)
           .ok());
  Victim victim(*lanes);
  while (!rogue.is_up && !rogue.is_down) {
    endpoint->poll(rogue);
    lanes->poll();
  }

  std::byte memory[3 * kBytes] = {};
  MemoryName named{};
  must(lanes->share(memory + kBytes, kBytes, named).ok());
  std::vector<std::byte> wanted(3 * kBytes);
  Completion completions[2];
  lanes->start_get(1, {4096, kBytes, 1, 1}, 0, wanted.data() + kBytes, kBytes, completions[0]);
  lanes->start_put(1, {4096, kBytes, 1, 1}, 0, wanted.data() + kBytes, kBytes, completions[1]);

  std::vector<std::byte> source(2 * kRing, std::byte{1});
  fabric::Registration registration;
  must(endpoint->register_memory(source.data(), source.size(), 0, registration).ok());
  Request writes;
  Script script{data, size};
  std::uint32_t number = 0;
  while (script.size > 0 && !rogue.is_down) {
    const std::size_t length = script.take<std::uint16_t>();
    const auto taken = script.take_bytes(std::min<std::size_t>(length, 4000));
    std::vector<std::byte> message(taken.begin(), taken.end());
    transport::Head head;
    if (message.size() >= sizeof head) {
      std::memcpy(static_cast<void*>(&head), message.data(), sizeof head);
      if ((head.flags & transport::kNumbered) != 0) head.number = ++number;
      if (head.reserved % 2 == 0) head.acked = 0;
      std::memcpy(message.data(), &head, sizeof head);
      // Now and then what is lent, by its key.
      constexpr std::size_t kPlace = sizeof head, kPlaceEnd = kPlace + 2 * sizeof(std::uint64_t);
      if (head.reserved % 4 < 2 && message.size() >= kPlaceEnd &&
          (head.kind == transport::Kind::get || head.kind == transport::Kind::put ||
           head.kind == transport::Kind::atomic)) {
        const std::uint64_t place[] = {number_of(named), named.address};
        std::memcpy(message.data() + kPlace, place, sizeof place);
      }
    }
    Write write{};
    const bool writes_now = message.size() >= sizeof write && head.kind == kWrite;
    if (writes_now) {
      std::memcpy(static_cast<void*>(&write), message.data(), sizeof write);
      // What lies behind it in the input is written, and then what is there.
      std::memcpy(source.data(), message.data() + sizeof write, message.size() - sizeof write);
      write.bytes = std::clamp<std::uint32_t>(write.bytes, 1, 2 * kRing);
      if (write.reserved % 2 == 0) write.id = rogue.ring;
    }
    const auto post = [&] {
      if (!writes_now) return endpoint->message(*link, message, {});
      return endpoint->write(
          *link, {source.data(), write.bytes}, registration, rogue.key, write.offset,
          transport::write_number(write.id, std::uint64_t{write.line} * 64), writes);
    };
    Code code;
    while ((code = post()) == Code::again) {
      endpoint->poll(rogue);
      victim.step();
    }
    if (code != Code::ok) break;
    if (writes_now) ++writes.under_way;
    while (writes.under_way > 0) endpoint->poll(rogue);
    endpoint->poll(rogue);
    victim.step();
  }
  for (int i = 0; i < 4; ++i) victim.step();
  lanes->disconnect(1);
  for (Completion& completion : completions) must(completion.is_done());
  endpoint->poll(rogue);
  endpoint->close(*link);
  must(writes.under_way == 0);
  endpoint->deregister(registration);
  for (std::size_t i = 0; i < 3 * kBytes; ++i)
    must((i >= kBytes && i < 2 * kBytes) ||
         (memory[i] == std::byte{0} && wanted[i] == std::byte{0}));
  return 0;
}
