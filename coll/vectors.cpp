// The collectives whose blocks differ in length. Mostly only the two sides of a block know how long
// it is, so everything goes as messages between those two, straight between the user's buffers.
#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "coll/algorithms.hpp"
#include "coll/two_level.hpp"

namespace weft::coll {

using Requests = std::vector<std::unique_ptr<tagged::Request>>;

namespace {

Status finish_all(Links& links, std::span<std::unique_ptr<tagged::Request>> requests) {
  Status status;
  for (auto& request : requests)
    if (Status done = links.finish(request); status && !done) status = done;
  return status;
}

}  // namespace

Status gatherv(Team& team, const void* send, std::size_t send_bytes, void* receive,
               const std::size_t* counts, const std::ptrdiff_t* displacements, int root) {
  if (team.size() > 1 && team.is_broken()) return Code::peer_lost;
  Links links(team, Collective::gather);
  if (team.rank() != root) return send_bytes == 0 ? Status() : links.send(send, send_bytes, root);
  Requests requests(index(team.size()));
  for (int r = 0; r < team.size(); ++r)
    if (r != root && counts[r] != 0)
      links.start_receive(requests[index(r)], at(receive, displacements[r]), counts[r], r);
  if (send != nullptr)
    copy_bytes(at(receive, displacements[root]), send, std::min(send_bytes, counts[root]));
  return finish_all(links, requests);
}

Status scatterv(Team& team, const void* send, const std::size_t* counts,
                const std::ptrdiff_t* displacements, void* receive, std::size_t receive_bytes,
                int root) {
  if (team.size() > 1 && team.is_broken()) return Code::peer_lost;
  Links links(team, Collective::scatter);
  if (team.rank() != root)
    return receive_bytes == 0 ? Status() : links.receive(receive, receive_bytes, root);
  Requests requests(index(team.size()));
  for (int r = 0; r < team.size(); ++r)
    if (r != root && counts[r] != 0)
      links.start_send(requests[index(r)], at(send, displacements[r]), counts[r], r);
  if (receive != nullptr)
    copy_bytes(receive, at(send, displacements[root]), std::min(receive_bytes, counts[root]));
  return finish_all(links, requests);
}

// Around a ring, as allgather_ring.
Status allgatherv(Team& team, const void* send, std::size_t send_bytes, void* receive,
                  const std::size_t* counts, const std::ptrdiff_t* displacements) {
  const int n = team.size(), me = team.rank();
  if (send != nullptr)
    copy_bytes(at(receive, displacements[me]), send, std::min(send_bytes, counts[me]));
  if (n == 1) return {};
  if (team.is_broken()) return Code::peer_lost;
  std::size_t total = 0;
  for (int r = 0; r < n; ++r) total += counts[r];
  if (total == 0) return {};
  if (team.hosts() != nullptr &&
      algorithm_for(team, Collective::allgather, total / index(n)) == Algorithm::two_level)
    return ended(team, two_level_allgatherv(team, receive, counts, displacements));
  Links links(team, Collective::allgather);
  for (int step = 0; step < n - 1; ++step) {
    const int out = (me - step + n) % n, in = (me - step - 1 + 2 * n) % n;
    std::array<std::unique_ptr<tagged::Request>, 2> requests;
    if (counts[in] != 0)
      links.start_receive(requests[0], at(receive, displacements[in]), counts[in],
                          (me - 1 + n) % n);
    if (counts[out] != 0)
      links.start_send(requests[1], at(receive, displacements[out]), counts[out], (me + 1) % n);
    WEFT_COLL_TRY(finish_all(links, requests));
  }
  return {};
}

Status alltoallv(Team& team, const void* send, const std::size_t* send_counts,
                 const std::ptrdiff_t* send_displacements, void* receive,
                 const std::size_t* receive_counts, const std::ptrdiff_t* receive_displacements) {
  const int n = team.size(), me = team.rank();
  if (n > 1 && team.is_broken()) return Code::peer_lost;
  std::vector<std::byte> held;
  std::vector<std::ptrdiff_t> held_displacements;
  if (send == nullptr) {
    // In place: what is there goes out, packed, before it is overwritten.
    std::size_t total = 0;
    for (int r = 0; r < n; ++r) {
      held_displacements.push_back(static_cast<std::ptrdiff_t>(total));
      total += receive_counts[r];
    }
    held.resize(total);
    for (int r = 0; r < n; ++r)
      copy_bytes(at(held.data(), held_displacements[index(r)]),
                 at(receive, receive_displacements[r]), receive_counts[r]);
    send = held.data();
    send_counts = receive_counts;
    send_displacements = held_displacements.data();
  }
  Links links(team, Collective::alltoall);
  copy_bytes(at(receive, receive_displacements[me]), at(send, send_displacements[me]),
             std::min(send_counts[me], receive_counts[me]));
  // As alltoall_pairwise: some steps are under way at a time.
  constexpr int kWindow = static_cast<int>(kMostUnderWay) / 2;
  std::array<std::unique_ptr<tagged::Request>, kWindow> receiving, sending;
  Status status;
  for (int step = 1; step < n + kWindow; ++step) {
    const std::size_t slot = index(step % kWindow);
    const Status received = links.finish(receiving[slot]);
    const Status sent = links.finish(sending[slot]);
    if (status) status = received ? sent : received;
    if (step >= n || !status) continue;
    const int to = (me + step) % n, from = (me - step + n) % n;
    if (receive_counts[from] != 0)
      links.start_receive(receiving[slot], at(receive, receive_displacements[from]),
                          receive_counts[from], from);
    if (send_counts[to] != 0)
      links.start_send(sending[slot], at(send, send_displacements[to]), send_counts[to], to);
  }
  return status;
}

}  // namespace weft::coll
