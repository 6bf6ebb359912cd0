// Loads a graph in parts and counts its triangles; rank 0 prints their number and the vertices'.
#include <weft/graph.hpp>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  weft::transport::Job job;
  const weft::graph::Graph graph = weft::graph::loadGraph(job, argv[1], {.undirected = true});
  weft::graph::Triangles found(graph);
  weft::graph::triangles(graph, {.per_vertex = false}, {}, found);
  if (job.rank() == 0)
    std::printf("%llu vertices, %llu triangle\n",
                static_cast<unsigned long long>(graph.num_vertices()),
                static_cast<unsigned long long>(found.total));
}
