#pragma once
// An Aggregator's state of a group: its branch of the tree and its slots. For aggregator*.cpp.
#include <cstring>

#include "coll/switch/aggregator.hpp"

namespace weft::innet {

// Operation and offset as one number: later places are larger. 0 is none, as operations count from
// 1.
inline std::uint64_t place_of(const Header& header) noexcept {
  return std::uint64_t{header.operation} << 32 | header.offset;
}

// The place whose contributions are being reduced, and the result of the place before.
struct Aggregator::Slot {
  std::uint64_t place = 0, kept_place = 0;
  std::uint64_t have = 0;  // bit n: child n has contributed
  std::uint16_t number = 0;
  std::uint16_t bytes = 0, kept_bytes = 0;
  Element element = Element::none, kept_element = Element::none;
  Operation arithmetic = Operation::none, kept_arithmetic = Operation::none;
  std::uint8_t which = 0;  // index of the current one of the two buffers
  bool is_complete = false;

  void begin(const Header& header, std::size_t length) noexcept;
};

struct Aggregator::Group {
  std::uint32_t number = 0;
  std::uint64_t key = 0;
  std::uint32_t ticket = 0;
  std::uint32_t parent_ticket = 0;  // 0: the parent has not answered yet
  std::uint16_t epoch = 0;
  std::uint16_t window = 0;  // granted
  std::uint16_t parent_window = 0;
  Branch branch;
  bool is_broken = false;               // the parent has lost the group
  std::uint64_t bound = 0, killed = 0;  // bit n: child n
  std::uint64_t last_received_ns = 0;
  std::array<Address, kMaxChildren> children;
  std::vector<Slot> slots;
  std::unique_ptr<std::byte[]> memory;

  std::uint64_t all_children() const noexcept {
    return ~std::uint64_t{0} >> (64 - branch.num_children);
  }
  bool is_ready() const noexcept {
    return bound == all_children() && (!branch.has_parent() || parent_ticket != 0);
  }
  std::size_t row() const noexcept { return (branch.payload_bytes + 63u) / 64 * 64; }
  // The number of buffers of a slot: two for sums and results, and in ordered groups one for each
  // child.
  std::size_t rows_per_slot() const noexcept {
    return 2u + (branch.ordered ? branch.num_children : 0u);
  }
  std::byte* buffer(std::size_t slot, std::size_t row_index) const noexcept {
    return memory.get() + (slot * rows_per_slot() + row_index) * row();
  }
  std::byte* sum(std::size_t slot) const noexcept { return buffer(slot, slots[slot].which); }
  std::byte* kept(std::size_t slot) const noexcept { return buffer(slot, slots[slot].which ^ 1u); }
  std::byte* held(std::size_t slot, int child) const noexcept {
    return buffer(slot, 2 + static_cast<std::size_t>(child));
  }
  Header header(Kind kind) const noexcept {
    Header header;
    header.kind = kind;
    header.group = number;
    header.key = key;
    header.ticket = ticket;
    header.epoch = epoch;
    return header;
  }
};

}  // namespace weft::innet
