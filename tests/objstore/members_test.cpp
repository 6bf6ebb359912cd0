// What two managers agree on when one of them has lost the other: one is a store here, the other a
// Node that says what a manager would.
#include "hosts.hpp"
#include "peer_wire.hpp"

using namespace weft;
using namespace weft::objstore;
using namespace weft::testing;

namespace {

class Other {
 public:
  Other() : node_({.name = "weft-store other", .progress_thread = false}) {
    node_.on_message([this](const Peer& peer, std::span<const std::byte> bytes) {
      PeerMessage message;
      const std::vector<std::byte> copy(bytes.begin(), bytes.end());
      if (decode(copy, message)) heard_.emplace_back(peer, message);
    });
  }
  Peer connect(const Host& host) {
    Peer peer;
    REQUIRE(node_.connect(host.peer(), peer));
    return peer;
  }
  void close(const Peer& link) { node_.close(link); }
  void say(const Peer& link, const PeerMessage& message) {
    const std::string bytes = encode(message);
    Operation operation;
    node_.send(link, bytes.data(), bytes.size(), operation);
    REQUIRE(node_.wait(operation) == Code::ok);
  }
  void greet(const Peer& link, std::uint64_t number) {
    PeerMessage message;
    message.kind = PeerKind::members;
    message.number = number;
    say(link, message);
  }
  // The next message of this kind over this link, which takes out what came before it.
  PeerMessage hear(const Peer& link, PeerKind kind) {
    for (int tries = 0; tries < 30000; ++tries) {
      node_.progress();
      while (!heard_.empty()) {
        const auto [from, message] = heard_.front();
        heard_.pop_front();
        if (from == link && message.kind == kind) return message;
      }
      ::usleep(1000);
    }
    FAIL("nothing is heard");
    return {};
  }
  // Room for an object that will not come.
  void take_room(const Peer& link, std::uint64_t number) {
    PeerMessage message;
    message.kind = PeerKind::push;
    message.number = number;
    message.id = id_of(number);
    message.data_bytes = 1'000'000;
    say(link, message);
    const PeerMessage answer = hear(link, PeerKind::push_answer);
    CHECK(answer.number == number);
    REQUIRE(answer.code == 0);
  }
  template <class Done>
  bool progress_until(Done&& done) {
    for (int tries = 0; tries < 30000; ++tries) {
      node_.progress();
      if (done()) return true;
      ::usleep(1000);
    }
    return false;
  }

 private:
  Node node_;
  std::deque<std::pair<Peer, PeerMessage>> heard_;
};

std::uint64_t used_bytes(ObjectStore& store) { return status_number(store, "used_bytes"); }

}  // namespace

TEST_CASE("who has been forgotten forgets, too, and goes on over the link that it hears so by") {
  Host host;
  ObjectStore store({.socket = host.store.socket()});
  Other other;
  const std::uint64_t before = used_bytes(store);
  const Peer first = other.connect(host);
  const std::uint64_t number = other.hear(first, PeerKind::members).number;
  CHECK(number != 0);
  other.greet(first, 5);
  wait_for_peers(store, 1);
  other.take_room(first, 1);
  CHECK(used_bytes(store) > before);
  // It has lost that link, which this host does not know, and makes another.
  const Peer second = other.connect(host);
  other.greet(second, 6);
  CHECK(other.hear(second, PeerKind::members).number == number);
  CHECK(other.progress_until([&] { return first.is_lost(); }));
  CHECK(used_bytes(store) == before);
  wait_for_peers(store, 1);
  // What is left of an earlier meeting has no effect.
  other.take_room(second, 2);
  other.greet(second, 6);
  other.greet(second, 5);
  other.take_room(second, 3);
  CHECK(used_bytes(store) > before + 1'500'000);
  // All links are lost, and it comes again.
  other.close(second);
  wait_for_peers(store, 0);
  CHECK(used_bytes(store) == before);
  const Peer third = other.connect(host);
  CHECK(other.hear(third, PeerKind::members).number > number);
  other.greet(third, 7);
  wait_for_peers(store, 1);
}

TEST_CASE("a second link takes over as a new meeting when the first one is lost") {
  Host host;
  ObjectStore store({.socket = host.store.socket()});
  Other other;
  const std::uint64_t before = used_bytes(store);
  const Peer first = other.connect(host);
  const std::uint64_t number = other.hear(first, PeerKind::members).number;
  const Peer second = other.connect(host);
  other.greet(first, 1);
  wait_for_peers(store, 1);
  other.take_room(first, 1);
  // Whatever was under way over the first is not waited for over the second.
  other.close(first);
  const PeerMessage greeting = other.hear(second, PeerKind::members);
  CHECK(greeting.number > number);
  CHECK(used_bytes(store) == before);
  other.greet(second, 1);
  wait_for_peers(store, 1);
  other.take_room(second, 2);
}
