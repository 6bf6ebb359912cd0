// The handshake of lanes inside a host: what a hostile peer wrote into the directory of lanes and
// into the ring behind it, taken by an exchange as it takes what honest peers write. The input is a
// number of lanes (one byte, modulo 8), for each of them state, writer, channel, ring_bytes
// (4 bytes each) and offset (8 bytes), and then what lies at the start of the memory of rings.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/log.hpp"
#include "exchange/job_impl.hpp"
#include "lanes/mapped/arena.hpp"
#include "weft/transport.hpp"

using namespace weft;
using namespace weft::transport;
using shm::LaneEntry;

namespace {

constexpr std::uint32_t kRing = 2u << 20;

// A job of one rank, whose memory this process may write to as any process of its host may.
struct Victim {
  LocalRanks ranks{1};
  transport::Job job{ranks, 0};
  std::shared_ptr<shm::Arena> arena;
  std::byte* first_ring = nullptr;  // what lies at offset 0

  Victim() {
    std::string text;
    weft::Members& members = *job.impl().members;
    if (!members.board().get(0, "shm.arena", text)) std::abort();
    const shm::ArenaLayout layout{
        1, static_cast<std::uint32_t>(members.settings().bytes(Setting::ring_max_bytes))};
    if (!shm::Arena::open(members.member(0).pid, std::atoi(text.c_str()), layout, arena))
      std::abort();
    LaneEntry* entry = nullptr;
    if (!arena->take_lane(kRing, true, entry, first_ring)) std::abort();
  }
  ~Victim() { arena->unmap_lane(first_ring); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  setenv("WEFT_LANE_MEMORY_BYTES", "8M", 1);
  log::set_level(static_cast<LogLevel>(-1));
  static std::unique_ptr<Victim> victim;
  static int num_inputs = 0;
  // What is refused keeps its entry for good, and a directory has an end.
  if (num_inputs++ % 1000 == 0) {
    victim.reset();
    victim = std::make_unique<Victim>();
    log::set_level(static_cast<LogLevel>(-1));
  }
  if (size == 0) return 0;
  shm::Arena& arena = *victim->arena;
  Exchange<std::uint64_t> exchange(victim->job, 2);
  const auto client = static_cast<std::uint16_t>(victim->job.impl().last_client);
  const int num_lanes = data[0] % 8;
  ++data, --size;
  for (int i = 0; i < num_lanes && size >= 24; ++i) {
    const std::uint32_t index = arena.header().num_entries.load();
    if (index >= shm::kMaxLanes) break;
    LaneEntry& entry = arena.entry(index);
    std::uint32_t words[4];
    std::memcpy(words, data, sizeof words);
    entry.writer = words[1];
    // The exchange's own number is not for the fuzzer to guess.
    entry.channel = words[2] >> 16 != 0 ? words[2] : words[2] | std::uint32_t{client} << 16;
    entry.ring_bytes = words[3];
    std::memcpy(&entry.offset, data + 16, 8);
    entry.state.store(words[0], std::memory_order_release);
    arena.header().num_entries.store(index + 1);
    arena.header().num_connected.fetch_add(1, std::memory_order_release);
    data += 24, size -= 24;
  }
  std::memcpy(victim->first_ring, data, std::min<std::size_t>(size, kRing));
  std::uint64_t message = 0, sum = 0;
  for (int thread = 0; thread < 2; ++thread)
    for (int i = 0; i < 1000 && exchange.receive(thread, message); ++i) sum += message;
  // Lanes of its own must not land in what the entries named.
  if (exchange.send(0, 0, 4711) == Code::ok) (void)exchange.flushSend(0);
  for (int i = 0; i < 1000 && exchange.receive(0, message); ++i) sum += message;
  if (sum == ~std::uint64_t{0}) std::abort();  // what was received is used
  std::memset(victim->first_ring, 0, std::min<std::size_t>(size, kRing));
  return 0;
}
