#include "mcast/routing/hops.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace weft::mcast {

namespace {

using Eight = std::array<uint64_t, 8>;

// Exchanges two sets of bits, `shift` apart, of which `mask` has the lower.
void swap_bits(uint64_t* low, uint64_t* high, int shift, uint64_t mask) {
  const uint64_t differ = ((*low >> shift) ^ *high) & mask;
  *high ^= differ;
  *low ^= differ << shift;
}

// Byte j of word i and byte i of word j change places.
void transpose_bytes(Eight* block) {
  Eight& w = *block;
  for (size_t i = 0; i < 4; ++i) swap_bits(&w[i], &w[i + 4], 32, 0xffffffff);
  for (const size_t i : {0, 1, 4, 5}) swap_bits(&w[i], &w[i + 2], 16, 0x0000ffff0000ffff);
  for (const size_t i : {0, 2, 4, 6}) swap_bits(&w[i], &w[i + 1], 8, 0x00ff00ff00ff00ff);
}

// Bit j of byte i and bit i of byte j change places.
uint64_t transpose_bits(uint64_t x) {
  uint64_t differ = (x ^ (x >> 7)) & 0x00aa00aa00aa00aa;
  x ^= differ ^ (differ << 7);
  differ = (x ^ (x >> 14)) & 0x0000cccc0000cccc;
  x ^= differ ^ (differ << 14);
  differ = (x ^ (x >> 28)) & 0x00000000f0f0f0f0;
  return x ^ differ ^ (differ << 28);
}

}  // namespace

Hops::Hops(const Topology& topology)
    : topology_(topology),
      rows_(topology.num_switches()),
      at_(topology.num_switches()),
      digits_(topology.num_switches()),
      side_(topology.num_switches(), kNoSide),
      seen_(topology.num_switches()),
      all_fit_(uint64_t{topology.num_switches()} * topology.num_switches() <= kBudgetBytes) {
  for (const Arc& arc : topology.arcs) to_.push_back(arc.to);
}

void Hops::prepare() {
  if (all_fit_ || bytes_ < kBudgetBytes) return;
  for (auto& row : rows_) row.reset();
  bytes_ = 0;
}

// Gives every switch that `from` can reach the side opposite to its neighbours', if that is
// possible.
void Hops::divide(uint32_t from) {
  side_[from] = 0;
  frontier_.assign(1, from);
  for (size_t head = 0; head < frontier_.size(); ++head) {
    const uint32_t s = frontier_[head];
    for (uint32_t a = topology_.arc_begin[s]; a < topology_.arc_begin[s + 1]; ++a) {
      const uint32_t to = to_[a];
      if (side_[to] == side_[s]) two_sides_ = false;
      if (side_[to] != kNoSide) continue;
      side_[to] = 1 - side_[s];
      frontier_.push_back(to);
    }
  }
}

void Hops::make(uint32_t from) {
  if (side_[from] == kNoSide) divide(from);
  const bool halve = all_fit_ && two_sides_;
  if (halve && side_[from] == 1) return make_from_neighbours(from);
  starts_.clear();
  ball_.assign(1, from);
  ++ball_number_;
  seen_[from] = ball_number_;
  const size_t most = all_fit_ ? 64 : 1;
  for (size_t head = 0; head < ball_.size() && head < kReach && starts_.size() < most; ++head) {
    const uint32_t s = ball_[head];
    if (!rows_[s] && !(halve && side_[s] == 1)) starts_.push_back(s);
    for (uint32_t a = topology_.arc_begin[s]; a < topology_.arc_begin[s + 1]; ++a) {
      const uint32_t to = to_[a];
      if (seen_[to] != ball_number_) ball_.push_back(to);
      seen_[to] = ball_number_;
    }
  }
  search();
}

// A row is one hop more than the minimum of its neighbours' rows, which all exist.
void Hops::make_from_neighbours(uint32_t from) {
  const uint32_t n = topology_.num_switches();
  for (uint32_t a = topology_.arc_begin[from]; a < topology_.arc_begin[from + 1]; ++a) {
    row(to_[a]);  // on the other side, so this goes no further
  }
  bytes_ += n;
  rows_[from].reset(new uint8_t[n]);
  uint8_t* mine = rows_[from].get();
  std::memset(mine, kFar - 1, n);
  for (uint32_t a = topology_.arc_begin[from]; a < topology_.arc_begin[from + 1]; ++a) {
    const uint8_t* theirs = rows_[to_[a]].get();
    for (uint32_t s = 0; s < n; ++s) mine[s] = std::min(mine[s], theirs[s]);
  }
  for (uint32_t s = 0; s < n; ++s) ++mine[s];
  mine[from] = 0;
}

