#include "routing/hops.hpp"

#include <algorithm>
#include <cstring>

namespace weft::mcast {

void Hops::prepare() {
  if (bytes_ < kBudgetBytes) return;
  for (auto& row : rows_) row.reset();
  bytes_ = 0;
}

const uint8_t* Hops::row(uint32_t from) {
  if (rows_[from]) return rows_[from].get();
  const uint32_t n = topology_.num_switches();
  rows_[from].reset(new uint8_t[n]);
  bytes_ += n;
  uint8_t* row = rows_[from].get();
  std::memset(row, kFar, n);
  row[from] = 0;
  queue_.resize(n);
  uint32_t tail = 0;
  queue_[tail++] = from;
  for (uint32_t head = 0; head < tail; ++head) {
    const uint32_t s = queue_[head];
    if (row[s] >= kFar - 1) break;
    const uint8_t next = row[s] + 1;
    for (uint32_t a = topology_.arc_begin[s]; a < topology_.arc_begin[s + 1]; ++a) {
      const uint32_t to = topology_.arcs[a].to;
      if (row[to] != kFar) continue;
      row[to] = next;
      queue_[tail++] = to;
    }
  }
  return row;
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
