// Every algorithm, played for groups of many sizes with all roots and with lengths over the
// boundaries: the content that comes out, and what it costs.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <numeric>

#include "coll/algorithms/algorithms.hpp"
#include "player.hpp"

namespace weft::test {
namespace {

using namespace coll;

std::size_t z(int i) { return static_cast<std::size_t>(i); }

Cell number(int from, int to, std::size_t position) {
  return {1 + z(from) * 1'000'003 + z(to) * 1009 + position * 7, 5};
}
Cell operand(int member, std::size_t position, bool commutative) {
  const std::uint64_t x = z(member) * 7919 + position * 31 + 17;
  return {x * x % 1'000'003 + 1, commutative ? 0 : x * 104'729 % 998'244};
}
// operand(first) op ... op operand(last)
Cell folded(int first, int last, std::size_t position, bool commutative) {
  Cell result = operand(first, position, commutative);
  for (int m = first + 1; m <= last; ++m)
    result = compose(result, operand(m, position, commutative));
  return result;
}

// A group of n with `count` cells in whatever the collective calls a block or a vector.
struct Case {
  int n;
  std::size_t count;
  int root = 0;
  bool commutative = true;
  bool in_place = false;
};

using Write = std::function<void(Plan&, const Group&, const Case&)>;
using Prepare = std::function<void(MemberMemory&, int member, const Case&)>;
using Expected = std::function<bool(const MemberMemory&, int member, const Case&)>;

Played run(const Case& c, const Write& write, const Prepare& prepare, const Expected& expected,
           std::size_t unit = 1, const Costs& costs = {}) {
  std::vector<Plan> plans(z(c.n));
  std::vector<MemberMemory> memory(z(c.n));
  for (int m = 0; m < c.n; ++m) {
    memory[z(m)].in_place = c.in_place;
    prepare(memory[z(m)], m, c);
    write(plans[z(m)], {m, c.n}, c);
  }
  Played played = play(plans, memory, unit, costs);
  for (int m = 0; m < c.n && played.errors.empty(); ++m)
    if (!expected(memory[z(m)], m, c))
      played.errors.push_back("member " + std::to_string(m) + " has a wrong result");
  return played;
}

#define CHECK_PLAYED(c, ...)                                                                      \
  do {                                                                                            \
    INFO("n " << (c).n << ", count " << (c).count << ", root " << (c).root                        \
              << ((c).commutative ? ", commutative" : "") << ((c).in_place ? ", in place" : "")); \
    REQUIRE((__VA_ARGS__).errors == std::vector<std::string>());                                  \
  } while (false)

std::vector<int> group_sizes() {
  std::vector<int> sizes(34);
  std::iota(sizes.begin(), sizes.end(), 1);
  for (const int n : {47, 48, 63, 64}) sizes.push_back(n);
  return sizes;
}

// All roots of small groups, some of large ones.
std::vector<int> roots(int n) {
  std::vector<int> roots;
  for (int root = 0; root < n; ++root)
    if (n <= 9 || root < 2 || root == n / 2 || root == n - 1) roots.push_back(root);
  return roots;
}

// Lengths around a multiple of n and of segments.
std::vector<std::size_t> counts(int n) { return {1, 2, z(n) - 1, z(n), z(n) + 1, 3 * z(n) + 2}; }

void for_cases(bool rooted, bool vectors, const std::function<void(const Case&)>& check) {
  for (const int n : group_sizes())
    for (const int root : rooted ? roots(n) : std::vector{0})
      for (const std::size_t count : vectors ? counts(n) : std::vector<std::size_t>{1, 3})
        if (count != 0) check({n, count, root});
}

// --- broadcast ---

const Prepare kDataAtRoot = [](MemberMemory& memory, int member, const Case& c) {
  memory.output.resize(c.count);
  for (std::size_t i = 0; i < c.count && member == c.root; ++i)
    memory.output[i] = number(c.root, 0, i);
};
const Expected kDataEverywhere = [](const MemberMemory& memory, int, const Case& c) {
  for (std::size_t i = 0; i < c.count; ++i)
    if (!(memory.output[i] == number(c.root, 0, i))) return false;
  return true;
};

TEST_CASE("steps of a broadcast") {
  const std::vector<Write> writes = {[](Plan& plan, const Group& group, const Case& c) {
                                       bcast_binomial(plan, group, kOutput, c.count, c.root);
                                     },
                                     [](Plan& plan, const Group& group, const Case& c) {
                                       bcast_scatter_allgather(plan, group, kOutput, c.count,
                                                               c.root);
                                     },
                                     [](Plan& plan, const Group& group, const Case& c) {
                                       bcast_chain(plan, group, kOutput, c.count, c.root);
                                     },
                                     [](Plan& plan, const Group& group, const Case& c) {
                                       bcast_pipeline(plan, group, kOutput, c.count, c.root);
                                     },
                                     [](Plan& plan, const Group& group, const Case& c) {
                                       bcast_pipeline(plan, group, kOutput, c.count, c.root, 1);
                                     },
                                     [](Plan& plan, const Group& group, const Case& c) {
                                       bcast_pipeline(plan, group, kOutput, c.count, c.root, 5);
                                     },
                                     [](Plan& plan, const Group& group, const Case& c) {
                                       bcast_tree(plan, group, kOutput, c.count, c.root, 1, 4);
                                     },
                                     [](Plan& plan, const Group& group, const Case& c) {
                                       bcast_two_trees(plan, group, kOutput, c.count, c.root, 3);
                                     },
                                     [](Plan& plan, const Group& group, const Case& c) {
                                       bcast_two_trees(plan, group, kOutput, c.count, c.root);
                                     },
                                     [](Plan& plan, const Group& group, const Case& c) {
                                       bcast_tree(plan, group, kOutput, c.count, c.root, 2, 3);
                                     },
                                     [](Plan& plan, const Group& group, const Case& c) {
                                       bcast_tree(plan, group, kOutput, c.count, c.root, 8, 5);
                                     }};
  for (const Write& write : writes)
    for_cases(true, true,
              [&](const Case& c) { CHECK_PLAYED(c, run(c, write, kDataAtRoot, kDataEverywhere)); });
}

// --- gather and scatter ---

TEST_CASE("steps of a gather") {
  for (const bool binomial : {true, false})
    for_cases(true, false, [&](const Case& c) {
      CHECK_PLAYED(
          c,
          run(
              c,
              [&](Plan& plan, const Group& group, const Case& c) {
                if (binomial)
                  gather_binomial(plan, group, kInput, kOutput, c.count, c.root);
                else
                  gather_linear(plan, group, kInput, kOutput, c.count, c.root);
              },
              [](MemberMemory& memory, int member, const Case& c) {
                if (member == c.root) memory.output.resize(z(c.n) * c.count);
                auto& own = member == c.root ? memory.output : memory.input;
                if (member != c.root) own.resize(c.count);
                for (std::size_t i = 0; i < c.count; ++i)
                  own[(member == c.root ? z(member) * c.count : 0) + i] = number(member, 0, i);
              },
              [](const MemberMemory& memory, int member, const Case& c) {
                for (std::size_t i = 0; i < memory.output.size() && member == c.root; ++i)
                  if (!(memory.output[i] == number(static_cast<int>(i / c.count), 0, i % c.count)))
                    return false;
                return true;
              }));
    });
}

TEST_CASE("steps of a scatter") {
  for (const bool binomial : {true, false})
    for_cases(true, false, [&](const Case& c) {
      CHECK_PLAYED(c, run(
                          c,
                          [&](Plan& plan, const Group& group, const Case& c) {
                            if (binomial)
                              scatter_binomial(plan, group, kInput, kOutput, c.count, c.root);
                            else
                              scatter_linear(plan, group, kInput, kOutput, c.count, c.root);
                          },
                          [](MemberMemory& memory, int member, const Case& c) {
                            memory.output.resize(c.count);
                            if (member != c.root) return;
                            for (int to = 0; to < c.n; ++to)
                              for (std::size_t i = 0; i < c.count; ++i)
                                memory.input.push_back(number(c.root, to, i));
                          },
                          [](const MemberMemory& memory, int member, const Case& c) {
                            for (std::size_t i = 0; i < c.count && member != c.root; ++i)
                              if (!(memory.output[i] == number(c.root, member, i))) return false;
                            return true;
                          }));
    });
}

TEST_CASE("steps of gathers and scatters of blocks of any length") {
  for_cases(true, false, [&](const Case& base) {
    // Member m has m % 3 cells; they lie in reverse order, a cell apart.
    std::vector<std::size_t> lengths(z(base.n));
    std::vector<std::ptrdiff_t> places(z(base.n));
    std::size_t end = 1;
    for (int m = base.n - 1; m >= 0; --m) {
      lengths[z(m)] = z(m) % 3;
      places[z(m)] = static_cast<std::ptrdiff_t>(end);
      end += lengths[z(m)] + 1;
    }
    const auto place = [&](int m) { return static_cast<std::size_t>(places[z(m)]); };
    const auto fill = [&](std::vector<Cell>& cells, int m) {
      for (std::size_t i = 0; i < lengths[z(m)]; ++i) cells[place(m) + i] = number(m, 0, i);
    };
    const auto is_whole = [&](const std::vector<Cell>& cells) {
      for (int m = 0; m < base.n; ++m)
        for (std::size_t i = 0; i < lengths[z(m)]; ++i)
          if (!(cells[place(m) + i] == number(m, 0, i))) return false;
      return true;
    };
    const auto own = [&](std::vector<Cell>& cells, int m) {
      for (std::size_t i = 0; i < lengths[z(m)]; ++i) cells.push_back(number(m, 0, i));
    };
    CHECK_PLAYED(base, run(
                           base,
                           [&](Plan& plan, const Group& group, const Case& c) {
                             gatherv_linear(plan, group, kInput, lengths[z(group.rank)], kOutput,
                                            lengths.data(), places.data(), c.root);
                           },
                           [&](MemberMemory& memory, int m, const Case& c) {
                             if (m == c.root) {
                               memory.output.resize(end);
                               fill(memory.output, m);
                             }
                             own(memory.input, m);
                           },
                           [&](const MemberMemory& memory, int m, const Case& c) {
                             return m != c.root || is_whole(memory.output);
                           }));
    CHECK_PLAYED(base, run(
                           base,
                           [&](Plan& plan, const Group& group, const Case& c) {
                             scatterv_linear(plan, group, kInput, lengths.data(), places.data(),
                                             kOutput, lengths[z(group.rank)], c.root);
                           },
                           [&](MemberMemory& memory, int m, const Case& c) {
                             memory.output.resize(lengths[z(m)]);
                             if (m != c.root) return;
                             memory.input.resize(end);
                             for (int to = 0; to < c.n; ++to) fill(memory.input, to);
                           },
                           [&](const MemberMemory& memory, int m, const Case& c) {
                             std::vector<Cell> cells;
                             own(cells, m);
                             return m == c.root || memory.output == cells;
                           }));
    if (base.root != 0) return;
    for (const auto write : {allgatherv_ring, allgatherv_circulant})
      CHECK_PLAYED(base, run(
                             base,
                             [&](Plan& plan, const Group& group, const Case&) {
                               write(plan, group, kOutput, lengths.data(), places.data());
                             },
                             [&](MemberMemory& memory, int m, const Case&) {
                               memory.output.resize(end);
                               fill(memory.output, m);
                             },
                             [&](const MemberMemory& memory, int, const Case&) {
                               return is_whole(memory.output);
                             }));
  });
}

// --- allgather and all-to-all ---

TEST_CASE("steps of an allgather") {
  enum { kCirculant, kRing };
  for (const int kind : {kCirculant, kRing})
    for_cases(false, false, [&](const Case& c) {
      CHECK_PLAYED(c, run(
                          c,
                          [&](Plan& plan, const Group& group, const Case& c) {
                            if (kind == kCirculant)
                              allgather_circulant(plan, group, kOutput, c.count);
                            else
                              allgather_ring(plan, group, kOutput, c.count);
                          },
                          [](MemberMemory& memory, int member, const Case& c) {
                            memory.output.resize(z(c.n) * c.count);
                            for (std::size_t i = 0; i < c.count; ++i)
                              memory.output[z(member) * c.count + i] = number(member, 0, i);
                          },
                          [](const MemberMemory& memory, int, const Case& c) {
                            for (std::size_t i = 0; i < memory.output.size(); ++i)
                              if (!(memory.output[i] ==
                                    number(static_cast<int>(i / c.count), 0, i % c.count)))
                                return false;
                            return true;
                          }));
    });
}

TEST_CASE("steps of an all-to-all") {
  enum { kBruck, kPairwise, kVectors };
  for (const int kind : {kBruck, kPairwise, kVectors})
    for_cases(false, false, [&](const Case& c) {
      // Of vectors, the block from a to b has (a + b) % 3 * count cells.
      const auto length = [&](int a, int b) {
        return kind == kVectors ? z(a + b) % 3 * c.count : c.count;
      };
      std::vector<std::size_t> lengths(z(c.n));
      std::vector<std::ptrdiff_t> places(z(c.n));
      const auto lay_out = [&](int m) {
        std::size_t end = 0;
        for (int r = 0; r < c.n; ++r) {
          lengths[z(r)] = length(m, r);
          places[z(r)] = static_cast<std::ptrdiff_t>(end);
          end += lengths[z(r)];
        }
        return end;
      };
      CHECK_PLAYED(c, run(
                          c,
                          [&](Plan& plan, const Group& group, const Case& c) {
                            lay_out(group.rank);
                            if (kind == kBruck)
                              alltoall_bruck(plan, group, kInput, kOutput, c.count);
                            else if (kind == kPairwise)
                              alltoall_pairwise(plan, group, kInput, kOutput, c.count);
                            else
                              alltoallv_pairwise(plan, group, kInput, lengths.data(), places.data(),
                                                 kOutput, lengths.data(), places.data());
                          },
                          [&](MemberMemory& memory, int member, const Case& c) {
                            memory.output.resize(lay_out(member));
                            for (int to = 0; to < c.n; ++to)
                              for (std::size_t i = 0; i < length(member, to); ++i)
                                memory.input.push_back(number(member, to, i));
                          },
                          [&](const MemberMemory& memory, int member, const Case& c) {
                            std::size_t next = 0;
                            for (int from = 0; from < c.n; ++from)
                              for (std::size_t i = 0; i < length(from, member); ++i)
                                if (!(memory.output[next++] == number(from, member, i)))
                                  return false;
                            return true;
                          }));
    });
}

// --- reductions ---

constexpr std::size_t kUnit = 16;  // divides a line, to which the memory of plans is aligned

const Prepare kOperands = [](MemberMemory& memory, int member, const Case& c) {
  memory.output.resize(c.count);
  auto& own = c.in_place ? memory.output : memory.input;
  own.resize(c.count);
  for (std::size_t i = 0; i < c.count; ++i) own[i] = operand(member, i, c.commutative);
};

void for_reductions(bool rooted, const std::function<void(const Case&)>& check) {
  for_cases(rooted, true, [&](Case c) {
    for (c.commutative = true;; c.commutative = false) {
      for (const bool in_place : {false, true}) {
        c.in_place = in_place;
        check(c);
      }
      if (!c.commutative) break;
    }
  });
}

TEST_CASE("steps of a reduction") {
  enum { kBinomial, kRabenseifner, kCirculant };
  for (const int kind : {kBinomial, kRabenseifner, kCirculant})
    for_reductions(true, [&](const Case& c) {
      if (kind == kCirculant && !c.commutative) return;
      CHECK_PLAYED(c, run(
                          c,
                          [&](Plan& plan, const Group& group, const Case& c) {
                            const Vector vector{c.count, kUnit};
                            if (kind == kBinomial)
                              reduce_binomial(plan, group, kInput, kOutput, vector, c.commutative,
                                              c.root);
                            else if (kind == kRabenseifner)
                              reduce_rabenseifner(plan, group, kInput, kOutput, vector, c.root);
                            else
                              reduce_circulant(plan, group, kInput, kOutput, vector, c.root);
                          },
                          kOperands,
                          [](const MemberMemory& memory, int member, const Case& c) {
                            for (std::size_t i = 0; i < c.count && member == c.root; ++i)
                              if (!(memory.output[i] == folded(0, c.n - 1, i, c.commutative)))
                                return false;
                            return true;
                          },
                          kUnit));
    });
}

TEST_CASE("steps of an allreduce") {
  enum { kDoubling, kRabenseifner, kCirculant, kRing };
  for (const int kind : {kDoubling, kRabenseifner, kCirculant, kRing})
    for_reductions(false, [&](const Case& c) {
      if (!c.in_place || (kind >= kCirculant && !c.commutative)) return;
      CHECK_PLAYED(c, run(
                          c,
                          [&](Plan& plan, const Group& group, const Case& c) {
                            const Vector vector{c.count, kUnit};
                            if (kind == kDoubling)
                              allreduce_recursive_doubling(plan, group, kOutput, vector);
                            else if (kind == kRabenseifner)
                              allreduce_rabenseifner(plan, group, kOutput, vector);
                            else if (kind == kCirculant)
                              allreduce_circulant(plan, group, kOutput, vector);
                            else
                              allreduce_ring(plan, group, kOutput, vector);
                          },
                          kOperands,
                          [](const MemberMemory& memory, int, const Case& c) {
                            for (std::size_t i = 0; i < c.count; ++i)
                              if (!(memory.output[i] == folded(0, c.n - 1, i, c.commutative)))
                                return false;
                            return true;
                          },
                          kUnit));
    });
}

TEST_CASE("steps of a reduce-scatter") {
  enum { kBinomial, kCirculant, kPairwise };
  for (const int kind : {kBinomial, kCirculant, kPairwise})
    for_reductions(false, [&](const Case& c) {
      if (kind != kBinomial && !c.commutative) return;
      // What there is goes to the members in parts of 0, 1, 2, 0, 1, ... and the rest to the last.
      std::vector<std::size_t> parts(z(c.n));
      std::size_t left = c.count;
      for (int m = 0; m < c.n; ++m) {
        parts[z(m)] = m == c.n - 1 ? left : std::min(left, z(m) % 3);
        left -= parts[z(m)];
      }
      CHECK_PLAYED(c,
                   run(
                       c,
                       [&](Plan& plan, const Group& group, const Case&) {
                         const auto write = kind == kBinomial    ? reduce_scatter_binomial
                                            : kind == kCirculant ? reduce_scatter_circulant
                                                                 : reduce_scatter_pairwise;
                         write(plan, group, kInput, kOutput, parts.data(), kUnit);
                       },
                       kOperands,
                       [&](const MemberMemory& memory, int member, const Case& c) {
                         std::size_t first = 0;
                         for (int m = 0; m < member; ++m) first += parts[z(m)];
                         for (std::size_t i = 0; i < parts[z(member)]; ++i)
                           if (!(memory.output[i] == folded(0, c.n - 1, first + i, c.commutative)))
                             return false;
                         return true;
                       },
                       kUnit));
    });
}

TEST_CASE("steps of a scan") {
  for (const bool exclusive : {false, true})
    for (const auto write : {scan_recursive_doubling, scan_pairwise})
      for_reductions(false, [&](const Case& c) {
        if (!c.in_place) return;
        CHECK_PLAYED(c, run(
                            c,
                            [&](Plan& plan, const Group& group, const Case& c) {
                              write(plan, group, kOutput, {c.count, kUnit}, exclusive);
                            },
                            kOperands,
                            [&](const MemberMemory& memory, int member, const Case& c) {
                              const int last = exclusive ? std::max(member - 1, 0) : member;
                              for (std::size_t i = 0; i < c.count; ++i)
                                if (!(memory.output[i] == folded(0, last, i, c.commutative)))
                                  return false;
                              return true;
                            },
                            kUnit));
      });
}

// --- what they cost ---

double rounds(int n) { return std::ceil(std::log2(n)); }

TEST_CASE("what the steps cost, up to 1000 members") {
  const auto nothing = [](MemberMemory&, int, const Case&) {};
  const auto anything = [](const MemberMemory&, int, const Case&) { return true; };
  const auto room = [](MemberMemory& memory, int, const Case& c) {
    memory.output.resize(z(c.n) * c.count);
  };
  const Costs costs{1000, 1, 1000, 1, {}};
  for (const int n : {2, 3, 4, 7, 8, 16, 31, 64, 100, 1000}) {
    INFO("n " << n);
    const Case one{n, 1};
    Played played = run(
        one,
        [](Plan& plan, const Group& group, const Case&) { barrier_dissemination(plan, group); },
        nothing, anything, 1, costs);
    CHECK(played.errors == std::vector<std::string>());
    CHECK(played.time == Approx(rounds(n) * 1000));

    const Case some{n, 500};
    played = run(
        some,
        [](Plan& plan, const Group& group, const Case& c) {
          bcast_binomial(plan, group, kOutput, c.count, c.root);
        },
        kDataAtRoot, kDataEverywhere, 1, costs);
    CHECK(played.errors == std::vector<std::string>());
    CHECK(played.time <= rounds(n) * (1000 + 500) + 1);
    CHECK(played.num_messages == z(n) - 1);

    played = run(
        {n, 2},
        [](Plan& plan, const Group& group, const Case& c) {
          allgather_circulant(plan, group, kOutput, c.count);
        },
        room, anything, 1, costs);
    CHECK(played.errors == std::vector<std::string>());
    CHECK(played.time <= rounds(n) * 1000 + 2.0 * n + 1);

    played = run(
        {n, 40},
        [](Plan& plan, const Group& group, const Case& c) {
          allreduce_recursive_doubling(plan, group, kOutput, {c.count, 1});
        },
        kOperands, anything, 1, costs);
    CHECK(played.errors == std::vector<std::string>());
    CHECK(played.time <= (std::floor(std::log2(n)) + 2) * (1000 + 40) + 1);

    // A chain of n members, in segments: the first takes (n - 1) steps, the others one each.
    const double segments = 20;
    played = run(
        {n, 20 * 100},
        [](Plan& plan, const Group& group, const Case& c) {
          bcast_tree(plan, group, kOutput, c.count, c.root, 1, 100);
        },
        kDataAtRoot, kDataEverywhere, 1, costs);
    CHECK(played.errors == std::vector<std::string>());
    CHECK(played.time <= (segments + n - 2) * (1000 + 100) + 1);

    // The same segments along a hypercube.
    played = run(
        {n, 20 * 100},
        [](Plan& plan, const Group& group, const Case& c) {
          bcast_pipeline(plan, group, kOutput, c.count, c.root, 100);
        },
        kDataAtRoot, kDataEverywhere, 1, costs);
    CHECK(played.errors == std::vector<std::string>());
    CHECK(played.time <= (segments + rounds(n) - 1) * (1000 + 100) + 1);
  }
}

TEST_CASE("the player finds what is wrong") {
  std::vector<MemberMemory> memory(2);
  for (auto& own : memory) own.output.resize(4);
  const auto errors_of = [&](const std::function<void(Plan&)>& first,
                             const std::function<void(Plan&)>& second) {
    std::vector<Plan> plans(2);
    first(plans[0]);
    second(plans[1]);
    return play(plans, memory).errors;
  };
  const auto receive = [](Plan& plan) { plan.receive(0, kOutput, 2); };
  CHECK(errors_of([](Plan& plan) { plan.send(1, kOutput, 2); }, receive).empty());
  // Another length, no message at all, bounds.
  CHECK(!errors_of([](Plan& plan) { plan.send(1, kOutput, 1); }, receive).empty());
  CHECK(!errors_of([](Plan&) {}, receive).empty());
  CHECK(!errors_of([](Plan& plan) { plan.send(1, kOutput + 3, 2); }, receive).empty());
  // What is still sent is overwritten, what has not come is read.
  CHECK(!errors_of(
             [](Plan& plan) {
               plan.send(1, kOutput, 2);
               plan.copy(kOutput, kOutput + 2, 1);
             },
             receive)
             .empty());
  CHECK(!errors_of([](Plan& plan) { plan.send(1, kOutput, 2); },
                   [](Plan& plan) {
                     plan.receive(0, kOutput, 2);
                     plan.copy(kOutput + 2, kOutput, 1);
                   })
             .empty());
  CHECK(errors_of([](Plan& plan) { plan.send(1, kOutput, 2); },
                  [](Plan& plan) {
                    const int came = plan.receive(0, kOutput, 2);
                    plan.copy(kOutput + 2, kOutput, 1, came);
                  })
            .empty());
  // Both wait for the other to receive first.
  const auto send_first = [](int peer) {
    return [peer](Plan& plan) {
      plan.send(peer, kOutput, 1);
      plan.wait_all();
      plan.receive(peer, kOutput + 1, 1);
    };
  };
  CHECK(!errors_of(send_first(1), send_first(0)).empty());
}

}  // namespace
}  // namespace weft::test
