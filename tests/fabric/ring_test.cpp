// The ring against a queue: whatever sizes, speeds of the two sides, wrap-arounds and growth, the
// reader sees the writer's entries, whole and in order.
#include "fabric/ring.hpp"

#include <malloc.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace {

using namespace weft;

constexpr std::uint64_t kNeverRestarted = ~std::uint64_t{0};

struct Memory {
  explicit Memory(std::size_t maximum)
      : bytes(static_cast<std::byte*>(std::aligned_alloc(4096, maximum + 4096)), &std::free) {
    std::memset(bytes.get(), 0, maximum + 4096);
  }
  std::unique_ptr<std::byte, void (*)(void*)> bytes;
  alignas(64) std::atomic<std::uint64_t> consumed{0};
};

void fill(std::byte* to, std::size_t length, std::uint64_t number) {
  // Half of the entries hold what looks like heads with plausible sequence numbers.
  for (std::size_t i = 0; i < length; ++i)
    to[i] = static_cast<std::byte>(number % 2 == 0 ? number >> (i % 4 * 8) : i + number);
}

bool holds(const std::byte* data, std::size_t length, std::uint64_t number) {
  std::vector<std::byte> expected(length);
  fill(expected.data(), length, number);
  return length == 0 || std::memcmp(data, expected.data(), length) == 0;
}

}  // namespace

TEST_CASE("entries come out whole and in order", "[ring]") {
  const auto seed = GENERATE(range(1u, 41u));
  CAPTURE(seed);
  std::mt19937 random(seed);
  const std::uint32_t capacity = 4096u << random() % 3;
  const std::uint32_t maximum = capacity << random() % 5;
  Memory memory(maximum);
  RingWriter writer;
  RingReader reader;
  writer.attach(memory.bytes.get(), capacity, maximum, &memory.consumed);
  reader.attach(memory.bytes.get(), maximum, &memory.consumed);
  std::deque<std::size_t> in_flight;
  std::uint64_t written = 0, read = 0;
  const std::size_t longest = seed % 4 == 0 ? 48 : RingWriter::max_length(capacity);
  for (int step = 0; step < 20000; ++step) {
    // Phases in which one side is faster than the other.
    const bool write = random() % 8 < (step / 1000 % 2 == 0 ? 5u : 3u);
    if (write) {
      const std::size_t length = random() % (longest + 1);
      std::byte* to = writer.reserve(length);
      if (to == nullptr) continue;
      fill(to, length, written);
      writer.publish(static_cast<std::uint8_t>(1 + written % 7), static_cast<std::uint32_t>(length),
                     written);
      in_flight.push_back(length);
      ++written;
    } else {
      Entry entry;
      if (!reader.peek(entry)) {
        REQUIRE_FALSE(reader.broken());
        REQUIRE(in_flight.empty());
        continue;
      }
      REQUIRE_FALSE(in_flight.empty());
      REQUIRE(entry.length == in_flight.front());
      REQUIRE(entry.immediate == read);
      REQUIRE(entry.kind == 1 + read % 7);
      REQUIRE(holds(entry.data, entry.length, read));
      reader.pop(entry.length);
      in_flight.pop_front();
      ++read;
      if (random() % 4 == 0) reader.return_credit(0);
    }
    if (in_flight.empty()) reader.return_credit(0);
  }
  REQUIRE(read > 1000);
}

