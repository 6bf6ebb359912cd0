// A store that gets no more memory for what calls and messages need of its own: each is refused,
// and the store serves on.
#include <cstdlib>
#include <new>

#include "other_manager.hpp"

using namespace weft;
using namespace weft::objstore;
using namespace weft::testing;

namespace {

// Threads other than the test's get no memory of so many bytes at once. 0: all get what they want.
std::atomic<std::size_t> most_bytes{0};
thread_local bool is_exempt = false;

struct Shortage {
  explicit Shortage(std::size_t bytes) {
    is_exempt = true;
    most_bytes = bytes;
  }
  ~Shortage() { most_bytes = 0; }
};

}  // namespace

// All kinds, as what a sanitizer's gives may not be given back here. Not inlined, or the compiler
// sees a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  const std::size_t most = most_bytes.load(std::memory_order_relaxed);
  return most != 0 && bytes >= most && !is_exempt ? nullptr : std::malloc(bytes);
}
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t& nothrow) noexcept {
  return operator new(bytes, nothrow);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
void operator delete[](void* memory) noexcept { operator delete(memory); }
void operator delete[](void* memory, std::size_t) noexcept { operator delete(memory); }

TEST_CASE("calls that the store has no memory for are refused, and it serves on") {
  StoreFixture fixture;
  ObjectStore store({.socket = fixture.socket()});
  std::vector<ObjectId> ids;
  for (std::uint64_t i = 0; i < 50'000; ++i) ids.push_back(id_of(i));
  std::vector<bool> is_here;
  {
    const Shortage shortage(256 << 10);
    const Status status = store.wait(ids, ids.size(), 100, is_here);
    INFO(status.text());
    CHECK(status == Code::no_memory);
    CHECK(status.text().find("no memory for the call") != std::string::npos);
    const std::vector<std::string> names(4000, std::string(100, 'n'));
    REQUIRE(store.put(id_of(1), contents_of(id_of(1), 1000)));
    std::vector<ObjectPush> pushes;
    CHECK(store.push(id_of(1), names, pushes, 100) == Code::no_memory);
  }
  CHECK(status_number(store, "waiting_for_objects") == 0);
  CHECK(store.wait(ids, ids.size(), 100, is_here) == Code::timed_out);
  CHECK(status_number(store, "waiting_for_objects") == 0);
  REQUIRE(store.put(ids.back(), contents_of(ids.back(), 100)));
  REQUIRE(store.wait({&ids.back(), 1}, 1, kWaitMs, is_here));
}

TEST_CASE("objects that the store has no memory for are refused, and take no room") {
  StoreFixture fixture;
  ObjectStore store({.socket = fixture.socket()});
  Status status;
  std::uint64_t num = 0;
  {
    const Shortage shortage(1 << 20);
    for (; num < 100'000 && status; ++num)
      status = store.put(id_of(num), contents_of(id_of(num), 64));
  }
  INFO(status.text() << " after " << num);
  REQUIRE(status == Code::no_memory);
  const std::uint64_t used = status_number(store, "used_bytes");
  CHECK(used == 64 * (num - 1));
  REQUIRE(store.put(id_of(num - 1), contents_of(id_of(num - 1), 64)));
  for (std::uint64_t i = 0; i < num; ++i) {
    Object object;
    REQUIRE(store.get(id_of(i), object));
    REQUIRE(equal(object.data(), contents_of(id_of(i), 64)));
  }
  CHECK(status_number(store, "used_bytes") == used + 64);
}

TEST_CASE("an object that there is no memory to send is read instead") {
  Host host;
  ObjectStore store({.socket = host.store.socket()});
  OtherManager other;
  const Peer link = other.connect(host);
  other.greet(link, 1);
  other.expect_message(link, PeerKind::members);
  const ObjectId id = id_of(1);
  REQUIRE(store.put(id, contents_of(id, 8'000'000), contents_of(id, 10)));
  PeerMessage ask = ask_for(id, 1);
  other.say(link, ask);
  CHECK(other.expect_message(link, PeerKind::data, 1).data_bytes == 8'000'000);
  {
    const Shortage shortage(1 << 20);
    ask.number = 2;
    other.say(link, ask);
    CHECK(other.expect_message(link, PeerKind::offer, 2).data_bytes == 8'000'000);
  }
  // Nor is it sent where that would take a lot.
  const ObjectId large = id_of(2);
  Host roomy({}, 32 << 10, 256 << 20);
  ObjectStore of_roomy({.socket = roomy.store.socket()});
  REQUIRE(of_roomy.put(large, std::vector<std::byte>(kMaxSentBytes)));
  const Peer to_roomy = other.connect(roomy);
  other.greet(to_roomy, 1);
  ask.id = large;
  ask.number = 3;
  other.say(to_roomy, ask);
  CHECK(other.expect_message(to_roomy, PeerKind::offer, 3).data_bytes == kMaxSentBytes);
}

TEST_CASE("a message that there is no memory for ends its link, and its sender is met again") {
  Host host;
  ObjectStore store({.socket = host.store.socket()});
  OtherManager other;
  const Peer link = other.connect(host);
  other.greet(link, 1);
  wait_for_peers(store, 1);
  {
    const Shortage shortage(1 << 20);
    const std::string bytes(3 << 20, 'x');
    [[maybe_unused]] const Code code = other.send(link, bytes);
    wait_for_peers(store, 0);
  }
  const Peer again = other.connect(host);
  other.greet(again, 2);
  wait_for_peers(store, 1);
  const ObjectId id = id_of(1);
  REQUIRE(store.put(id, contents_of(id, 100)));
  other.say(again, ask_for(id, 1));
  CHECK(other.expect_message(again, PeerKind::data, 1).data_bytes == 100);
}
