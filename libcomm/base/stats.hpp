#pragma once
// Stats: what this process has sent, received and waited for, by peer and fabric, since its start.
// Counted always, as that costs two stores to a line of the counting thread's own. They lie in a
// sealed memfd, which weft-info --attach reads while the process runs, and which ends with it.
//
// Threads: a Row has one writer at a time; opening and closing rows takes a lock. Reading: any.
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "weft/status.hpp"

namespace weft::stats {

enum class Counter : std::uint8_t {
  sent,  // entries: a message, a piece of one, a block, or what the library itself has to say
  sent_bytes,
  received,
  received_bytes,
  copied_bytes,  // read from the peer's memory instead: announced messages and blocks
  stalls,        // the ring was full when an entry was to be written
  resent,        // after a link had broken; to a switch: after silence
  offloaded,     // collectives that a switch computed
  fallbacks,     // that the hosts computed as the switch did not
};
inline constexpr int kNumCounters = 9;

struct alignas(64) Row {
  std::array<std::atomic<std::uint64_t>, kNumCounters> counters{};
  char fabric[16] = {};  // empty: the row is free
  char peer[56] = {};

  // By the row's writer.
  void add(Counter counter, std::uint64_t n) noexcept {
    auto& word = counters[static_cast<std::size_t>(counter)];
    word.store(word.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
};
static_assert(sizeof(Row) == 192);

// For what nobody counts, and where there is no memory for a row.
inline Row unseen;

// A row from open() to the end, when its numbers are added to those of the peer's earlier ones.
class Slot {
 public:
  Slot() = default;
  Slot(Slot&& other) noexcept : row_(std::exchange(other.row_, &unseen)) {}
  Slot& operator=(Slot&& other) noexcept {
    std::swap(row_, other.row_);
    return *this;
  }
  ~Slot() { close(); }
  void open(std::string_view fabric, std::string_view peer) noexcept;
  void close() noexcept;
  Row& row() const noexcept { return *row_; }

 private:
  Row* row_ = &unseen;
};

// The counters of this process, summed up: over all peers, or those that are called so or whose
// name begins with `peer` and a space. In the order of Counter.
std::array<std::uint64_t, kNumCounters> sum(std::string_view peer = {}) noexcept;
// What this process is called in what is printed, as "rank 3 of 8"; the last call counts.
void set_name(std::string_view name) noexcept;
// From now on the counters are printed to standard error when the process ends. May be called
// again.
void print_at_exit() noexcept;
// The counters of a process as text. not_found: there is no such process, or it does not run Weft.
// not_permitted: it is another user's.
Status read(pid_t process, std::string& text);

}  // namespace weft::stats
