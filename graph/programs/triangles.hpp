#pragma once
// Sums over the triangles of the simple undirected graph below a graph, by ranks and threads.
//
// Each edge stands in the row of one of its ends, the one with fewer neighbors (of equal ones the
// smaller id), so that no row is longer than sqrt(2 |E|) (Chiba, Nishizeki: Arboricity and Subgraph
// Listing Algorithms, SIAM J. Comput. 1985). A triangle's vertices are v, u, w in this order, and
// the owner of v finds it as a vertex w that the rows of v and of u have in common: it marks those
// of v's row in a set of bits, and tests those of u's. Rows are sorted. A rank looks first for its
// own u; then it reads the rows of the others, some at a time, and looks for those u.
//
// While steps are saved, that goes by rounds: in each, every rank's next rows are those of the u.
// Which have been searched is saved for each vertex, so that others may go on with another cut.
#include <algorithm>
#include <span>
#include <type_traits>
#include <vector>

#include "weft/graph/algorithms.hpp"

namespace weft::graph {

// What threads count, apart from each other.
struct alignas(64) ThreadCount {
  std::uint64_t value = 0;
};

// The add of for_triangles that only counts: what all vertices get.
struct AddToCounts {
  std::vector<ThreadCount>& counts;
};

class ForwardRows {
 public:
  // With `directions`, amounts count in how many directions edges lead. Collective; throws
  // weft::Error.
  ForwardRows(const Graph& graph, bool directions);

  // Of the rank's own: how many neighbors it has.
  VertexId degree(VertexId vertex) const noexcept { return degrees_[vertex]; }

  // Calls add(thread, vertex, amount) on all threads at once, so that what each vertex gets on all
  // ranks together is, summed over its triangles, 1; or with directions, in how many of them
  // edges lead between its two neighbors. Without the rows that have been searched. Where the state
  // is to be saved, keep() is called before. Returns the number of steps. Collective; throws
  // weft::Error.
  template <class Add, class Keep>
  std::uint32_t for_triangles(const char* name, const RunOptions& options,
                              OwnedArray<std::uint8_t>& searched, Add add, Keep&& keep) const {
    std::vector<VertexSet> marks;
    for (int t = 0; t < graph_.num_threads(); ++t) marks.emplace_back(graph_);
    const auto search = [&](const Part& part) {
      if (counts_directions_)
        search_part<true>(part, marks, add);
      else
        search_part<false>(part, marks, add);
    };
    const int size = graph_.job().size(), rank = graph_.job().rank();
    if (options.resume_step == 0) std::fill_n(searched.data(), graph_.num_owned(), 0);
    const std::vector<std::vector<VertexId>> rounds = share_rounds(options, searched);
    std::uint32_t num_steps = options.resume_step;
    for (std::size_t round = 0; round + 1 < rounds[0].size(); ++round) {
      if (options.progress) options.progress(name, num_steps + 1);
      const auto& mine = rounds[static_cast<std::size_t>(rank)];
      const VertexId begin = mine[round], end = mine[round + 1];
      search({static_cast<VertexId>(graph_.first() + begin), &offsets_[begin], end - begin,
              vertices_.data() + offsets_[begin],
              counts_directions_ ? directions_.data() + offsets_[begin] : nullptr,
              options.resume_step > 0 ? searched.data() + begin : nullptr});
      for (int step = 1; step < size; ++step) {
        const int owner = (rank + step) % size;
        const auto& theirs = rounds[static_cast<std::size_t>(owner)];
        if (!read_parts(owner, theirs[round], theirs[round + 1], options, searched, search)) break;
      }
      // All have read before any row counts as searched.
      end_reading();
      ++num_steps;
      std::fill(searched.data() + begin, searched.data() + end, 1);
      if (round + 2 == rounds[0].size() || !options.saves_after(num_steps)) continue;
      keep();
      options.save(num_steps);
    }
    return num_steps;
  }

 private:
  // Rows of consecutive vertices.
  struct Part {
    VertexId first;
    const std::uint64_t* offsets;  // one more than vertices; counted from the first one's
    VertexId num_vertices;
    const VertexId* vertices;
    const std::uint8_t* directions;
    const std::uint8_t* searched;  // by vertex; null: none is
    std::span<const VertexId> row(VertexId i) const {
      return {vertices + (offsets[i] - offsets[0]), offsets[i + 1] - offsets[i]};
    }
    // Not to be read where directions do not count.
    const std::uint8_t* directions_of(VertexId i) const {
      return directions == nullptr ? nullptr : directions + (offsets[i] - offsets[0]);
    }
  };
  // The location of a rank's rows.
  struct Remote {
    transport::RemoteMemory offsets, vertices, directions;
  };

  // For each rank the bounds between rounds, counted from its first vertex; as many for all.
  std::vector<std::vector<VertexId>> share_rounds(const RunOptions& options,
                                                  const OwnedArray<std::uint8_t>& searched) const;

