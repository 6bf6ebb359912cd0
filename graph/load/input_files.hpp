#pragma once
// The files of a graph: one, several, those of a folder, standard input, or Graphalytics' pair of a
// file of vertices (.v) and one of edges (.e).
#include <cstdint>
#include <string>
#include <vector>

#include "weft/graph/names.hpp"
#include "weft/status.hpp"

namespace weft::graph {

struct InputFiles {
  std::vector<std::string> edges;  // at least one
  std::string vertices;            // of Graphalytics; empty: none
};

// `path` and `more` as the user gives them. not_found, not_permitted, or bad_argument for a folder
// without files.
Status find_files(const std::string& path, const std::vector<std::string>& more, InputFiles& files);

// The bytes of all, and a number that differs when one of them was changed.
Status identify(const std::vector<std::string>& paths, std::uint64_t& bytes,
                std::int64_t& changed_ns);

// Graphalytics' vertices, a line each, into `names`; *are_numbers: they are 0, 1, 2, ... in order.
Status read_vertices(const std::string& path, VertexNames& names, bool* are_numbers);

}  // namespace weft::graph
