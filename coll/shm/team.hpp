#pragma once
// ShmTeam: one segment mapped by all members of a team that share a host, and the protocol by which
// rounds of collectives use it. Its clients are the other files of coll/shm and Team.
//
// A collective is one or more rounds, numbered from 1; all members go through the same rounds in
// the same order. In a round a member may publish: bytes in its bank of that round (banks
// alternate, large), then its cell of that round (one cache line: the round's number and up to 48
// bytes). Others wait for the cell, read straight from the bank, and count the round as done.
//
// Reuse. A bank or cell may be written again when all its possible readers are done with that
// round. In most collectives a member sees all others arrive, and a member that has arrived in
// round k is done with k - 1, so the two banks alternate without further checks. In rounds without
// a wait for all (a root that broadcasts, leaves of a reduction) the writer checks the readers'
// `done` before it writes.
//
// Crowded teams (more processes on the host than cores) pay in context switches: there arrivals are
// counted, the last to arrive does the reduction or wakes all at once, and waiting yields the core
// at once.
//
// One thread at a time, like the Team.
#include <sched.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/wait.hpp"
#include "coll/shm/tree.hpp"
#include "weft/copy.hpp"
#include "weft/status.hpp"

namespace weft::coll {

class Team;

inline constexpr std::size_t kLine = 64;
inline constexpr std::size_t kCellBytes = 48;
inline constexpr int kNumCells = 8;
inline constexpr int kNumBanks = 2;
inline constexpr std::size_t kBankBytes = 512 * 1024;

// One cache line: a member's published round and a little data.
struct alignas(kLine) Cell {
  // Written last, with release, by the owner; pairs with the acquire in has_round().
  std::atomic<std::uint64_t> round;
  alignas(16) std::byte data[kCellBytes];
};
static_assert(sizeof(Cell) == kLine);

struct MemberControl {
  // The last round that this member is done with. Written by the owner, with release.
  alignas(kLine) std::atomic<std::uint64_t> done;
  // 4 * round + Writing: of the memory that this member exposes for another one to write.
  std::atomic<std::uint64_t> writing;
  Cell cells[kNumCells];
};
static_assert(sizeof(MemberControl) == (1 + kNumCells) * kLine);

struct SegmentHeader {
  std::uint64_t magic;
  std::uint64_t total_bytes;
  // Arrivals in rounds in which all wait for all, over all such rounds.
  alignas(kLine) std::atomic<std::uint64_t> arrivals;
  // The result of a round, written by the last to arrive.
  alignas(kLine) Cell result;
  // The number of members that wait, perhaps asleep, for others to be done.
  alignas(kLine) std::atomic<std::uint32_t> want_done;
  // Not zero: a member cannot go on, because of an event outside this team; then 2 + the world rank
  // of the lost member, or 1.
  std::atomic<std::uint32_t> given_up;
  // Not zero: a member has ended a call in its middle, and its user has the memory back that others
  // may be reading.
  std::atomic<std::uint32_t> has_left_call;
};

class ShmTeam {
 public:
  // The functions and limits that waiting and copying need from outside: `wait` when polling
  // briefly did not help (false: a member is lost), `ring` to wake a member that may sleep.
  struct Outside {
    void* object;
    bool (*wait)(void* object, const WaitCondition& condition);
    void (*ring)(void* object, int member);
    // Copies between this process and a member's private memory; false: see errno.
    bool (*read)(void* object, int member, void* to, std::uint64_t from, std::size_t bytes);
    bool (*write)(void* object, int member, const void* from, std::uint64_t to, std::size_t bytes);
    bool (*lives)(void* object, int member);
    // Blocks of at least this size are copied that way, straight between the users' buffers.
    std::size_t direct_min_bytes;
    // The bytes of one vector that go through one round, if not crowded.
    std::size_t piece_bytes;
  };

  static std::size_t segment_bytes(int size) noexcept;
  // `segment` is zeroed memory, or for all but the first member already in use; it stays the
  // caller's. The tree outlives this object.
  ShmTeam(std::byte* segment, int rank, int size, bool crowded, const ShmTree& tree,
          Outside outside);

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  bool is_crowded() const noexcept { return crowded_; }
  const ShmTree& tree() const noexcept { return tree_; }
  // Returns true if rounds in which all wait for all go along the tree.
  bool climbs() const noexcept { return !crowded_ && !tree_.is_flat(); }
  // Returns true for two members that both are running.
  bool is_pair() const noexcept { return size_ == 2 && !crowded_; }

