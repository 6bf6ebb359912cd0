#include "mcast/schedules/credit.hpp"

namespace weft::mcast {

bool uses_credit(const Algorithm& algorithm, const Shape& shape) noexcept {
  return algorithm.has_meetings && shape.num_members > 2;
}

double best_window(double latency, double jitter) noexcept { return 1.5 + 2 * latency + jitter; }

Move Receipts::next() {
  const std::uint64_t num_steps = algorithm_ == nullptr ? 0 : algorithm_->num_steps(shape_);
  while (step_ < num_steps)
    if (const Move move = algorithm_->turn(shape_, member_, step_++).receive) return move;
  return {};
}

std::uint32_t first_credit(const Algorithm& algorithm, const Shape& shape, int from, int to) {
  Receipts receipts(algorithm, shape, to);
  std::uint32_t count = 0;
  for (int i = 0; i < shape.window; ++i) count += receipts.next().peer == from ? 1 : 0;
  return count;
}

}  // namespace weft::mcast
