// Binomial pipeline: the schedule is shared with the collectives (coll/plan).
#include "coll/plan/binomial_pipeline.hpp"

#include "mcast/schedules/schedule.hpp"

namespace weft::mcast {

namespace {

std::uint64_t pipeline_steps(const Shape& shape) {
  if (shape.num_members < 2) return 0;
  return coll::BinomialPipeline(shape.num_members, shape.num_blocks).num_steps();
}

Turn pipeline_turn(const Shape& shape, int member, std::uint64_t step) {
  if (step >= pipeline_steps(shape)) return {};
  const coll::BinomialPipeline pipeline(shape.num_members, shape.num_blocks);
  const auto send = pipeline.send(member, step), receive = pipeline.receive(member, step);
  return {{send.peer, send.block}, {receive.peer, receive.block}};
}

}  // namespace

const Algorithm kBinomialPipeline{"pipeline", pipeline_steps, pipeline_turn};

}  // namespace weft::mcast
