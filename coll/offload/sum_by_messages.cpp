#include <algorithm>
#include <new>

#include "coll/links.hpp"
#include "coll/offload/offload.hpp"

namespace weft::offload {

Status sum_by_messages(coll::Team& leaders, std::span<std::byte> data, innet::Element element,
                       innet::Operation operation, const std::vector<std::vector<int>>& order) {
  const int n = leaders.size();
  if (n == 1 || data.empty()) return {};
  const std::size_t unit = innet::element_bytes(element), count = data.size() / unit;
  const innet::Combine combine = innet::find_combine(element, operation);
  // Shares of the vector travel to whom they belong, and their sums to all.
  std::vector<std::size_t> bytes(coll::index(n)), theirs(coll::index(n));
  std::vector<std::ptrdiff_t> places(coll::index(n)), slots(coll::index(n));
  const int me = leaders.rank();
  const auto begin = [&](int r) { return coll::part_begin(count, n, r) * unit; };
  const std::size_t mine = begin(me + 1) - begin(me);
  for (int r = 0; r < n; ++r) {
    bytes[coll::index(r)] = begin(r + 1) - begin(r);
    places[coll::index(r)] = static_cast<std::ptrdiff_t>(begin(r));
    theirs[coll::index(r)] = mine;
    slots[coll::index(r)] = static_cast<std::ptrdiff_t>(coll::index(r) * mine);
  }
  // +1: never an empty block, whose address is null.
  const std::unique_ptr<std::byte[]> room(new (std::nothrow) std::byte[coll::index(n) * mine + 1]);
  if (room == nullptr) return Code::no_memory;
  WEFT_COLL_TRY(coll::alltoallv(leaders, data.data(), bytes.data(), places.data(), room.get(),
                                theirs.data(), slots.data()));
  const auto block = [&](int r) { return room.get() + coll::index(r) * mine; };
  std::byte* all = nullptr;
  for (const auto& under : order) {
    std::byte* sum = block(under[0]);
    for (std::size_t i = 1; i < under.size(); ++i) combine(block(under[i]), sum, mine / unit);
    if (all == nullptr)
      all = sum;
    else
      combine(sum, all, mine / unit);
  }
  return coll::allgatherv(leaders, all, mine, data.data(), bytes.data(), places.data());
}

}  // namespace weft::offload
