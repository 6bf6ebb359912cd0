// Walks the table of docs/design/peer.md: each row is a state, an event, the next state and the
// result, and each is tried on a link of its own.
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/os/descriptor.hpp"
#include "base/wait.hpp"
#include "peer/reliable_link.hpp"
#include "tests/support/kept_messages.hpp"

using namespace weft;
using namespace weft::transport;

namespace {

using State = ReliableLink::State;
using Due = ReliableLink::Due;

constexpr std::uint64_t kTimeoutNs = 1'000'000'000;

struct Row {
  std::string state, event, next, result;
};

std::string trimmed(std::string text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::vector<Row> read_rows(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file);
  std::vector<Row> rows;
  bool is_inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| State | Event |")) {
      is_inside = true;
      std::getline(file, line);  // | --- |
      continue;
    }
    if (is_inside && !line.starts_with("|")) break;
    if (!is_inside) continue;
    std::vector<std::string> cells;
    for (std::size_t at = 1; at < line.size();) {
      const std::size_t end = line.find('|', at);
      cells.push_back(trimmed(line.substr(at, end - at)));
      at = end + 1;
    }
    REQUIRE(cells.size() == 4);
    rows.push_back({cells[0], cells[1], cells[2], cells[3]});
  }
  return rows;
}

std::string name_of(State state) {
  switch (state) {
    case State::connecting:
      return "connecting";
    case State::up:
      return "up";
    case State::broken:
      return "broken";
    case State::resting:
      return "resting";
    default:
      return "lost";
  }
}

// Listens as a fabric does, and takes nothing.
class Listener {
 public:
  Listener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address_;
    auto* raw = reinterpret_cast<sockaddr*>(&address_);
    REQUIRE(::bind(socket_.get(), raw, length) == 0);
    REQUIRE(::listen(socket_.get(), 4) == 0);
    REQUIRE(::getsockname(socket_.get(), raw, &length) == 0);
  }
  const sockaddr_in& address() const { return address_; }

 private:
  Descriptor socket_;
  sockaddr_in address_{};
};

// A link in one of the states. Up, it has received 2 messages and sent 2, which are not
// acknowledged.
struct Peer final : ReliableLink::Owner {
  explicit Peer(const std::string& state) {
    link.use(wire);
    if (state == "lost") link.lose();
    if (state != "up" && state != "broken" && state != "resting") return;
    link.set_opened(first);
    REQUIRE(link.receive({.kind = Kind::resume}, sizeof(Head), now) == ReliableLink::Received::up);
    for (std::uint32_t number = 1; number <= 2; ++number) {
      REQUIRE(receive(number) == ReliableLink::Received::fresh);
      REQUIRE(post() == Code::ok);
    }
    poll();
    if (state == "broken") REQUIRE(link.drop(now) == &first);
    if (state == "resting") {
      rest(2);
      REQUIRE(link.on_rest(true));
      REQUIRE(link.drop(now) == &first);
      poll();
    }
    wire.sent.clear();
  }
  void make_busy() override { is_busy = true; }
  bool is_at_work() const override { return has_request; }
  // The peer's, which is not to be confused with what it means for the link.
  void hear_rest(std::uint32_t acked) {
    REQUIRE(link.receive({.kind = Kind::rest, .acked = acked}, sizeof(Head), now) ==
            ReliableLink::Received::fresh);
  }
  // Gives the link up; the peer agrees.
  void rest(std::uint32_t acked) {
    link.rest();
    poll();
    hear_rest(acked);
  }
  // A link that is about to be given up.
  void begin_rest() {
    if (!link.is_resting()) return;
    REQUIRE(link.wake(now, true));
    link.set_opened(first);
    REQUIRE(link.receive({.kind = Kind::resume, .acked = 2}, sizeof(Head), now) ==
            ReliableLink::Received::up);
    link.rest();
    poll();
    wire.sent.clear();
  }
  void listen_at(const sockaddr_in& address) {
    listener = address;
    link.use(wire, {reinterpret_cast<const std::byte*>(&listener), sizeof listener});
  }
  void poll() {
    while (std::exchange(is_busy, false)) link.pump();
  }
  ReliableLink::Received receive(std::uint32_t number, std::uint32_t acked = 0) {
    return link.receive({.kind = Kind::user, .flags = kNumbered, .number = number, .acked = acked},
                        sizeof(Head), now);
  }
  Code post() {
    Head head{.kind = Kind::user};
    return link.post(head, sizeof head, {});
  }
  Code send_once() {
    Head head{.kind = Kind::user};
    return link.send_once(head, sizeof head, {});
  }
  std::string tick(std::uint64_t later) {
    switch (link.tick(now += later, kTimeoutNs, true, true)) {
      case Due::ended:
        return "ended";
      case Due::gone:
        return "gone";
      case Due::open:
        return "open";
      case Due::stalled:
        return "stalled";
      default:
        return "nothing";
    }
  }
  // The kind of the only message that went out.
  std::string only_sent() const {
    if (wire.sent.size() != 1) return std::to_string(wire.sent.size()) + " messages";
    switch (wire.sent.front().kind) {
      case Kind::ack:
        return "ack";
      case Kind::ping:
        return "ping";
      case Kind::resume:
        return "resume";
      case Kind::rest:
        CHECK(wire.sent.front().acked == link.num_received());
        return "rest";
      default:
        return "sent";
    }
  }
  // Both kept messages, in their order.
  std::string kept_again() const {
    std::vector<std::uint32_t> numbers;
    for (const auto& message : wire.sent)
      if (message.kind == Kind::user) numbers.push_back(message.number);
    return numbers == std::vector<std::uint32_t>{1, 2} ? "sent again" : "not sent again";
  }

