#pragma once
// A discrete-event model of one transfer by the schedules that groups use.
//
// A member sends its blocks in the order of the schedule, each once it is there and the one before
// has left. A block occupies links one after the other, from its first byte to its last: the
// sender's, where racks differ the sender's rack's and the receiver's rack's, the receiver's. Links
// serve blocks in order of coming. Threads: any.
#include <cstdint>
#include <vector>

#include "mcast/schedules/schedule.hpp"

namespace weft::mcast {

struct Network {
  double rate = 25e6;      // bytes a second of a member's link, each way
  double latency_us = 50;  // from the last byte sent until the receiver can use the block
  double block_us = 0;     // that a member needs for a block before it sends
  // Oversubscription: the bandwidth of a rack's members together, by that of the rack's uplink.
  // 0: members of a rack share no uplink.
  double oversubscription = 0;
  // Random delay: this share of the blocks is sent late.
  double delay_us = 0, delay_probability = 0;
  std::uint64_t seed = 1;
  int slow_member = -1;  // its link has rate * slow_factor
  double slow_factor = 1;
};

struct Simulated {
  double last_us = 0, first_us = 0;  // when the last and the first receiver had everything
  std::vector<double> done_us;       // by member
};

Simulated simulate(const Algorithm& algorithm, int num_members, std::uint64_t bytes,
                   std::uint64_t block_bytes, const Racks& racks, const Network& network);

}  // namespace weft::mcast
