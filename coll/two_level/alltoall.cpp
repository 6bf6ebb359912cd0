// All-to-all of short blocks over hosts: each host's members send all their blocks to their leader,
// which sends one message to each other host, and distributes the arriving blocks. With h hosts of
// k members h - 1 messages leave a host instead of k k (h - 1), at the price of copying every block
// four times.
#include "coll/two_level/two_level.hpp"

namespace weft::coll {

Status two_level_alltoall(Team& team, const void* send, void* receive, std::size_t bytes) {
  Hosts& hosts = *team.hosts();
  Team& inside = hosts.inside();
  const bool leads = hosts.lead();
  const int n = team.size(), k = inside.size();
  const std::size_t row = index(n) * bytes, all = round_up_line(index(k) * row);
  // rows: what each member of this host sends, later what each receives; out and in: ordered by
  // host.
  std::byte *rows = nullptr, *out = nullptr, *in = nullptr;
  if (leads) {
    rows = team.scratch(3 * all);
    if (rows == nullptr) return Code::no_memory;
    out = rows + all;
    in = out + all;
  }
  WEFT_COLL_TRY(gather(inside, send, rows, row, hosts.leader()));
  if (leads) {
    // The data for a host: for each member there, a block of each member here.
    std::size_t next = 0;
    for (int i = 0; i < n; ++i)
      for (int from = 0; from < k; ++from, next += bytes)
        copy_bytes(out + next, rows + index(from) * row + index(hosts.member(i)) * bytes, bytes);
    hosts.lay_out(index(k) * bytes);
    WEFT_COLL_TRY(hosts.is_even() ? alltoall(hosts.across(), out, in, hosts.counts[0])
                                  : alltoallv(hosts.across(), out, hosts.counts.data(),
                                              hosts.displacements.data(), in, hosts.counts.data(),
                                              hosts.displacements.data()));
    // The data from a host: for each member here, a block of each member there.
    next = 0;
    for (int h = 0; h < hosts.size(); ++h)
      for (int to = 0; to < k; ++to)
        for (int i = hosts.begin(h); i < hosts.begin(h + 1); ++i, next += bytes)
          copy_bytes(rows + index(to) * row + index(hosts.member(i)) * bytes, in + next, bytes);
  }
  return scatter(inside, rows, receive, row, hosts.leader());
}

}  // namespace weft::coll