  // Triangles of which v is the rank's own and u in the part.
  template <bool kDirections, class Add>
  void search_part(const Part& part, std::vector<VertexSet>& all_marks, Add& add) const {
    const Part mine{graph_.first(),   offsets_.data(),    graph_.num_owned(),
                    vertices_.data(), directions_.data(), nullptr};
    detail::WorkCounter work(graph_.num_owned(), {.grain = 16}, graph_.num_threads());
    graph_.team().run([&](int thread) {
      VertexSet& marks = all_marks[static_cast<std::size_t>(thread)];
      work.work(thread, [&](std::uint64_t begin, std::uint64_t end) {
        for (auto i = static_cast<VertexId>(begin); i < end; ++i) {
          const std::span<const VertexId> row = mine.row(i);
          auto at = static_cast<std::size_t>(std::lower_bound(row.begin(), row.end(), part.first) -
                                             row.begin());
          if (at == row.size() || row[at] - part.first >= part.num_vertices) continue;
          for (const VertexId w : row) marks.insert_alone(w);
          for (; at < row.size() && row[at] - part.first < part.num_vertices; ++at) {
            const VertexId u = row[at] - part.first;
            if (part.searched != nullptr && part.searched[u] != 0) continue;
            add_common<kDirections>(thread, mine, i, at, part, u, marks, add);
          }
          for (const VertexId w : row) marks.erase(w);
        }
      });
    });
  }

  // The triangles of the edge at place `at` of v's row, which leads to u.
  template <bool kDirections, class Add>
  static void add_common(int thread, const Part& mine, VertexId v, std::size_t at, const Part& part,
                         VertexId u, const VertexSet& marks, Add& add) {
    const std::span<const VertexId> row = mine.row(v), other = part.row(u);
    std::uint64_t of_v = 0, of_u = 0;
    if constexpr (std::is_same_v<Add, AddToCounts>) {
      for (const VertexId w : other) of_v += marks.contains(w) ? 1 : 0;
      add.counts[static_cast<std::size_t>(thread)].value += 3 * of_v;
    } else {
      const std::uint8_t* const ways = mine.directions_of(v);
      const std::uint8_t* const other_ways = part.directions_of(u);
      for (std::size_t b = 0; b < other.size(); ++b) {
        const VertexId w = other[b];
        if (!marks.contains(w)) continue;
        if constexpr (kDirections) {
          add(thread, w, std::uint64_t{ways[at]});
          of_v += other_ways[b];
          of_u += ways[std::lower_bound(row.begin(), row.end(), w) - row.begin()];
        } else {
          add(thread, w, std::uint64_t{1});
          ++of_v;
          ++of_u;
        }
      }
      if (of_u > 0) add(thread, part.first + u, of_u);
      if (of_v > 0) add(thread, mine.first + v, of_v);
    }
  }

  // Reads the owner's rows from `from` to `to`, counted from its first, and calls search(part) for
  // each piece of them. False: the owner is lost.
  template <class Search>
  bool read_parts(int owner, VertexId from, VertexId to, const RunOptions& options,
                  const OwnedArray<std::uint8_t>& searched, Search&& search) const {
    const auto place = static_cast<std::size_t>(owner);
    const VertexId first = graph_.cut()[place] + from, size = to - from;
    if (size == 0) return true;
    const Remote& remote = remotes_[place];
    Buffer<std::uint64_t> offsets(nullptr, std::size_t{size} + 1);
    if (!read(remote.offsets, offsets.data(), from, offsets.size())) return false;
    std::vector<std::uint8_t> has_searched(options.resume_step > 0 ? size : 0);
    if (!has_searched.empty() &&
        !read(searched.remotes()[place], has_searched.data(), from, has_searched.size()))
      return false;
    std::vector<VertexId> vertices;
    std::vector<std::uint8_t> directions;
    for (VertexId begin = 0, end = 0; begin < size; begin = end) {
      // At least one row.
      for (++end; end < size && offsets[end + 1] - offsets[begin] <= options.edges_at_once;) ++end;
      const std::uint64_t count = offsets[end] - offsets[begin];
      if (count == 0) continue;
      vertices.resize(count);
      if (!read(remote.vertices, vertices.data(), offsets[begin], count)) return false;
      if (counts_directions_) {
        directions.resize(count);
        if (!read(remote.directions, directions.data(), offsets[begin], count)) return false;
      }
      search(Part{static_cast<VertexId>(first + begin), &offsets[begin],
                  static_cast<VertexId>(end - begin), vertices.data(), directions.data(),
                  has_searched.empty() ? nullptr : has_searched.data() + begin});
    }
    return true;
  }
  // False: its owner is lost, which the next collective call reports. Throws other errors.
  template <class T>
  bool read(const transport::RemoteMemory& from, T* to, std::uint64_t begin,
            std::uint64_t count) const {
    return read_bytes(from.part(begin * sizeof(T), count * sizeof(T)), to, count * sizeof(T));
  }
  bool read_bytes(const transport::RemoteMemory& from, void* to, std::size_t bytes) const;
  // Rows stay until all ranks have read them.
  void end_reading() const;

  const Graph& graph_;
  bool counts_directions_;
  OwnedArray<VertexId> degrees_;
  Buffer<std::uint64_t> offsets_;  // of the rank's own vertices, and one more
  Buffer<VertexId> vertices_;
  Buffer<std::uint8_t> directions_;  // 1 or 2 for each of vertices_; empty if they do not count
  std::vector<Remote> remotes_;      // of all ranks; empty in a job of one
};

}  // namespace weft::graph
