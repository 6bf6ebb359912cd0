#include "coll/hosts.hpp"

#include <algorithm>

#include "coll/links.hpp"

namespace weft::coll {

Hosts::Hosts(Team& whole, std::size_t most)
    : whole_(whole),
      inside_(whole, most),
      across_(whole, most),
      number_of_(index(whole.engine().size()), -1) {
  for (auto* each : {&host_of_, &place_of_, &order_, &worlds_}) each->reserve(most);
  begin_.reserve(most + 1);
  for (auto* each : {&counts, &member_counts}) each->reserve(most);
  for (auto* each : {&displacements, &member_displacements}) each->reserve(most);
}

void Hosts::assign() noexcept {
  const Job& job = whole_.engine().job();
  const int n = whole_.size();
  const auto first_on_host = [&](int member) {
    return index(job.member(whole_.world(member)).first_on_host);
  };
  host_of_.resize(index(n));
  place_of_.resize(index(n));
  order_.resize(index(n));
  worlds_.clear();  // of the hosts' first members
  begin_.assign(1, 0);
  for (int m = 0; m < n; ++m) {
    int& number = number_of_[first_on_host(m)];
    if (number < 0) {
      number = static_cast<int>(worlds_.size());
      worlds_.push_back(whole_.world(m));
      begin_.push_back(0);
    }
    host_of_[index(m)] = number;
    place_of_[index(m)] = begin_[index(number) + 1]++;
  }
  for (int m = 0; m < n; ++m) number_of_[first_on_host(m)] = -1;
  even_ =
      std::all_of(begin_.begin() + 1, begin_.end(), [&](int size) { return size == begin_[1]; });
  for (std::size_t h = 1; h < begin_.size(); ++h) begin_[h] += begin_[h - 1];
  for (int m = 0; m < n; ++m) order_[index(begin(host(m)) + place(m))] = m;
  in_order_ = std::is_sorted(order_.begin(), order_.end());
  counts.resize(index(size()));
  displacements.resize(index(size()));

  mine_ = host(whole_.rank());
  across_.assign(worlds_, whole_.context(), mine_);
  worlds_.clear();
  for (int i = begin(mine_); i < begin(mine_ + 1); ++i) worlds_.push_back(whole_.world(member(i)));
  inside_.assign(worlds_, whole_.context(), place(whole_.rank()));
  leader_ = 0;
  led_by_root_ = -1;
}

bool Hosts::lead(int root) noexcept {
  if (led_by_root_ >= 0) across_.replace(led_by_root_, whole_.world(member(begin(led_by_root_))));
  led_by_root_ = root >= 0 ? host(root) : -1;
  if (led_by_root_ >= 0) across_.replace(led_by_root_, whole_.world(root));
  leader_ = led_by_root_ == mine_ ? place(root) : 0;
  return inside_.rank() == leader_;
}

bool Hosts::make_room(std::size_t bytes) {
  const std::size_t most = 2 * round_up_line(bytes);
  if (inside_.rank() == leader_ && across_.scratch(most) == nullptr) return false;
  return inside_.size() == 1 || inside_.shm() != nullptr || inside_.scratch(most) != nullptr;
}

void Hosts::lay_out(std::size_t bytes) noexcept {
  for (int h = 0; h < size(); ++h) {
    counts[index(h)] = index(size(h)) * bytes;
    displacements[index(h)] = static_cast<std::ptrdiff_t>(index(begin(h)) * bytes);
  }
}

}  // namespace weft::coll
