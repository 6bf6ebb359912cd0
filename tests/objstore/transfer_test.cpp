// Objects between the stores of several hosts, which here are several stores of one process.
#include <thread>

#include "fixture.hpp"
#include "manager.hpp"
#include "peer_wire.hpp"

using namespace weft;
using namespace weft::objstore;
using namespace weft::testing;

namespace {

struct Host {
  // Listens; connects to `others`.
  explicit Host(std::vector<std::string> others = {}, std::uint64_t threshold = 32 << 10,
                std::uint64_t memory = 64 << 20, std::uint32_t lease_ms = 20000)
      : store(memory) {
    settings.listen = {"unix:" + address()};
    settings.peers = std::move(others);
    settings.name = "host";
    settings.threshold_bytes = threshold;
    settings.lease_ms = lease_ms;
    start();
  }
  ~Host() {
    stop();
    ::unlink(address().c_str());
  }
  void start() {
    manager = std::make_unique<Manager>(store.server, settings);
    const Status status = manager->open();
    INFO(status.text());
    REQUIRE(status.ok());
    thread = std::thread([this] { manager->run(); });
  }
  void stop() {
    if (manager == nullptr) return;
    manager->stop();
    thread.join();
    manager.reset();
  }
  std::string address() const { return store.socket() + ".node"; }
  std::string peer() const { return "unix:" + address(); }

  StoreFixture store;
  ManagerSettings settings;
  std::unique_ptr<Manager> manager;
  std::thread thread;
};

constexpr std::int64_t kWaitMs = 30000;

void check_fetched(ObjectStore& to, const ObjectId& id, std::size_t bytes) {
  Object object;
  const Status status = to.get(id, object, kWaitMs);
  INFO(status.text() << ", " << bytes << " bytes");
  REQUIRE(status.ok());
  CHECK(equal(object.data(), contents_of(id, bytes)));
}

std::uint64_t status_number(ObjectStore& store, const std::string& key) {
  std::string json;
  REQUIRE(store.status(json));
  const auto at = json.find("\"" + key + "\":");
  REQUIRE(at != std::string::npos);
  return std::stoull(json.substr(at + key.size() + 3));
}

void wait_for_peers(ObjectStore& store, std::size_t num) {
  for (int i = 0; i < 30000; ++i) {
    std::string json;
    REQUIRE(store.status(json));
    std::size_t found = 0;
    for (auto at = json.find("\"fabric\""); at != std::string::npos;
         at = json.find("\"fabric\"", at + 1))
      ++found;
    if (found == num) return;
    ::usleep(1000);
  }
  FAIL("the stores did not meet");
}

}  // namespace

TEST_CASE("objects of all sizes come from another host, sent or read") {
  // As the paper has it; all sent; all read.
  const std::uint64_t threshold = GENERATE(std::uint64_t{32 << 10}, UINT64_MAX, std::uint64_t{0});
  Host a({}, threshold), b({a.peer()}, threshold);
  ObjectStore from({.socket = a.store.socket()}), to({.socket = b.store.socket()});
  std::uint64_t number = 0;
  for (const std::size_t bytes : {0, 1, 1000, 32767, 32768, 32769, 1 << 20, 9'000'000}) {
    const ObjectId id = id_of(number++);
    REQUIRE(from.put(id, contents_of(id, bytes), contents_of(id, 10)));
    check_fetched(to, id, bytes);
    Object object;
    REQUIRE(to.get(id, object));
    CHECK(equal(object.metadata(), contents_of(id, 10)));
    CHECK(to.contains(id));
  }
  CHECK(status_number(to, "fetched") == number);
  // With metadata that makes 32768 - 1 + 10 bytes: the threshold counts both.
  CHECK(status_number(to, "fetched_one_sided") == (threshold == 0            ? number
                                                   : threshold == UINT64_MAX ? 0
                                                                             : 5));
}

TEST_CASE("a fetch waits for an object that is put later, on any host") {
  Host a, b({a.peer()}), c({a.peer()});  // b and c learn of each other from a
  ObjectStore at_a({.socket = a.store.socket()}), at_b({.socket = b.store.socket()}),
      at_c({.socket = c.store.socket()});
  for (ObjectStore* store : {&at_a, &at_b, &at_c}) wait_for_peers(*store, 2);
  std::uint64_t number = 0;
  ObjectStore* const stores[] = {&at_a, &at_b, &at_c};
  for (int putter = 0; putter < 3; ++putter)
    for (int getter = 0; getter < 3; ++getter) {
      if (putter == getter) continue;
      const ObjectId id = id_of(number++);
      const std::size_t bytes = number % 2 == 0 ? 100 : 100'000;
      std::thread later([&] { REQUIRE(stores[putter]->put(id, contents_of(id, bytes))); });
      check_fetched(*stores[getter], id, bytes);
      later.join();
    }
  // Many at once, of several hosts.
  std::vector<ObjectId> ids;
  for (std::uint64_t i = 0; i < 200; ++i) {
    ids.push_back(id_of(1000 + i));
    REQUIRE(stores[i % 2]->put(ids.back(), contents_of(ids.back(), i * 500)));
  }
  REQUIRE(at_c.fetch(ids, kWaitMs));
  for (std::uint64_t i = 0; i < 200; ++i) check_fetched(at_c, ids[i], i * 500);
  CHECK(at_a.fetch(std::vector<ObjectId>{id_of(9999)}, 30) == Code::timed_out);
}

