#include "mcast/simulate/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <random>

#include "mcast/schedules/credit.hpp"

namespace weft::mcast {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Member {
  std::uint64_t step = 0;
  Move move;                      // next
  double free_us = 0;             // when its link can begin the next block
  std::vector<double> here_us;    // by block
  std::vector<double> credit_us;  // by block: when its sender has this member's credit
  Receipts receipts;              // the next one gets credit
  std::uint32_t num_missing = 0;
  bool is_waiting = false;  // for the block of `move`, or the credit for it
};

struct Ready {
  double at_us;
  std::uint64_t step;
  int member;
  auto operator<=>(const Ready&) const = default;
};

}  // namespace

double pipeline_bound_us(int num_members, std::uint64_t bytes, std::uint64_t block_bytes,
                         const Network& network) {
  if (num_members < 2) return 0;
  const double hops = ceil_log2(num_members);
  const double block_us = static_cast<double>(std::min(bytes, block_bytes)) / network.rate * 1e6;
  return static_cast<double>(bytes) / network.rate * 1e6 + (hops - 1) * block_us +
         hops * (network.latency_us + network.jitter_us / 2);
}

Simulated simulate_native(int num_members, std::uint64_t bytes, const Racks& racks,
                          const Network& network) {
  Simulated result{.done_us = std::vector<double>(static_cast<std::size_t>(num_members), 0)};
  if (num_members < 2) return result;
  double rate = network.rate / 1e6;
  if (network.slow_member >= 0) rate *= network.slow_factor;
  if (network.oversubscription > 0 && racks.num_racks() > 1)
    for (int rack = 0; rack < racks.num_racks(); ++rack)
      rate = std::min(rate, network.rate / 1e6 * static_cast<double>(racks.members(rack).size()) /
                                network.oversubscription);
  const double latency_us = network.latency_us + network.jitter_us / 2;
  const double hops = ceil_log2(num_members);
  const double stream_us = static_cast<double>(bytes) / rate;
  result.first_us = 2 * hops * latency_us + stream_us * (1 + hops * network.loss) + latency_us;
  result.last_us = result.first_us + (network.loss > 0 ? 2 * hops * latency_us : 0);
  std::fill(result.done_us.begin() + 1, result.done_us.end(), result.last_us);
  return result;
}

