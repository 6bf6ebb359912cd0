// The printed summary of results: sums over all ranks.
#include <algorithm>
#include <utility>

#include "algorithms.hpp"
#include "graph/common/agree.hpp"
#include "graph/programs/add_to_owners.hpp"

namespace weft::graph {

BfsSummary summarize(const Graph& graph, const Bfs& result) {
  BfsSummary sum;
  for (VertexId v = graph.first(); v < graph.last(); ++v) {
    if (result.depth[v] == kUnreached) continue;
    ++sum.reached;
    sum.sum_depth += result.depth[v];
    sum.max_depth = std::max<std::uint64_t>(sum.max_depth, result.depth[v]);
    sum.reached_edges += graph.out_degree(v);
  }
  std::uint64_t sums[] = {sum.reached, sum.sum_depth, sum.reached_edges};
  throw_if(graph.job().all_reduce(std::span(sums), std::plus<>()));
  throw_if(graph.job().all_reduce(sum.max_depth, transport::Max()));
  return {sums[0], sums[1], sum.max_depth, sums[2]};
}

SsspSummary summarize(const Graph& graph, const Sssp& result) {
  SsspSummary sum;
  for (VertexId v = graph.first(); v < graph.last(); ++v) {
    const std::uint64_t distance = result.distance[v];
    if (distance == kFar) continue;
    ++sum.reached;
    if (graph.has_real_weights())
      sum.sum_real += real_distance(distance);
    else
      sum.sum_distance += distance;
    if (sum.farthest != kNoVertex && distance <= sum.max_distance) continue;
    sum.max_distance = distance;
    sum.farthest = v;
  }
  throw_if(graph.job().all_reduce(sum.reached, std::plus<>()));
  throw_if(graph.job().all_reduce(sum.sum_distance, std::plus<>()));
  throw_if(graph.job().all_reduce(sum.sum_real, std::plus<>()));
  const std::uint64_t mine = sum.max_distance;
  throw_if(graph.job().all_reduce(sum.max_distance, transport::Max()));
  if (mine != sum.max_distance) sum.farthest = kNoVertex;
  throw_if(graph.job().all_reduce(sum.farthest, transport::Min()));
  if (graph.has_real_weights()) sum.max_real = real_distance(std::exchange(sum.max_distance, 0));
  return sum;
}

namespace {

// Vertices of the same name.
struct Groups {
  std::uint64_t num = 0, largest = 0, singletons = 0, sum_names = 0;
};

Groups groups_of(const Graph& graph, const OwnedArray<VertexId>& names) {
  // Members of each group, added up by the owners of their names.
  VertexArray<std::uint64_t> members(graph, 0);
  VertexSet others(graph);
  Groups groups;
  for (VertexId v = graph.first(); v < graph.last(); ++v) {
    const VertexId name = names[v];
    ++members[name];
    if (!graph.owns(name)) others.insert_alone(name);
    groups.sum_names += name;
  }
  add_to_owners(graph, members, others);
  for (VertexId v = graph.first(); v < graph.last(); ++v) {
    if (members[v] == 0) continue;
    ++groups.num;
    groups.largest = std::max(groups.largest, members[v]);
    groups.singletons += members[v] == 1 ? 1 : 0;
  }
  std::uint64_t sums[] = {groups.num, groups.singletons, groups.sum_names};
  throw_if(graph.job().all_reduce(std::span(sums), std::plus<>()));
  throw_if(graph.job().all_reduce(groups.largest, transport::Max()));
  return {sums[0], groups.largest, sums[1], sums[2]};
}

}  // namespace

WccSummary summarize(const Graph& graph, const Wcc& result) {
  const Groups groups = groups_of(graph, result.component);
  return {groups.num, groups.largest, groups.singletons, groups.sum_names};
}

CdlpSummary summarize(const Graph& graph, const Cdlp& result) {
  const Groups groups = groups_of(graph, result.label);
  return {groups.num, groups.largest, groups.sum_names};
}

namespace {

// The largest values of all ranks, of equal ones those of smaller vertices.
std::vector<std::pair<VertexId, double>> top_of(const Graph& graph,
                                                const OwnedArray<double>& values) {
  constexpr std::size_t kTop = 10;
  using Entry = std::pair<VertexId, double>;
  struct Plain {
    VertexId vertex;
    double value;
  };
  std::vector<Entry> top;
  const auto better = [](const Entry& a, const Entry& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  };
  for (VertexId v = graph.first(); v < graph.last(); ++v) {
    const Entry entry{v, values[v]};
    if (top.size() == kTop && !better(entry, top.back())) continue;
    top.insert(std::upper_bound(top.begin(), top.end(), entry, better), entry);
    if (top.size() > kTop) top.pop_back();
  }
  std::vector<Plain> mine, all;
  for (const auto& [vertex, value] : top) mine.push_back({vertex, value});
  std::vector<std::size_t> counts;
  throw_if(graph.job().all_gather(std::span<const Plain>(mine), all, counts));
  top.clear();
  for (const Plain& entry : all) top.emplace_back(entry.vertex, entry.value);
  std::sort(top.begin(), top.end(), better);
  top.resize(std::min(top.size(), kTop));
  return top;
}

}  // namespace

PageRankSummary summarize(const Graph& graph, const PageRank& result) {
  PageRankSummary sum;
  for (VertexId v = graph.first(); v < graph.last(); ++v) sum.sum += result.rank[v];
  throw_if(graph.job().all_reduce(sum.sum, std::plus<>()));
  sum.top = top_of(graph, result.rank);
  return sum;
}

BetweennessSummary summarize(const Graph& graph, const Betweenness& result) {
  BetweennessSummary sum;
  for (VertexId v = graph.first(); v < graph.last(); ++v) sum.scored += result.score[v] > 0 ? 1 : 0;
  throw_if(graph.job().all_reduce(sum.scored, std::plus<>()));
  sum.top = top_of(graph, result.score);
  return sum;
}

LccSummary summarize(const Graph& graph, const Lcc& result) {
  LccSummary sum;
  for (VertexId v = graph.first(); v < graph.last(); ++v) {
    sum.average += result.coefficient[v];
    sum.largest = std::max(sum.largest, result.coefficient[v]);
    sum.clustered += result.coefficient[v] > 0 ? 1 : 0;
  }
  throw_if(graph.job().all_reduce(sum.average, std::plus<>()));
  throw_if(graph.job().all_reduce(sum.largest, transport::Max()));
  throw_if(graph.job().all_reduce(sum.clustered, std::plus<>()));
  sum.average /= static_cast<double>(graph.num_vertices());
  return sum;
}

KCoreSummary summarize(const Graph& graph, const KCore& result) {
  KCoreSummary sum;
  for (VertexId v = graph.first(); v < graph.last(); ++v) {
    sum.sum_core += result.core[v];
    sum.largest = std::max<std::uint64_t>(sum.largest, result.core[v]);
  }
  throw_if(graph.job().all_reduce(sum.largest, transport::Max()));
  for (VertexId v = graph.first(); v < graph.last(); ++v)
    sum.innermost += result.core[v] == sum.largest ? 1 : 0;
  std::uint64_t sums[] = {sum.innermost, sum.sum_core};
  throw_if(graph.job().all_reduce(std::span(sums), std::plus<>()));
  return {sum.largest, sums[0], sums[1]};
}

}  // namespace weft::graph
