#include "weft/graph/row_cache.hpp"

#include <tbb/concurrent_unordered_map.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace weft::graph {
namespace {

constexpr std::uint64_t kSafeRounds = 4;

}  // namespace

struct RowCache::Impl {
  struct Entry {
    Entry(Row kept, std::uint64_t came) : row(std::move(kept)), round(came) {}
    Row row;
    std::uint64_t round;                     // in which it came
    std::atomic<std::uint64_t> num_hits{0};  // by any thread, relaxed: it only ranks rows
  };
  tbb::concurrent_unordered_map<VertexId, std::unique_ptr<Entry>> entries;
  std::uint64_t round = 0;
};

RowCache::RowCache() : impl_(std::make_unique<Impl>()) {}
RowCache::~RowCache() = default;

const RowCache::Row* RowCache::find(VertexId vertex) {
  const auto found = impl_->entries.find(vertex);
  if (found == impl_->entries.end()) return nullptr;
  found->second->num_hits.fetch_add(1, std::memory_order_relaxed);
  return &found->second->row;
}

const RowCache::Row* RowCache::insert(VertexId vertex, Row row) {
  auto entry = std::make_unique<Impl::Entry>(std::move(row), impl_->round);
  return &impl_->entries.emplace(vertex, std::move(entry)).first->second->row;
}

// The paper's algorithm 4 scans the cache once for every number of hits; one sort gives the same
// order.
void RowCache::end_round(std::size_t max_rows) {
  ++impl_->round;
  auto& entries = impl_->entries;
  if (entries.size() <= max_rows) return;
  std::vector<std::pair<std::uint64_t, VertexId>> old;  // hits and vertex
  for (const auto& [vertex, entry] : entries)
    if (impl_->round - entry->round > kSafeRounds)
      old.emplace_back(entry->num_hits.load(std::memory_order_relaxed), vertex);
  const std::size_t num_dropped = std::min(old.size(), entries.size() - max_rows);
  std::sort(old.begin(), old.end());
  // Eviction is not safe beside readers, so it runs between rounds.
  for (std::size_t i = 0; i < num_dropped; ++i) entries.unsafe_erase(old[i].second);
}

std::size_t RowCache::size() const { return impl_->entries.size(); }

}  // namespace weft::graph