  // --- a round, in this order ---

  // Begins the next round.
  void begin() noexcept { ++round_; }
  // This member's bank of this round, once it may be written; null if a member is lost. reader: the
  // only member that will read it, or kEverybody.
  static constexpr int kEverybody = -1;
  std::byte* open_bank(int reader = kEverybody) {
    Use& use = bank_uses_[round_ % kNumBanks];
    if (!is_free(use) && !wait_free(use)) return nullptr;
    use = {round_, reader};
    return bank(rank_);
  }
  // This member's cell of this round, once it may be written; null if a member is lost.
  Cell* open_cell(int reader = kEverybody) {
    Use& use = cell_uses_[round_ % kNumCells];
    if (!is_free(use) && !wait_free(use)) return nullptr;
    use = {round_, reader};
    return &cell(rank_);
  }
  // Copies into this member's bank or cell.
  void fill(void* to, const void* from, std::size_t bytes) noexcept {
    detail::copy_small(to, from, bytes);
  }
  // Publishes the round: the data written to bank and cell before are now visible.
  void publish(Cell* own) noexcept { own->round.store(round_, std::memory_order_release); }
  // Waits until the member has published this round; false if a member is lost.
  bool wait_for(int member) {
    return wait([this, member] { return has_round(cell(member)); });
  }
  // The same, and wakes every member that may wait for it.
  void publish_and_ring_each(Cell* own) noexcept {
    publish(own);
    ring_all();
  }
  // Waits for all others one by one, crowded or not: for rounds in which not all members do.
  bool wait_for_each() {
    for (int r = 0; r < size_; ++r)
      if (r != rank_ && !wait_for(r)) return false;
    note_all_arrived();
    return true;
  }
  // The two halves of a round in which all wait for all. Without crowding all cells are polled;
  // crowded, arrivals are counted and only the last one wakes the others.
  void publish_and_ring(Cell* own) noexcept {
    if (!crowded_) publish_and_ring_each(own);  // else visible with the arrival
  }
  bool wait_for_all();
  // Waits until the member is done with this round; false if a member is lost.
  bool wait_until_done(int member) { return wait_done(member, round_); }
  // Ends the round for this member.
  void end() noexcept {
    members_[rank_].done.store(round_, std::memory_order_release);
    // relaxed: a waiter that is missed here has not gone to sleep yet, and the heavy fence that it
    // passes before it does shows it the store above.
    if (header_->want_done.load(std::memory_order_relaxed) != 0) ring_all();
  }

  // Crowded rounds: counts this member in; true for the one that arrives last, which then must call
  // ring_all() or publish a result.
  bool arrive_last() noexcept {
    sync_target_ += static_cast<std::uint64_t>(size_);
    return arrive() == sync_target_;
  }
  // Waits for the result that the last member to arrive in this round publishes.
  bool wait_for_result() {
    return wait([this] { return has_round(header_->result); }) && (note_all_arrived(), true);
  }
  void publish_result() noexcept {
    note_all_arrived();
    header_->result.round.store(round_, std::memory_order_release);
    ring_all();
  }
  Cell& result_cell() noexcept { return header_->result; }
  std::byte* result_bank() noexcept { return banks_ + index(size_, 0); }

  // The memory of any member for this round.
  Cell& cell(int member) noexcept { return members_[member].cells[round_ % kNumCells]; }
  std::byte* bank(int member) noexcept { return banks_ + index(member, round_ % kNumBanks); }

  // lost: a world rank, or -1.
  void give_up(int lost) noexcept {
    // relaxed: it says nothing about other memory.
    header_->given_up.store(static_cast<std::uint32_t>(lost + 2), std::memory_order_relaxed);
    ring_all();
  }
  // The lost member, if the one that gave up knew it; else -1.
  int lost() const noexcept {
    return static_cast<int>(header_->given_up.load(std::memory_order_relaxed)) - 2;
  }
  bool is_given_up() const noexcept {
    return header_->given_up.load(std::memory_order_relaxed) != 0;
  }

  void ring(int member) noexcept { outside_.ring(outside_.object, member); }
  void ring_all() noexcept {
    for (int r = 0; r < size_; ++r)
      if (r != rank_) ring(r);
  }

  // All members have arrived in the first of the last `rounds` rounds, this one included, so they
  // are done with all before it.
  void note_all_arrived(std::uint64_t rounds = 1) noexcept { all_done_ = round_ - rounds; }

