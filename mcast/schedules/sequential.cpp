// Sequential: the root sends the whole message to one member after another.
#include "mcast/schedules/schedule.hpp"

namespace weft::mcast {

namespace {

std::uint64_t sequential_steps(const Shape& shape) {
  return std::uint64_t{shape.num_blocks} * static_cast<std::uint64_t>(shape.num_members - 1);
}

Turn sequential_turn(const Shape& shape, int member, std::uint64_t step) {
  const int to = 1 + static_cast<int>(step / shape.num_blocks);
  const auto block = static_cast<std::uint32_t>(step % shape.num_blocks);
  if (to >= shape.num_members) return {};
  if (member == 0) return {.send = {to, block}, .receive = {}};
  return member == to ? Turn{.send = {}, .receive = {0, block}} : Turn{};
}

}  // namespace

const Algorithm kSequential{"sequential", sequential_steps, sequential_turn};

}  // namespace weft::mcast