  Wire wire;
  sockaddr_in listener{};
  fabric::Link first, second;
  ReliableLink link{*this};
  bool is_busy = false, has_request = false;
  std::uint64_t now = now_ns() + kTimeoutNs / 100;
};

std::string text_of(ReliableLink::Received received) {
  switch (received) {
    case ReliableLink::Received::fresh:
      return "fresh";
    case ReliableLink::Received::up:
      return "up";
    case ReliableLink::Received::corrupt:
      return "corrupt";
    default:
      return "nothing";
  }
}

std::string text_of(Code code) {
  return code == Code::peer_lost ? "peer_lost" : code == Code::ok ? "ok" : "again";
}

// What each event does, and its result in the table's words.
const std::map<std::string, std::function<std::string(Peer&)>>& events() {
  static const std::map<std::string, std::function<std::string(Peer&)>> all = {
      {"the own link opens",
       [](Peer& peer) {
         peer.link.set_opened(peer.second);
         return std::string(peer.link.is_opening() ? "opening" : "");
       }},
      {"the peer resumes",
       [](Peer& peer) {
         peer.link.set_opened(peer.second);
         const bool was_broken = peer.link.state() == State::broken;
         const auto received = peer.link.receive({.kind = Kind::resume}, sizeof(Head), peer.now);
         peer.poll();
         return was_broken ? peer.kept_again() : text_of(received);
       }},
      {"the peer's link comes",
       [](Peer& peer) {
         const bool was_broken = peer.link.state() == State::broken;
         const bool was_up = peer.link.is_up();
         if (was_up) REQUIRE(peer.link.drop(peer.now) == &peer.first);
         if (!peer.link.take(peer.second, was_up ? 2 : 0)) return std::string("refused");
         peer.poll();
         REQUIRE_FALSE(peer.wire.sent.empty());
         CHECK(peer.wire.sent.front().kind == Kind::resume);
         CHECK(peer.wire.sent.front().acked == peer.link.num_received());
         return was_broken ? peer.kept_again() : peer.only_sent();
       }},
      {"the peer's link counts too many",
       [](Peer& peer) {
         return std::string(peer.link.take(peer.second, 3) ? "taken" : "refused");
       }},
      {"a link comes that the peer has left",
       [](Peer& peer) {
         // The third that it opened was taken, and ends at once unless it is to be up.
         const bool was_up = peer.link.is_up();
         if (was_up) REQUIRE(peer.link.drop(peer.now) == &peer.first);
         REQUIRE(peer.link.take(peer.second, 0, 3));
         if (was_up)
           peer.poll();
         else
           REQUIRE(peer.link.drop(peer.now) == &peer.second);
         CHECK_FALSE(peer.link.has_left(4));
         CHECK_FALSE(peer.link.has_left(0));  // of a peer that does not say
         return std::string(peer.link.has_left(2) && peer.link.has_left(3) ? "refused" : "taken");
       }},
      {"the link ends",
       [](Peer& peer) {
         peer.begin_rest();
         if (peer.link.link() == nullptr) peer.link.set_opened(peer.first);
         CHECK(peer.link.drop(peer.now) == &peer.first);
         CHECK(peer.link.link() == nullptr);
         return std::string();
       }},
      {"this process was away for the timeout",
       [](Peer& peer) {
         peer.link.note_away(peer.now += kTimeoutNs + 1, true);
         return peer.tick(1);
       }},
      {"a quarter of the timeout without an answer",
       [](Peer& peer) {
         peer.link.set_opened(peer.second);
         return peer.tick(kTimeoutNs / 4 + 1);
       }},
      {"half of the timeout without an answer",
       [](Peer& peer) {
         peer.link.set_opened(peer.second);
         return peer.tick(kTimeoutNs / 2 + 1);
       }},
      {"the timeout without an answer", [](Peer& peer) { return peer.tick(kTimeoutNs + 1); }},
      {"a tick without a link", [](Peer& peer) { return peer.tick(1); }},
      {"a numbered message is posted",
       [](Peer& peer) {
         const Code code = peer.post();
         if (code != Code::ok) return text_of(code);
         if (peer.link.is_resting()) {
           REQUIRE(std::exchange(peer.is_busy, false));
           return std::string(peer.link.wake(peer.now, false) && peer.link.has_unsent()
                                  ? "kept, and " + peer.tick(0)
                                  : "kept, and nothing");
         }
         return peer.wire.sent.empty() && peer.link.has_unsent() ? "kept" : peer.only_sent();
       }},
      {"an unnumbered message is posted",
       [](Peer& peer) {
         const Code code = peer.send_once();
         return code == Code::ok ? peer.only_sent() : text_of(code);
       }},
      {"the next message comes", [](Peer& peer) { return text_of(peer.receive(3)); }},
      {"a message comes again", [](Peer& peer) { return text_of(peer.receive(2)); }},
      {"a message is missing", [](Peer& peer) { return text_of(peer.receive(4)); }},
      {"an unsent message is acknowledged", [](Peer& peer) { return text_of(peer.receive(3, 3)); }},
      {"it gives way",
       [](Peer& peer) {
         peer.link.rest();
         peer.poll();
         return peer.only_sent();
       }},
      {"it gives way while the fabric has a request",
       [](Peer& peer) {
         peer.has_request = true;
         peer.link.rest();
         peer.poll();
         CHECK(peer.wire.sent.empty());
         CHECK(peer.tick(1) == "nothing");
         peer.has_request = false;
         const std::string due = peer.tick(1);
         peer.poll();
         CHECK(peer.only_sent() == "rest");
         return due;
       }},
      {"the peer's rest comes",
       [](Peer& peer) {
         peer.begin_rest();
         peer.hear_rest(2);
         if (peer.link.on_rest(peer.link.is_resting())) return std::string("dropped");
         peer.poll();
         CHECK_FALSE(peer.link.has_unsent());
         return peer.only_sent();
       }},
      {"the peer's rest comes behind another message",
       [](Peer& peer) {
         peer.begin_rest();
         REQUIRE(peer.receive(3, 2) == ReliableLink::Received::fresh);
         peer.hear_rest(2);
         CHECK_FALSE(peer.link.on_rest(true));
         peer.poll();
         return peer.only_sent();
       }},
      {"the peer's rest crosses",
       [](Peer& peer) {
         peer.begin_rest();
         peer.hear_rest(2);
         CHECK_FALSE(peer.link.on_rest(false));
         peer.poll();
         return peer.only_sent();
       }},
      {"a quarter of the timeout in rest",
       [](Peer& peer) {
         CHECK(peer.tick(kTimeoutNs / 8) == "nothing");
         return peer.tick(kTimeoutNs / 4);
       }},
      {"there is no room for the peer's link",
       [](Peer& peer) {
         REQUIRE(peer.link.take(peer.second, 2));
         CHECK(peer.link.drop(peer.now) == &peer.second);
         peer.link.note_down(Code::no_memory, peer.now);
         return std::string(peer.link.waits_since_ns() != 0 ? "waits for room" : "");
       }},
      {"there is no room here",
       [](Peer& peer) {
         peer.now += kTimeoutNs - kTimeoutNs / 10;
         peer.link.note_down(Code::no_memory, peer.now);
         CHECK(peer.tick(kTimeoutNs / 2) == "open");  // and not gone
         CHECK(peer.link.takes_turns());
         return std::string(peer.link.waits_since_ns() != 0 ? "waits for room" : "");
       }},
      {"the peer has no room",
       [](Peer& peer) {
         peer.now += kTimeoutNs - kTimeoutNs / 10;
         peer.link.note_down(Code::again, peer.now);
         CHECK(peer.tick(kTimeoutNs / 2) == "open");
         return std::string(peer.link.waits_since_ns() == 0 ? "waits" : "");
       }},
      {"a ping comes",
       [](Peer& peer) {
         peer.begin_rest();
         CHECK(peer.link.receive({.kind = Kind::ping}, sizeof(Head), peer.now) ==
               ReliableLink::Received::nothing);
         peer.poll();
         return peer.only_sent();
       }},
      {"a quarter of the timeout in silence",
       [](Peer& peer) {
         CHECK(peer.tick(kTimeoutNs / 4 + 1) == "nothing");
         return peer.only_sent();
       }},
      {"silence, but the peer's host answers",
       [](Peer& peer) {
         const Listener listener;
         peer.listen_at(listener.address());
         CHECK(peer.tick(kTimeoutNs / 4 + 1) == "nothing");
         CHECK(peer.tick(1) == "nothing");
         return peer.tick(kTimeoutNs / 4 + 1);
       }},
      {"the peer's host refuses",
       [](Peer& peer) {
         peer.listen_at(Listener().address());  // of a process that has ended
         if (peer.link.link() == nullptr) peer.link.set_opened(peer.second);
         std::string due = "nothing";
         for (int i = 0; due == "nothing" && i < 8; ++i) due = peer.tick(kTimeoutNs / 16);
         return due;
       }},
      {"silence after a ping",
       [](Peer& peer) {
         peer.begin_rest();
         CHECK(peer.tick(kTimeoutNs / 4 + 1) == "nothing");
         return peer.tick(kTimeoutNs / 4 + 1);
       }},
      {"the timeout in silence", [](Peer& peer) { return peer.tick(kTimeoutNs + 1); }},
      {"it is given up",
       [](Peer& peer) {
         CHECK(peer.link.lose());
         CHECK_FALSE(peer.link.lose());
         CHECK_FALSE(peer.link.has_unsent());
         return std::string();
       }},
  };
  return all;
}

}  // namespace

