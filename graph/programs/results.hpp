#pragma once
// Result files: by vertex id, as text or binary. Rank 0 writes; it reads the others' parts from
// their memory in pieces, so that it never holds all of them.
#include <string>
#include <string_view>

#include "algorithms.hpp"
#include "weft/status.hpp"

namespace weft::graph {

enum class ResultFormat {
  text,    // lines "vertex value ...", -1 where there is none; vertices by their names if they have
           // some, in quotes where one has a blank, a comma or a quote
  binary,  // records of values in this machine's byte order: bfs u32 depth and the parent's id;
           // sssp u64, or f64 by real weights; wcc the component's id, cdlp the label's; pagerank,
           // lcc and betweenness f64; triangles u64; kcore u32; all bits set where there is none
};

// A name as it stands in a result file; `is_value`: where -1 stands for none.
std::string written(std::string_view name, bool is_value);

// Collective; the same result on all ranks. After an error nothing of that name was changed.
Status write_result(const Graph& graph, const Bfs& result, ResultFormat format,
                    const std::string& path);
Status write_result(const Graph& graph, const Sssp& result, ResultFormat format,
                    const std::string& path);
Status write_result(const Graph& graph, const Wcc& result, ResultFormat format,
                    const std::string& path);
Status write_result(const Graph& graph, const PageRank& result, ResultFormat format,
                    const std::string& path);
Status write_result(const Graph& graph, const Cdlp& result, ResultFormat format,
                    const std::string& path);
Status write_result(const Graph& graph, const Lcc& result, ResultFormat format,
                    const std::string& path);
Status write_result(const Graph& graph, const Triangles& result, ResultFormat format,
                    const std::string& path);
Status write_result(const Graph& graph, const KCore& result, ResultFormat format,
                    const std::string& path);
Status write_result(const Graph& graph, const Betweenness& result, ResultFormat format,
                    const std::string& path);

}  // namespace weft::graph
