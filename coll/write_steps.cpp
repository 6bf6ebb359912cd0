// The steps of a collective by the algorithm of that name.
#include "coll/algorithms.hpp"

namespace weft::coll {

void write_bcast(Algorithm algorithm, Plan& plan, const Group& group, Place data, std::size_t bytes,
                 int root) {
  switch (algorithm) {
    case Algorithm::chain:
      return bcast_chain(plan, group, data, bytes, root);
    case Algorithm::pipeline:
      return bcast_pipeline(plan, group, data, bytes, root);
    case Algorithm::scatter_allgather:
      return bcast_scatter_allgather(plan, group, data, bytes, root);
    default:
      return bcast_binomial(plan, group, data, bytes, root);
  }
}

void write_reduce(Algorithm algorithm, Plan& plan, const Group& group, Place input, Place output,
                  Vector vector, bool commutative, int root) {
  if (algorithm == Algorithm::rabenseifner)
    return reduce_rabenseifner(plan, group, input, output, vector, root);
  reduce_binomial(plan, group, input, output, vector, commutative, root);
}

void write_allreduce(Algorithm algorithm, Plan& plan, const Group& group, Place data,
                     Vector vector) {
  switch (algorithm) {
    case Algorithm::ring:
      return allreduce_ring(plan, group, data, vector);
    case Algorithm::rabenseifner:
      return allreduce_rabenseifner(plan, group, data, vector);
    default:
      return allreduce_recursive_doubling(plan, group, data, vector);
  }
}

void write_reduce_scatter(Algorithm algorithm, Plan& plan, const Group& group, Place input,
                          Place output, const std::size_t* counts, std::size_t unit) {
  switch (algorithm) {
    case Algorithm::recursive_halving:
      return reduce_scatter_halving(plan, group, input, output, counts, unit);
    case Algorithm::pairwise:
      return reduce_scatter_pairwise(plan, group, input, output, counts, unit);
    default:
      return reduce_scatter_binomial(plan, group, input, output, counts, unit);
  }
}

void write_gather(Algorithm algorithm, Plan& plan, const Group& group, Place send, Place receive,
                  std::size_t bytes, int root) {
  if (algorithm == Algorithm::linear) return gather_linear(plan, group, send, receive, bytes, root);
  gather_binomial(plan, group, send, receive, bytes, root);
}

void write_scatter(Algorithm algorithm, Plan& plan, const Group& group, Place send, Place receive,
                   std::size_t bytes, int root) {
  if (algorithm == Algorithm::linear)
    return scatter_linear(plan, group, send, receive, bytes, root);
  scatter_binomial(plan, group, send, receive, bytes, root);
}

void write_allgather(Algorithm algorithm, Plan& plan, const Group& group, Place blocks,
                     std::size_t bytes) {
  switch (algorithm) {
    case Algorithm::recursive_doubling:
      return allgather_recursive_doubling(plan, group, blocks, bytes);
    case Algorithm::bruck:
      return allgather_bruck(plan, group, blocks, bytes);
    default:
      return allgather_ring(plan, group, blocks, bytes);
  }
}

void write_alltoall(Algorithm algorithm, Plan& plan, const Group& group, Place send, Place receive,
                    std::size_t bytes) {
  if (algorithm == Algorithm::bruck) return alltoall_bruck(plan, group, send, receive, bytes);
  alltoall_pairwise(plan, group, send, receive, bytes);
}

}  // namespace weft::coll