TEST_CASE("every row of the table of a peer's states holds") {
  const std::vector<Row> rows = read_rows(WEFT_SOURCE "/docs/design/peer.md");
  REQUIRE(rows.size() > 30);
  std::set<std::string> states, used;
  for (const Row& row : rows) {
    INFO(row.state << ": " << row.event);
    const auto event = events().find(row.event);
    REQUIRE(event != events().end());
    used.insert(row.event);
    states.insert(row.state);
    Peer peer(row.state);
    REQUIRE(name_of(peer.link.state()) == row.state);
    CHECK(event->second(peer) == row.result);
    CHECK(name_of(peer.link.state()) == row.next);
  }
  CHECK(states.size() == 5);
  CHECK(used.size() == events().size());
}

TEST_CASE("who may be opened to by its peer believes a host that refuses later") {
  Peer peer("connecting");
  REQUIRE(peer.link.take(peer.first, 0));
  peer.poll();
  REQUIRE(peer.link.is_up());
  peer.listen_at(Listener().address());  // a firewall, or a process that has ended
  REQUIRE(peer.link.drop(peer.now) == &peer.first);
  // Its own tries change nothing about that.
  peer.link.set_opened(peer.second);
  std::uint64_t passed = 0;
  for (std::string due = "nothing"; due != "ended"; passed += kTimeoutNs / 64) {
    REQUIRE(passed < kTimeoutNs);
    due = peer.tick(kTimeoutNs / 64);
    if (due == "stalled") REQUIRE(peer.link.drop(peer.now) == &peer.second);
  }
  CHECK(passed > kTimeoutNs / 4);
}

TEST_CASE("who looks late again and again still finds that a peer is gone") {
  Peer peer("broken");
  for (int i = 0; i < 3; ++i) {
    peer.link.note_away(peer.now += kTimeoutNs / 2, i == 0);
    const std::string due = peer.tick(1);
    CHECK(due == (i == 2 ? "gone" : "open"));
  }
}
