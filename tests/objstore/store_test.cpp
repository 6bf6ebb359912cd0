// The local store through its C++ client: each call, and what it refuses.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <thread>

#include "fixture.hpp"
#include "weft/job.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

void put(ObjectStore& store, std::uint64_t number, std::size_t bytes,
         const ObjectOptions& options = {}) {
  const Status status = store.put(id_of(number), contents_of(id_of(number), bytes), {}, options);
  INFO(status.text());
  REQUIRE(status.ok());
}

void check_content(ObjectStore& store, std::uint64_t number, std::size_t bytes) {
  Object object;
  const Status status = store.get(id_of(number), object);
  INFO(status.text());
  REQUIRE(status.ok());
  CHECK(equal(object.data(), contents_of(id_of(number), bytes)));
}

}  // namespace

TEST_CASE("a store that ends while a client connects is lost, not another user's") {
  char folder[] = "/tmp/weft-store-test-XXXXXX";
  REQUIRE(::mkdtemp(folder) != nullptr);
  const std::string path = std::string(folder) + "/socket";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  REQUIRE(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listener, 1) == 0);
  std::thread ends([listener] {
    ::close(::accept(listener, nullptr, nullptr));
    ::close(listener);
  });
  Code code = Code::ok;
  try {
    ObjectStore store({.socket = path});
  } catch (const Error& error) {
    code = error.status().code();
  }
  ends.join();
  CHECK(code == Code::peer_lost);
  ::unlink(path.c_str());
  ::rmdir(folder);
}

TEST_CASE("what is put is got, at all sizes") {
  StoreFixture fixture(256 << 20);
  ObjectStore writer({.socket = fixture.socket(), .name = "writer"});
  ObjectStore reader({.socket = fixture.socket(), .name = "reader"});
  std::uint64_t number = 0;
  for (const std::size_t bytes : {0, 1, 63, 64, 65, 1000, 4096, 131072, 131073, 1 << 20,
                                  (1 << 20) + 1, 5'000'000, 30 << 20}) {
    put(writer, number, bytes);
    check_content(reader, number, bytes);
    CHECK(reader.contains(id_of(number)));
    // The same in a buffer that the client fills, with metadata.
    ObjectBuffer buffer;
    const ObjectId id = id_of(1000 + number);
    REQUIRE(writer.create(id, bytes, 100, buffer));
    CHECK_FALSE(reader.contains(id));
    const auto contents = contents_of(id, bytes), more = contents_of(id, 100);
    std::copy(contents.begin(), contents.end(), buffer.data().begin());
    std::copy(more.begin(), more.end(), buffer.metadata().begin());
    REQUIRE(writer.seal(buffer));
    CHECK_FALSE(buffer);
    Object object;
    REQUIRE(reader.get(id, object));
    CHECK(equal(object.data(), contents));
    CHECK(equal(object.metadata(), more));
    ++number;
  }
  // With metadata through put, too, large and small.
  for (const std::size_t bytes : {10, 1 << 20}) {
    const ObjectId id = id_of(5000 + bytes);
    REQUIRE(writer.put(id, contents_of(id, bytes), contents_of(id, 77)));
    Object object;
    REQUIRE(reader.get(id, object));
    CHECK(equal(object.data(), contents_of(id, bytes)));
    CHECK(equal(object.metadata(), contents_of(id, 77)));
  }
}

TEST_CASE("an id names one object") {
  StoreFixture fixture;
  ObjectStore a({.socket = fixture.socket()}), b({.socket = fixture.socket()});
  put(a, 1, 100);
  CHECK(b.put(id_of(1), contents_of(id_of(1), 50)) == Code::exists);
  ObjectBuffer buffer, other;
  REQUIRE(a.create(id_of(2), 100, 0, buffer));
  CHECK(b.create(id_of(2), 100, 0, other) == Code::exists);
  CHECK(b.put(id_of(2), contents_of(id_of(2), 5'000'000)) == Code::exists);
  a.abort(buffer);
  CHECK(a.seal(buffer) == Code::bad_argument);
  REQUIRE(b.create(id_of(2), 100, 0, other));
  REQUIRE(b.seal(other));
  CHECK(a.contains(id_of(2)));
  // A buffer that goes out of scope is aborted.
  {
    ObjectBuffer left;
    REQUIRE(a.create(id_of(3), 100, 0, left));
  }
  put(b, 3, 10);
}

