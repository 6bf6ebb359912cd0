// Hybrid: a binomial pipeline among the leaders of racks, and one in every rack, so that each block
// crosses into a rack once.
//
// "hybrid", as in the paper: the racks begin when the leaders have the message. "hybrid-blocks":
// even steps are the leaders', odd ones the racks', which begin as soon as a leader has what it is
// to send: all leaders have block s after ceil(log2 leaders) more of their steps.
#include "mcast/schedules/schedule.hpp"

namespace weft::mcast {

namespace {

Shape of_leaders(const Shape& shape) {
  return {shape.racks->num_racks(), shape.num_blocks, nullptr};
}
Shape of_rack(const Shape& shape, int rack) {
  return {static_cast<int>(shape.racks->members(rack).size()), shape.num_blocks, nullptr};
}
Shape of_largest(const Shape& shape) { return {shape.racks->largest(), shape.num_blocks, nullptr}; }

Turn leaders_turn(const Shape& shape, int member, std::uint64_t step) {
  const Racks& racks = *shape.racks;
  const Racks::Position position = racks.position(member);
  if (position.index != 0) return {};
  Turn turn = kBinomialPipeline.turn(of_leaders(shape), position.rack, step);
  if (turn.send) turn.send.peer = racks.leader(turn.send.peer);
  if (turn.receive) turn.receive.peer = racks.leader(turn.receive.peer);
  return turn;
}

Turn rack_turn(const Shape& shape, int member, std::uint64_t step) {
  const Racks::Position position = shape.racks->position(member);
  const auto members = shape.racks->members(position.rack);
  Turn turn = kBinomialPipeline.turn(of_rack(shape, position.rack), position.index, step);
  if (turn.send) turn.send.peer = members[static_cast<std::size_t>(turn.send.peer)];
  if (turn.receive) turn.receive.peer = members[static_cast<std::size_t>(turn.receive.peer)];
  return turn;
}

std::uint64_t hybrid_steps(const Shape& shape) {
  return kBinomialPipeline.num_steps(of_leaders(shape)) +
         kBinomialPipeline.num_steps(of_largest(shape));
}

Turn hybrid_turn(const Shape& shape, int member, std::uint64_t step) {
  const std::uint64_t leaders = kBinomialPipeline.num_steps(of_leaders(shape));
  return step < leaders ? leaders_turn(shape, member, step)
                        : rack_turn(shape, member, step - leaders);
}

// Steps of the leaders before the racks' first one.
std::uint64_t head_start(const Shape& shape) {
  return static_cast<std::uint64_t>(ceil_log2(shape.racks->num_racks()));
}

std::uint64_t num_steps_by_block(const Shape& shape) {
  const std::uint64_t leaders = kBinomialPipeline.num_steps(of_leaders(shape));
  const std::uint64_t racks = kBinomialPipeline.num_steps(of_largest(shape));
  if (racks > 0) return 2 * (head_start(shape) + racks);
  return leaders > 0 ? 2 * leaders - 1 : 0;
}

Turn turn_by_block(const Shape& shape, int member, std::uint64_t step) {
  if (step % 2 == 0) return leaders_turn(shape, member, step / 2);
  const std::uint64_t before = head_start(shape);
  return step / 2 >= before ? rack_turn(shape, member, step / 2 - before) : Turn{};
}

}  // namespace

const Algorithm kHybrid{"hybrid", hybrid_steps, hybrid_turn, true, true};
const Algorithm kHybridBlocks{"hybrid-blocks", num_steps_by_block, turn_by_block, true, true};

}  // namespace weft::mcast
