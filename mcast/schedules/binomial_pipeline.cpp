// Binomial pipeline: the schedule is shared with the collectives (coll/plan).
//
// Lanes. In one pipeline a member sends in step j what it has received in step j - 1, so a block
// that needs longer than a step to be usable holds up every step. With m lanes step j belongs to
// pipeline j mod m, which has the blocks j mod m, j mod m + m, ...: what a member has received in
// step j it sends in step j + m at the earliest. The price is the beginning and end of each
// pipeline, (m - 1) (ceil(log2 n) - 1) steps more.
#include "coll/plan/binomial_pipeline.hpp"

#include <algorithm>
#include <cmath>

#include "mcast/schedules/schedule.hpp"

namespace weft::mcast {

namespace {

using Lane = coll::BinomialPipeline;

std::uint32_t num_lanes(const Shape& shape) {
  return std::min(static_cast<std::uint32_t>(shape.lanes), shape.num_blocks);
}
Lane make_lane(const Shape& shape, std::uint32_t number) {
  const std::uint32_t lanes = num_lanes(shape);
  return {shape.num_members, (shape.num_blocks - number + lanes - 1) / lanes};
}

std::uint64_t pipeline_steps(const Shape& shape) {
  if (shape.num_members < 2) return 0;
  // The last block's lane ends last.
  const std::uint32_t lanes = num_lanes(shape), last = (shape.num_blocks - 1) % lanes;
  return (make_lane(shape, last).num_steps() - 1) * lanes + last + 1;
}

Turn pipeline_turn(const Shape& shape, int member, std::uint64_t step) {
  if (shape.num_members < 2) return {};
  const std::uint32_t lanes = num_lanes(shape);
  const auto number = static_cast<std::uint32_t>(step % lanes);
  const Lane lane = make_lane(shape, number);
  const std::uint64_t in_lane = step / lanes;
  if (in_lane >= lane.num_steps()) return {};
  const auto send = lane.send(member, in_lane), receive = lane.receive(member, in_lane);
  return {{send.peer, send.block * lanes + number}, {receive.peer, receive.block * lanes + number}};
}

}  // namespace

const Algorithm kBinomialPipeline{"pipeline", pipeline_steps, pipeline_turn, false, true};

int choose_lanes(int num_members, std::uint32_t num_blocks, double latency,
                 double jitter) noexcept {
  // What is sent in a step of a lane comes, and the credit for what comes that many steps later
  // goes back, before the lane's next step.
  const double enough = std::floor(2 + 2 * std::min(latency, 1000.0) + 1e-9);
  // Both in steps. One lane loses 3/4 of the latency in each of them, as simulations show.
  const double lost_by_one = 0.75 * (latency + jitter) * num_blocks;
  const double lost_by_lanes = (enough - 1) * (ceil_log2(num_members) - 1);
  return lost_by_lanes < lost_by_one ? static_cast<int>(enough) : 1;
}

}  // namespace weft::mcast
