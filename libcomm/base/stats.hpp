#pragma once
// Stats: the messages and bytes that this process has sent and received, and its waits, by peer and
// fabric, since its start. Always counted, as that costs two stores to a line of the counting
// thread's own. The counters lie in a sealed memfd, which weft-info --attach reads while the
// process runs, and which ends with it.
//
// Threads: a Row has one writer at a time; opening and closing rows takes a lock. Reading: any.
//
// Tests: tests/base/stats_test.cpp.
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/blocked.hpp"
#include "weft/status.hpp"

namespace weft::stats {

enum class Counter : std::uint8_t {
  sent,  // entries: a message, a piece of one, a block, or a message of the library itself
  sent_bytes,
  received,
  received_bytes,
  copied_bytes,  // read from the peer's memory instead: rendezvous messages and blocks
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

// The row for counts that are not shown, and where there is no memory for a row.
inline Row unseen;

// Owns a row from open() to its end, when its numbers are added to those of the peer's earlier
// ones.
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

// The counters of this process, summed over all peers, or over those whose name is `peer` or begins
// with `peer` and a space. In the order of Counter.
std::array<std::uint64_t, kNumCounters> sum(std::string_view peer = {}) noexcept;
// Sets the name of this process in printed counters, such as "rank 3 of 8"; the last call counts.
void set_name(std::string_view name) noexcept;
// From now on the counters are printed to standard error when the process ends. May be called
// again.
void print_at_exit() noexcept;
// The counters of a process as text. not_found: there is no such process, or it does not run Weft.
// not_permitted: it is another user's.
Status read(pid_t process, std::string& text);

// For blocked.hpp, whose records lie in the same file: this process's (null: there is no memory for
// the file), where they are in the file, and the open file of a process; errors as of read().
blocked::Area* blocked_area() noexcept;
std::size_t blocked_offset() noexcept;
Status open(pid_t process, Descriptor& file);

}  // namespace weft::stats
