// Fabrics and patterns of the paper's evaluation.
//
// The paper names some patterns only; the others are chosen after its rule: two 2-D and two 3-D
// grids, one of each that follows the fabric and one (nearly) square, random groups, and a 3-D grid
// with four processes per host. docs/use/mr4lms.md says which are the paper's own.
#include <algorithm>

#include "mcast/routing/paper/paper.hpp"

namespace weft::mcast {

namespace {

PaperPattern grid(const std::string& label, std::vector<uint32_t> sides, uint32_t per_host = 1) {
  return {label, std::move(sides), per_host, false};
}

PaperPattern random_groups(uint32_t count, uint32_t size) {
  return {"random", {count, size}, 1, true};
}

}  // namespace

const std::vector<PaperFabric>& paper_fabrics(bool quick) {
  static const std::vector<PaperFabric> full = {
      {"bluelight",
       "Sunway BlueLight",
       "supernodes",
       {34, 16, 16, 16, 8, 8},
       128,
       {grid("256x34", {256, 34}), grid("90x90", {90, 90}), grid("16x16x34", {16, 16, 34}),
        grid("20x20x20", {20, 20, 20}), random_groups(1088, 16),
        grid("64x16x34 x4", {64, 16, 34}, 4)}},
      {"taihulight",
       "Sunway TaihuLight",
       "supernodes",
       {160, 16, 16, 16, 32, 2},
       128,
       {grid("256x160", {256, 160}), grid("202x202", {202, 202}), grid("32x32x40", {32, 32, 40}),
        grid("34x34x34", {34, 34, 34}), random_groups(5120, 16),
        grid("128x32x40 x4", {128, 32, 40}, 4)}},
      {"paper-fat-tree",
       "fat tree of 40-port switches",
       "fat-tree",
       {40},
       128,
       {grid("400x40", {400, 40}), grid("126x126", {126, 126}), grid("20x20x40", {20, 20, 40}),
        grid("25x25x25", {25, 25, 25}), random_groups(2000, 16),
        grid("80x20x40 x4", {80, 20, 40}, 4)}},
      {"paper-torus",
       "torus 30x20x20",
       "torus",
       {30, 20, 20, 2},
       256,
       {grid("240x100", {240, 100}), grid("154x154", {154, 154}), grid("60x20x20", {60, 20, 20}),
        grid("28x28x28", {28, 28, 28}), random_groups(3000, 16),
        grid("240x20x20 x4", {240, 20, 20}, 4)}},
      {"paper-dragonfly",
       "dragonfly a=18, p=h=9",
       "dragonfly",
       {18, 9, 9},
       256,
       {grid("162x163", {162, 163}), grid("162x162", {162, 162}), grid("9x18x163", {9, 18, 163}),
        grid("29x29x29", {29, 29, 29}), random_groups(3300, 16),
        grid("36x18x163 x4", {36, 18, 163}, 4)}},
      {"paper-random",
       "random network",
       "random",
       {2048, 20, 20, 1},
       256,
       {grid("256x160", {256, 160}), grid("202x202", {202, 202}), grid("32x32x40", {32, 32, 40}),
        grid("34x34x34", {34, 34, 34}), random_groups(5120, 16),
        grid("128x32x40 x4", {128, 32, 40}, 4)}},
  };
  static const std::vector<PaperFabric> small = {
      {"bluelight",
       "BlueLight, small",
       "supernodes",
       {4, 4, 4, 4, 2, 4},
       8,
       {grid("16x4", {16, 4}), grid("8x8", {8, 8}), grid("16x4x4 x4", {16, 4, 4}, 4)}},
      {"taihulight",
       "TaihuLight, small",
       "supernodes",
       {8, 4, 4, 4, 4, 1},
       8,
       {grid("16x8", {16, 8}), grid("11x11", {11, 11}), grid("5x5x5", {5, 5, 5}),
        grid("16x4x8 x4", {16, 4, 8}, 4)}},
      {"paper-fat-tree",
       "fat tree of 8-port switches",
       "fat-tree",
       {8},
       8,
       {grid("16x8", {16, 8}), grid("5x5x5", {5, 5, 5}), random_groups(60, 6)}},
      {"paper-torus",
       "torus 5x4x4",
       "torus",
       {5, 4, 4, 2},
       16,
       {grid("40x4", {40, 4}), grid("5x5x5", {5, 5, 5}), random_groups(60, 6)}},
      {"paper-dragonfly",
       "dragonfly a=4, p=h=2",
       "dragonfly",
       {4, 2, 2},
       16,
       {grid("8x9", {8, 9}), grid("4x4x4", {4, 4, 4}), random_groups(60, 6)}},
      {"paper-random",
       "random network of 32 switches",
       "random",
       {32, 4, 6, 1},
       16,
       {grid("16x8", {16, 8}), grid("4x4x8", {4, 4, 8}), random_groups(60, 6)}},
  };
  return quick ? small : full;
}

const std::vector<PaperFabric>& scaling_fabrics(bool quick) {
  static const auto make = [](const std::vector<uint32_t>& ports) {
    std::vector<PaperFabric> made;
    for (const uint32_t k : ports) {
      const uint32_t hosts = k * k * k / 4;
      made.push_back({"scaling-" + std::to_string(k),
                      std::to_string(hosts) + " hosts",
                      "fat-tree",
                      {k},
                      kNone,
                      {random_groups(std::min(50000u, hosts / 2), 16)}});
    }
    return made;
  };
  static const std::vector<PaperFabric> full = make({20, 30, 40, 50, 60, 74});
  static const std::vector<PaperFabric> small = make({6, 8, 10});
  return quick ? small : full;
}

Status make_pattern(const Topology& topology, const PaperPattern& pattern,
                    std::vector<Group>* groups) {
  if (pattern.random) {
    return make_random_groups(topology, pattern.grid[0], pattern.grid[1], 1, groups);
  }
  return make_grid_groups(topology, pattern.grid, pattern.per_host, groups);
}

}  // namespace weft::mcast
