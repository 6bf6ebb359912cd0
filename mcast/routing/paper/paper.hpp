#pragma once
// The evaluation of the MR4LMS paper: its fabrics and patterns of groups, the runs, the pictures.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "weft/mcast_routing.hpp"

namespace weft::mcast {

struct PaperPattern {
  std::string label;
  std::vector<uint32_t> grid;  // sides of the grid of processes; for random groups: count, size
  uint32_t per_host = 1;
  bool random = false;
};

struct PaperFabric {
  std::string name;   // the preset
  std::string title;  // for pictures
  std::string kind;
  std::vector<uint32_t> sizes;
  uint32_t recommended = 128;  // entries, table 4 of the paper
  std::vector<PaperPattern> patterns;
};

// The six fabrics at full size, or small ones of the same kinds.
const std::vector<PaperFabric>& paper_fabrics(bool quick);

// Fat trees of growing size with random groups, half as many as hosts, for time and memory by size.
const std::vector<PaperFabric>& scaling_fabrics(bool quick);

Status make_pattern(const Topology& topology, const PaperPattern& pattern,
                    std::vector<Group>* groups);

struct PaperOptions {
  std::string out;   // folder for everything
  std::string only;  // one fabric's name, or "scaling"; empty: all
  std::string runs;  // only runs whose name contains this
  bool quick = false;
  bool draw_only = false;  // draw again from the results that the folder holds
};

// Runs what results.json in the folder lacks, each run in a process of its own so that its memory
// can be reported, and leaves results.json there.
Status run_paper(const PaperOptions& options, nlohmann::json* results);

// Draws figures 6 to 12, the heat maps and index.html from the results.
Status draw_paper(const PaperOptions& options, const nlohmann::json& results);

}  // namespace weft::mcast