  // The bytes of one vector that go through one round. Without crowding, pieces that stay in the
  // cache while one side writes and the other reads; crowded, as much as fits, since every round
  // costs context switches.
  std::size_t piece_bytes() const noexcept { return crowded_ ? kBankBytes : outside_.piece_bytes; }
  std::size_t direct_min_bytes() const noexcept { return outside_.direct_min_bytes; }
  // A member that cannot go on gives its memory back to its user: what was read may be of that.
  bool read(int member, void* to, std::uint64_t from, std::size_t bytes) noexcept {
    if (!outside_.read(outside_.object, member, to, from, bytes)) return false;
    std::atomic_thread_fence(std::memory_order_acquire);
    // relaxed: behind the fence.
    if (header_->has_left_call.load(std::memory_order_relaxed) == 0) return true;
    // That member may know of a loss or a revocation before this one does, whose error names it.
    (void)wait([] { return false; });
    errno = ESRCH;
    return false;
  }
  // Before expose() of memory that another member may write; the end if that one does not come.
  void open_to_writer() noexcept {
    members_[rank_].writing.store(4 * round_ + kOpen, std::memory_order_relaxed);
  }
  void close_to_writer(int writer) noexcept {
    std::atomic<std::uint64_t>& own = members_[rank_].writing;
    std::uint64_t expected = 4 * round_ + kOpen;
    if (own.compare_exchange_strong(expected, 0, std::memory_order_acq_rel)) return;
    // acquire: pairs with write().
    while (own.load(std::memory_order_acquire) == 4 * round_ + kWriting &&
           outside_.lives(outside_.object, writer))
      sched_yield();
  }
  bool write(int member, const void* from, std::uint64_t to, std::size_t bytes) noexcept {
    std::atomic<std::uint64_t>& theirs = members_[member].writing;
    std::uint64_t expected = 4 * round_ + kOpen;
    if (!theirs.compare_exchange_strong(expected, 4 * round_ + kWriting,
                                        std::memory_order_acq_rel)) {
      errno = ESRCH;
      return false;
    }
    const bool is_written = outside_.write(outside_.object, member, from, to, bytes);
    const int error = errno;
    theirs.store(0, std::memory_order_release);
    errno = error;
    return is_written;
  }

  template <class Done>
  bool wait(Done&& done) {
    if (done()) return true;
    for (int i = crowded_ ? 0 : kSpins; i > 0; --i) {
      cpu_relax();
      if (done()) return true;
    }
    if (outside_.wait(outside_.object, WaitCondition(done))) return true;
    header_->has_left_call.store(1, std::memory_order_seq_cst);
    return false;
  }

 private:
  static constexpr int kSpins = 2000;
  enum Writing : std::uint64_t { kOpen = 1, kWriting = 2 };

  struct Use {
    std::uint64_t round = 0;
    int reader = kEverybody;
  };

  static std::size_t index(int member, std::uint64_t bank) noexcept {
    return (static_cast<std::size_t>(member) * kNumBanks + bank) * kBankBytes;
  }
  bool has_round(const Cell& cell) const noexcept {
    // acquire: pairs with the release in publish() and publish_result(). A later round can be there
    // only if this one's readers are done.
    return cell.round.load(std::memory_order_acquire) == round_;
  }
  bool is_free(const Use& use) const noexcept { return use.round <= all_done_; }
  bool wait_free(const Use& use);
  bool wait_done(int member, std::uint64_t round);
  // Counts an arrival and returns the number of arrivals.
  std::uint64_t arrive() noexcept {
    // acq_rel: the last one sees what all others wrote before they arrived.
    return header_->arrivals.fetch_add(1, std::memory_order_acq_rel) + 1;
  }
  bool wait_for_arrivals(std::uint64_t count) {
    // acquire: pairs with arrive().
    return wait(
        [this, count] { return header_->arrivals.load(std::memory_order_acquire) >= count; });
  }

  SegmentHeader* header_;
  MemberControl* members_;
  std::byte* banks_;
  std::uint64_t round_ = 0;
  std::uint64_t all_done_ = 0;  // all members are known to be done with the rounds up to this one
  std::uint64_t sync_target_ = 0;
  int rank_;
  int size_;
  bool crowded_;
  const ShmTree& tree_;
  Use cell_uses_[kNumCells];
  Use bank_uses_[kNumBanks];
  Outside outside_;
};

}  // namespace weft::coll