TEST_CASE("get waits for what is not there yet, and not longer than it may") {
  StoreFixture fixture;
  ObjectStore store({.socket = fixture.socket()}), other({.socket = fixture.socket()});
  Object object;
  CHECK(store.get(id_of(1), object) == Code::not_found);
  const Status status = store.get(id_of(1), object, 30);
  CHECK(status == Code::timed_out);
  CHECK(status.text().find("object-1") != std::string::npos);
  std::thread later([&] { put(other, 1, 1000); });
  const Status waited = store.get(id_of(1), object, 20000);
  later.join();
  REQUIRE(waited.ok());
  CHECK(equal(object.data(), contents_of(id_of(1), 1000)));
  // Many at once, one of them twice; those that are there are given even if others are not.
  put(other, 2, 10);
  const std::array<ObjectId, 4> ids{id_of(1), id_of(2), id_of(2), id_of(99)};
  std::array<Object, 4> objects;
  CHECK(store.get(ids, objects, 10) == Code::timed_out);
  CHECK((objects[0] && objects[1] && objects[2] && !objects[3]));
  CHECK(store.get(std::span(ids).first(3), objects, 0).ok());
}

TEST_CASE("wait for k of n") {
  StoreFixture fixture;
  ObjectStore store({.socket = fixture.socket()}), other({.socket = fixture.socket()});
  std::vector<ObjectId> ids;
  for (std::uint64_t i = 0; i < 10; ++i) ids.push_back(id_of(i));
  put(other, 3, 10);
  std::vector<bool> is_here;
  REQUIRE(store.wait(ids, 1, 0, is_here));
  CHECK((is_here[3] && !is_here[4]));
  CHECK(store.wait(ids, 2, 20, is_here) == Code::timed_out);
  std::thread later([&] {
    put(other, 7, 10);
    put(other, 8, 10);
  });
  const Status status = store.wait(ids, 3, 20000, is_here);
  later.join();
  REQUIRE(status.ok());
  CHECK(std::count(is_here.begin(), is_here.end(), true) == 3);
}

TEST_CASE("what is referenced or pinned stays, of the rest the eldest goes") {
  constexpr std::size_t kBytes = 1 << 20;
  StoreFixture fixture(16 << 20);
  ObjectStore store({.socket = fixture.socket()});
  put(store, 0, kBytes);
  put(store, 1, kBytes, {.is_pinned = true});
  put(store, 2, kBytes);
  put(store, 3, kBytes);
  Object held;
  REQUIRE(store.get(id_of(0), held));
  for (std::uint64_t i = 100; i < 112; ++i) put(store, i, kBytes);
  {
    Object used;
    REQUIRE(store.get(id_of(2), used));
  }  // so 3 is now the eldest
  put(store, 112, kBytes);
  CHECK(store.contains(id_of(2)));
  CHECK_FALSE(store.contains(id_of(3)));
  for (std::uint64_t i = 200; i < 240; ++i) put(store, i, kBytes);
  CHECK(store.contains(id_of(1)));
  CHECK(equal(held.data(), contents_of(id_of(0), kBytes)));
  CHECK(store.contains(id_of(0)));
  CHECK_FALSE(store.contains(id_of(2)));
  CHECK(status_number(store, "evicted") > 30);
  check_content(store, 239, kBytes);
  // Let go, both can go.
  held.release();
  REQUIRE(store.unpin(id_of(1)));
  CHECK(store.unpin(id_of(77)) == Code::not_found);
  for (std::uint64_t i = 300; i < 340; ++i) put(store, i, kBytes);
  CHECK_FALSE(store.contains(id_of(0)));
  CHECK_FALSE(store.contains(id_of(1)));
}

TEST_CASE("create waits for room, in turn") {
  constexpr std::size_t kBytes = 4 << 20;
  StoreFixture fixture(16 << 20);
  ObjectStore store({.socket = fixture.socket()}), other({.socket = fixture.socket()});
  std::vector<Object> held(4);
  for (std::uint64_t i = 0; i < 4; ++i) {
    put(store, i, kBytes);
    REQUIRE(store.get(id_of(i), held[i]));
  }
  const auto contents = contents_of(id_of(9), kBytes);
  CHECK(other.put(id_of(9), contents, {}, {.timeout_ms = 0}) == Code::no_memory);
  CHECK(other.put(id_of(9), contents, {}, {.timeout_ms = 30}) == Code::timed_out);
  CHECK(other.put(id_of(9), contents_of(id_of(9), (16 << 20) + 1)) == Code::no_memory);
  std::thread later([&] {
    std::vector<bool> is_here;
    // Once the other one waits.
    while (status_number(store, "waiting_for_room") == 0) {
    }
    held[2].release();
  });
  const Status status = other.put(id_of(9), contents, {}, {.timeout_ms = 20000});
  later.join();
  REQUIRE(status.ok());
  check_content(store, 9, kBytes);
  CHECK_FALSE(store.contains(id_of(2)));
}

