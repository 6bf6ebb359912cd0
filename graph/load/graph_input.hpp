#pragma once
// GraphInput: the files of a graph and the names of its vertices, for all ranks; rank 0 looks for
// them and keeps the names.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "file_source.hpp"
#include "weft/graph/graph.hpp"
#include "weft/job.hpp"

namespace weft::graph {

class GraphInput {
 public:
  GraphInput(transport::Job& job, const std::string& path, const LoadOptions& options)
      : job_(job), path_(path), options_(options) {}

  // Collective, as all that follow; throws weft::Error on all ranks alike. First of all.
  void find();
  // Gives `facts`, of the first file, the identity of all: their bytes, and a number that differs
  // with when they were changed and with what the user says of how they are read.
  void identify(FileFacts& facts) const;
  // The number of vertices where the edges have those up to num_vertices - 1, which now are read:
  // at least one for each name, and none without where all names were given.
  std::uint64_t with_names(std::uint64_t num_vertices) const;

  // Not collective.
  const std::vector<std::string>& files() const noexcept { return files_; }  // of edges
  // Rank 0's names; null if the vertices have none.
  std::shared_ptr<VertexNames> names() const noexcept { return names_; }
  // The same while they are given as the edges are read.
  VertexNames* numbered() const noexcept { return is_named_ ? names_.get() : nullptr; }

 private:
  Status find_names();
  Status take_vertices();
  std::string unlisted() const;

  transport::Job& job_;
  const std::string& path_;
  const LoadOptions& options_;
  std::vector<std::string> files_;
  std::string vertices_;          // rank 0: Graphalytics' file of them; empty: none
  std::uint64_t num_listed_ = 0;  // vertices in it
  std::uint64_t num_names_ = 0;   // before edges are read
  bool is_named_ = false;
  std::shared_ptr<VertexNames> names_;
};

}  // namespace weft::graph
