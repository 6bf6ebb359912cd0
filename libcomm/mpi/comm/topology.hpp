#pragma once
// Topology: the neighbourhood attached to a communicator.
#include <vector>

#include "mpi/comm/comm.hpp"

namespace weft::mpi {

struct Topology {
  int kind = MPI_UNDEFINED;  // MPI_CART, MPI_GRAPH or MPI_DIST_GRAPH

  // MPI_CART
  std::vector<int> dims;
  std::vector<int> periods;
  std::vector<int> coords;  // of this process

  // MPI_GRAPH, as given to MPI_Graph_create
  std::vector<int> index;
  std::vector<int> edges;

  // MPI_DIST_GRAPH: this process's neighbours
  std::vector<int> sources;
  std::vector<int> source_weights;
  std::vector<int> destinations;
  std::vector<int> destination_weights;
  bool weighted = false;
};

// Returns the rank at these coordinates of a cartesian topology; MPI_PROC_NULL outside a dimension
// that is not periodic.
int cart_rank(const Topology& topology, const int* coords);
// Stores the coordinates of a rank.
void cart_coords(const Topology& topology, int rank, int* coords);

// Lists the ranks that neighbourhood collectives receive from and send to, in their order.
void neighbors(const Comm& comm, std::vector<int>& sources, std::vector<int>& destinations);

}  // namespace weft::mpi
