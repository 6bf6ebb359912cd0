#include "mcast/schedules/schedule.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <set>

namespace weft::mcast {

Racks::Racks(std::span<const int> rack_of, int num_members) {
  std::map<int, int> indices;  // of racks, by the caller's number
  for (int member = 0; member < num_members; ++member) {
    const int name = rack_of.empty() ? 0 : rack_of[static_cast<std::size_t>(member)];
    const auto [found, is_new] = indices.emplace(name, num_racks());
    if (is_new) members_.emplace_back();
    auto& members = members_[static_cast<std::size_t>(found->second)];
    positions_.push_back({found->second, static_cast<int>(members.size())});
    members.push_back(member);
    largest_ = std::max(largest_, static_cast<int>(members.size()));
  }
}

std::span<const Algorithm* const> algorithms() noexcept {
  static constexpr std::array kAll{&kBinomialPipeline, &kBinomialTree, &kChain,
                                   &kSequential,       &kHybrid,       &kHybridBlocks};
  return kAll;
}

const Algorithm* find_algorithm(std::string_view name) noexcept {
  for (const Algorithm* algorithm : algorithms())
    if (algorithm->name == name) return algorithm;
  return nullptr;
}

int ceil_log2(int n) noexcept { return std::bit_width(static_cast<unsigned>(n - 1)); }

std::vector<int> neighbors(const Algorithm& algorithm, const Racks& racks, int num_members,
                           int member) {
  // Members that exchange anything do so within this many blocks: pairs of the pipeline change
  // places after a multiple of its dimensions, at most twice that.
  const auto enough = static_cast<std::uint32_t>(3 * ceil_log2(num_members) + 2);
  std::set<int> found;
  for (std::uint32_t blocks = 1; blocks <= enough; ++blocks) {
    const Shape shape{num_members, blocks, &racks};
    for (std::uint64_t step = 0; step < algorithm.num_steps(shape); ++step) {
      const Turn turn = algorithm.turn(shape, member, step);
      if (turn.send) found.insert(turn.send.peer);
      if (turn.receive) found.insert(turn.receive.peer);
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace weft::mcast