Simulated simulate(const Algorithm& algorithm, int num_members, std::uint64_t bytes,
                   std::uint64_t block_bytes, const Racks& racks, const Network& network) {
  const auto num_blocks = static_cast<std::uint32_t>(
      std::max<std::uint64_t>(1, (bytes + block_bytes - 1) / block_bytes));
  const double block_us = static_cast<double>(block_bytes) / network.rate * 1e6;
  const double latency = network.latency_us / block_us, jitter = network.jitter_us / block_us;
  const int lanes =
      network.lanes > 0 ? network.lanes : choose_lanes(num_members, num_blocks, latency, jitter);
  const double window = std::min(best_window(latency, jitter), lanes == 1 ? 2.0 : 1e6);
  const double early = window - std::floor(window);  // part of a block
  const Shape shape{num_members, num_blocks, &racks, lanes, static_cast<int>(window)};
  const std::uint64_t num_steps = algorithm.num_steps(shape);
  std::vector<Member> members(static_cast<std::size_t>(num_members));
  std::vector<double> in_free_us(members.size(), 0);
  std::vector<double> up_free_us(static_cast<std::size_t>(racks.num_racks()), 0);
  std::vector<double> down_free_us(up_free_us.size(), 0);
  std::mt19937_64 random(network.seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> queue;
  Simulated result{.done_us = std::vector<double>(members.size(), 0), .lanes = lanes};

  const auto rate_of = [&](int member) {
    return network.rate / 1e6 * (member == network.slow_member ? network.slow_factor : 1);
  };
  // Finds the member's next block to send; queues it if the block is there.
  const auto look = [&](int rank) {
    Member& member = members[static_cast<std::size_t>(rank)];
    while (!member.move && member.step < num_steps) {
      member.move = algorithm.turn(shape, rank, member.step).send;
      if (!member.move) ++member.step;
    }
    if (!member.move) return;
    const Member& to = members[static_cast<std::size_t>(member.move.peer)];
    const double can = std::max(member.here_us[member.move.block], to.credit_us[member.move.block]);
    member.is_waiting = can == kNever;
    if (!member.is_waiting) queue.push({std::max(can, member.free_us), member.step, rank});
  };
  const auto latency_us = [&] {
    return network.latency_us + (network.jitter_us > 0 ? network.jitter_us * uniform(random) : 0);
  };
  const bool has_credit = uses_credit(algorithm, shape);

  for (int rank = 0; rank < num_members; ++rank) {
    Member& member = members[static_cast<std::size_t>(rank)];
    member.here_us.assign(num_blocks, rank == 0 ? 0 : kNever);
    member.num_missing = rank == 0 ? 0 : num_blocks;
    member.credit_us.assign(num_blocks, has_credit ? kNever : 0);
    if (!has_credit) continue;
    member.receipts = Receipts(algorithm, shape, rank);
    for (int i = 0; i < shape.window; ++i)
      if (const Move move = member.receipts.next()) member.credit_us[move.block] = 0;
  }
  for (int rank = 0; rank < num_members; ++rank) look(rank);
  while (!queue.empty()) {
    const Ready ready = queue.top();
    queue.pop();
    Member& from = members[static_cast<std::size_t>(ready.member)];
    const Move move = from.move;
    Member& to = members[static_cast<std::size_t>(move.peer)];
    const std::uint64_t start = std::uint64_t{move.block} * block_bytes;
    const auto length =
        static_cast<double>(bytes > start ? std::min(block_bytes, bytes - start) : 0);
    double begin = ready.at_us + network.block_us;
    if (network.delay_probability > 0 && uniform(random) < network.delay_probability)
      begin += network.delay_us;
    double end = begin + length / rate_of(ready.member);
    const auto pass = [&](double& free_us, double rate) {
      begin = std::max(begin, free_us);
      end = std::max(end, begin + length / rate);
      free_us = end;
    };
    const double sent = end;
    const int rack = racks.position(ready.member).rack, there = racks.position(move.peer).rack;
    if (network.oversubscription > 0 && rack != there) {
      const auto uplink = [&](int number) {
        return network.rate / 1e6 * static_cast<double>(racks.members(number).size()) /
               network.oversubscription;
      };
      pass(up_free_us[static_cast<std::size_t>(rack)], uplink(rack));
      pass(down_free_us[static_cast<std::size_t>(there)], uplink(there));
    }
    pass(in_free_us[static_cast<std::size_t>(move.peer)], rate_of(move.peer));
    // A block that waits for a link blocks its sender, which has little in flight at a time.
    from.free_us = std::max(sent, end);
    const double here_us = end + latency_us();
    to.here_us[move.block] = here_us;
    if (--to.num_missing == 0) result.done_us[static_cast<std::size_t>(move.peer)] = here_us;
    from.move = {};
    ++from.step;
    look(ready.member);
    if (to.is_waiting && to.move.block == move.block) look(move.peer);
    if (const Move next = has_credit ? to.receipts.next() : Move{}) {
      to.credit_us[next.block] = here_us - early * length / rate_of(move.peer) + latency_us();
      const Member& sender = members[static_cast<std::size_t>(next.peer)];
      if (sender.is_waiting && sender.move == Move{move.peer, next.block}) look(next.peer);
    }
  }
  if (num_members > 1) {
    result.last_us = *std::max_element(result.done_us.begin() + 1, result.done_us.end());
    result.first_us = *std::min_element(result.done_us.begin() + 1, result.done_us.end());
  }
  return result;
}

}  // namespace weft::mcast
