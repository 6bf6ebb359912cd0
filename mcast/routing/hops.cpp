#include "routing/hops.hpp"

#include <algorithm>
#include <cstring>

namespace weft::mcast {

Hops::Hops(const Topology& topology)
    : topology_(topology),
      rows_(topology.num_switches()),
      reached_(topology.num_switches()),
      now_(topology.num_switches()),
      next_(topology.num_switches()),
      seen_(topology.num_switches()),
      all_fit_(uint64_t{topology.num_switches()} * topology.num_switches() <= kBudgetBytes) {}

void Hops::prepare() {
  if (all_fit_ || bytes_ < kBudgetBytes) return;
  for (auto& row : rows_) row.reset();
  bytes_ = 0;
}

void Hops::make(uint32_t from) {
  starts_.clear();
  ball_.assign(1, from);
  ++ball_number_;
  seen_[from] = ball_number_;
  const size_t most = all_fit_ ? 64 : 1;
  for (size_t head = 0; head < ball_.size() && head < kReach && starts_.size() < most; ++head) {
    const uint32_t s = ball_[head];
    if (!rows_[s]) starts_.push_back(s);
    for (uint32_t a = topology_.arc_begin[s]; a < topology_.arc_begin[s + 1]; ++a) {
      const uint32_t to = topology_.arcs[a].to;
      if (seen_[to] != ball_number_) ball_.push_back(to);
      seen_[to] = ball_number_;
    }
  }
  search();
}

void Hops::search() {
  const uint32_t n = topology_.num_switches();
  bytes_ += uint64_t{n} * starts_.size();
  std::fill(reached_.begin(), reached_.end(), 0);
  frontier_.clear();
  for (size_t i = 0; i < starts_.size(); ++i) {
    const uint32_t s = starts_[i];
    rows_[s].reset(new uint8_t[n]);
    std::memset(rows_[s].get(), kFar, n);
    rows_[s][s] = 0;
    reached_[s] = now_[s] = 1ull << i;
    frontier_.push_back(s);
  }
  for (uint8_t distance = 1; !frontier_.empty() && distance < kFar; ++distance) {
    next_frontier_.clear();
    for (const uint32_t s : frontier_) {
      const uint64_t bits = now_[s];
      for (uint32_t a = topology_.arc_begin[s]; a < topology_.arc_begin[s + 1]; ++a) {
        const uint32_t to = topology_.arcs[a].to;
        const uint64_t fresh = bits & ~reached_[to];
        if (fresh == 0) continue;
        if (next_[to] == 0) next_frontier_.push_back(to);
        next_[to] |= fresh;
      }
    }
    for (const uint32_t s : frontier_) now_[s] = 0;
    for (const uint32_t s : next_frontier_) {
      reached_[s] |= next_[s];
      for (uint64_t bits = next_[s]; bits != 0; bits &= bits - 1) {
        rows_[starts_[static_cast<size_t>(__builtin_ctzll(bits))]][s] = distance;
      }
    }
    std::swap(now_, next_);
    std::swap(frontier_, next_frontier_);
  }
  for (const uint32_t s : frontier_) now_[s] = 0;
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
