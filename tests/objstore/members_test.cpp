// The protocol of two managers when one of them has lost the other: one is a store here, the other
// a Node that says what a manager would.
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "objstore/store/log.hpp"
#include "other_manager.hpp"

using namespace weft;
using namespace weft::objstore;
using namespace weft::testing;

TEST_CASE("a forgotten manager forgets, too, and goes on over the link that the greeting came by") {
  Host host;
  ObjectStore store({.socket = host.store.socket()});
  OtherManager other;
  const std::uint64_t before = used_bytes(store);
  const Peer first = other.connect(host);
  const std::uint64_t number = other.expect_message(first, PeerKind::members).number;
  CHECK(number != 0);
  other.greet(first, 5);
  wait_for_peers(store, 1);
  other.take_room(first, 1);
  CHECK(used_bytes(store) > before);
  // It has lost that link, which this host does not know, and makes another.
  const Peer second = other.connect(host);
  other.greet(second, 6);
  CHECK(other.expect_message(second, PeerKind::members).number == number);
  CHECK(other.progress_until([&] { return first.is_lost(); }));
  CHECK(other.progress_until([&] { return used_bytes(store) == before; }));
  wait_for_peers(store, 1);
  // Messages of an earlier meeting have no effect.
  other.take_room(second, 2);
  other.greet(second, 6);
  other.greet(second, 5);
  other.take_room(second, 3);
  CHECK(used_bytes(store) > before + 1'500'000);
  // All links are lost, and it comes again.
  other.close(second);
  wait_for_peers(store, 0);
  CHECK(other.progress_until([&] { return used_bytes(store) == before; }));
  const Peer third = other.connect(host);
  CHECK(other.expect_message(third, PeerKind::members).number > number);
  other.greet(third, 7);
  wait_for_peers(store, 1);
}

// The other one received the first greeting in a meeting that it has forgotten since.
TEST_CASE("a greeting is answered, though one was sent before") {
  Host host;
  ObjectStore store({.socket = host.store.socket()});
  OtherManager other;
  const Peer link = other.connect(host);
  const std::uint64_t number = other.expect_message(link, PeerKind::members).number;
  for (const std::uint64_t mine : {5, 6}) {
    other.greet(link, mine);
    CHECK(other.expect_message(link, PeerKind::members).number == number);
  }
  // Not for ever.
  other.greet(link, 6);
  other.take_room(link, 1);
}

TEST_CASE("a store of another version is logged with both numbers, and its messages are dropped") {
  Host host;
  ObjectStore store({.socket = host.store.socket()});
  OtherManager other;
  const Peer link = other.connect(host);
  other.expect_message(link, PeerKind::members);
  PeerMessage members;
  members.kind = PeerKind::members;
  members.number = 5;
  std::string bytes = encode(members);
  REQUIRE(static_cast<std::uint8_t>(bytes[0]) == kPeerVersion);
  bytes[0] = static_cast<char>(kPeerVersion - 1);

  static std::mutex mutex;
  static std::string text;
  objstore::set_log_sink(
      [](objstore::LogSeverity, std::string_view line, std::span<const objstore::LogField>) {
        const std::lock_guard lock(mutex);
        text += line;
      });
  const Code sent = other.send(link, bytes);
  // In order behind it, so the other one has been handled once this has its effect.
  other.greet(link, 6);
  wait_for_peers(store, 1);
  CHECK(sent == Code::ok);
  const std::lock_guard lock(mutex);
  INFO(text);
  const auto names = [&](int version) {
    return text.find("version " + std::to_string(version)) != std::string::npos;
  };
  CHECK(names(kPeerVersion - 1));
  CHECK(names(kPeerVersion));
}

TEST_CASE("who answers for an id gives the object at once, if nobody else has it") {
  Host host;
  ObjectStore store({.socket = host.store.socket()});
  OtherManager other;
  const Peer link = other.connect(host);
  other.greet(link, 1);
  wait_for_peers(store, 1);
  PeerMessage watch;
  watch.kind = PeerKind::watch;
  const auto answer_to = [&](std::uint64_t i, std::uint64_t threshold) {
    watch.id = id_of(i);
    watch.threshold = threshold;
    ++watch.number;
    other.say(link, watch);
    return other.hear_answer(link, watch.number);
  };
  int num_given = 0;
  for (std::uint64_t i = 0; i < 40; ++i) {
    REQUIRE(store.put(id_of(i), contents_of(id_of(i), 1000)));
    const PeerMessage answer = answer_to(i, 32 << 10);
    if (answer.kind == PeerKind::holders) {  // another one answers for it
      CHECK(answer.holders.empty());
      continue;
    }
    ++num_given;
    CHECK(answer.kind == PeerKind::data);
    CHECK(answer.data_bytes == 1000);
    CHECK(answer_to(i, 0).kind == PeerKind::offer);
    // With another holder it is for the asker to choose.
    PeerMessage announce;
    announce.kind = PeerKind::announce;
    announce.id = id_of(i);
    announce.number = 1;
    other.say(link, announce);
    OtherManager third;
    const Peer its = third.connect(host);
    third.say(its, watch);
    CHECK(third.hear_answer(its, watch.number).holders.size() == 2);
  }
  CHECK(num_given > 5);
  CHECK(num_given < 35);
}

TEST_CASE(
    "who answers for an id and is lost before it has, or has not got the object, is no loss") {
  Host there, host({there.peer()});
  ObjectStore at_there({.socket = there.store.socket()}), store({.socket = host.store.socket()});
  OtherManager other;
  std::vector<Peer> links;
  for (const Host* one : {&there, &host}) {
    links.push_back(other.connect(*one));
    other.greet(links.back(), 1);
  }
  wait_for_peers(at_there, 2);
  wait_for_peers(store, 2);
  std::vector<ObjectId> ids;
  for (std::uint64_t i = 0; i < 30; ++i) {
    ids.push_back(id_of(i));
    REQUIRE(at_there.put(ids.back(), contents_of(ids.back(), 1000)));
  }
  Status status;
  std::thread fetch([&] {
    ObjectStore fetches({.socket = host.store.socket()});
    status = fetches.fetch(ids, kWaitMs);
  });
  CHECK(other.expect_message(links[1], PeerKind::watch).number != 0);
  for (const Peer& link : links) other.close(link);
  CHECK(other.progress_until([&] { return status_number(store, "fetched") == ids.size(); }));
  fetch.join();
  INFO(status.text());
  CHECK(status.ok());
}

TEST_CASE("a second link takes over as a new meeting when the first one is lost") {
  Host host;
  ObjectStore store({.socket = host.store.socket()});
  OtherManager other;
  const std::uint64_t before = used_bytes(store);
  const Peer first = other.connect(host);
  const std::uint64_t number = other.expect_message(first, PeerKind::members).number;
  const Peer second = other.connect(host);
  other.greet(first, 1);
  wait_for_peers(store, 1);
  other.take_room(first, 1);
  // Whatever was under way over the first is not waited for over the second.
  other.close(first);
  const PeerMessage greeting = other.expect_message(second, PeerKind::members);
  CHECK(greeting.number > number);
  CHECK(other.progress_until([&] { return used_bytes(store) == before; }));
  other.greet(second, 1);
  wait_for_peers(store, 1);
  other.take_room(second, 2);
}
