#pragma once
// EdgeFeed: this rank's share of the edges of a graph's files, in as many passes as loading needs.
//
// Edges in binary are read again in each pass: that costs no more than to keep them, and no memory.
// Text, which takes long to parse, and what can be read only once stay in memory until the last
// pass. In a graph that is to be streamed all plain files are read again.
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "file_source.hpp"
#include "graph/formats/edge_store.hpp"
#include "weft/graph/graph.hpp"
#include "weft/graph/team.hpp"
#include "weft/job.hpp"

namespace weft::graph {

class EdgeFeed {
 public:
  // `name` is that of the graph, for errors.
  EdgeFeed(transport::Job& job, Team& team, std::string name, bool weighted, bool keeps_text);

  // Whether the edges of such a file stay in memory.
  bool keeps(const FileFacts& facts) const noexcept {
    return facts.streamed() || (keeps_text_ && !facts.binary());
  }

  // Adds the edges of an open file, the same on all ranks. Collective; throws weft::Error on all
  // ranks alike.
  void add(std::unique_ptr<FileSource> source, const FileFacts& facts,
           const FileSource::Progress& progress);

  std::uint64_t size() const noexcept { return num_edges_; }  // by this rank, mirrored ones too
  VertexId largest() const noexcept { return largest_; }      // of their vertices
  bool weighted() const noexcept { return weighted_; }

  // A pass over a thread's edges: visit(source, destination, weight), and after_block() once in a
  // while. Each thread of the team does its own; the same edges in every pass. In the last one
  // memory is given back. No vertex is larger than largest(): files that have changed end the pass.
  template <class Visit, class AfterBlock>
  Status for_each(int thread, bool is_last, Visit&& visit, AfterBlock&& after_block) noexcept {
    const auto t = static_cast<std::size_t>(thread);
    kept_[t].for_each(is_last, visit, after_block);
    Status status;
    for (std::size_t i = 0; i < plain_.size() && status.ok(); ++i)
      status = read_plain(plain_[i], t, [&](EdgeStore& block) {
        block.for_each(false, visit, [] {});
        after_block();
      });
    return status;
  }

  // corrupt if a file is not what it was when it was added. Not collective.
  Status check_unchanged() const;

 private:
  struct Plain {
    std::unique_ptr<FileSource> source;
    std::uint64_t first_part, num_parts;  // of thread 0 here, and of all threads of all ranks
  };
  using OnBlock = std::function<void(EdgeStore&)>;
  Status read_plain(const Plain& plain, std::size_t thread, const OnBlock& on_block) noexcept;
  void count_plain(const Plain& plain, const FileSource::Progress& progress, Status& status,
                   std::uint64_t& num_entries);
  void keep(FileSource& source, const FileFacts& facts, std::uint64_t first_part,
            std::uint64_t num_parts, const FileSource::Progress& progress, Status& status);
  std::uint64_t num_kept_entries() const noexcept;
  Status no_memory(const std::exception& error) const {
    return {Code::no_memory, name_ + ": no memory for its edges: " + error.what()};
  }

  transport::Job& job_;
  Team& team_;
  std::string name_;
  bool weighted_, keeps_text_;
  std::vector<EdgeStore> kept_, blocks_;  // by thread
  std::vector<Plain> plain_;              // files that are read in each pass
  std::uint64_t num_edges_ = 0;
  VertexId largest_ = 0;
};

}  // namespace weft::graph
