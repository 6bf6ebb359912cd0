#include "coll/algorithms/algorithms.hpp"
#include "coll/offload/offload.hpp"

namespace weft::offload {

namespace {
// All leaders' vectors up to so many bytes go to each of them, which takes log2 of their number of
// steps one after the other.
constexpr std::size_t kMostGathered = 16 * 1024;
}  // namespace

SumOp::SumOp(innet::Element element, innet::Operation operation) noexcept
    : reduce_(innet::find_reduce(element, operation)) {
  reduction_.apply = [](const void* in, void* inout, std::size_t count, void* argument) {
    const auto* self = static_cast<const SumOp*>(argument);
    self->reduce_(static_cast<const std::byte*>(in), static_cast<std::byte*>(inout), count);
  };
  reduction_.argument = this;
  reduction_.element_bytes = innet::element_bytes(element);
  reduction_.element = element;
  reduction_.operation = operation;
}

void write_sum_steps(coll::Plan& plan, const coll::Group& leaders, std::size_t count,
                     std::size_t unit, const SumOrder& order) {
  const int n = leaders.size, me = leaders.rank;
  if (n == 1 || count == 0) return;
  if (const std::size_t bytes = count * unit; coll::index(n) * bytes <= kMostGathered) {
    const coll::BufferRef all = plan.scratch(coll::index(n) * bytes);
    const auto vector = [&](int r) { return all + coll::index(r) * bytes; };
    plan.copy(vector(leaders.rank), coll::kOutput, bytes);
    coll::allgather_circulant(plan, leaders, all, bytes);
    plan.wait_all();
    for (const SumStep& step : order) plan.reduce(vector(step.from), vector(step.to), count);
    return plan.copy(coll::kOutput, vector(0), bytes);
  }
  // Each leader receives all leaders' shares of its part, sums them, and sends the sum to all.
  std::vector<std::size_t> bytes(coll::index(n)), theirs(coll::index(n));
  std::vector<std::ptrdiff_t> places(coll::index(n)), slots(coll::index(n));
  const auto begin = [&](int r) { return coll::part_begin(count, n, r) * unit; };
  const std::size_t mine = begin(me + 1) - begin(me);
  for (int r = 0; r < n; ++r) {
    bytes[coll::index(r)] = begin(r + 1) - begin(r);
    places[coll::index(r)] = static_cast<std::ptrdiff_t>(begin(r));
    theirs[coll::index(r)] = mine;
    slots[coll::index(r)] = static_cast<std::ptrdiff_t>(coll::index(r) * mine);
  }
  const coll::BufferRef room = plan.scratch(coll::index(n) * mine);
  coll::alltoallv_pairwise(plan, leaders, coll::kOutput, bytes.data(), places.data(), room,
                           theirs.data(), slots.data());
  plan.wait_all();
  const auto block = [&](int r) { return room + coll::index(r) * mine; };
  for (const SumStep& step : order) plan.reduce(block(step.from), block(step.to), mine / unit);
  plan.copy(coll::kOutput + begin(me), block(0), mine);
  coll::write_allgatherv(plan, leaders, coll::kOutput, bytes.data(), places.data());
  plan.wait_all();
}

}  // namespace weft::offload
