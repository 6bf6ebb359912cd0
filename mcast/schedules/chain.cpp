// Chain: each member forwards a block in the step after it arrives.
#include "mcast/schedules/schedule.hpp"

namespace weft::mcast {

namespace {

std::uint64_t chain_steps(const Shape& shape) {
  return shape.num_members < 2
             ? 0
             : shape.num_blocks + static_cast<std::uint64_t>(shape.num_members) - 2;
}

Turn chain_turn(const Shape& shape, int member, std::uint64_t step) {
  Turn turn;
  const auto place = static_cast<std::uint64_t>(member);
  if (member + 1 < shape.num_members && step >= place && step - place < shape.num_blocks)
    turn.send = {member + 1, static_cast<std::uint32_t>(step - place)};
  if (member > 0 && step + 1 >= place && step + 1 - place < shape.num_blocks)
    turn.receive = {member - 1, static_cast<std::uint32_t>(step + 1 - place)};
  return turn;
}

}  // namespace

const Algorithm kChain{"chain", chain_steps, chain_turn};

}  // namespace weft::mcast
