// All-to-all in n - 1 steps (plan/pairwise.hpp), straight between the user's buffers.
// Cost: (n - 1) (alpha / window + bytes beta).
#include "coll/plan/pairwise.hpp"

namespace weft::coll {

void alltoall_pairwise(Plan& plan, const Group& group, BufferRef send, BufferRef receive,
                       std::size_t bytes) {
  write_pairwise(
      plan, group,
      [&](int to) {
        return Block{send + index(to) * bytes, bytes};
      },
      [&](int from) {
        return Block{receive + index(from) * bytes, bytes};
      });
}

void alltoallv_pairwise(Plan& plan, const Group& group, BufferRef send,
                        const std::size_t* send_counts, const std::ptrdiff_t* send_displacements,
                        BufferRef receive, const std::size_t* receive_counts,
                        const std::ptrdiff_t* receive_displacements) {
  write_pairwise(
      plan, group,
      [&](int to) {
        return Block{send + static_cast<std::size_t>(send_displacements[to]), send_counts[to]};
      },
      [&](int from) {
        return Block{receive + static_cast<std::size_t>(receive_displacements[from]),
                     receive_counts[from]};
      });
}

}  // namespace weft::coll
