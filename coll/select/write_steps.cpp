// Writes the steps of a collective by the algorithm's name.
#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {

void write_bcast(Algorithm algorithm, Plan& plan, const Group& group, BufferRef data,
                 std::size_t bytes, int root) {
  switch (algorithm) {
    case Algorithm::chain:
      return bcast_chain(plan, group, data, bytes, root);
    case Algorithm::pipeline:
      return bcast_pipeline(plan, group, data, bytes, root);
    case Algorithm::two_trees:
      return bcast_two_trees(plan, group, data, bytes, root);
    case Algorithm::scatter_allgather:
      return bcast_scatter_allgather(plan, group, data, bytes, root);
    default:
      return bcast_binomial(plan, group, data, bytes, root);
  }
}

void write_reduce(Algorithm algorithm, Plan& plan, const Group& group, BufferRef input,
                  BufferRef output, Vector vector, bool commutative, int root) {
  if (algorithm == Algorithm::rabenseifner)
    return reduce_rabenseifner(plan, group, input, output, vector, root);
  if (algorithm == Algorithm::circulant)
    return reduce_circulant(plan, group, input, output, vector, root);
  reduce_binomial(plan, group, input, output, vector, commutative, root);
}

void write_allreduce(Algorithm algorithm, Plan& plan, const Group& group, BufferRef data,
                     Vector vector) {
  switch (algorithm) {
    case Algorithm::circulant:
      return allreduce_circulant(plan, group, data, vector);
    case Algorithm::ring:
      return allreduce_ring(plan, group, data, vector);
    case Algorithm::rabenseifner:
      return allreduce_rabenseifner(plan, group, data, vector);
    default:
      return allreduce_recursive_doubling(plan, group, data, vector);
  }
}

void write_reduce_scatter(Algorithm algorithm, Plan& plan, const Group& group, BufferRef input,
                          BufferRef output, const std::size_t* counts, std::size_t unit) {
  switch (algorithm) {
    case Algorithm::circulant:
      return reduce_scatter_circulant(plan, group, input, output, counts, unit);
    case Algorithm::pairwise:
      return reduce_scatter_pairwise(plan, group, input, output, counts, unit);
    default:
      return reduce_scatter_binomial(plan, group, input, output, counts, unit);
  }
}

void write_gather(Algorithm algorithm, Plan& plan, const Group& group, BufferRef send,
                  BufferRef receive, std::size_t bytes, int root) {
  if (algorithm == Algorithm::linear) return gather_linear(plan, group, send, receive, bytes, root);
  gather_binomial(plan, group, send, receive, bytes, root);
}

void write_scatter(Algorithm algorithm, Plan& plan, const Group& group, BufferRef send,
                   BufferRef receive, std::size_t bytes, int root) {
  if (algorithm == Algorithm::linear)
    return scatter_linear(plan, group, send, receive, bytes, root);
  scatter_binomial(plan, group, send, receive, bytes, root);
}

void write_allgather(Algorithm algorithm, Plan& plan, const Group& group, BufferRef blocks,
                     std::size_t bytes) {
  if (algorithm == Algorithm::ring) return allgather_ring(plan, group, blocks, bytes);
  allgather_circulant(plan, group, blocks, bytes);
}

void write_allgatherv(Plan& plan, const Group& group, BufferRef blocks, const std::size_t* counts,
                      const std::ptrdiff_t* displacements) {
  // Longer data are not worth the copies.
  constexpr std::size_t kMostCopied = 256 * 1024;
  std::size_t total = 0;
  for (int m = 0; m < group.size; ++m) total += counts[m];
  const auto write = total <= kMostCopied ? allgatherv_circulant : allgatherv_ring;
  write(plan, group, blocks, counts, displacements);
}

void write_alltoall(Algorithm algorithm, Plan& plan, const Group& group, BufferRef send,
                    BufferRef receive, std::size_t bytes) {
  if (algorithm == Algorithm::bruck) return alltoall_bruck(plan, group, send, receive, bytes);
  alltoall_pairwise(plan, group, send, receive, bytes);
}

void write_scan(Algorithm algorithm, Plan& plan, const Group& group, BufferRef data, Vector vector,
                bool exclusive) {
  if (algorithm == Algorithm::pairwise) return scan_pairwise(plan, group, data, vector, exclusive);
  scan_recursive_doubling(plan, group, data, vector, exclusive);
}

}  // namespace weft::coll