TEST_CASE("an object that many ask for is fetched once") {
  Host a, b({a.peer()});
  ObjectStore from({.socket = a.store.socket()});
  const ObjectId id = id_of(1);
  std::vector<std::thread> threads;
  std::atomic<int> num_right{0};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      ObjectStore to({.socket = b.store.socket()});
      Object object;
      if (to.get(id, object, kWaitMs) && equal(object.data(), contents_of(id, 200'000)))
        ++num_right;
    });
  REQUIRE(from.put(id, contents_of(id, 200'000)));
  for (std::thread& thread : threads) thread.join();
  CHECK(num_right == 4);
  ObjectStore to({.socket = b.store.socket()});
  CHECK(status_number(to, "fetched") == 1);
}

TEST_CASE("delete reaches all hosts") {
  Host a, b({a.peer()});
  ObjectStore from({.socket = a.store.socket()}), to({.socket = b.store.socket()});
  for (std::uint64_t i = 0; i < 10; ++i) {
    REQUIRE(from.put(id_of(i), contents_of(id_of(i), 50'000)));
    check_fetched(to, id_of(i), 50'000);
    REQUIRE((i % 2 == 0 ? from : to).erase(id_of(i)));
    for (int tries = 0; (from.contains(id_of(i)) || to.contains(id_of(i))) && tries < 30000;
         ++tries)
      ::usleep(1000);
    CHECK_FALSE(from.contains(id_of(i)));
    CHECK_FALSE(to.contains(id_of(i)));
  }
}

TEST_CASE("a holder that goes is replaced by another, and one that comes back is found") {
  auto a = std::make_unique<Host>();
  Host b({a->peer()});
  auto c = std::make_unique<Host>(std::vector<std::string>{a->peer(), b.peer()});
  ObjectStore at_b({.socket = b.store.socket()});
  wait_for_peers(at_b, 2);
  std::vector<ObjectId> ids;
  {
    ObjectStore at_a({.socket = a->store.socket()}), at_c({.socket = c->store.socket()});
    wait_for_peers(at_c, 2);
    for (std::uint64_t i = 0; i < 20; ++i) {
      ids.push_back(id_of(i));
      REQUIRE(at_a.put(ids.back(), contents_of(ids.back(), 40'000)));
      check_fetched(at_c, ids.back(), 40'000);
    }
  }
  // a goes, and with it what it answered for; c has all, too, and tells so anew.
  a.reset();
  for (const ObjectId& id : ids) check_fetched(at_b, id, 40'000);
  // c's manager ends and comes back as another member, with what its store holds.
  {
    ObjectStore at_c({.socket = c->store.socket()});
    c->stop();
    REQUIRE(at_c.put(id_of(100), contents_of(id_of(100), 70'000)));
    c->start();
  }
  check_fetched(at_b, id_of(100), 70'000);
}

TEST_CASE("an object that finds no room is fetched when there is some, or refused") {
  Host a, b({a.peer()}, 32 << 10, 8 << 20);
  ObjectStore from({.socket = a.store.socket()}), to({.socket = b.store.socket()});
  for (std::uint64_t i = 0; i < 3; ++i) REQUIRE(from.put(id_of(i), contents_of(id_of(i), 6 << 20)));
  Object held, other;
  REQUIRE(to.get(id_of(0), held, kWaitMs));
  CHECK(to.get(id_of(1), other, 200) == Code::timed_out);
  held.release();
  check_fetched(to, id_of(2), 6 << 20);
  REQUIRE(from.put(id_of(9), contents_of(id_of(9), 9 << 20)));
  const Status status = to.get(id_of(9), other, kWaitMs);
  CHECK(status == Code::no_memory);
  CHECK(status.text().find("--memory") != std::string::npos);
}

TEST_CASE("what managers say is read back, and nothing else is believed") {
  std::vector<PeerMessage> messages;
  PeerMessage message;
  message.id = id_of(1);
  message.number = 7;
  const std::vector<std::byte> contents(300, std::byte{5});
  for (int kind = 1; kind <= static_cast<int>(PeerKind::fin) + 1; ++kind) {
    message.kind =
        kind > static_cast<int>(PeerKind::fin) ? PeerKind::socket : static_cast<PeerKind>(kind);
    message.members = {{5, "host:1"}, {6, ""}};
    message.holders = {1, 2, 3};
    message.contents = contents;
    message.data_bytes = 290;
    message.metadata_bytes = 10;
    message.parts = {{{}, 64, 200}, {{}, 0, 100}};
    messages.push_back(message);
  }
  for (const PeerMessage& sent : messages) {
    const std::string bytes = encode(sent);
    const auto view = std::as_bytes(std::span(bytes));
    PeerMessage got;
    REQUIRE(decode(view, got));
    CHECK((got.kind == sent.kind && got.id == sent.id && got.number == 7));
    CHECK(encode(got) == bytes);
    for (std::size_t length = 0; length < bytes.size(); ++length)
      CHECK_FALSE(decode(view.first(length), got));
    std::string longer = bytes + "x";
    CHECK_FALSE(decode(std::as_bytes(std::span(longer)), got));
  }
}
