// Binomial tree: in each round every member that has the message sends it to one more, so a round
// doubles their number.
#include "mcast/schedules/schedule.hpp"

namespace weft::mcast {

namespace {

std::uint64_t tree_steps(const Shape& shape) {
  return std::uint64_t{shape.num_blocks} * static_cast<std::uint64_t>(ceil_log2(shape.num_members));
}

Turn tree_turn(const Shape& shape, int member, std::uint64_t step) {
  const auto round = static_cast<int>(step / shape.num_blocks);
  const auto block = static_cast<std::uint32_t>(step % shape.num_blocks);
  if (round >= ceil_log2(shape.num_members)) return {};
  const int have = 1 << round;
  if (member < have) {
    const int to = member + have;
    return to < shape.num_members ? Turn{.send = {to, block}, .receive = {}} : Turn{};
  }
  return member < 2 * have ? Turn{.send = {}, .receive = {member - have, block}} : Turn{};
}

}  // namespace

const Algorithm kBinomialTree{"tree", tree_steps, tree_turn};

}  // namespace weft::mcast
