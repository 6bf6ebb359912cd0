#include "vertex_blocks.hpp"

#include <algorithm>
#include <atomic>

#include "graph/common/agree.hpp"

namespace weft::graph {
namespace {

// The owner itself takes its last block: it is there before another rank has read the rows.
constexpr std::uint32_t kLeft = 1;

}  // namespace

VertexBlocks::VertexBlocks(const Graph& graph) : graph_(graph), words_(&graph.job(), 2) {
  if (graph.job().size() > 1) throw_if(graph.job().all_gather(words_.remote(), remotes_));
}

std::uint32_t VertexBlocks::num_blocks(int rank) const noexcept {
  const auto r = static_cast<std::size_t>(rank);
  const std::uint64_t first = graph_.cut()[r], last = graph_.cut()[r + 1];
  return first == last ? 0 : static_cast<std::uint32_t>((last - 1) / kSize - first / kSize + 1);
}

VertexBlock VertexBlocks::block_of(int rank, std::uint32_t number) const noexcept {
  const auto r = static_cast<std::size_t>(rank);
  const std::uint64_t first = graph_.cut()[r], last = graph_.cut()[r + 1];
  const std::uint64_t begin = (first / kSize + number) * kSize;
  return {rank, static_cast<VertexId>(std::max(first, begin)),
          static_cast<VertexId>(std::min(last, begin + kSize))};
}

void VertexBlocks::open() noexcept {
  ++phase_;
  std::atomic_ref(words_[phase_ % 2])
      .store(TaskRange::open(num_blocks(graph_.job().rank())), std::memory_order_seq_cst);
}

bool VertexBlocks::take_own(VertexBlock& block) noexcept {
  const std::uint64_t found = std::atomic_ref(words_[phase_ % 2])
                                  .fetch_add(TaskRange::from_front(1), std::memory_order_seq_cst);
  const TaskClaim claim = TaskRange::took_front(found, 1);
  if (claim.begin == claim.end) return false;
  block = block_of(graph_.job().rank(), claim.begin);
  return true;
}

Code VertexBlocks::take_from(int distance, int thread, VertexBlock& block) noexcept {
  transport::Job& job = graph_.job();
  const int victim = (job.rank() + distance) % job.size();
  const transport::RemoteMemory word =
      remotes_[static_cast<std::size_t>(victim)].part(phase_ % 2 * sizeof(std::uint64_t), 8);
  // A word that others change is read by an operation that is atomic against theirs.
  const transport::Fetched found = job.fetch_add(thread, word, 0);
  if (found.code != Code::ok || TaskRange::num_left(found.value) <= kLeft) return found.code;
  const transport::Fetched fetched = job.fetch_add(thread, word, TaskRange::from_back(1));
  if (fetched.code != Code::ok) return fetched.code;
  const TaskClaim claim = TaskRange::took_back(fetched.value, 1);
  if (claim.begin != claim.end) block = block_of(victim, claim.begin);
  return Code::ok;
}

}  // namespace weft::graph
