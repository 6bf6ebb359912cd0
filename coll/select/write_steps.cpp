// Writes the steps of a collective by the algorithm's name.
#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>

#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {
namespace {

// Neither the table nor the settings give a collective an algorithm that it does not have.
[[noreturn]] void fail_unknown(Collective collective, Algorithm algorithm) {
  fmt::print(stderr, "weft: {} has no algorithm {}\n", name(collective), name(algorithm));
  std::abort();
}

}  // namespace

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
    case Algorithm::binomial:
      return bcast_binomial(plan, group, data, bytes, root);
    default:
      fail_unknown(Collective::bcast, algorithm);
  }
}

void write_reduce(Algorithm algorithm, Plan& plan, const Group& group, BufferRef input,
                  BufferRef output, Vector vector, bool commutative, int root) {
  switch (algorithm) {
    case Algorithm::rabenseifner:
      return reduce_rabenseifner(plan, group, input, output, vector, root);
    case Algorithm::circulant:
      return reduce_circulant(plan, group, input, output, vector, root);
    case Algorithm::binomial:
      return reduce_binomial(plan, group, input, output, vector, commutative, root);
    default:
      fail_unknown(Collective::reduce, algorithm);
  }
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
    case Algorithm::recursive_doubling:
      return allreduce_recursive_doubling(plan, group, data, vector);
    default:
      fail_unknown(Collective::allreduce, algorithm);
  }
}

void write_reduce_scatter(Algorithm algorithm, Plan& plan, const Group& group, BufferRef input,
                          BufferRef output, const std::size_t* counts, std::size_t unit) {
  switch (algorithm) {
    case Algorithm::circulant:
      return reduce_scatter_circulant(plan, group, input, output, counts, unit);
    case Algorithm::pairwise:
      return reduce_scatter_pairwise(plan, group, input, output, counts, unit);
    case Algorithm::binomial:
      return reduce_scatter_binomial(plan, group, input, output, counts, unit);
    default:
      fail_unknown(Collective::reduce_scatter, algorithm);
  }
}

void write_gather(Algorithm algorithm, Plan& plan, const Group& group, BufferRef send,
                  BufferRef receive, std::size_t bytes, int root) {
  switch (algorithm) {
    case Algorithm::linear:
      return gather_linear(plan, group, send, receive, bytes, root);
    case Algorithm::binomial:
      return gather_binomial(plan, group, send, receive, bytes, root);
    default:
      fail_unknown(Collective::gather, algorithm);
  }
}

void write_scatter(Algorithm algorithm, Plan& plan, const Group& group, BufferRef send,
                   BufferRef receive, std::size_t bytes, int root) {
  switch (algorithm) {
    case Algorithm::linear:
      return scatter_linear(plan, group, send, receive, bytes, root);
    case Algorithm::binomial:
      return scatter_binomial(plan, group, send, receive, bytes, root);
    default:
      fail_unknown(Collective::scatter, algorithm);
  }
}

void write_allgather(Algorithm algorithm, Plan& plan, const Group& group, BufferRef blocks,
                     std::size_t bytes) {
  switch (algorithm) {
    case Algorithm::ring:
      return allgather_ring(plan, group, blocks, bytes);
    case Algorithm::circulant:
      return allgather_circulant(plan, group, blocks, bytes);
    default:
      fail_unknown(Collective::allgather, algorithm);
  }
}

Algorithm allgatherv_algorithm(std::size_t total) noexcept {
  // Longer data are not worth the copies.
  constexpr std::size_t kMostCopied = 256 * 1024;
  return total <= kMostCopied ? Algorithm::circulant : Algorithm::ring;
}

void write_allgatherv(Plan& plan, const Group& group, BufferRef blocks, const std::size_t* counts,
                      const std::ptrdiff_t* displacements) {
  std::size_t total = 0;
  for (int m = 0; m < group.size; ++m) total += counts[m];
  const auto write =
      allgatherv_algorithm(total) == Algorithm::circulant ? allgatherv_circulant : allgatherv_ring;
  write(plan, group, blocks, counts, displacements);
}

void write_alltoall(Algorithm algorithm, Plan& plan, const Group& group, BufferRef send,
                    BufferRef receive, std::size_t bytes) {
  switch (algorithm) {
    case Algorithm::bruck:
      return alltoall_bruck(plan, group, send, receive, bytes);
    case Algorithm::pairwise:
      return alltoall_pairwise(plan, group, send, receive, bytes);
    default:
      fail_unknown(Collective::alltoall, algorithm);
  }
}

void write_scan(Algorithm algorithm, Plan& plan, const Group& group, BufferRef data, Vector vector,
                bool exclusive) {
  switch (algorithm) {
    case Algorithm::pairwise:
      return scan_pairwise(plan, group, data, vector, exclusive);
    case Algorithm::recursive_doubling:
      return scan_recursive_doubling(plan, group, data, vector, exclusive);
    default:
      fail_unknown(Collective::scan, algorithm);
  }
}

}  // namespace weft::coll
