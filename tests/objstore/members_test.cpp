// What two managers agree on when one of them has lost the other: one is a store here, the other a
// Node that says what a manager would.
#include "other_manager.hpp"

using namespace weft;
using namespace weft::objstore;
using namespace weft::testing;

TEST_CASE("who has been forgotten forgets, too, and goes on over the link that it hears so by") {
  Host host;
  ObjectStore store({.socket = host.store.socket()});
  OtherManager other;
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
  OtherManager other;
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
