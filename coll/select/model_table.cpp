// The table that the model yields, as a value of COLL_ALGORITHMS.
#include <fmt/core.h>

#include <algorithm>

#include "coll/select/model.hpp"

namespace weft::coll {
namespace {

constexpr std::size_t kLeastBytes = 8, kMostBytes = 16 << 20;

struct Best {
  // unlimited: works for all operations
  Algorithm any = Algorithm::automatic, unlimited = Algorithm::automatic;
  friend bool operator==(const Best&, const Best&) = default;
};

// The time for so many members plus that for three quarters of them: an algorithm that suits only
// powers of two does not win.
double time_for(Collective collective, Algorithm algorithm, int num_members, std::size_t bytes,
                const Network& network) {
  const int fewer = std::max(2, 3 * num_members / 4);
  double time = time_of(collective, algorithm, num_members, bytes, network);
  if (fewer != num_members) time += time_of(collective, algorithm, fewer, bytes, network);
  return time;
}

// before: the best for shorter vectors, which is kept where it is hardly slower.
Best best_of(Collective collective, int num_members, std::size_t bytes, const Network& network,
             const Best& before) {
  constexpr double kHardly = 1.05;
  Best best;
  double least_any = 0, least_unlimited = 0;
  for (const Algorithm algorithm : algorithms_of(collective)) {
    const double time = time_for(collective, algorithm, num_members, bytes, network);
    const auto keep = [&](Algorithm& kept, double& least, Algorithm kept_before) {
      const double counted = algorithm == kept_before ? time / kHardly : time;
      if (kept != Algorithm::automatic && counted >= least) return;
      kept = algorithm;
      least = counted;
    };
    keep(best.any, least_any, before.any);
    if (!needs_commuting(collective, algorithm))
      keep(best.unlimited, least_unlimited, before.unlimited);
  }
  return best;
}

std::string size_text(std::size_t bytes) {
  return bytes % 1024 == 0 ? fmt::format("{}K", bytes / 1024) : fmt::format("{}", bytes);
}

// The rules for one number of members, with the bounds that make them apply.
std::string pieces_of(Collective collective, int num_members, bool is_last,
                      const Network& network) {
  // The blocks of all members together are at most as long as the longest vector.
  const bool has_blocks = collective == Collective::gather || collective == Collective::scatter ||
                          collective == Collective::allgather || collective == Collective::alltoall;
  const std::size_t most =
      has_blocks ? std::max(kLeastBytes, kMostBytes / static_cast<std::size_t>(num_members))
                 : kMostBytes;
  std::string text;
  const auto add = [&](const Best& best, std::size_t bytes, bool is_longest) {
    const auto piece = [&](Algorithm algorithm) {
      text += fmt::format("+{}", name(algorithm));
      if (!is_last) text += fmt::format("@{}", num_members);
      if (!is_longest) text += fmt::format(":{}", size_text(bytes));
    };
    if (best.any != best.unlimited) piece(best.any);
    piece(best.unlimited);
  };
  std::size_t bytes = kLeastBytes;
  Best now = best_of(collective, num_members, bytes, network, {});
  for (; bytes < most; bytes *= 2) {
    const Best next = best_of(collective, num_members, bytes * 2, network, now);
    if (next != now) add(now, bytes, false);
    now = next;
  }
  add(now, bytes, true);
  return text;
}

}  // namespace

std::string table_for(const Network& network, int most_members) {
  std::string table;
  for (std::size_t i = 0; i < kNumCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (algorithms_of(collective).size() == 1) continue;
    // Within hosts first.
    std::string pieces = "shm+two_level";
    // The same rules with more members make those before superfluous.
    std::string before, shape_before;
    const auto shape_of = [](std::string text, int members) {
      const std::string bound = fmt::format("@{}", members);
      for (std::size_t at; (at = text.find(bound)) != std::string::npos;)
        text.erase(at, bound.size());
      return text;
    };
    for (int members = 2;;) {
      const bool is_last = members >= most_members;
      std::string now = pieces_of(collective, members, is_last, network);
      const std::string shape = shape_of(now, members);
      if (shape != shape_before) pieces += before;
      if (is_last) {
        pieces += now;
        break;
      }
      before = std::move(now);
      shape_before = shape;
      members = std::min(2 * members, most_members);
    }
    table += fmt::format("{}{}={}", table.empty() ? "" : ",", name(collective), pieces);
  }
  return table;
}

}  // namespace weft::coll
