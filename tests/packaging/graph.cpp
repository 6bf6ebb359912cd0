// Loads a graph in parts; rank 0 prints the number of its vertices.
#include <weft/graph.hpp>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  weft::transport::Job job;
  const weft::graph::Graph graph = weft::graph::loadGraph(job, argv[1]);
  if (job.rank() == 0)
    std::printf("%llu vertices\n", static_cast<unsigned long long>(graph.num_vertices()));
}
