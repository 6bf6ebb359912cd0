// All-to-all in n - 1 steps: in step k everyone sends to the member k places on and receives from
// the one k places back, straight between the user's buffers. Some steps are under way at a time,
// so that no link waits for the slowest of a step. Cost: (n - 1) (alpha / window + bytes beta).
#include <array>

#include "coll/algorithms.hpp"

namespace weft::coll {
namespace {

constexpr int kWindow = 8;

// block(member) is {its place, its length} in what is sent or received; nothing is sent of an empty
// one.
template <class Out, class In>
void pairwise(Plan& plan, const Group& group, const Out& out, const In& in) {
  const int n = group.size, me = group.rank;
  const auto [own, own_bytes] = out(me);
  const auto [own_place, own_room] = in(me);
  plan.copy(own_place, own, own_bytes < own_room ? own_bytes : own_room);
  std::array<int, kWindow> received, sent;
  received.fill(Plan::kNone);
  sent.fill(Plan::kNone);
  for (int step = 1; step < n; ++step) {
    const int to = (me + step) % n, from = (me - step + n) % n;
    int& last_received = received[index(step % kWindow)];
    int& last_sent = sent[index(step % kWindow)];
    const int before[] = {last_received, last_sent};
    if (const auto [place, bytes] = in(from); bytes != 0)
      last_received = plan.receive(group.team_rank(from), place, bytes, before[0], before[1]);
    if (const auto [place, bytes] = out(to); bytes != 0)
      last_sent = plan.send(group.team_rank(to), place, bytes, before[0], before[1]);
  }
}

struct Block {
  Place place;
  std::size_t bytes;
};

}  // namespace

void alltoall_pairwise(Plan& plan, const Group& group, Place send, Place receive,
                       std::size_t bytes) {
  pairwise(
      plan, group,
      [&](int to) {
        return Block{send + index(to) * bytes, bytes};
      },
      [&](int from) {
        return Block{receive + index(from) * bytes, bytes};
      });
}

void alltoallv_pairwise(Plan& plan, const Group& group, Place send, const std::size_t* send_counts,
                        const std::ptrdiff_t* send_displacements, Place receive,
                        const std::size_t* receive_counts,
                        const std::ptrdiff_t* receive_displacements) {
  pairwise(
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