void Hops::search() {
  const uint32_t n = topology_.num_switches();
  bytes_ += uint64_t{n} * starts_.size();
  std::fill(at_.begin(), at_.end(), Bits{});
  std::fill(digits_.begin(), digits_.end(), Eight{});
  frontier_.clear();
  for (size_t i = 0; i < starts_.size(); ++i) {
    const uint32_t s = starts_[i];
    at_[s].reached = at_[s].now = 1ull << i;
    frontier_.push_back(s);
  }
  for (uint8_t distance = 1; !frontier_.empty() && distance < kFar; ++distance) {
    next_frontier_.clear();
    for (const uint32_t s : frontier_) {
      const uint64_t now = at_[s].now;
      for (uint32_t a = topology_.arc_begin[s]; a < topology_.arc_begin[s + 1]; ++a) {
        Bits& there = at_[to_[a]];
        const uint64_t fresh = now & ~there.reached;
        if (fresh == 0) continue;
        if (there.next == 0) next_frontier_.push_back(to_[a]);
        there.next |= fresh;
      }
    }
    for (const uint32_t s : next_frontier_) {
      Bits& here = at_[s];
      here.reached |= here.next;
      for (uint32_t d = distance; d != 0; d &= d - 1) {
        digits_[s][static_cast<size_t>(__builtin_ctz(d))] |= here.next;
      }
      here.now = here.next;
      here.next = 0;
    }
    std::swap(frontier_, next_frontier_);
  }
  write_rows();
}

// Converts digits_, where a bit stands for a start, into bytes by start, eight switches at a time,
// so that each row receives eight bytes at once.
void Hops::write_rows() {
  const uint32_t n = topology_.num_switches();
  const size_t num = starts_.size();
  uint8_t* rows[64];
  for (size_t i = 0; i < num; ++i) {
    rows_[starts_[i]].reset(new uint8_t[n]);
    rows[i] = rows_[starts_[i]].get();
  }
  for (uint32_t first = 0; first < n; first += 8) {
    const uint32_t count = std::min(8u, n - first);
    Eight distances[8] = {};  // [switch][starts 8 by 8], a byte each
    for (uint32_t s = 0; s < count; ++s) {
      Eight block = digits_[first + s];
      for (uint64_t& digit : block) digit |= ~at_[first + s].reached;  // not reached: kFar
      transpose_bytes(&block);
      for (uint64_t& eight_starts : block) eight_starts = transpose_bits(eight_starts);
      distances[s] = block;
    }
    for (size_t i = 0; i < num; i += 8) {
      Eight of_starts;
      for (size_t s = 0; s < 8; ++s) of_starts[s] = distances[s][i / 8];
      transpose_bytes(&of_starts);
      for (size_t k = i; k < std::min(num, i + 8); ++k) {
        std::memcpy(rows[k] + first, &of_starts[k - i], count);
      }
    }
  }
}

std::vector<uint32_t> member_switches(const Topology& topology,
                                      const std::vector<uint32_t>& members) {
  std::vector<uint32_t> all, once;
  for (const uint32_t member : members) all.push_back(topology.endpoints[member].on_switch);
  std::vector<uint32_t> sorted = all;
  std::sort(sorted.begin(), sorted.end());
  std::vector<bool> seen(sorted.size());
  for (const uint32_t s : all) {
    const size_t at = std::lower_bound(sorted.begin(), sorted.end(), s) - sorted.begin();
    if (!seen[at]) once.push_back(s);
    seen[at] = true;
  }
  return once;
}

void eccentricities(const Topology& topology, Hops& hops, const std::vector<uint32_t>& targets,
                    std::vector<uint8_t>* worst) {
  const uint32_t n = topology.num_switches();
  worst->assign(n, 0);
  uint8_t* w = worst->data();
  for (const uint32_t target : targets) {
    const uint8_t* row = hops.row(target);
    for (uint32_t s = 0; s < n; ++s) w[s] = std::max(w[s], row[s]);
  }
}

}  // namespace weft::mcast
