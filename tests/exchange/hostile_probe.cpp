// One rank of a job of three, over shared memory, of which rank 2 is hostile: it writes what no
// Weft writes where lanes are opened, where credit is returned and into blocks. The others survive.
// Started by faults_test.
#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "exchange/job_impl.hpp"
#include "exchange/memory_key.hpp"
#include "exchange/wire.hpp"
#include "fabric/ring.hpp"
#include "lanes/mapped/arena.hpp"
#include "tests/exchange/probe.hpp"

namespace weft::testing {
namespace {

// The directory of lanes of rank 0, as rank 2, which writes to it what no Weft does.
std::shared_ptr<shm::Arena> arena_of(Job& job, int rank) {
  weft::Members& members = *job.impl().members;
  std::string text;
  REQUIRE(members.board().get(rank, "shm.arena", text).ok());
  const shm::ArenaLayout layout{
      3, static_cast<std::uint32_t>(members.settings().bytes(Setting::ring_max_bytes))};
  std::shared_ptr<shm::Arena> arena;
  REQUIRE(shm::Arena::open(members.member(rank).pid, std::atoi(text.c_str()), layout, arena).ok());
  return arena;
}

void connect_wrongly(Job& job, const char* what) {
  Exchange<std::uint64_t> exchange(job, 1);
  Exchange<std::uint64_t> other(job, 1);
  if (job.rank() == kVictim) {
    const auto arena = arena_of(job, 0);
    const std::uint32_t index = arena->header().num_entries.fetch_add(1);
    shm::LaneEntry& entry = arena->entry(index);
    entry.writer = 2;
    entry.channel = static_cast<std::uint32_t>(channel_number({kNumEngineClients, 0, 0}));
    entry.ring_bytes = 2u << 20;
    entry.offset = 0;
    if (std::strcmp(what, "lane_far") == 0) entry.offset = std::uint64_t{1} << 50;
    if (std::strcmp(what, "lane_wraps") == 0) entry.offset = ~std::uint64_t{0xfff};
    if (std::strcmp(what, "lane_odd") == 0) entry.offset = 100;
    if (std::strcmp(what, "lane_small") == 0) entry.ring_bytes = 4096;
    if (std::strcmp(what, "lane_huge") == 0) entry.ring_bytes = 0xffff'f000;
    if (std::strcmp(what, "lane_nobody") == 0) entry.writer = 1000;
    if (std::strcmp(what, "lane_thread") == 0)
      entry.channel = static_cast<std::uint32_t>(channel_number({kNumEngineClients, 0, 200}));
    if (std::strcmp(what, "lane_twice") == 0) {
      // One place under two lengths: the second exchange must not read beyond the first one's.
      shm::LaneEntry& second = arena->entry(arena->header().num_entries.fetch_add(1));
      second.writer = 2;
      second.channel = entry.channel;
      second.ring_bytes = 2u << 20;
      second.offset = 0;
      second.state.store(shm::LaneEntry::kConnected, std::memory_order_release);
      entry.ring_bytes = 4096;
    }
    entry.state.store(shm::LaneEntry::kConnected, std::memory_order_release);
    // A free entry that names nothing: whoever takes it for a ring of its own would write there.
    shm::LaneEntry& free = arena->entry(arena->header().num_entries.fetch_add(1));
    free.ring_bytes = 2u << 20;
    free.offset = std::uint64_t{1} << 50;
    free.state.store(shm::LaneEntry::kFree, std::memory_order_release);
    arena->header().num_connected.fetch_add(1, std::memory_order_release);
    REQUIRE(job.barrier().ok());
    // Again and again: it is refused once.
    const auto start = Clock::now();
    while (Clock::now() - start < 100ms) {
      entry.state.store(shm::LaneEntry::kConnected, std::memory_order_release);
      arena->header().num_connected.fetch_add(1, std::memory_order_release);
    }
    REQUIRE(job.barrier().ok());
  } else {
    REQUIRE(job.barrier().ok());
    if (job.rank() == 0) REQUIRE(exchange.wait(0, kPatience) == Code::corrupt);
    go_on(job, exchange);
    go_on(job, other);
    REQUIRE(job.barrier().ok());
  }
  REQUIRE(exchange.quiesce(0, [](std::uint64_t) {}) == Code::corrupt);
  REQUIRE(other.quiesce(0, [](std::uint64_t) {}).ok());
}

// Rank 2, to which rank 0 sends, writes where it returns credit what it has not read.
void write_wrong_credit(Job& job, std::uint64_t word) {
  Exchange<std::uint64_t> exchange(job, 1);
  if (job.rank() == kVictim) {
    std::uint64_t message = 0;
    while (!exchange.receive(0, message)) {
    }
    const auto arena = arena_of(job, kVictim);
    shm::LaneEntry& entry = arena->entry(0);
    REQUIRE(entry.writer == 0);
    entry.consumed.store(word);
    const auto start = Clock::now();
    while (Clock::now() - start < 100ms) {
    }
    die();
  }
  if (job.rank() == 0) {
    Code code = Code::ok;
    const auto start = Clock::now();
    while (code == Code::ok) {
      code = exchange.send(kVictim, 0, 1);
      REQUIRE(Clock::now() - start < kPatience);
    }
    REQUIRE(code == Code::peer_lost);
  }
  go_on(job, exchange);
}

// Rank 2 sends rank 0 a good message, and an entry behind it.
template <class Message>
void write_entry(Exchange<Message>& exchange, Job& job, const Message& good, std::uint8_t kind,
                 const void* data, std::uint32_t length) {
  REQUIRE(exchange.send(0, 0, good) == Code::ok);
  REQUIRE(exchange.flushSend(0) == Code::ok);
  const auto arena = arena_of(job, 0);
  std::byte* ring = nullptr;
  std::uint32_t ring_bytes = 0;
  REQUIRE(arena->map_lane(arena->entry(0), ring_bytes, ring).ok());
  const auto* first = reinterpret_cast<const EntryHead*>(ring);
  auto* head = reinterpret_cast<EntryHead*>(ring + kEntryAlign);
  head->length = length;
  head->immediate = first->immediate;
  std::memcpy(ring + kEntryAlign + sizeof *head, data, length);
  head->state.store(2u << 8 | kind, std::memory_order_release);
  arena->unmap_lane(ring);
}

// Receives the good one, and is told of the other.
template <class Message>
void receive_up_to_trouble(Exchange<Message>& exchange) {
  Message message;
  Status status = exchange.wait(0, kPatience);
  REQUIRE(status.ok());
  REQUIRE(exchange.receive(0, message));
  while (status.ok() && !exchange.receive(0, message)) status = exchange.wait(0, kPatience);
  REQUIRE(status == Code::corrupt);
}

// A block of rank 2 whose message is longer than the block.
void write_wrong_lengths(Job& job, std::uint32_t length) {
  Exchange<Bytes> exchange(job, 1);
  const std::uint64_t good = 4711;
  const Bytes bytes = std::as_bytes(std::span(&good, 1));
  if (job.rank() == kVictim) {
    const std::uint32_t words[2] = {length, 0};
    write_entry(exchange, job, bytes, kBlock, words, sizeof words);
    REQUIRE(job.barrier().ok());
  } else {
    if (job.rank() == 0) receive_up_to_trouble(exchange);
    REQUIRE(job.barrier().ok());
    REQUIRE(exchange.send(1 - job.rank(), 0, bytes) == Code::ok);
    REQUIRE(exchange.flushSend(0) == Code::ok);
    Bytes message;
    while (!exchange.receive(0, message)) (void)exchange.wait(0, 1s);
    REQUIRE(std::memcmp(message.data(), &good, sizeof good) == 0);
  }
  REQUIRE(exchange.quiesce(0, [](Bytes) {}) == Code::corrupt);
}

// A block in memory of rank 2's own, where no message of its type may lie.
void announce_unaligned(Job& job) {
  struct alignas(16) Wide {
    std::uint64_t words[2];
  };
  Exchange<Wide> exchange(job, 1);
  if (job.rank() == kVictim) {
    void* address = nullptr;
    RemoteMemory mine;
    REQUIRE(job.allocate(4096, address, mine).ok());
    const Rts rts{mine.address + 8, sizeof(Wide), key_of(mine).names[0].region, 0};
    write_entry(exchange, job, Wide{}, kRts, &rts, sizeof rts);
  } else if (job.rank() == 0) {
    receive_up_to_trouble(exchange);
  }
  REQUIRE(job.barrier().ok());
  REQUIRE(exchange.quiesce(0, [](const Wide&) {}) == Code::corrupt);
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  using namespace weft::testing;
  std::vector<Scenario> scenarios = {
      {"credit_ahead", [](Job& job) { write_wrong_credit(job, std::uint64_t{1} << 63); }},
      {"credit_behind", [](Job& job) { write_wrong_credit(job, 0 - std::uint64_t{64}); }},
      {"length_over", [](Job& job) { write_wrong_lengths(job, 5); }},
      {"length_huge", [](Job& job) { write_wrong_lengths(job, ~std::uint32_t{0}); }},
      {"announce_unaligned", announce_unaligned}};
  for (const char* what : {"lane_far", "lane_wraps", "lane_odd", "lane_small", "lane_huge",
                           "lane_nobody", "lane_thread", "lane_twice"})
    scenarios.push_back({what, [=](Job& job) { connect_wrongly(job, what); }});
  return run_scenario(argc, argv, scenarios);
}
