#include "gather.hpp"

#include <algorithm>
#include <cstring>

namespace weft::graph {

Status gather(transport::Job& job, const Parts& parts, std::uint64_t first, std::size_t count,
              void* to) {
  auto* next = static_cast<std::byte*>(to);
  while (count > 0) {
    const auto owner = static_cast<std::size_t>(
        std::upper_bound(parts.begins.begin() + 1, parts.begins.end() - 1, first) -
        (parts.begins.begin() + 1));
    const std::size_t here = std::min<std::uint64_t>(count, parts.begins[owner + 1] - first);
    const std::uint64_t offset = (first - parts.begins[owner]) * parts.value_bytes;
    const std::size_t bytes = here * parts.value_bytes;
    if (static_cast<int>(owner) == job.rank()) {
      std::memcpy(next, static_cast<const std::byte*>(parts.mine) + offset, bytes);
    } else if (const Code code =
                   job.rdma_read(0, (*parts.remotes)[owner].part(offset, bytes), next, bytes);
               code != Code::ok) {
      return {code, "cannot read the memory of " + job.describe(static_cast<int>(owner))};
    }
    next += bytes;
    first += here;
    count -= here;
  }
  return Code::ok;
}

}  // namespace weft::graph
