// Objects that one store sends to many others at once.
#include <pthread.h>

#include <algorithm>

#include "objstore/manager/push/push_group.hpp"
#include "other_manager.hpp"
#include "tests/support/slow_names.hpp"

using namespace weft;
using namespace weft::objstore;
using namespace weft::testing;

namespace {

// Some hosts that know each other, and a client at each.
struct Hosts {
  explicit Hosts(int num, std::uint64_t last_memory = 64 << 20, bool verifies = false) {
    for (int i = 0; i < num; ++i) {
      std::vector<std::string> others;
      for (const auto& host : hosts) others.push_back(host->peer());
      hosts.push_back(std::make_unique<Host>(others, 32 << 10,
                                             i == num - 1 ? last_memory : std::uint64_t{64} << 20,
                                             20000, false, verifies));
      stores.push_back(
          std::make_unique<ObjectStore>(ObjectStoreSettings{.socket = hosts[i]->store.socket()}));
    }
    for (const auto& store : stores) wait_for_peers(*store, hosts.size() - 1);
  }
  // Names of all but the first.
  std::vector<std::string> others() const {
    std::vector<std::string> names;
    for (std::size_t i = 1; i < hosts.size(); ++i) names.push_back(hosts[i]->peer());
    return names;
  }

  std::vector<std::unique_ptr<Host>> hosts;
  std::vector<std::unique_ptr<ObjectStore>> stores;
};

void check_has(ObjectStore& store, const ObjectId& id, std::size_t bytes) {
  Object object;
  const Status status = store.get(id, object);
  INFO(status.text() << ", " << bytes << " bytes");
  REQUIRE(status.ok());
  CHECK(equal(object.data(), contents_of(id, bytes)));
  CHECK(equal(object.metadata(), contents_of(id, 10)));
}

ObjectPush of(const std::vector<ObjectPush>& pushes, const std::string& host) {
  const auto found = std::find_if(pushes.begin(), pushes.end(),
                                  [&](const ObjectPush& push) { return push.host == host; });
  REQUIRE(found != pushes.end());
  return *found;
}

}  // namespace

