// Objects between the stores of several hosts, which here are several stores of one process.
#include <thread>

#include "hosts.hpp"
#include "objstore/shared/peer_wire.hpp"

using namespace weft;
using namespace weft::objstore;
using namespace weft::testing;

namespace {

ObjectOptions copies_options(std::uint32_t copies) {
  ObjectOptions options;
  options.copies = copies;
  options.timeout_ms = kWaitMs;
  return options;
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

TEST_CASE("a fabric's own threshold comes before the general one") {
  Host a, b({a.peer()}, 32 << 10);
  b.stop();
  b.settings.thresholds = {{"shm", 2000}, {"other", 0}};
  b.start();
  ObjectStore from({.socket = a.store.socket()}), to({.socket = b.store.socket()});
  REQUIRE(from.put(id_of(1), contents_of(id_of(1), 1999)));
  REQUIRE(from.put(id_of(2), contents_of(id_of(2), 2000)));
  check_fetched(to, id_of(1), 1999);
  CHECK(status_number(to, "fetched_one_sided") == 0);
  check_fetched(to, id_of(2), 2000);
  CHECK(status_number(to, "fetched_one_sided") == 1);
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
    CHECK(wait_until([&] { return !from.contains(id_of(i)) && !to.contains(id_of(i)); }));
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
  // a goes, and with it what it answered for; c has all, too, and announces it anew.
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
  // The id's answerer, which for some is the one that holds it.
  for (std::uint64_t i = 20; i < 28; ++i) {
    INFO(i);
    REQUIRE(to.get(id_of(2), held, kWaitMs));
    REQUIRE(from.put(id_of(i), contents_of(id_of(i), 6 << 20)));
    std::thread later([&held] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      held.release();
    });
    check_fetched(to, id_of(i), 6 << 20);
    later.join();
    REQUIRE(from.erase(id_of(i)));
  }
}

TEST_CASE("a range of an object comes into the program's memory, and no copy stays") {
  const std::uint64_t threshold = GENERATE(std::uint64_t{32 << 10}, std::uint64_t{0});
  Host a({}, threshold), b({a.peer()}, threshold, 16 << 20);
  ObjectStore from({.socket = a.store.socket()}), to({.socket = b.store.socket()});
  constexpr std::size_t kSizes[] = {0, 1, 1000, 100'001, 9'000'000, 40'000'000};
  std::uint64_t number = 0;
  for (const std::size_t bytes : kSizes) {
    if (bytes == 40'000'000) break;
    const ObjectId id = id_of(number++);
    const auto contents = contents_of(id, bytes);
    REQUIRE(from.put(id, contents, contents_of(id, 10)));
    for (const std::uint64_t offset : {std::uint64_t{0}, bytes / 3, bytes - bytes / 7, bytes + 5}) {
      for (const std::size_t length : {std::size_t{0}, bytes / 5 + 1, bytes + 100}) {
        const std::size_t right = offset > bytes ? 0 : std::min(length, bytes - offset);
        std::uint64_t whole = 0;
        // Memory that the store reads into, any other, and, on the same host, both.
        ObjectMemory memory;
        REQUIRE(to.allocate(length, memory));
        std::vector<std::byte> plain(length);
        const auto check = [&](ObjectStore& store, std::span<std::byte> into) {
          std::fill(into.begin(), into.end(), std::byte{0xee});
          const Status status = store.get_into(id, offset, into, whole, kWaitMs);
          INFO(status.text() << ", " << bytes << " bytes from " << offset << ", " << length);
          REQUIRE(status.code() == (offset > bytes ? Code::bad_argument : Code::ok));
          CHECK(whole == bytes);
          if (right != 0)
            CHECK(equal(into.first(right), std::span(contents).subspan(offset, right)));
          // Not one byte more: neither metadata nor a neighbour.
          CHECK(std::all_of(into.begin() + static_cast<std::ptrdiff_t>(right), into.end(),
                            [](std::byte byte) { return byte == std::byte{0xee}; }));
        };
        check(to, memory.data());
        check(to, plain);
        check(from, plain);
      }
    }
    CHECK_FALSE(to.contains(id));
  }
  // An object that is larger than this host's whole store, in the part that fits.
  const ObjectId large = id_of(number++);
  const auto all = contents_of(large, 40'000'000);
  REQUIRE(from.put(large, all));
  ObjectMemory memory;
  REQUIRE(to.allocate(5'000'000, memory));
  std::uint64_t whole = 0;
  REQUIRE(to.get_into(large, 34'999'999, memory.data(), whole, kWaitMs));
  CHECK(whole == 40'000'000);
  CHECK(equal(memory.data(), std::span(all).subspan(34'999'999, 5'000'000)));
  CHECK(to.get_into(id_of(999), 0, memory.data(), whole, 0) == Code::not_found);
  CHECK(to.get_into(id_of(999), 0, memory.data(), whole, 30) == Code::timed_out);
  // One that comes later, from there and to here; the memory is used by one call at a time.
  std::thread later([&] { REQUIRE(from.put(id_of(500), contents_of(id_of(500), 70'000))); });
  REQUIRE(to.get_into(id_of(500), 0, memory.data(), whole, kWaitMs));
  later.join();
  CHECK(equal(memory.data().first(70'000), contents_of(id_of(500), 70'000)));
  std::thread here([&] {
    ObjectStore other({.socket = b.store.socket()});
    REQUIRE(other.put(id_of(501), contents_of(id_of(501), 70'000)));
  });
  REQUIRE(to.get_into(id_of(501), 0, memory.data(), whole, kWaitMs));
  here.join();
  CHECK(equal(memory.data().first(70'000), contents_of(id_of(501), 70'000)));
  // Many at once, of clients that come and go in the midst of it.
  std::vector<std::thread> threads;
  std::atomic<int> num_right{0};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 10; ++round) {
        ObjectStore mine({.socket = b.store.socket()});
        ObjectMemory into;
        std::uint64_t size = 0;
        if (!mine.allocate(3'000'000, into)) continue;
        if (mine.get_into(large, static_cast<std::uint64_t>(i) * 1'000'000, into.data(), size,
                          i == 0 ? 1 : kWaitMs) &&
            into.data()[0] == all[static_cast<std::size_t>(i) * 1'000'000])
          ++num_right;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(num_right >= 30);
}

TEST_CASE("what a host has spilled is had by others") {
  Host a({}, 32 << 10, 16 << 20, 20000, true), b({a.peer()}, 32 << 10, 256 << 20);
  ObjectStore from({.socket = a.store.socket()}), to({.socket = b.store.socket()});
  constexpr std::size_t kBytes = 1 << 20;
  for (std::uint64_t i = 0; i < 64; ++i) REQUIRE(from.put(id_of(i), contents_of(id_of(i), kBytes)));
  CHECK(status_number(from, "evicted") == 0);
  std::vector<ObjectId> ids;
  for (std::uint64_t i = 0; i < 64; ++i) ids.push_back(id_of(i));
  ObjectMemory memory;
  REQUIRE(to.allocate(1000, memory));
  std::uint64_t whole = 0;
  REQUIRE(to.get_into(id_of(0), 5000, memory.data(), whole, kWaitMs));
  CHECK(equal(memory.data(),
              std::span<const std::byte>(contents_of(id_of(0), kBytes)).subspan(5000, 1000)));
  const Status fetched = to.fetch(ids, kWaitMs);
  INFO(fetched.text());
  REQUIRE(fetched.ok());
  for (const ObjectId& id : ids) check_fetched(to, id, kBytes);
  // Deleted there, too, on disk or not.
  for (const ObjectId& id : ids) REQUIRE(to.erase(id));
  CHECK(wait_until([&] { return status_number(from, "objects") == 0; }));
}

TEST_CASE("a put with copies returns when other hosts have them, or reports how many do") {
  Host a, b({a.peer()}), c({a.peer(), b.peer()}, 32 << 10, 2 << 20);
  ObjectStore at_a({.socket = a.store.socket()}), at_b({.socket = b.store.socket()}),
      at_c({.socket = c.store.socket()});
  for (ObjectStore* store : {&at_a, &at_b, &at_c}) wait_for_peers(*store, 2);
  std::uint64_t number = 0;
  // Many times what c has room for, so that it has to make some for most.
  for (int round = 0; round < 20; ++round)
    for (const std::size_t bytes : {0, 1000, 40'000, 200'000}) {
      const ObjectId id = id_of(number++);
      const Status status = at_a.put(id, contents_of(id, bytes), {}, copies_options(3));
      INFO(status.text());
      REQUIRE(status.ok());
      for (ObjectStore* store : {&at_b, &at_c}) {
        Object object;
        CHECK(store->contains(id));
        REQUIRE(store->get(id, object));
        CHECK(equal(object.data(), contents_of(id, bytes)));
      }
    }
  // Written in place, and of two one.
  for (int i = 0; i < 20; ++i) {
    const ObjectId id = id_of(number++);
    ObjectBuffer buffer;
    REQUIRE(at_b.create(id, 100, 0, buffer, copies_options(2)));
    const auto contents = contents_of(id, 100);
    std::copy(contents.begin(), contents.end(), buffer.data().begin());
    REQUIRE(at_b.seal(buffer));
    CHECK((at_a.contains(id) || at_c.contains(id)));
  }
  // c has no room for this one, and nobody is a fourth.
  for (const std::uint32_t copies : {3, 4}) {
    const ObjectId id = id_of(number++);
    const Status status =
        at_a.put(id, contents_of(id, copies == 3 ? 3 << 20 : 1000), {}, copies_options(copies));
    CHECK(status == Code::peer_lost);
    CHECK(status.text().find("is on " + std::to_string(copies - 1) + " of the " +
                             std::to_string(copies) + " hosts") != std::string::npos);
    CHECK((at_a.contains(id) && at_b.contains(id)));
  }
  // c's room is all referenced for a while, which it waits for, and for longer than it does.
  for (const bool comes : {true, false}) {
    const ObjectId held_id = id_of(number++), id = id_of(number++);
    REQUIRE(at_c.put(held_id, contents_of(held_id, 1'500'000)));
    Object held;
    REQUIRE(at_c.get(held_id, held));
    std::atomic<bool> is_over{false};
    std::thread later([&] {
      if (!comes) return;
      ::usleep(100'000);  // at any moment
      held.release();
      is_over = true;
    });
    const Status status = at_a.put(id, contents_of(id, 1'000'000), {}, copies_options(3));
    later.join();
    CHECK(is_over == comes);
    CHECK(status.code() == (comes ? Code::ok : Code::peer_lost));
    CHECK(at_c.contains(id) == comes);
  }
  // A host that is asked goes.
  std::thread later([&] { b.stop(); });
  const ObjectId id = id_of(number++);
  const Status status = at_a.put(id, contents_of(id, 500'000), {}, copies_options(3));
  later.join();
  CHECK((status.ok() || status == Code::peer_lost));
  CHECK(at_a.contains(id));
}

TEST_CASE("a large object comes from several holders at once, and from the rest if one goes") {
  constexpr std::size_t kBytes = 40'000'001;
  auto a = std::make_unique<Host>(std::vector<std::string>{}, 32 << 10, 512 << 20);
  Host b({a->peer()}, 32 << 10, 512 << 20), c({a->peer(), b.peer()}, 32 << 10, 512 << 20);
  ObjectStore at_b({.socket = b.store.socket()});
  std::vector<ObjectId> ids;
  {
    ObjectStore at_a({.socket = a->store.socket()}), at_c({.socket = c.store.socket()});
    for (ObjectStore* store : {&at_a, &at_b, &at_c}) wait_for_peers(*store, 2);
    for (std::uint64_t i = 0; i < 6; ++i) {
      ids.push_back(id_of(i));
      REQUIRE(at_a.put(ids.back(), contents_of(ids.back(), kBytes), {}, copies_options(3)));
    }
  }
  Host d({a->peer(), b.peer(), c.peer()}, 32 << 10, 128 << 20);
  ObjectStore at_d({.socket = d.store.socket()});
  wait_for_peers(at_d, 3);
  // The first one may give all of it before another is known, but not for ever.
  ObjectMemory memory;
  REQUIRE(at_d.allocate(kBytes - 12'345, memory));
  const auto right = contents_of(ids[1], kBytes);
  for (int tries = 0; tries < 500 && status_number(at_d, "fetched_of_several") == 0; ++tries) {
    std::uint64_t whole = 0;
    std::fill(memory.data().begin(), memory.data().end(), std::byte{0});
    REQUIRE(at_d.get_into(ids[1], 12'345, memory.data(), whole, kWaitMs));
    REQUIRE(equal(memory.data(), std::span(right).subspan(12'345)));
  }
  CHECK(status_number(at_d, "fetched_of_several") > 0);
  check_fetched(at_d, ids[0], kBytes);
  // One goes at some moment of it.
  for (const std::size_t i : {2, 3}) {
    std::thread later([&] {
      while (status_number(at_b, "given") == 0) {
      }
      if (i == 2) a->stop();
      if (i == 3) c.stop();
    });
    check_fetched(at_d, ids[i], kBytes);
    later.join();
  }
  check_fetched(at_d, ids[4], kBytes);
}

TEST_CASE("bytes that have changed are not sealed by who verifies") {
  for (const std::size_t bytes : {1000, 100'000, 12'000'000}) {
    Host a({}, 32 << 10, 64 << 20, 20000, false, true),
        b({a.peer()}, 32 << 10, 64 << 20, 20000, false, true),
        c({a.peer(), b.peer()}, 32 << 10, 64 << 20, 20000, false, true);
    ObjectStore at_a({.socket = a.store.socket()}), at_b({.socket = b.store.socket()}),
        at_c({.socket = c.store.socket()});
    for (ObjectStore* store : {&at_a, &at_b, &at_c}) wait_for_peers(*store, 2);
    const ObjectId id = id_of(bytes);
    const auto contents = contents_of(id, bytes);
    REQUIRE(at_a.put(id, contents, contents_of(id, 10)));
    check_fetched(at_b, id, bytes);
    // A byte of a's memory turns.
    const auto spoil = [&](Host& host, const ObjectId& which, std::size_t at) {
      const auto lock = host.store.server.lock();
      Objects& objects = host.store.server.objects();
      objects.place(objects.find_sealed(which))[at] ^= std::byte{1};
    };
    spoil(a, id, bytes / 2);
    std::vector<std::byte> into(bytes);
    std::uint64_t whole = 0;
    const Status got = at_c.get_into(id, 0, into, whole, kWaitMs);
    INFO(got.text() << ", " << bytes << " bytes");
    REQUIRE(got.ok());
    CHECK(equal(into, contents));
    check_fetched(at_c, id, bytes);
    REQUIRE(at_c.erase(id));
    // Another, of which the metadata have turned, is right on no host.
    const ObjectId other = id_of(bytes + 1);
    REQUIRE(at_a.put(other, contents, contents_of(other, 10)));
    REQUIRE(at_b.fetch({&other, 1}, kWaitMs));
    spoil(a, other, bytes + 9);
    spoil(b, other, bytes + 9);
    Object object;
    const Status status = at_c.get(other, object, kWaitMs);
    CHECK(status == Code::corrupt);
    CHECK(status.text().find("checksum") != std::string::npos);
    CHECK_FALSE(at_c.contains(other));
    CHECK(status_number(at_c, "wrong_checksum") >= 2);
    // Of one holder, which for some ids is the one that answers for them.
    for (std::uint64_t i = 0; i < 6 && bytes == 1000; ++i) {
      const ObjectId one = id_of(7'000'000 + i);
      REQUIRE(at_a.put(one, contents_of(one, 1000), {}));
      REQUIRE(at_b.get_into(one, 0, std::span(into).first(1000), whole, kWaitMs));
      spoil(a, one, 500);
      CHECK(at_c.get(one, object, kWaitMs) == Code::corrupt);
    }
  }
}

TEST_CASE("who has the secret reads all memory, or only what it was offered, while it is") {
  const bool registers_objects = GENERATE(false, true);
  constexpr std::size_t kBytes = 100'032;
  Host a({}, 32 << 10, 64 << 20, 20000, false, false, registers_objects);
  ObjectStore at_a({.socket = a.store.socket()});
  // Neighbours in memory.
  for (std::uint64_t i = 0; i < 3; ++i) REQUIRE(at_a.put(id_of(i), contents_of(id_of(i), kBytes)));
  Node node({.name = "a peer that is no store", .progress_thread = false});
  PeerMessage offer;
  node.on_message([&](const Peer&, std::span<const std::byte> bytes) {
    PeerMessage message;
    if (decode(bytes, message) && message.kind == PeerKind::offer) offer = message;
  });
  Peer peer;
  REQUIRE(node.connect(a.peer(), peer));
  const auto say = [&](PeerKind kind, std::uint64_t number) {
    PeerMessage message;
    message.kind = kind;
    message.id = id_of(1);
    message.number = number;
    const std::string bytes = encode(message);
    Operation operation;
    node.send(peer, bytes.data(), bytes.size(), operation);
    REQUIRE(node.wait(operation) == Code::ok);
  };
  say(PeerKind::ask, 1);
  for (int tries = 0; offer.parts.empty() && tries < 3000; ++tries) node.wait_some(10);
  REQUIRE(offer.parts.size() == 1);
  const OfferPart part = offer.parts[0];
  PeerMemory memory = node.memory(peer, part.key);
  std::vector<std::byte> got(3 * kBytes);
  const auto read = [&](std::uint64_t offset, std::size_t bytes) {
    Operation operation;
    node.get(memory, offset, got.data(), bytes, operation);
    return node.wait(operation);
  };
  REQUIRE(read(part.offset, kBytes) == Code::ok);
  CHECK(equal(std::span(got).first(kBytes), contents_of(id_of(1), kBytes)));
  if (registers_objects) {
    CHECK(part.offset == 0);
    CHECK(read(0, kBytes + 1) != Code::ok);
    CHECK(read(kBytes, 64) != Code::ok);
    CHECK(read(UINT64_MAX - 63, 128) != Code::ok);
  } else {
    CHECK(read(part.offset - kBytes, 3 * kBytes) == Code::ok);
    CHECK(equal(std::span(got).subspan(2 * kBytes), contents_of(id_of(2), kBytes)));
  }
  // Another peer, which has the key from somewhere.
  Node other({.name = "another", .progress_thread = false});
  Peer same;
  REQUIRE(other.connect(a.peer(), same));
  PeerMemory stolen = other.memory(same, part.key);
  Operation operation;
  other.get(stolen, part.offset, got.data(), 64, operation);
  CHECK((other.wait(operation) == Code::ok) == !registers_objects);
  // After FIN, and when the memory is another object's.
  say(PeerKind::fin, 1);
  Code code = Code::ok;
  for (int tries = 0; registers_objects && code == Code::ok && tries < 3000; ++tries) {
    memory = {};
    node.wait_some(1);
    memory = node.memory(peer, part.key);
    code = read(part.offset, 64);
  }
  CHECK((code != Code::ok) == registers_objects);
  memory = {};
  REQUIRE(at_a.erase(id_of(1)));
  for (int tries = 0; status_number(at_a, "delete_deferred") != 0 && tries < 20000; ++tries)
    node.wait_some(1);
  CHECK(status_number(at_a, "delete_deferred") == 0);
}

TEST_CASE("objects that are registered one by one are fetched as others are") {
  Host a({}, 32 << 10, 64 << 20, 20000, false, true, true),
      b({a.peer()}, 32 << 10, 64 << 20, 20000, false, true, true);
  ObjectStore at_a({.socket = a.store.socket()}), at_b({.socket = b.store.socket()});
  for (int round = 0; round < 3; ++round) {
    std::vector<ObjectId> ids;
    for (std::uint64_t i = 0; i < 60; ++i) {
      ids.push_back(id_of(i));
      REQUIRE(at_a.put(ids.back(), contents_of(ids.back(), i * 10'000)));
    }
    REQUIRE(at_b.fetch(ids, kWaitMs));
    for (std::uint64_t i = 0; i < 60; ++i) check_fetched(at_b, ids[i], i * 10'000);
    for (const ObjectId& id : ids) REQUIRE(at_b.erase(id));
    CHECK(wait_until([&] { return status_number(at_a, "objects") == 0; }));
  }
}

TEST_CASE("what managers say is read back, and nothing else is believed") {
  std::vector<PeerMessage> messages;
  PeerMessage message;
  message.id = id_of(1);
  message.number = 7;
  const std::vector<std::byte> contents(300, std::byte{5});
  for (int kind = 1; kind <= static_cast<int>(PeerKind::push_stop) + 1; ++kind) {
    message.kind = kind > static_cast<int>(PeerKind::push_stop) ? PeerKind::socket
                                                                : static_cast<PeerKind>(kind);
    message.members = {{5, "host:1"}, {6, ""}};
    message.holders = {1, 2, 3};
    message.contents = contents;
    message.data_bytes = 290;
    message.metadata_bytes = 10;
    message.stamp = 99;
    message.checksum = 77;
    message.wants_checksum = true;
    message.parts = {{{}, 64, 200}, {{}, 0, 100}};
    messages.push_back(message);
  }
  for (const PeerMessage& sent : messages) {
    const std::string bytes = encode(sent);
    const auto view = std::as_bytes(std::span(bytes));
    PeerMessage got;
    REQUIRE(decode(view, got));
    CHECK((got.kind == sent.kind && got.id == sent.id && got.number == 7));
    const bool is_given = got.kind == PeerKind::data || got.kind == PeerKind::offer;
    CHECK(got.stamp == (is_given || got.kind == PeerKind::push ? 99 : 0));
    CHECK(got.checksum == (is_given || got.kind == PeerKind::push_group ? 77 : 0));
    CHECK(got.wants_checksum == (got.kind == PeerKind::ask || got.kind == PeerKind::watch ||
                                 got.kind == PeerKind::push_answer));
    CHECK(encode(got) == bytes);
    for (std::size_t length = 0; length < bytes.size(); ++length)
      CHECK_FALSE(decode(view.first(length), got));
    std::string longer = bytes + "x";
    CHECK_FALSE(decode(std::as_bytes(std::span(longer)), got));
  }
}
