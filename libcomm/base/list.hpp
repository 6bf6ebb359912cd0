#pragma once
// A doubly linked list through its items' own `next` and `before`, so that it takes no memory. An
// item is in one list at a time.

namespace weft::transport {

template <class Item>
class List {
 public:
  bool empty() const { return first_ == nullptr; }
  Item* first() const { return first_; }
  Item* last() const { return last_; }
  void push_back(Item& item) {
    item.before = last_;
    item.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &item;
    last_ = &item;
  }
  void push_front(Item& item) {
    item.before = nullptr;
    item.next = first_;
    (first_ != nullptr ? first_->before : last_) = &item;
    first_ = &item;
  }
  void remove(Item& item) {
    (item.before != nullptr ? item.before->next : first_) = item.next;
    (item.next != nullptr ? item.next->before : last_) = item.before;
  }
  Item* pop_front() {
    Item* item = first_;
    if (item != nullptr) remove(*item);
    return item;
  }

 private:
  Item *first_ = nullptr, *last_ = nullptr;
};

}  // namespace weft::transport
