#pragma once
// Blocked: what the threads of this process wait for, once they have waited long. A record is
// written by a wait that has lasted some 100 ms, and again while it lasts; shorter waits write
// nothing. The records lie in the file of the counters (stats.hpp), so that others read them
// whatever the process does: it may be stopped, or compute.
//
// Threads: a Slot belongs to one thread. Reading: any thread of any process.
//
// Tests: tests/base/blocked_test.cpp.
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/os/descriptor.hpp"
#include "weft/status.hpp"

namespace weft::blocked {

inline constexpr std::size_t kMostMessages = 8;
inline constexpr std::size_t kMostMembers = 4096;
inline constexpr std::size_t kNumSlots = 8;
inline constexpr std::int32_t kAny = -1;  // as a peer or a tag

// A message that is waited for, or one that has come and matches no receive.
struct Message {
  std::int32_t peer = kAny;  // a rank of the job
  std::int32_t tag = kAny;
  std::uint32_t context = 0;  // of the communicator
  std::uint8_t is_send = 0;
  std::uint8_t is_moving = 0;  // its data are being transferred
  std::uint64_t bytes = 0;     // to send; for a receive: the room
  char comm[48] = {};          // the name of the communicator
};

// How a wait goes on.
enum class Waits : std::uint8_t {
  all,         // once every awaited message is complete
  any,         // once one of them is
  collective,  // once the other members of the communicator have made the same call
  other,       // in a way that is not told
};

struct Record {
  std::uint64_t number = 0;    // of the wait in this process; 0: the slot is free
  std::uint64_t since_ns = 0;  // of the host's monotonic clock
  std::uint64_t seen_ns = 0;   // when the record was written last
  std::int32_t rank = -1;
  std::uint32_t context = 0;    // of the communicator
  std::uint32_t comm_size = 0;  // 0: no communicator is known
  std::int32_t root = -1;       // of a collective; -1: it has none
  Waits waits = Waits::other;
  std::uint8_t is_threaded = 0;  // other threads may call, too
  std::uint8_t is_outside = 0;   // it may go on without any rank: by another job, or the network
  char call[45] = {};            // "MPI_Recv"
  char comm[64] = {};            // its name; empty: it has none
  // Where the program made the call: an address of a file, and the symbol there, if it has one.
  char module[256] = {};
  std::uint64_t offset = 0;
  char symbol[64] = {};
  std::uint32_t num_awaited = 0;  // those beyond kMostMessages are only counted
  std::uint32_t num_unmatched = 0;
  std::array<Message, kMostMessages> awaited;
  std::array<Message, kMostMessages> unmatched;
  // The ranks of the communicator, as far as they are below kMostMembers.
  std::array<std::uint64_t, kMostMembers / 64> members{};

  bool has_member(std::size_t member) const noexcept {
    return member < kMostMembers && (members[member / 64] >> member % 64 & 1) != 0;
  }
};

// As in the file. `version` is odd while the record changes.
struct Place {
  std::atomic<std::uint32_t> version{0};
  Record record;
};
using Area = std::array<Place, kNumSlots>;

template <std::size_t N>
void set_text(char (&to)[N], std::string_view text) noexcept {
  const std::size_t length = text.size() < N ? text.size() : N - 1;
  std::memcpy(to, text.data(), length);
  std::memset(to + length, 0, N - length);
}
template <std::size_t N>
std::string_view text_of(const char (&text)[N]) noexcept {
  return {text, strnlen(text, N)};
}

// The record of one wait, from its first write to its end.
class Slot {
 public:
  Slot() = default;
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  ~Slot() { clear(); }
  // Does nothing if too many threads wait, or there is no memory. Sets the record's number.
  void write(Record& record) noexcept;
  void clear() noexcept;

 private:
  int index_ = -1;
  std::uint64_t number_ = 0;
};

// A record as another process reads it.
struct Found {
  Record record;
  std::uint64_t waited_ns = 0;
  std::uint64_t age_ns = 0;  // since the record was written
};

// Reads the records of one process, which stays open in between.
class Reader {
 public:
  // Errors: as stats::read().
  Status open(pid_t process);
  bool is_open() const noexcept { return static_cast<bool>(file_); }
  // Empty: no thread of the process has waited long.
  std::vector<Found> read() const;

 private:
  Descriptor file_;
};

}  // namespace weft::blocked
