#pragma once
// Selection of the algorithm of a collective: a table of rules by process count and size,
// overridden by the setting COLL_ALGORITHMS. Pure functions; any thread.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/settings.hpp"

namespace weft::coll {

enum class Collective : std::uint8_t {
  barrier,
  bcast,
  reduce,
  allreduce,
  gather,
  scatter,
  allgather,
  alltoall,
  reduce_scatter,
  scan,  // and exscan
};
inline constexpr std::size_t kNumCollectives = 10;

enum class Algorithm : std::uint8_t {
  automatic,  // chosen by the table
  shm,        // flags and slots in shared memory; only when all members share a host
  two_level,  // inside hosts and across; only when there are several, some with several members
  dissemination,
  binomial,
  linear,
  chain,
  pipeline,
  two_trees,
  scatter_allgather,
  recursive_doubling,
  circulant,
  rabenseifner,
  ring,
  bruck,
  pairwise,
  native,     // the network copies it (coll/multicast); only where the settings say so
  by_switch,  // not chosen here: a switch computes it (coll/offload)
};
// The shortest broadcast by native: a shorter one gains less than the members' agreement about
// buffers takes.
inline constexpr std::size_t kLeastNativeBytes = 1 << 20;
inline constexpr Algorithm kLastAlgorithm = Algorithm::native;  // of those that are chosen

std::string_view name(Collective collective) noexcept;
std::string_view name(Algorithm algorithm) noexcept;

// The distribution of members over hosts that a rule is for.
enum class Where : std::uint8_t {
  anywhere,
  one_host,
  shared_hosts,  // several hosts, some with several members
};

// A rule: applies up to max_size members and max_bytes (of the entire vector for reductions, of one
// block for the others). The first rule of a collective that applies is taken.
struct Rule {
  Collective collective;
  Where where;
  bool commutative_only;  // reduces out of rank order
  int max_size;
  std::size_t max_bytes;
  Algorithm algorithm;
};
inline constexpr int kAnySize = 1 << 30;
inline constexpr std::size_t kAnyBytes = ~std::size_t{0};

// The table, in order, for weft-info.
std::span<const Rule> rules() noexcept;
// The first row of an algorithm, which gives its requirements; null: the table never takes it.
const Rule* rule_of(Collective collective, Algorithm algorithm) noexcept;

// The choices of the settings, which precede the table, per collective: the first that applies is
// taken. Also, whether sums must not depend on the distribution over hosts.
struct Choice {
  Algorithm algorithm;
  int max_size = kAnySize;
  std::size_t max_bytes = kAnyBytes;
};
struct Choices {
  std::array<std::vector<Choice>, kNumCollectives> before;
  bool reproducible = false;

  static Choices from(const Settings& settings);
  std::span<const Choice> operator[](Collective collective) const noexcept {
    return before[static_cast<std::size_t>(collective)];
  }
  // Returns true if algorithms are chosen as if each member were on a host of its own.
  bool ignores_hosts(Collective collective) const noexcept;
};

struct Situation {
  int size = 1;
  std::size_t bytes = 0;
  bool is_local = false;
  bool commutative = true;
  bool shared_hosts = false;   // and reducing host by host keeps the order that the operation needs
  bool may_be_copied = false;  // by the network
};

// Chooses an algorithm. A choice of the settings that cannot work in this situation (other hosts,
// not commutative) is skipped.
Algorithm choose(Collective collective, const Situation& situation,
                 const Choices& choices) noexcept;

}  // namespace weft::coll