TEST_CASE("rings and entries of any size stay in their memory", "[ring]") {
  // Each ring ends where its memory does, but for the line of the mark, so that the address
  // sanitizer sees what goes beyond.
  const auto seed = GENERATE(range(1u, 61u));
  CAPTURE(seed);
  std::mt19937 random(seed);
  const std::uint32_t capacity = 4096u * (1 + random() % 20);
  // Often larger by less than an entry.
  const std::uint32_t maximum = capacity + kEntryAlign * (random() % (seed % 2 != 0 ? 16 : 4096));
  const std::unique_ptr<std::byte, void (*)(void*)> bytes(
      static_cast<std::byte*>(std::aligned_alloc(kEntryAlign, maximum + kEntryAlign)), &std::free);
  std::memset(bytes.get(), 0, maximum + kEntryAlign);
  std::atomic<std::uint64_t> consumed{0};
  RingWriter writer;
  RingReader reader;
  writer.attach(bytes.get(), capacity, maximum, &consumed);
  reader.attach(bytes.get(), maximum, &consumed);
  const std::size_t longest = RingWriter::max_length(capacity) - random() % 1000;
  std::deque<std::size_t> in_flight;
  std::uint64_t written = 0, read = 0;
  for (int step = 0; step < 4000; ++step) {
    // The reader stalls for a while, until the writer finds no room.
    const bool stalls = step / 50 % 3 == 0;
    if (stalls || random() % 2 == 0) {
      const std::size_t length = longest - random() % (1 + random() % longest);
      std::byte* to = writer.reserve(length);
      if (to == nullptr) continue;
      REQUIRE(writer.offset() + entry_bytes(length) <= maximum);
      fill(to, length, written);
      writer.publish(1, static_cast<std::uint32_t>(length), written++);
      in_flight.push_back(length);
    } else if (Entry entry; reader.peek(entry)) {
      REQUIRE(entry.length == in_flight.front());
      REQUIRE(entry.immediate == read);
      REQUIRE(holds(entry.data, entry.length, read++));
      reader.pop(entry.length);
      in_flight.pop_front();
      if (random() % 4 == 0) reader.return_credit(0);
    } else {
      REQUIRE_FALSE(reader.broken());
      REQUIRE(in_flight.empty());
      reader.return_credit(0);
    }
  }
  REQUIRE(read > 100);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they take long for it
TEST_CASE("a head that turns have left out is none when its number comes again", "[ring]") {
  constexpr std::uint32_t kCapacity = 4096;
  constexpr std::uint32_t kLine = 61;  // where that head lies
  constexpr std::uint32_t kNumbers = 0xff'ffff;
  Memory memory(kCapacity);
  RingWriter writer;
  RingReader reader;
  writer.attach(memory.bytes.get(), kCapacity, kCapacity, &memory.consumed);
  reader.attach(memory.bytes.get(), kCapacity, &memory.consumed);
  std::uint32_t number = 1;  // of the next entry or mark, as if they did not repeat
  const auto pass = [&](int count, std::uint32_t length) {
    for (int i = 0; i < count; ++i) {
      std::byte* to = writer.reserve(length);
      if (to == nullptr) FAIL("no room for " << number);
      if (writer.wrapped_at() != RingWriter::kNoWrap) ++number;
      writer.forget_wrap();
      std::memset(to, 1, length);
      writer.publish(1, length, ++number);
      Entry entry;
      if (!reader.peek(entry) || entry.immediate != number) FAIL("lost before " << number);
      reader.pop(entry.length);
      reader.return_credit(0);
    }
  };
  constexpr std::uint32_t kFive = 4 * kEntryAlign + kInlineBytes;  // an entry of five lines
  pass(kCapacity / kEntryAlign, 0);
  // Rounds that end before that line, until one that ends there has the number of its head again.
  pass(11, kFive);
  pass(5, 0);
  for (;;) {
    const std::uint32_t left = kLine + 1 + kNumbers - number;
    int fives = 1;
    while (fives <= 12 && 1 + fives + kLine - 5 * static_cast<std::uint32_t>(fives) != left)
      ++fives;
    if (fives <= 12) {
      pass(fives, kFive);
      pass(static_cast<int>(kLine) - 5 * fives, 0);
      break;
    }
    REQUIRE(left > 13);
    pass(12, kFive);
  }
  REQUIRE(writer.offset() == kLine * kEntryAlign);
  REQUIRE(number == kLine + 1 + kNumbers);
  Entry entry;
  CHECK_FALSE(reader.peek(entry));
  pass(100, 0);
}
#endif

TEST_CASE("a ring that drains can always take an entry again", "[ring]") {
  const auto seed = GENERATE(range(1u, 11u));
  std::mt19937 random(seed);
  Memory memory(16384);
  RingWriter writer;
  RingReader reader;
  writer.attach(memory.bytes.get(), 4096, 16384, &memory.consumed);
  reader.attach(memory.bytes.get(), 16384, &memory.consumed);
  for (int round = 0; round < 3000; ++round) {
    int count = 0;
    for (;;) {
      const auto length = static_cast<std::uint32_t>(random() % RingWriter::max_length(4096));
      if (writer.reserve(length) == nullptr) break;
      writer.publish(1, length, 0);
      ++count;
      if (random() % 16 == 0) break;
    }
    REQUIRE(count > 0);
    Entry entry;
    while (reader.peek(entry)) reader.pop(entry.length);
    reader.return_credit(0);
  }
}

TEST_CASE("a writer hears of its reader's flags while there is room", "[ring]") {
  Memory memory(1 << 20);
  RingWriter writer;
  RingReader reader;
  writer.attach(memory.bytes.get(), 1 << 20, 1 << 20, &memory.consumed);
  reader.attach(memory.bytes.get(), 1 << 20, &memory.consumed);
  reader.return_credit(1);
  std::size_t bytes = 0;
  for (; writer.flags() == 0 && bytes < (1 << 19); bytes += 128) {
    REQUIRE(writer.reserve(100) != nullptr);
    writer.publish(1, 100, 0);
  }
  CHECK(writer.flags() == 1);
}

TEST_CASE("a ring doubles when its writer has waited for room, and not before", "[ring]") {
  Memory memory(64 * 1024);
  RingWriter writer;
  RingReader reader;
  writer.attach(memory.bytes.get(), 8192, 64 * 1024, &memory.consumed);
  reader.attach(memory.bytes.get(), 64 * 1024, &memory.consumed);
  Entry entry;
  const auto write = [&] {
    if (writer.reserve(1500) == nullptr) return false;
    writer.publish(1, 1500, 0);
    return true;
  };
  const auto read = [&] {
    if (!reader.peek(entry)) return false;
    reader.pop(entry.length);
    reader.return_credit(0);
    return true;
  };
  for (int i = 0; i < 100; ++i) REQUIRE((write() && read()));
  CHECK(writer.capacity() == 8192);
  for (const std::uint32_t capacity : {16384u, 32768u, 65536u, 65536u}) {
    while (write()) continue;
    while (read()) continue;
    for (int i = 0; i < 100; ++i) REQUIRE((write() && read()));
    CHECK(writer.capacity() == capacity);
  }
}

TEST_CASE("an idle ring costs its writer next to nothing, however large it may become", "[ring]") {
  constexpr std::uint32_t kCapacity = 64 * 1024, kMaximum = 4 * 1024 * 1024;
  constexpr int kRings = 64;
  std::byte place[1];  // nothing is written
  std::atomic<std::uint64_t> consumed{0};
  std::vector<RingWriter> writers(kRings);
  const std::size_t before = mallinfo2().uordblks;
  for (RingWriter& writer : writers) writer.attach(place, kCapacity, kMaximum, &consumed);
  CHECK((mallinfo2().uordblks - before) / kRings <= 256);
}

TEST_CASE("writer and reader in two threads", "[ring][threads]") {
  Memory memory(65536);
  RingWriter writer;
  RingReader reader;
  writer.attach(memory.bytes.get(), 4096, 65536, &memory.consumed);
  reader.attach(memory.bytes.get(), 65536, &memory.consumed);
  constexpr std::uint64_t kCount = 200000;
  std::thread sender([&] {
    std::mt19937 random(7);
    for (std::uint64_t i = 0; i < kCount; ++i) {
      const std::size_t length = random() % 300;
      std::byte* to;
      while ((to = writer.reserve(length)) == nullptr) std::this_thread::yield();
      fill(to, length, i);
      writer.publish(1, static_cast<std::uint32_t>(length), i);
    }
  });
  bool good = true;
  for (std::uint64_t i = 0; i < kCount;) {
    Entry entry;
    if (!reader.peek(entry)) {
      reader.return_credit(0);
      std::this_thread::yield();
      continue;
    }
    good = good && entry.immediate == i && holds(entry.data, entry.length, i);
    reader.pop(entry.length);
    if (i % 32 == 0) reader.return_credit(0);
    ++i;
  }
  sender.join();
  REQUIRE(good);
}

TEST_CASE("the reader survives a hostile writer", "[ring]") {
  Memory memory(4096);
  RingReader reader;
  reader.attach(memory.bytes.get(), 4096, &memory.consumed);
  auto* head = reinterpret_cast<EntryHead*>(memory.bytes.get());
  Entry entry;
  SECTION("a length beyond the ring") {
    head->length = 0xffff'fff0u;
    head->state.store(1u << 8 | 1, std::memory_order_release);
  }
  SECTION("a turn at the start") {
    head->length = 64;
    head->state.store(1u << 8 | kKindWrap, std::memory_order_release);
  }
  SECTION("an entry that ends behind the ring, where no limit would hold any more") {
    head->length = 4096;
    head->state.store(1u << 8 | 1, std::memory_order_release);
  }
  SECTION("the same, in a ring that somebody says has arrived") {
    head->length = 4096 - 15;
    head->state.store(1u << 8 | 1, std::memory_order_release);
    REQUIRE_FALSE(reader.peek_arrived(entry, 1 << 20, kNeverRestarted));
    REQUIRE(reader.broken());
    return;
  }
  REQUIRE_FALSE(reader.peek(entry));
  REQUIRE(reader.broken());
}

TEST_CASE("the largest entry ends with the ring", "[ring]") {
  Memory memory(4096);
  RingReader reader;
  reader.attach(memory.bytes.get(), 4096, &memory.consumed);
  auto* head = reinterpret_cast<EntryHead*>(memory.bytes.get());
  head->length = 4096 - 16;
  head->state.store(1u << 8 | 1, std::memory_order_release);
  Entry entry;
  REQUIRE(reader.peek(entry));
  reader.pop(entry.length);
  // Behind it may be a mark to turn, of no gap; an entry may not.
  auto* mark = reinterpret_cast<EntryHead*>(memory.bytes.get() + 4096);
  SECTION("a mark") {
    mark->length = 0;
    mark->state.store(2u << 8 | kKindWrap, std::memory_order_release);
    REQUIRE_FALSE(reader.peek(entry));
    REQUIRE_FALSE(reader.broken());
  }
  SECTION("an entry") {
    mark->length = 0;
    mark->state.store(2u << 8 | 1, std::memory_order_release);
    REQUIRE_FALSE(reader.peek(entry));
    REQUIRE(reader.broken());
  }
}