TEST_CASE("an object of any size is on all hosts after a push, and nobody fetched it") {
  const bool verifies = GENERATE(false, true);
  Hosts hosts(4, 64 << 20, verifies);
  std::uint64_t number = 0;
  for (const std::size_t bytes : {0, 1, 1000, 10'230, 10'231, 65'536, 1 << 20, 9'000'000}) {
    const ObjectId id = id_of(number++);
    REQUIRE(hosts.stores[0]->put(id, contents_of(id, bytes), contents_of(id, 10)));
    std::vector<ObjectPush> pushes;
    // By name, and to all.
    const Status status = hosts.stores[0]->push(
        id, number % 2 == 0 ? hosts.others() : std::vector<std::string>(), pushes, kWaitMs);
    INFO(status.text() << ", " << bytes << " bytes");
    REQUIRE(status.ok());
    REQUIRE(pushes.size() == 3);
    for (const ObjectPush& push : pushes) CHECK((push.code == Code::ok && !push.was_there));
    for (const auto& store : hosts.stores) check_has(*store, id, bytes);
  }
  for (std::size_t i = 1; i < 4; ++i) {
    CHECK(status_number(*hosts.stores[i], "fetched") == 0);
    CHECK(status_number(*hosts.stores[i], "pushed_here") == number);
  }
  CHECK(status_number(*hosts.stores[0], "pushed") == 3 * number);
  // They are copies as others are: others can fetch them, and delete reaches all.
  REQUIRE(hosts.stores[2]->erase(id_of(0)));
  for (const auto& store : hosts.stores)
    CHECK(wait_until([&] { return !store->contains(id_of(0)); }));
}

TEST_CASE("hosts that have it, and those without room, are left out of a push") {
  Hosts hosts(4, 4 << 20);
  const ObjectId id = id_of(1);
  REQUIRE(hosts.stores[0]->put(id, contents_of(id, 3 << 20), contents_of(id, 10)));
  check_fetched(*hosts.stores[1], id, 3 << 20);
  // What fills the last one is in use.
  Object held;
  REQUIRE(hosts.stores[3]->put(id_of(2), contents_of(id_of(2), 3 << 20)));
  REQUIRE(hosts.stores[3]->get(id_of(2), held));
  std::vector<ObjectPush> pushes;
  Status status = hosts.stores[0]->push(id, hosts.others(), pushes, kWaitMs);
  CHECK(status == Code::no_memory);
  INFO(status.text());
  CHECK(status.text().find("on 2 of the 3") != std::string::npos);
  CHECK(status.text().find("no room") != std::string::npos);
  CHECK(of(pushes, hosts.hosts[1]->peer()).was_there);
  CHECK(of(pushes, hosts.hosts[2]->peer()).code == Code::ok);
  CHECK(of(pushes, hosts.hosts[3]->peer()).code == Code::no_memory);
  check_has(*hosts.stores[2], id, 3 << 20);
  CHECK_FALSE(hosts.stores[3]->contains(id));
  CHECK(status_number(*hosts.stores[1], "pushed_here") == 0);
  // With room it is as any other; who has it is not asked to take it again.
  held.release();
  status = hosts.stores[0]->push(id, hosts.others(), pushes, kWaitMs);
  INFO(status.text());
  CHECK(status.ok());
  check_has(*hosts.stores[3], id, 3 << 20);
  CHECK(status_number(*hosts.stores[2], "pushed_here") == 1);
  // Larger than all its memory.
  const ObjectId large = id_of(3);
  REQUIRE(hosts.stores[0]->put(large, contents_of(large, 5 << 20), contents_of(large, 10)));
  status = hosts.stores[0]->push(large, {}, pushes, kWaitMs);
  CHECK(status == Code::no_memory);
  check_has(*hosts.stores[1], large, 5 << 20);
  check_has(*hosts.stores[2], large, 5 << 20);
}

TEST_CASE("a push takes what is on disk, and makes room by writing to it") {
  Host a({}, 32 << 10, 16 << 20, 20000, true), b({a.peer()}, 32 << 10, 16 << 20, 20000, true);
  ObjectStore at_a({.socket = a.store.socket()}), at_b({.socket = b.store.socket()});
  wait_for_peers(at_a, 1);
  for (std::uint64_t i = 0; i < 8; ++i)
    for (ObjectStore* store : {&at_a, &at_b}) {
      const ObjectId id = id_of(store == &at_a ? i : 100 + i);
      REQUIRE(store->put(id, contents_of(id, 4 << 20), contents_of(id, 10)));
    }
  for (std::uint64_t i = 0; i < 8; ++i) {
    std::vector<ObjectPush> pushes;
    const Status status = at_a.push(id_of(i), {}, pushes, kWaitMs);
    INFO(status.text());
    REQUIRE(status.ok());
    CHECK_FALSE(pushes.at(0).was_there);
  }
  for (std::uint64_t i = 0; i < 8; ++i) {
    check_has(at_b, id_of(i), 4 << 20);
    check_has(at_b, id_of(100 + i), 4 << 20);
  }
}

TEST_CASE("names of hosts in a push may be wrong, the same, or one's own") {
  Hosts hosts(3);
  const ObjectId id = id_of(1);
  REQUIRE(hosts.stores[0]->put(id, contents_of(id, 100'000), contents_of(id, 10)));
  std::vector<ObjectPush> pushes;
  const std::vector<std::string> names = {hosts.hosts[1]->peer(), "unix:/nobody/here",    "nobody",
                                          hosts.hosts[0]->peer(), hosts.hosts[1]->peer(), "host"};
  const Status status = hosts.stores[0]->push(id, names, pushes, kWaitMs);
  INFO(status.text());
  CHECK(status == Code::not_found);
  CHECK(pushes.size() == 5);
  CHECK(of(pushes, hosts.hosts[1]->peer()).code == Code::ok);
  CHECK(of(pushes, "unix:/nobody/here").code == Code::not_found);
  CHECK(of(pushes, "nobody").code == Code::not_found);
  CHECK(of(pushes, "host").code == Code::bad_argument);  // both are called so
  CHECK(of(pushes, hosts.hosts[0]->peer()).was_there);
  check_has(*hosts.stores[1], id, 100'000);
  CHECK_FALSE(hosts.stores[2]->contains(id));
  CHECK(hosts.stores[0]->push(id_of(9), {}, pushes, 0) == Code::not_found);
  CHECK(hosts.stores[0]->push(id, std::vector<std::string>{""}, pushes) == Code::bad_argument);
}

TEST_CASE("while a push waits for a name server its host fetches") {
  Host there, host({there.peer()});
  for (Host* one : {&there, &host}) {
    one->stop();
    one->settings.secret = "secret";
    one->start();
  }
  ObjectStore store({.socket = host.store.socket()}), other({.socket = there.store.socket()});
  wait_for_peers(store, 1);
  REQUIRE(store.put(id_of(1), contents_of(id_of(1), 1000)));
  REQUIRE(other.put(id_of(2), contents_of(id_of(2), 100'000)));
  SlowNames& names = SlowNames::of_process();
  names.fall_silent();
  std::vector<ObjectPush> pushes;
  Status status;
  std::thread push([&] {
    ObjectStore pusher({.socket = host.store.socket()});
    // Nobody listens at this port.
    status = pusher.push(id_of(1), std::vector<std::string>{"slow.invalid:1"}, pushes, kWaitMs);
  });
  CHECK(names.wait_until_asked());
  Object object;
  const Status fetched = store.get(id_of(2), object, kWaitMs);
  names.answer();
  push.join();
  INFO(fetched.text());
  CHECK(fetched.ok());
  INFO(status.text());
  CHECK(of(pushes, "slow.invalid:1").code == Code::not_found);
}

TEST_CASE("a push names as many hosts as it may, and says so when it is to all of too many") {
  Host host;
  ObjectStore store({.socket = host.store.socket()});
  const ObjectId id = id_of(1);
  REQUIRE(store.put(id, contents_of(id, 100)));
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < kMostPushed; ++i) names.push_back("host" + std::to_string(i));
  std::vector<ObjectPush> pushes;
  Status status = store.push(id, names, pushes, kWaitMs);
  CHECK(status == Code::not_found);
  REQUIRE(pushes.size() == kMostPushed);
  for (std::size_t i = 0; i < pushes.size(); ++i) CHECK(pushes[i].host == names[i]);
  names.emplace_back("one-more");
  CHECK(store.push(id, names, pushes, kWaitMs) == Code::bad_argument);
  Hosts hosts(4);
  hosts.hosts[0]->stop();
  hosts.hosts[0]->settings.most_pushed = 2;
  hosts.hosts[0]->settings.peers = hosts.others();
  hosts.hosts[0]->start();
  wait_for_peers(*hosts.stores[0], 3);
  REQUIRE(hosts.stores[0]->put(id, contents_of(id, 100), contents_of(id, 10)));
  status = hosts.stores[0]->push(id, {}, pushes, kWaitMs);
  INFO(status.text());
  CHECK(status == Code::bad_argument);
  CHECK(status.text().find("3 are known here") != std::string::npos);
  CHECK(pushes.empty());
  CHECK(hosts.stores[0]->push(id, hosts.others(), pushes, kWaitMs));
  check_has(*hosts.stores[3], id, 100);
}

TEST_CASE("a push needs other hosts") {
  StoreFixture alone;
  ObjectStore store({.socket = alone.socket()});
  const ObjectId id = id_of(1);
  REQUIRE(store.put(id, contents_of(id, 100)));
  std::vector<ObjectPush> pushes;
  CHECK(store.push(id, {}, pushes, kWaitMs) == Code::not_found);
  Host host;
  ObjectStore there({.socket = host.store.socket()});
  REQUIRE(there.put(id, contents_of(id, 100)));
  CHECK(there.push(id, {}, pushes, kWaitMs) == Code::not_found);
}

TEST_CASE("a host that a push names, and that has no --listen, or is the one that pushes") {
  Host there, host({there.peer()});
  ObjectStore store({.socket = host.store.socket()});
  host.stop();
  host.settings.name = "weft-store self";
  host.settings.listen.clear();
  host.start();
  wait_for_peers(store, 1);
  const ObjectId id = id_of(1);
  REQUIRE(store.put(id, contents_of(id, 100)));
  std::vector<ObjectPush> pushes;
  CHECK(store.push(id, std::vector<std::string>{"self"}, pushes, kWaitMs));
  CHECK(of(pushes, "self").was_there);
  // Nobody reaches this one by groups, which is no fault of the other host.
  const Status status = store.push(id, {}, pushes, kWaitMs);
  CHECK(status == Code::unsupported);
  CHECK(status.text().find("a store without --listen") != std::string::npos);
  CHECK(of(pushes, "host").code == Code::unsupported);
  ObjectStore at_there({.socket = there.store.socket()});
  CHECK(wait_until([&] { return used_bytes(at_there) == 0; }));
}

TEST_CASE("a push fails when a host has not got it, and only then") {
  Hosts hosts(3);
  for (std::uint64_t i = 0; i < 150; ++i) {
    const ObjectId id = id_of(i);
    REQUIRE(hosts.stores[0]->put(id, contents_of(id, 20'000), contents_of(id, 10)));
    std::vector<ObjectPush> pushes;
    // Its time is over at any moment.
    const Status status =
        hosts.stores[0]->push(id, hosts.others(), pushes, static_cast<std::int64_t>(i % 15));
    const bool is_everywhere =
        pushes.size() == 2 && std::all_of(pushes.begin(), pushes.end(), [](const ObjectPush& push) {
          return push.code == Code::ok;
        });
    INFO(status.text());
    CHECK(status.ok() == is_everywhere);
  }
}

TEST_CASE("a push brings the object here first, and serves those who wait for it") {
  Hosts hosts(4);
  const ObjectId id = id_of(1);
  std::thread waits([&] { check_fetched(*hosts.stores[3], id, 2'000'000); });
  REQUIRE(hosts.stores[1]->put(id, contents_of(id, 2'000'000), contents_of(id, 10)));
  std::vector<ObjectPush> pushes;
  const Status status = hosts.stores[0]->push(id, {}, pushes, kWaitMs);
  waits.join();
  INFO(status.text());
  // A host that waits for it may be fetching it right now.
  CHECK((status.ok() || status == Code::again));
  for (int i = 0; i < 3; ++i) check_has(*hosts.stores[i], id, 2'000'000);
}

TEST_CASE("many pushes at once") {
  Hosts hosts(3);
  std::vector<std::thread> threads;
  std::atomic<int> num_right{0};
  for (std::uint64_t from = 0; from < 3; ++from)
    for (std::uint64_t i = 0; i < 4; ++i)
      threads.emplace_back([&hosts, &num_right, from, i] {
        const ObjectId id = id_of(10 * from + i);
        ObjectStore store({.socket = hosts.hosts[from]->store.socket()});
        std::vector<ObjectPush> pushes;
        if (!store.put(id, contents_of(id, 300'000 * i), contents_of(id, 10))) return;
        if (store.push(id, {}, pushes, kWaitMs)) ++num_right;
      });
  for (std::thread& thread : threads) thread.join();
  CHECK(num_right == 12);
  for (const auto& store : hosts.stores)
    for (std::uint64_t from = 0; from < 3; ++from)
      for (std::uint64_t i = 0; i < 4; ++i) check_has(*store, id_of(10 * from + i), 300'000 * i);
}

// A receiver's manager ends, or the pusher's, at any moment; its store stays.
TEST_CASE("when a host leaves in a push, others have all of the object or nothing") {
  for (int round = 0; round < 12; ++round) {
    Hosts hosts(4);
    const ObjectId id = id_of(static_cast<std::uint64_t>(round));
    const std::size_t bytes = 30'000'000;
    REQUIRE(hosts.stores[0]->put(id, contents_of(id, bytes), contents_of(id, 10)));
    std::vector<std::uint64_t> before;
    for (const auto& store : hosts.stores) before.push_back(used_bytes(*store));
    const std::size_t victim = round % 3 == 2 ? 0 : 2;
    std::vector<ObjectPush> pushes;
    Status status;
    std::thread push([&] { status = hosts.stores[0]->push(id, hosts.others(), pushes, kWaitMs); });
    ::usleep(static_cast<useconds_t>(round) * 3000);  // any moment will do
    hosts.hosts[victim]->stop();
    push.join();
    INFO(status.text() << " in round " << round);
    CHECK(status.code() != Code::timed_out);
    for (std::size_t i = 1; i < 4; ++i) {
      if (victim == 2 && i == victim) continue;
      ObjectStore& store = *hosts.stores[i];
      // The end reaches it a little later than the pusher's client, and the push perhaps, too:
      // what counts is what one look finds.
      bool is_whole = false;
      std::uint64_t used = 0;
      (void)wait_until([&] {
        used = used_bytes(store);
        is_whole = store.contains(id);
        return is_whole || used == before[i];
      });
      if (is_whole)
        check_has(store, id, bytes);
      else
        CHECK(used == before[i]);
      if (victim == 2 && !pushes.empty()) {
        const ObjectPush one = of(pushes, hosts.hosts[i]->peer());
        CHECK((one.code == Code::ok) == store.contains(id));
      }
    }
    if (victim == 2 && !pushes.empty()) {
      const Code code = of(pushes, hosts.hosts[2]->peer()).code;
      // It left after it had it, in the push, or before anybody reached it.
      CHECK((code == Code::ok || code == Code::peer_lost || code == Code::not_found));
    }
    // What is left goes on.
    if (victim == 2) {
      const ObjectId next = id_of(1000);
      REQUIRE(hosts.stores[0]->put(next, contents_of(next, 50'000), contents_of(next, 10)));
      const std::vector<std::string> left = {hosts.hosts[1]->peer(), hosts.hosts[3]->peer()};
      const Status again = hosts.stores[0]->push(next, left, pushes, kWaitMs);
      INFO(again.text());
      REQUIRE(again.ok());
      check_has(*hosts.stores[3], next, 50'000);
    }
  }
}

TEST_CASE("a push whose client or whose time is over leaves nothing behind") {
  Hosts hosts(3);
  const ObjectId id = id_of(1);
  REQUIRE(hosts.stores[0]->put(id, contents_of(id, 30'000'000), contents_of(id, 10)));
  const std::uint64_t before = used_bytes(*hosts.stores[1]);
  std::vector<ObjectPush> pushes;
  // Every host has it, or none of it; whichever comes first.
  const Status status = hosts.stores[0]->push(id, hosts.others(), pushes, 1);
  INFO(status.text());
  CHECK((status.ok() || status == Code::timed_out));
  REQUIRE(pushes.size() == 2);
  for (std::size_t i = 1; i < 3; ++i) {
    ObjectStore& store = *hosts.stores[i];
    CHECK(wait_until([&] { return store.contains(id) || used_bytes(store) == before; }));
  }
  const Status again = hosts.stores[0]->push(id, hosts.others(), pushes, kWaitMs);
  INFO(again.text());
  CHECK(again.ok());
  for (std::size_t i = 1; i < 3; ++i) check_has(*hosts.stores[i], id, 30'000'000);
}

// Wrong messages of another host: a group that this one is not in, one that nobody asked for.
TEST_CASE("a store believes nothing of a push that makes no sense") {
  Host a;
  ObjectStore store({.socket = a.store.socket()});
  OtherManager other;
  const Peer to = other.connect(a);
  const std::uint64_t before = used_bytes(store);
  PeerMessage message;
  message.number = 5;
  message.id = id_of(1);
  // Of a group that is of no push.
  message.kind = PeerKind::push_group;
  message.members = {{1, "a"}, {2, "b"}};
  message.block_bytes = 1;
  other.say(to, message);
  CHECK(other.expect_message(to, PeerKind::push_end, 5).code ==
        static_cast<std::uint32_t>(Code::not_found));
  // Answers that nobody waits for, an end of none.
  message.kind = PeerKind::push_answer;
  other.say(to, message);
  message.kind = PeerKind::push_end;
  other.say(to, message);
  message.kind = PeerKind::push_stop;
  other.say(to, message);
  // More than there is.
  message.kind = PeerKind::push;
  message.number = 6;
  message.data_bytes = UINT64_MAX - 5;
  message.metadata_bytes = 10;
  other.say(to, message);
  CHECK(other.expect_message(to, PeerKind::push_answer, 6).code ==
        static_cast<std::uint32_t>(Code::no_memory));
  // A group that the store is not in, then one whose blocks are too long.
  for (const bool is_member : {false, true}) {
    message.kind = PeerKind::push;
    message.number = is_member ? 8 : 7;
    message.data_bytes = 1'000'000;
    other.say(to, message);
    const PeerMessage ready = other.expect_message(to, PeerKind::push_answer, message.number);
    REQUIRE(ready.code == 0);
    REQUIRE(ready.members.size() == 1);
    CHECK(used_bytes(store) > before);
    message.kind = PeerKind::push_group;
    message.members = {{1, "a"}, {is_member ? ready.members[0].generation : 2, "b"}};
    message.block_bytes = is_member ? std::uint64_t{2} << 30 : 1;
    other.say(to, message);
    const std::uint32_t code = other.expect_message(to, PeerKind::push_end, message.number).code;
    CHECK(code == static_cast<std::uint32_t>(is_member ? Code::bad_argument : Code::corrupt));
    CHECK(used_bytes(store) == before);
  }
  // A host that asks, and goes.
  message.kind = PeerKind::push;
  message.number = 9;
  other.say(to, message);
  CHECK(other.expect_message(to, PeerKind::push_answer, 9).code == 0);
  other.close(to);
  CHECK(other.progress_until([&] { return used_bytes(store) == before; }));
  CHECK_FALSE(store.contains(id_of(1)));
}

// The group's root may be any host that has the secret.
TEST_CASE("who pushes cannot change what has come") {
  Host a;
  ObjectStore store({.socket = a.store.socket()});
  OtherManager other;
  const Peer to = other.connect(a);
  Multicast multicast(NodeSettings{});
  std::string address;
  REQUIRE(multicast.node().address(address));
  for (const std::size_t bytes : {1000, 1'000'000}) {
    PeerMessage message;
    message.kind = PeerKind::push;
    message.number = bytes;
    message.id = id_of(bytes);
    message.data_bytes = bytes - 10;
    message.metadata_bytes = 10;
    other.say(to, message);
    const PeerMessage ready = other.expect_message(to, PeerKind::push_answer, bytes);
    REQUIRE(ready.members.size() == 1);
    message.kind = PeerKind::push_group;
    message.group = bytes;
    message.block_bytes = 65536;
    message.members = {{other.generation(), address}, ready.members[0]};
    other.say(to, message);
    std::vector<std::byte> first = contents_of(id_of(bytes), bytes - 10);
    const std::vector<std::byte> metadata = contents_of(id_of(bytes), 10);
    first.insert(first.end(), metadata.begin(), metadata.end());
    const std::vector<std::byte> second(bytes, std::byte{0x55});
    {
      Group group(multicast,
                  {.id = bytes,
                   .members = {address, ready.members[0].address},
                   .block_bytes = 65536,
                   .algorithm = "native"},
                  {});
      REQUIRE(group.send(first.data(), bytes));
      CHECK(other.expect_message(to, PeerKind::push_end, bytes).code == 0);
      check_has(store, id_of(bytes), bytes - 10);
      CHECK(group.send(second.data(), bytes));
      CHECK_FALSE(group.close());
    }
    check_has(store, id_of(bytes), bytes - 10);
  }
}

TEST_CASE("who asks for room and then says nothing does not have it for ever") {
  Host a;
  ObjectStore store({.socket = a.store.socket()});
  Node peer({.name = "foreign"});
  std::atomic<int> num_answers{0};
  peer.on_message([&](const Peer&, std::span<const std::byte>) { ++num_answers; });
  Peer to;
  REQUIRE(peer.connect(a.peer(), to));
  const std::uint64_t before = used_bytes(store);
  PeerMessage message;
  message.kind = PeerKind::push;
  message.id = id_of(1);
  message.data_bytes = 1'000'000;
  const std::string bytes = encode(message);
  Operation operation;
  peer.send(to, bytes.data(), bytes.size(), operation);
  REQUIRE(peer.wait(operation) == Code::ok);
  CHECK(wait_until([&] { return used_bytes(store) > before; }));
  CHECK(wait_until([&] { return used_bytes(store) == before; }, 90));
  REQUIRE(store.put(id_of(1), contents_of(id_of(1), 10)));
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // which start threads their way
TEST_CASE("a host that can start no thread leaves a push, and goes on") {
  Multicast multicast(NodeSettings{});
  pthread_attr_t before, endless;
  REQUIRE(pthread_getattr_default_np(&before) == 0);
  REQUIRE(pthread_attr_init(&endless) == 0);
  REQUIRE(pthread_attr_setstacksize(&endless, std::size_t{1} << 46) == 0);
  std::vector<Code> ends;
  REQUIRE(pthread_setattr_default_np(&endless) == 0);
  {
    PushGroup group(
        multicast, {}, [] {}, [&](const Status& status) { ends.push_back(status.code()); });
  }
  REQUIRE(pthread_setattr_default_np(&before) == 0);
  CHECK(ends == std::vector{Code::no_memory});
  pthread_attr_destroy(&before);
  pthread_attr_destroy(&endless);
}
#endif