TEST_CASE("erase hides at once and frees when nobody looks") {
  constexpr std::size_t kBytes = 12 << 20;
  StoreFixture fixture(16 << 20);
  ObjectStore store({.socket = fixture.socket()}), other({.socket = fixture.socket()});
  put(store, 1, kBytes);
  Object held, copy, none;
  REQUIRE(other.get(id_of(1), held));
  REQUIRE(store.erase(id_of(1)));
  CHECK(store.erase(id_of(1)) == Code::not_found);
  CHECK_FALSE(other.contains(id_of(1)));
  CHECK(other.get(id_of(1), none) == Code::not_found);
  copy = held;
  held.release();
  Object moved = std::move(copy);
  CHECK_FALSE(copy);
  copy = std::move(moved);
  CHECK(store.put(id_of(2), contents_of(id_of(2), kBytes), {}, {.timeout_ms = 30}) ==
        Code::timed_out);
  CHECK(equal(copy.data(), contents_of(id_of(1), kBytes)));
  copy.release();
  put(store, 1, kBytes, {.timeout_ms = 20000});  // the name is free, and so is the room
  check_content(other, 1, kBytes);
}

TEST_CASE("time to live") {
  StoreFixture fixture;
  ObjectStore store({.socket = fixture.socket()});
  put(store, 1, 1000, {.ttl_ms = 1});
  put(store, 2, 1000);
  put(store, 3, 1000, {.ttl_ms = UINT64_MAX});
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (store.contains(id_of(1)) && std::chrono::steady_clock::now() < limit) ::usleep(1000);
  CHECK_FALSE(store.contains(id_of(1)));
  CHECK((store.contains(id_of(2)) && store.contains(id_of(3))));
}

