#pragma once
// A doubly linked list through its items' own `next` and `before`, or two other members, so that it
// takes no memory. An item is in one list by these at a time.

namespace weft {

template <class Item, auto kNext = &Item::next, auto kBefore = &Item::before>
class List {
 public:
  bool empty() const { return first_ == nullptr; }
  Item* first() const { return first_; }
  Item* last() const { return last_; }
  void push_back(Item& item) {
    Item* const last = last_;
    item.*kBefore = last;
    item.*kNext = nullptr;
    (last != nullptr ? last->*kNext : first_) = &item;
    last_ = &item;
  }
  void push_front(Item& item) {
    item.*kBefore = nullptr;
    item.*kNext = first_;
    (first_ != nullptr ? first_->*kBefore : last_) = &item;
    first_ = &item;
  }
  void remove(Item& item) {
    // Read first, as the compiler cannot know that neither changes meanwhile.
    Item *const before = item.*kBefore, *const next = item.*kNext;
    (before != nullptr ? before->*kNext : first_) = next;
    (next != nullptr ? next->*kBefore : last_) = before;
  }
  Item* pop_front() {
    Item* item = first_;
    if (item != nullptr) remove(*item);
    return item;
  }
  // Calls f(item) for each, in their order; f may remove that one.
  template <class F>
  void for_each(F&& f) {
    for (Item* item = first_; item != nullptr;) {
      Item& one = *item;
      item = one.*kNext;
      f(one);
    }
  }

 private:
  Item *first_ = nullptr, *last_ = nullptr;
};

}  // namespace weft
