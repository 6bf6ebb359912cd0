#include "coll/two_level/placement.hpp"

#include <algorithm>

#include "coll/plan/links.hpp"

namespace weft::coll {

void Placement::reserve(std::size_t most, std::size_t num_names) {
  for (auto* each : {&names_, &host_of_, &local_rank_of_, &order_, &leaders_}) each->reserve(most);
  begin_.reserve(most + 1);
  number_of_.assign(num_names, -1);
}

void Placement::arrange(int rank) noexcept {
  const int n = static_cast<int>(names_.size());
  const auto name = [&](int member) { return index(names_[index(member)]); };
  host_of_.resize(index(n));
  local_rank_of_.resize(index(n));
  order_.resize(index(n));
  begin_.assign(1, 0);
  for (int m = 0; m < n; ++m) {
    int& number = number_of_[name(m)];
    if (number < 0) {
      number = size();
      begin_.push_back(0);
    }
    host_of_[index(m)] = number;
    local_rank_of_[index(m)] = begin_[index(number) + 1]++;
  }
  for (int m = 0; m < n; ++m) number_of_[name(m)] = -1;
  const auto [smallest, largest] = std::minmax_element(begin_.begin() + 1, begin_.end());
  smallest_ = *smallest;
  largest_ = *largest;
  for (std::size_t h = 1; h < begin_.size(); ++h) begin_[h] += begin_[h - 1];
  for (int m = 0; m < n; ++m) order_[index(begin(host(m)) + local_rank(m))] = m;
  in_order_ = std::is_sorted(order_.begin(), order_.end());
  leaders_.clear();
  for (int h = 0; h < size(); ++h) leaders_.push_back(member(begin(h)));
  mine_ = host(rank);
  local_rank_ = local_rank(rank);
  leader_ = 0;
  led_by_root_ = -1;
}

bool Placement::lead(int root) noexcept {
  if (led_by_root_ >= 0) leaders_[index(led_by_root_)] = member(begin(led_by_root_));
  led_by_root_ = root >= 0 ? host(root) : -1;
  if (led_by_root_ >= 0) leaders_[index(led_by_root_)] = root;
  leader_ = led_by_root_ == mine_ ? local_rank(root) : 0;
  return local_rank_ == leader_;
}

}  // namespace weft::coll
