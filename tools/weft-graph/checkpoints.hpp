#pragma once
// Checkpoints: the file of --checkpoint, from which a run goes on if it is there, which is replaced
// every so often, and removed once all is done. A run is one search, or one for each source.
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "commands.hpp"
#include "graph/engine/checkpoint.hpp"

namespace weft::graph {

// All calls but num_ended() and found() are collective and throw weft::Error, the same on all
// ranks. Without --checkpoint they do nothing.
class Checkpoints {
 public:
  // The columns are the state of a search.
  Checkpoints(const Graph& graph, const RunArguments& arguments,
              const std::vector<VertexId>& sources, std::vector<Parts> columns);

  // Reads the state, if there is one. is_possible(vertex, step): whether the rank's vertex may have
  // its value after that step.
  void load(const std::function<bool(VertexId, std::uint32_t)>& is_possible);
  std::uint32_t num_ended() const { return progress_.num_ended; }
  const std::string& found() const { return progress_.found; }

  // For the search that comes next.
  RunOptions options();
  // It has ended; `found`: all that those before it and it have found. Saves that if it is time to.
  void search_ended(std::string found, bool is_last);

 private:
  bool is_due();
  void save(std::uint32_t step);
  void note_start() const;

  const Graph& graph_;
  const RunArguments& arguments_;
  std::string path_;  // empty: no checkpoints
  std::vector<Parts> columns_;
  CheckpointKey key_;
  RunProgress progress_;
  std::chrono::steady_clock::time_point saved_ = std::chrono::steady_clock::now();
};

// The file that --checkpoint names: in a folder ALGORITHM.checkpoint. Empty without --checkpoint.
std::string checkpoint_path(const RunArguments& arguments);

}  // namespace weft::graph
