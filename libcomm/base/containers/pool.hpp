#pragma once
// Pool: items with fixed addresses that are taken and given back, and used again. One thread at a
// time.
#include <cstddef>
#include <deque>
#include <vector>

#include "base/shortage.hpp"

namespace weft {

template <class Item>
class Pool {
 public:
  // After it the next take() takes no memory, and no give_back() does.
  void make_room() {
    if (!free_.empty()) return;
    weft::make_room(free_, items_.size() + 1);
    free_.push_back(&items_.emplace_back());
  }
  // Returns an item as it was given back, or a new one.
  Item& take() noexcept {
    Item* item = free_.back();
    free_.pop_back();
    return *item;
  }
  void give_back(Item& item) noexcept { free_.push_back(&item); }
  std::size_t num_taken() const noexcept { return items_.size() - free_.size(); }
  // Those that are not taken, too.
  const std::deque<Item>& all() const noexcept { return items_; }

 private:
  std::deque<Item> items_;
  std::vector<Item*> free_;  // with capacity for all
};

}  // namespace weft