TEST_CASE("what is deleted long before its time leaves nothing") {
  StoreFixture fixture;
  ObjectStore store({.socket = fixture.socket()});
  put(store, 1, 1000, {.ttl_ms = 3'600'000});
  const auto churn = [&] {
    for (int i = 0; i < 3000; ++i) {
      put(store, 2, 100, {.ttl_ms = 3'600'000});
      REQUIRE(store.erase(id_of(2)));
    }
    return status_number(store, "overhead_bytes");
  };
  const std::uint64_t before = churn();
  CHECK(churn() < before + 10'000);
  CHECK(store.contains(id_of(1)));
}

TEST_CASE("quotas bound one client, not the others") {
  StoreFixture fixture(64 << 20, 8 << 20);
  ObjectStore greedy({.socket = fixture.socket()}), modest({.socket = fixture.socket()});
  Status status;
  std::uint64_t number = 0;
  for (; number < 20 && status.ok(); ++number)
    status = greedy.put(id_of(number), contents_of(id_of(number), 1 << 20));
  CHECK(status == Code::no_memory);
  CHECK(status.text().find("quota") != std::string::npos);
  CHECK((number > 4 && number < 9));
  put(modest, 100, 1 << 20);
  REQUIRE(greedy.erase(id_of(0)));
  std::vector<ObjectEntry> objects;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  do status = greedy.put(id_of(200), contents_of(id_of(200), 1 << 20));
  while (!status && std::chrono::steady_clock::now() < limit);
  CHECK(status.ok());
}

TEST_CASE("list and subscribe") {
  StoreFixture fixture;
  ObjectStore store({.socket = fixture.socket()}), other({.socket = fixture.socket()});
  ObjectEntry event;
  REQUIRE(other.subscribe());
  CHECK_FALSE(other.next_event(event, 10));
  for (std::uint64_t i = 0; i < 1600; ++i) {
    put(store, i, i);
    if (i >= 100) continue;
    REQUIRE(other.next_event(event, 20000));
    CHECK((event.id == id_of(i) && event.data_bytes == i));
  }
  std::vector<ObjectEntry> objects;
  REQUIRE(store.list(objects));
  CHECK(objects.size() == 1600);
  // A subscriber that does not read loses the latest, and learns how many.
  std::uint64_t num_lost = 0, num_read = 0;
  while (other.next_event(event, 0, &num_lost)) {
    CHECK(event.id == id_of(100 + num_read));
    ++num_read;
  }
  CHECK(num_read == 1024);
  CHECK(num_lost == 1500 - 1024);
}

TEST_CASE("calls without waiting, and a descriptor for epoll") {
  StoreFixture fixture;
  ObjectStore store({.socket = fixture.socket()}), other({.socket = fixture.socket()});
  ObjectCall get, put_call;
  REQUIRE(store.get_async(id_of(1), get, 20000));
  CHECK_FALSE(get.is_done());
  REQUIRE(other.put_async(id_of(1), contents_of(id_of(1), 1000), put_call));
  REQUIRE(other.wait(put_call));
  for (int i = 0; i < 1000 && !get.is_done(); ++i) {
    pollfd ready{store.event_fd(), POLLIN, 0};
    if (store.arm()) REQUIRE(::poll(&ready, 1, 20000) == 1);
    store.progress();
  }
  REQUIRE(get.is_done());
  CHECK(get.status().ok());
  check_content(store, 1, 1000);
  // As many as there may be, then the next says so.
  std::vector<ObjectCall> calls(65);
  for (std::size_t i = 0; i < 64; ++i) REQUIRE(store.get_async(id_of(100 + i), calls[i], 50));
  CHECK(store.get_async(id_of(200), calls[64], 50) == Code::again);
  for (std::size_t i = 0; i < 64; ++i) CHECK(store.wait(calls[i]) == Code::timed_out);
  check_content(store, 1, 1000);
}

TEST_CASE("a table that grows under its readers loses nothing") {
  StoreFixture fixture(256 << 20);
  ObjectStore writer({.socket = fixture.socket()}), reader({.socket = fixture.socket()});
  std::atomic<std::uint64_t> num_put{0};
  constexpr std::uint64_t kObjects = 20000;
  std::thread thread([&] {
    // Many at once: this is about the table, not about how fast one answer comes.
    std::vector<ObjectCall> calls(64);
    for (std::uint64_t i = 0; i < kObjects + 64; ++i) {
      ObjectCall& call = calls[i % 64];
      if (i >= 64 && !writer.wait(call)) break;
      num_put.store(i < 64 ? 0 : i - 63, std::memory_order_release);
      const ObjectId id = id_of(i);
      if (i < kObjects && !writer.put_async(id, contents_of(id, 64), call)) break;
    }
  });
  std::mt19937_64 random(3);
  std::uint64_t last = 0;
  bool is_right = true;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (last < kObjects && is_right && std::chrono::steady_clock::now() < limit) {
    last = num_put.load(std::memory_order_acquire);
    if (last == 0) continue;
    const ObjectId id = id_of(random() % last);
    Object object;
    is_right = reader.get(id, object).ok() && equal(object.data(), contents_of(id, 64));
  }
  thread.join();
  CHECK(is_right);
  CHECK(last == kObjects);
}

TEST_CASE("many threads of one client, and objects that are evicted while they are taken") {
  StoreFixture fixture(8 << 20);
  ObjectStore store({.socket = fixture.socket()});
  std::atomic<std::uint64_t> num_wrong{0}, num_got{0};
  std::array<Status, 4> refusals;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < 1500; ++i) {
        const std::uint64_t number = random() % 60;
        const ObjectId id = id_of(number);
        const std::size_t bytes = 1000 + number * 10000;
        Object object;
        if (store.get(id, object).ok()) {
          ++num_got;
          if (!equal(object.data(), contents_of(id, bytes))) ++num_wrong;
        } else {
          const Status status = store.put(id, contents_of(id, bytes));
          if (!status && status.code() != Code::exists) refusals[t] = status;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(num_wrong == 0);
  for (const Status& refusal : refusals) {
    INFO(refusal.text());
    CHECK(refusal.ok());
  }
  CHECK(num_got > 500);
}

TEST_CASE("threads whose first puts meet find room, and so does what follows a large one") {
  StoreFixture fixture(8 << 20);
  for (int round = 0; round < 20; ++round) {
    ObjectStore store({.socket = fixture.socket()});
    constexpr int kThreads = 8;
    std::array<Status, kThreads> outcomes;
    std::barrier start(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        start.arrive_and_wait();
        outcomes[t] = store.put(id_of(1000 * round + t), contents_of(id_of(t), 300'000));
      });
    for (std::thread& thread : threads) thread.join();
    for (const Status& outcome : outcomes) {
      INFO(outcome.text());
      CHECK(outcome.ok());
    }
    // Two fit beside each other, and the next takes the place of one that was given back.
    for (int i = 0; i < 20; ++i) {
      ObjectMemory memory[2];
      for (ObjectMemory& each : memory) {
        const Status status = store.allocate(6 << 20, each);
        INFO(status.text());
        CHECK(status.ok());
      }
    }
  }
}

TEST_CASE("a store that ends is reported to waiting calls") {
  auto fixture = std::make_unique<StoreFixture>();
  ObjectStore store({.socket = fixture->socket()});
  put(store, 1, 1000);
  Object held;
  REQUIRE(store.get(id_of(1), held));
  Status status;
  std::thread waits([&] {
    Object object;
    status = store.get(id_of(2), object, 20000);
  });
  while (true) {
    const auto lock = fixture->server.lock();
    if (fixture->server.is_wanted(id_of(2))) break;
  }
  fixture.reset();
  waits.join();
  CHECK(status == Code::peer_lost);
  CHECK(store.put(id_of(3), contents_of(id_of(3), 10)) == Code::peer_lost);
  CHECK(equal(held.data(), contents_of(id_of(1), 1000)));
}
