#pragma once
// Slots: things that others name by a number. Its lower half is the thing's place, and its upper
// half, never 0, distinguishes successive users of the place, so that the number of a thing that is
// gone finds nothing. One thread at a time.
//
// Tests: tests/base/slots_test.cpp.
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/shortage.hpp"

namespace weft {

template <class Thing, class Number = std::uint32_t>
class Slots {
 public:
  // After it the next add() takes no memory, and no remove() does.
  void make_room() {
    if (!free_.empty()) return;
    weft::make_room(slots_);
    if (free_.capacity() <= slots_.size()) free_.reserve(slots_.capacity());
  }
  // Returns its number. use: the upper half; 0: one more than at the place's last user.
  Number add(Thing thing, Number use = 0) noexcept {
    if (free_.empty()) {
      free_.push_back(static_cast<Number>(slots_.size()));
      slots_.emplace_back();
    }
    const Number place = free_.back();
    free_.pop_back();
    Slot& slot = slots_[place];
    if (use == 0) use = (slot.number >> kHalf) + 1;
    if (use << kHalf == 0) use = 1;
    slot = {std::move(thing), use << kHalf | place, true};
    return slot.number;
  }
  // Null: none has this number now.
  Thing* find(Number number) noexcept {
    Thing* thing = in_place(number);
    return thing != nullptr && slots_[place_of(number)].number == number ? thing : nullptr;
  }
  // The same, whatever the upper half is.
  Thing* in_place(Number number) noexcept {
    const Number place = place_of(number);
    return place < slots_.size() && slots_[place].is_used ? &slots_[place].thing : nullptr;
  }
  // Of one that is there.
  Thing remove(Number number) noexcept {
    const Number place = place_of(number);
    free_.push_back(place);
    slots_[place].is_used = false;
    return std::exchange(slots_[place].thing, {});
  }
  std::size_t size() const noexcept { return slots_.size() - free_.size(); }
  // Calls f(number, thing) for each; f may remove that one, and adds none.
  template <class F>
  void for_each(F&& f) {
    for (Slot& slot : slots_)
      if (slot.is_used) f(slot.number, slot.thing);
  }

 private:
  struct Slot {
    Thing thing{};
    Number number = 0;  // of the last user
    bool is_used = false;
  };
  static constexpr int kHalf = 4 * sizeof(Number);  // its bits
  static Number place_of(Number number) noexcept { return number & ((Number{1} << kHalf) - 1); }

  std::vector<Slot> slots_;
  std::vector<Number> free_;  // places
};

}  // namespace weft
