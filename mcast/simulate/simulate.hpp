#pragma once
// A discrete-event model of one transfer by the schedules that groups use.
//
// A member sends its blocks in the order of the schedule, each once it is there, the one before has
// left and, where senders meet at a receiver, the credit for it has come (schedules/credit.hpp),
// which takes as long as a block's latency. A block occupies links one after the other, from its
// first byte to its last: the sender's, where racks differ the sender's rack's and the receiver's
// rack's, the receiver's. Links serve blocks in order of coming. Threads: any.
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
  double jitter_us = 0;  // the latency of a block or credit is longer by up to this, at random
  std::uint64_t seed = 1;
  int slow_member = -1;  // its link has rate * slow_factor
  double slow_factor = 1;
  int lanes = 0;    // of the binomial pipeline; 0: chosen by the latency with jitter
  double loss = 0;  // share of a native group's packets that a receiver lacks
};

struct Simulated {
  double last_us = 0, first_us = 0;  // when the last and the first receiver had everything
  std::vector<double> done_us;       // by member
  int lanes = 1;                     // of the binomial pipeline
};

// The least time that the binomial pipeline can take on these links (without racks, delays and slow
// members): its ceil(log2 n) - 1 steps before the message comes at full rate, each the time of a
// block, the message's own time, and the latency (with half of the jitter, its mean) of the
// ceil(log2 n) links that the first block crosses, one after the other, to the farthest member.
// With whole blocks these are blocks + ceil(log2 n) - 1 times of a block and that latency.
double pipeline_bound_us(int num_members, std::uint64_t bytes, std::uint64_t block_bytes,
                         const Network& network);

// A native group's transfer, by a formula. The network copies packets at the rate of the slowest
// link (a rack's uplink carries each once), and the receivers' buffers are known before, which
// takes the way down the tree of members and up again. The root repairs for its children in the
// tree, the others for theirs meanwhile; those of the farthest members come a way down the tree
// later.
Simulated simulate_native(int num_members, std::uint64_t bytes, const Racks& racks,
                          const Network& network);

Simulated simulate(const Algorithm& algorithm, int num_members, std::uint64_t bytes,
                   std::uint64_t block_bytes, const Racks& racks, const Network& network);

}  // namespace weft::mcast
