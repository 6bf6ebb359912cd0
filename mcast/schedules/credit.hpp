#pragma once
// Credit: a block is sent only once its receiver is ready for it, so that senders take turns at a
// receiver's link in the order of the schedule, however late any of them is. Two that send at once
// would each be held up there and hold up their next receivers, for the rest of the message.
//
// A receiver is ready for its first Shape::window blocks from the beginning, and for one more with
// every block that comes. Threads: any. Callers: mcast/ alone.
#include "mcast/schedules/schedule.hpp"

namespace weft::mcast {

// Whether receivers give credit: where each has one sender they need not.
bool uses_credit(const Algorithm& algorithm, const Shape& shape) noexcept;

// The blocks that a receiver is best ready for at a time, and the part of one more. In times of a
// block: it can be used `latency` after its last byte was sent, or later by up to `jitter`, and a
// credit takes as long. Those are the block that comes, what is under way, and half a block, by
// which a sender may be late without a gap; with half a block more senders would meet. For a part
// of a block, credit is given when that part of the block before is still to come.
double best_window(double latency, double jitter) noexcept;

// The receipts of a member, in the order of the schedule.
class Receipts {
 public:
  Receipts() = default;
  Receipts(const Algorithm& algorithm, const Shape& shape, int member)
      : algorithm_(&algorithm), shape_(shape), member_(member) {}
  // Nothing: there are no more.
  Move next();

 private:
  const Algorithm* algorithm_ = nullptr;
  Shape shape_;
  int member_ = 0;
  std::uint64_t step_ = 0;
};

// The blocks from `from` among the first Shape::window that `to` receives.
std::uint32_t first_credit(const Algorithm& algorithm, const Shape& shape, int from, int to);

}  // namespace weft::mcast
