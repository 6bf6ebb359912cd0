#pragma once
// Sums over the triangles of the simple undirected graph below a graph, by ranks and threads.
//
// Each edge stands in the row of one of its ends, the one with fewer neighbors (of equal ones the
// smaller id), so that no row is longer than sqrt(2 |E|) (Chiba, Nishizeki: Arboricity and Subgraph
// Listing Algorithms, SIAM J. Comput. 1985). A triangle's vertices are v, u, w in this order, and
// the owner of v finds it as a vertex w that the rows of v and of u have in common: it marks those
// of v's row in a set of bits, and tests those of u's. Rows are sorted. A rank looks first for its
// own u; then it reads the rows of the others, some at a time, and looks for those u.
#include <algorithm>
#include <span>
#include <vector>

#include "weft/graph/algorithms.hpp"

namespace weft::graph {

class ForwardRows {
 public:
  // With `directions`, amounts count in how many directions edges lead. Collective; throws
  // weft::Error.
  ForwardRows(const Graph& graph, bool directions);

  // Of the rank's own: how many neighbors it has.
  VertexId degree(VertexId vertex) const noexcept { return degrees_[vertex]; }

  // Calls add(thread, vertex, amount) on all threads at once, so that what each vertex gets on all
  // ranks together is, summed over its triangles, 1; or with directions, in how many of them
  // edges lead between its two neighbors. Collective; throws weft::Error.
  template <class Add>
  void for_triangles(std::size_t edges_at_once, Add&& add) const {
    for_rows(edges_at_once, [&](int thread, const Common& common) {
      if (counts_directions_)
        add_triangles<true>(thread, common, add);
      else
        add_triangles<false>(thread, common, add);
    });
  }
  // Triangles that this rank finds, each once. Collective; throws weft::Error.
  std::uint64_t count(std::size_t edges_at_once) const {
    std::vector<Count> counts(static_cast<std::size_t>(graph_.num_threads()));
    for_rows(edges_at_once, [&](int thread, const Common& common) {
      std::uint64_t found = 0;
      for (const VertexId w : common.other) found += common.marks.contains(w) ? 1 : 0;
      counts[static_cast<std::size_t>(thread)].value += found;
    });
    std::uint64_t sum = 0;
    for (const Count& count : counts) sum += count.value;
    return sum;
  }

 private:
  // Rows of consecutive vertices.
  struct Part {
    VertexId first;
    const std::uint64_t* offsets;  // one more than vertices; counted from the first one's
    VertexId num_vertices;
    const VertexId* vertices;
    const std::uint8_t* directions;
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

  // The rows of v, whose vertices are marked, and of u, at place `at` of v's.
  struct Common {
    VertexId v, u;
    std::size_t at;
    std::span<const VertexId> row, other;
    const std::uint8_t *ways, *other_ways;  // their directions
    const VertexSet& marks;
  };
  struct alignas(64) Count {
    std::uint64_t value = 0;
  };

  // visit(thread, common) for all edges between v, the rank's own, and u, in rows of all ranks.
  template <class Visit>
  void for_rows(std::size_t edges_at_once, Visit&& visit) const {
    std::vector<VertexSet> marks;
    for (int t = 0; t < graph_.num_threads(); ++t) marks.emplace_back(graph_);
    const auto search = [&](const Part& part) { search_part(part, marks, visit); };
    search({graph_.first(), offsets_.data(), graph_.num_owned(), vertices_.data(),
            directions_.data()});
    const int size = graph_.job().size(), rank = graph_.job().rank();
    for (int step = 1; step < size; ++step)
      if (!read_parts((rank + step) % size, edges_at_once, search)) break;
    end_reading();
  }

  // The same for u in the part.
  template <class Visit>
  void search_part(const Part& part, std::vector<VertexSet>& all_marks, Visit& visit) const {
    const Part mine{graph_.first(), offsets_.data(), graph_.num_owned(), vertices_.data(),
                    directions_.data()};
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
            const VertexId u = row[at], other = u - part.first;
            visit(thread,
                  Common{static_cast<VertexId>(graph_.first() + i), u, at, row, part.row(other),
                         mine.directions_of(i), part.directions_of(other), marks});
          }
          for (const VertexId w : row) marks.erase(w);
        }
      });
    });
  }

  template <bool kDirections, class Add>
  static void add_triangles(int thread, const Common& common, Add& add) {
    std::uint64_t of_v = 0, of_u = 0;
    for (std::size_t b = 0; b < common.other.size(); ++b) {
      const VertexId w = common.other[b];
      if (!common.marks.contains(w)) continue;
      if constexpr (kDirections) {
        const auto a =
            std::lower_bound(common.row.begin(), common.row.end(), w) - common.row.begin();
        add(thread, w, common.ways[common.at]);
        of_v += common.other_ways[b];
        of_u += common.ways[a];
      } else {
        add(thread, w, 1);
        ++of_v;
        ++of_u;
      }
    }
    if (of_u > 0) add(thread, common.u, of_u);
    if (of_v > 0) add(thread, common.v, of_v);
  }

  // Reads the owner's rows and calls search(part) for each piece of them. False: the owner is lost.
  template <class Search>
  bool read_parts(int owner, std::size_t edges_at_once, Search&& search) const {
    const auto place = static_cast<std::size_t>(owner);
    const VertexId first = graph_.cut()[place], size = graph_.cut()[place + 1] - first;
    if (size == 0) return true;
    const Remote& remote = remotes_[place];
    Buffer<std::uint64_t> offsets(nullptr, std::size_t{size} + 1);
    if (!read(remote.offsets, offsets.data(), 0, offsets.size())) return false;
    std::vector<VertexId> vertices;
    std::vector<std::uint8_t> directions;
    for (VertexId begin = 0, end = 0; begin < size; begin = end) {
      // At least one row.
      for (++end; end < size && offsets[end + 1] - offsets[begin] <= edges_at_once;) ++end;
      const std::uint64_t count = offsets[end] - offsets[begin];
      if (count == 0) continue;
      vertices.resize(count);
      if (!read(remote.vertices, vertices.data(), offsets[begin], count)) return false;
      if (counts_directions_) {
        directions.resize(count);
        if (!read(remote.directions, directions.data(), offsets[begin], count)) return false;
      }
      search(Part{static_cast<VertexId>(first + begin), &offsets[begin],
                  static_cast<VertexId>(end - begin), vertices.data(), directions.data()});
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
