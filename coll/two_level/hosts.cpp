#include "coll/two_level/hosts.hpp"

#include "coll/plan/links.hpp"

namespace weft::coll {

bool fits_scratch(const Placement& hosts, Collective collective, std::size_t bytes) noexcept {
  const std::size_t n = index(hosts.begin(hosts.size()));
  std::size_t blocks = 0;
  switch (collective) {
    case Collective::gather:
    case Collective::scatter:
    case Collective::allgather:
      blocks = n;
      break;
    case Collective::alltoall:
      blocks = 3 * n * index(hosts.largest());
      break;
    case Collective::reduce_scatter:
      blocks = 4;
      break;
    default:
      break;
  }
  return blocks == 0 || bytes <= kMostScratchBytes / blocks;
}

Situation situation_of(const Placement* hosts, Collective collective, int size, std::size_t bytes,
                       bool is_local, bool commutative) noexcept {
  // A prefix is a reduction in rank order, whatever the operation.
  const bool needs_order = !commutative || collective == Collective::scan;
  const bool shared_hosts = hosts != nullptr && (!needs_order || hosts->is_in_order()) &&
                            fits_scratch(*hosts, collective, bytes);
  return {size, bytes, is_local, commutative, shared_hosts};
}

Hosts::Hosts(Team& parent, std::size_t most)
    : parent_(parent), inside_(parent, most), across_(parent, most) {
  reserve(most, index(parent.engine().size()));
  worlds_.reserve(most);
  for (auto* each : {&counts, &member_counts}) each->reserve(most);
  for (auto* each : {&displacements, &member_displacements}) each->reserve(most);
}

void Hosts::assign() noexcept {
  const Members& job = parent_.engine().job();
  Placement::assign(parent_.rank(), parent_.size(),
                    [&](int member) { return job.member(parent_.world(member)).first_on_host; });
  counts.resize(index(size()));
  displacements.resize(index(size()));
  worlds_.clear();
  for (int h = 0; h < size(); ++h) worlds_.push_back(parent_.world(leader_of(h)));
  across_.assign(worlds_, parent_.context(), mine());
  worlds_.clear();
  for (int i = begin(mine()); i < begin(mine() + 1); ++i)
    worlds_.push_back(parent_.world(member(i)));
  inside_.assign(worlds_, parent_.context(), local_rank(parent_.rank()));
  led_by_root_ = -1;
}

bool Hosts::lead(int root) noexcept {
  const bool leads = Placement::lead(root);
  const auto update = [&](int host) {
    if (host >= 0) across_.replace(host, parent_.world(leader_of(host)));
  };
  update(led_by_root_);
  led_by_root_ = root >= 0 ? host(root) : -1;
  update(led_by_root_);
  return leads;
}

bool Hosts::make_room(std::size_t bytes) {
  const std::size_t most = 2 * round_up_line(bytes);
  if (inside_.rank() == leader() && !across_.make_scratch(most)) return false;
  return inside_.size() == 1 || inside_.shm() != nullptr || inside_.make_scratch(most);
}

void Hosts::lay_out(std::size_t bytes) noexcept {
  for (int h = 0; h < size(); ++h) {
    counts[index(h)] = index(size(h)) * bytes;
    displacements[index(h)] = static_cast<std::ptrdiff_t>(index(begin(h)) * bytes);
  }
}

void Hosts::take_layout(const std::size_t* all_counts,
                        const std::ptrdiff_t* all_displacements) noexcept {
  member_counts.clear();
  member_displacements.clear();
  for (int i = begin(mine()); i < begin(mine() + 1); ++i) {
    member_counts.push_back(all_counts[member(i)]);
    member_displacements.push_back(all_displacements[member(i)]);
  }
}

}  // namespace weft::coll
