#pragma once
// Schedules: the sender, receiver and block of every step of a one-to-many transfer. Pure
// functions, shared by groups, the simulation and tests.
//
// Member 0 is the root and has every block; the others get every block once. In one step a member
// sends at most one block, of those it had before the step, and receives at most one. Members keep
// no common clock: the steps are the order in which each of them sends, and a send waits for its
// block alone.
//
// The algorithms are those of J. Behrens, S. Jha, K. Birman, E. Tremel, "RDMC: A Reliable RDMA
// Multicast for Large Objects", DSN 2018.
//
// Threads: any. Callers: mcast/ alone.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace weft::mcast {

struct Move {
  int peer = -1;  // -1: nothing moves
  std::uint32_t block = 0;
  explicit operator bool() const noexcept { return peer >= 0; }
  bool operator==(const Move&) const = default;
};

// One member's part in one step.
struct Turn {
  Move send;
  Move receive;
};

// The racks that members are in. The first member of a rack leads it.
class Racks {
 public:
  struct Position {
    int rack = 0;
    int index = 0;  // in the rack; 0: its leader
  };
  // rack_of[r]: any number that names the rack of member r. Empty: all in one.
  explicit Racks(std::span<const int> rack_of, int num_members);

  int num_racks() const noexcept { return static_cast<int>(members_.size()); }
  int largest() const noexcept { return largest_; }
  Position position(int member) const noexcept {
    return positions_[static_cast<std::size_t>(member)];
  }
  // In the order of the list; rack 0 is the root's.
  std::span<const int> members(int rack) const noexcept {
    return members_[static_cast<std::size_t>(rack)];
  }
  int leader(int rack) const noexcept { return members_[static_cast<std::size_t>(rack)].front(); }

 private:
  std::vector<std::vector<int>> members_;
  std::vector<Position> positions_;
  int largest_ = 0;
};

struct Shape {
  int num_members = 1;
  std::uint32_t num_blocks = 1;
  const Racks* racks = nullptr;  // of the hybrid algorithms
  // Of the binomial pipeline: so many pipelines take turns, each with every lanes-th block.
  int lanes = 1;
  // Blocks that a receiver is ready for at a time, where it gives credit (credit.hpp).
  int window = 2;
};

struct Algorithm {
  std::string_view name;
  // Steps until every member has the message.
  std::uint64_t (*num_steps)(const Shape& shape);
  Turn (*turn)(const Shape& shape, int member, std::uint64_t step);
  bool needs_racks = false;
  bool has_meetings = false;  // senders take turns at a receiver, which gives them credit
};

extern const Algorithm kSequential;
extern const Algorithm kChain;
extern const Algorithm kBinomialTree;
extern const Algorithm kBinomialPipeline;
extern const Algorithm kHybrid;        // racks begin when their leader has the message
extern const Algorithm kHybridBlocks;  // leaders pass each block on at once

std::span<const Algorithm* const> algorithms() noexcept;
// nullptr: no algorithm has this name.
const Algorithm* find_algorithm(std::string_view name) noexcept;

// The least d with 2^d >= n; n > 0.
int ceil_log2(int n) noexcept;

// The lanes with which the binomial pipeline ends first. In times of a block: a block can be used
// `latency` after its last byte was sent, or later by up to `jitter`.
int choose_lanes(int num_members, std::uint32_t num_blocks, double latency, double jitter) noexcept;

// The members that `member` exchanges blocks with, for any number of blocks, in order of rank.
std::vector<int> neighbors(const Algorithm& algorithm, const Racks& racks, int num_members,
                           int member);

}  // namespace weft::mcast
