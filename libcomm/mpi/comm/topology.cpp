// Cartesian, graph and distributed graph topologies.
#include "mpi/comm/topology.hpp"

#include <algorithm>
#include <numeric>

namespace weft::mpi {

int cart_rank(const Topology& topology, const int* coords) {
  long rank = 0;
  for (std::size_t d = 0; d < topology.dims.size(); ++d) {
    const int size = topology.dims[d];
    int coord = coords[d];
    if (coord < 0 || coord >= size) {
      if (topology.periods[d] == 0) return MPI_PROC_NULL;
      coord %= size;
      if (coord < 0) coord += size;
    }
    rank = rank * size + coord;
  }
  return static_cast<int>(rank);
}

void cart_coords(const Topology& topology, int rank, int* coords) {
  for (std::size_t d = topology.dims.size(); d-- > 0;) {
    coords[d] = rank % topology.dims[d];
    rank /= topology.dims[d];
  }
}

void neighbors(const Comm& comm, std::vector<int>& sources, std::vector<int>& destinations) {
  const Topology& topology = *comm.topology;
  sources.clear();
  destinations.clear();
  if (topology.kind == MPI_DIST_GRAPH) {
    sources = topology.sources;
    destinations = topology.destinations;
    return;
  }
  if (topology.kind == MPI_GRAPH) {
    const auto rank = static_cast<std::size_t>(comm.rank);
    const int begin = rank == 0 ? 0 : topology.index[rank - 1];
    sources.assign(topology.edges.begin() + begin, topology.edges.begin() + topology.index[rank]);
    destinations = sources;
    return;
  }
  // The standard's order: for each dimension the neighbour below, then the one above.
  for (std::size_t d = 0; d < topology.dims.size(); ++d) {
    for (const int step : {-1, 1}) {
      std::vector<int> coords = topology.coords;
      coords[d] += step;
      sources.push_back(cart_rank(topology, coords.data()));
    }
  }
  destinations = sources;
}

namespace {

// Finds the communicator and its topology of this kind; the error is raised, its code in `code`.
const Topology* find_topology(MPI_Comm handle, int kind, Comm*& comm, int& code,
                              const char* function) {
  comm = find_comm(handle);
  if (comm == nullptr) {
    code = raise(nullptr, MPI_ERR_COMM, function);
    return nullptr;
  }
  if (comm->topology == nullptr || comm->topology->kind != kind) {
    code = raise(comm, MPI_ERR_TOPOLOGY, function);
    return nullptr;
  }
  return comm->topology.get();
}

// Returns the number of processes of a grid; -1: a dimension is not positive, or the number too
// large.
long grid_size(int ndims, const int* dims) {
  long size = 1;
  for (int d = 0; d < ndims; ++d) {
    if (dims[d] <= 0) return -1;
    if (__builtin_mul_overflow(size, static_cast<long>(dims[d]), &size)) return -1;
  }
  return size;
}

// Splits off the first `size` processes; the others get MPI_COMM_NULL.
int make_topology_comm(Comm* comm, long size, std::unique_ptr<Topology> topology, MPI_Comm* out,
                       const char* function) {
  topology->coords.resize(topology->dims.size());
  Comm* made;
  const int code = split(comm, comm->rank < size ? 0 : MPI_UNDEFINED, comm->rank, made, function);
  if (made == nullptr) return code;
  if (topology->kind == MPI_CART) cart_coords(*topology, made->rank, topology->coords.data());
  made->topology = std::move(topology);
  *out = made->handle;
  return MPI_SUCCESS;
}

int check_intracomm(MPI_Comm handle, Comm*& comm, const void* out, const char* function) {
  comm = find_comm(handle);
  if (comm == nullptr) return raise(nullptr, MPI_ERR_COMM, function);
  if (comm->is_inter()) return raise(comm, MPI_ERR_COMM, function, "an intercommunicator");
  if (out == nullptr) return raise(comm, MPI_ERR_ARG, function, "the result is null");
  return MPI_SUCCESS;
}

bool is_rank_or_null(const Comm& comm, int rank) {
  return rank == MPI_PROC_NULL || (rank >= 0 && rank < comm.size());
}

}  // namespace
}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Topo_test)(MPI_Comm comm, int* status) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (status == nullptr) return raise(object, MPI_ERR_ARG, __func__, "status is null");
  *status = object->topology == nullptr ? MPI_UNDEFINED : object->topology->kind;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Cart_create)
(MPI_Comm comm_old, int ndims, const int* dims, const int* periods, int /*reorder*/,
 MPI_Comm* comm_cart) {
  Comm* comm;
  const int code = check_intracomm(comm_old, comm, comm_cart, __func__);
  if (code != MPI_SUCCESS) return code;
  *comm_cart = MPI_COMM_NULL;
  if (ndims < 0) return raise(comm, MPI_ERR_DIMS, __func__, "ndims is negative");
  if (ndims > 0 && (dims == nullptr || periods == nullptr))
    return raise(comm, MPI_ERR_ARG, __func__, "dims or periods is null");
  const long size = grid_size(ndims, dims);
  if (size < 0) return raise(comm, MPI_ERR_DIMS, __func__, "a dimension is not positive");
  if (size > comm->size())
    return raise(comm, MPI_ERR_DIMS, __func__, "the grid is larger than the communicator");
  auto topology = std::make_unique<Topology>();
  topology->kind = MPI_CART;
  topology->dims.assign(dims, dims + ndims);
  for (int d = 0; d < ndims; ++d) topology->periods.push_back(periods[d] != 0);
  return make_topology_comm(comm, size, std::move(topology), comm_cart, __func__);
}

MPI_FUNCTION(Cartdim_get)(MPI_Comm comm, int* ndims) {
  Comm* object;
  int code = MPI_SUCCESS;
  const Topology* topology = find_topology(comm, MPI_CART, object, code, __func__);
  if (topology == nullptr) return code;
  if (ndims == nullptr) return raise(object, MPI_ERR_ARG, __func__, "ndims is null");
  *ndims = static_cast<int>(topology->dims.size());
  return MPI_SUCCESS;
}

MPI_FUNCTION(Cart_get)(MPI_Comm comm, int maxdims, int* dims, int* periods, int* coords) {
  Comm* object;
  int code = MPI_SUCCESS;
  const Topology* topology = find_topology(comm, MPI_CART, object, code, __func__);
  if (topology == nullptr) return code;
  const auto num_dims = topology->dims.size();
  if (maxdims < static_cast<int>(num_dims) ||
      (num_dims > 0 && (dims == nullptr || periods == nullptr || coords == nullptr)))
    return raise(object, MPI_ERR_ARG, __func__, "an array is null or too short");
  std::copy(topology->dims.begin(), topology->dims.end(), dims);
  std::copy(topology->periods.begin(), topology->periods.end(), periods);
  std::copy(topology->coords.begin(), topology->coords.end(), coords);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Cart_rank)(MPI_Comm comm, const int* coords, int* rank) {
  Comm* object;
  int code = MPI_SUCCESS;
  const Topology* topology = find_topology(comm, MPI_CART, object, code, __func__);
  if (topology == nullptr) return code;
  if (rank == nullptr || (coords == nullptr && !topology->dims.empty()))
    return raise(object, MPI_ERR_ARG, __func__, "coords or rank is null");
  const int found = cart_rank(*topology, coords);
  if (found == MPI_PROC_NULL)
    return raise(object, MPI_ERR_ARG, __func__,
                 "a coordinate is out of range in a dimension that is not periodic");
  *rank = found;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Cart_coords)(MPI_Comm comm, int rank, int maxdims, int* coords) {
  Comm* object;
  int code = MPI_SUCCESS;
  const Topology* topology = find_topology(comm, MPI_CART, object, code, __func__);
  if (topology == nullptr) return code;
  if (rank < 0 || rank >= object->size()) return raise(object, MPI_ERR_RANK, __func__);
  if (maxdims < static_cast<int>(topology->dims.size()) ||
      (coords == nullptr && !topology->dims.empty()))
    return raise(object, MPI_ERR_ARG, __func__, "coords is null or too short");
  cart_coords(*topology, rank, coords);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Cart_shift)(MPI_Comm comm, int direction, int disp, int* rank_source, int* rank_dest) {
  Comm* object;
  int code = MPI_SUCCESS;
  const Topology* topology = find_topology(comm, MPI_CART, object, code, __func__);
  if (topology == nullptr) return code;
  if (direction < 0 || direction >= static_cast<int>(topology->dims.size()))
    return raise(object, MPI_ERR_DIMS, __func__, "no such direction");
  if (rank_source == nullptr || rank_dest == nullptr)
    return raise(object, MPI_ERR_ARG, __func__, "a result is null");
  const auto shifted = [topology, direction](long by) {
    std::vector<int> coords = topology->coords;
    const auto d = static_cast<std::size_t>(direction);
    const long size = topology->dims[d];
    long coord = coords[d] + by;
    if (topology->periods[d] != 0)
      coord = (coord % size + size) % size;
    else if (coord < 0 || coord >= size)
      return MPI_PROC_NULL;
    coords[d] = static_cast<int>(coord);
    return cart_rank(*topology, coords.data());
  };
  *rank_source = shifted(-static_cast<long>(disp));
  *rank_dest = shifted(disp);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Cart_sub)(MPI_Comm comm, const int* remain_dims, MPI_Comm* newcomm) {
  Comm* object;
  int code = MPI_SUCCESS;
  const Topology* topology = find_topology(comm, MPI_CART, object, code, __func__);
  if (topology == nullptr) return code;
  if (newcomm == nullptr || (remain_dims == nullptr && !topology->dims.empty()))
    return raise(object, MPI_ERR_ARG, __func__, "remain_dims or newcomm is null");
  *newcomm = MPI_COMM_NULL;
  auto sub = std::make_unique<Topology>();
  sub->kind = MPI_CART;
  int color = 0;  // the position in the dimensions that are dropped
  int key = 0;    // the position in the dimensions that remain
  for (std::size_t d = 0; d < topology->dims.size(); ++d) {
    if (remain_dims[d] != 0) {
      sub->dims.push_back(topology->dims[d]);
      sub->periods.push_back(topology->periods[d]);
      sub->coords.push_back(topology->coords[d]);
      key = key * topology->dims[d] + topology->coords[d];
    } else {
      color = color * topology->dims[d] + topology->coords[d];
    }
  }
  Comm* made;
  code = split(object, color, key, made, __func__);
  if (made == nullptr) return code;
  made->topology = std::move(sub);
  *newcomm = made->handle;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Cart_map)
(MPI_Comm comm, int ndims, const int* dims, const int* periods, int* newrank) {
  Comm* object;
  const int code = check_intracomm(comm, object, newrank, __func__);
  if (code != MPI_SUCCESS) return code;
  if (ndims < 0) return raise(object, MPI_ERR_DIMS, __func__);
  if (ndims > 0 && (dims == nullptr || periods == nullptr))
    return raise(object, MPI_ERR_ARG, __func__, "dims or periods is null");
  const long size = grid_size(ndims, dims);
  if (size < 0) return raise(object, MPI_ERR_DIMS, __func__);
  if (size > object->size())
    return raise(object, MPI_ERR_DIMS, __func__, "the grid is larger than the communicator");
  *newrank = object->rank < size ? object->rank : MPI_UNDEFINED;
  return MPI_SUCCESS;
}

namespace {

// Checks the arguments of a graph: MPI_SUCCESS or the error class.
int check_graph(const Comm& comm, int nnodes, const int* index, const int* edges) {
  if (nnodes < 0 || nnodes > comm.size()) return MPI_ERR_ARG;
  if (nnodes > 0 && index == nullptr) return MPI_ERR_ARG;
  int previous = 0;
  for (int node = 0; node < nnodes; ++node) {
    if (index[node] < previous) return MPI_ERR_ARG;
    previous = index[node];
  }
  if (previous > 0 && edges == nullptr) return MPI_ERR_ARG;
  for (int edge = 0; edge < previous; ++edge)
    if (edges[edge] < 0 || edges[edge] >= nnodes) return MPI_ERR_ARG;
  return MPI_SUCCESS;
}

}  // namespace

MPI_FUNCTION(Graph_create)
(MPI_Comm comm_old, int nnodes, const int* indx, const int* edges, int /*reorder*/,
 MPI_Comm* comm_graph) {
  Comm* comm;
  int code = check_intracomm(comm_old, comm, comm_graph, __func__);
  if (code != MPI_SUCCESS) return code;
  *comm_graph = MPI_COMM_NULL;
  code = check_graph(*comm, nnodes, indx, edges);
  if (code != MPI_SUCCESS) return raise(comm, code, __func__);
  auto topology = std::make_unique<Topology>();
  topology->kind = MPI_GRAPH;
  topology->index.assign(indx, indx + nnodes);
  if (nnodes > 0) topology->edges.assign(edges, edges + indx[nnodes - 1]);
  return make_topology_comm(comm, nnodes, std::move(topology), comm_graph, __func__);
}

MPI_FUNCTION(Graphdims_get)(MPI_Comm comm, int* nnodes, int* nedges) {
  Comm* object;
  int code = MPI_SUCCESS;
  const Topology* topology = find_topology(comm, MPI_GRAPH, object, code, __func__);
  if (topology == nullptr) return code;
  if (nnodes == nullptr || nedges == nullptr)
    return raise(object, MPI_ERR_ARG, __func__, "a result is null");
  *nnodes = static_cast<int>(topology->index.size());
  *nedges = static_cast<int>(topology->edges.size());
  return MPI_SUCCESS;
}

MPI_FUNCTION(Graph_get)(MPI_Comm comm, int maxindex, int maxedges, int* indx, int* edges) {
  Comm* object;
  int code = MPI_SUCCESS;
  const Topology* topology = find_topology(comm, MPI_GRAPH, object, code, __func__);
  if (topology == nullptr) return code;
  const int num_index = std::min(maxindex, static_cast<int>(topology->index.size()));
  const int num_edges = std::min(maxedges, static_cast<int>(topology->edges.size()));
  if ((num_index > 0 && indx == nullptr) || (num_edges > 0 && edges == nullptr))
    return raise(object, MPI_ERR_ARG, __func__, "an array is null");
  for (int i = 0; i < num_index; ++i) indx[i] = topology->index[static_cast<std::size_t>(i)];
  for (int i = 0; i < num_edges; ++i) edges[i] = topology->edges[static_cast<std::size_t>(i)];
  return MPI_SUCCESS;
}

MPI_FUNCTION(Graph_neighbors_count)(MPI_Comm comm, int rank, int* nneighbors) {
  Comm* object;
  int code = MPI_SUCCESS;
  const Topology* topology = find_topology(comm, MPI_GRAPH, object, code, __func__);
  if (topology == nullptr) return code;
  if (rank < 0 || rank >= object->size()) return raise(object, MPI_ERR_RANK, __func__);
  if (nneighbors == nullptr) return raise(object, MPI_ERR_ARG, __func__, "nneighbors is null");
  const auto node = static_cast<std::size_t>(rank);
  *nneighbors = topology->index[node] - (node == 0 ? 0 : topology->index[node - 1]);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Graph_neighbors)(MPI_Comm comm, int rank, int maxneighbors, int* neighbors_out) {
  Comm* object;
  int code = MPI_SUCCESS;
  const Topology* topology = find_topology(comm, MPI_GRAPH, object, code, __func__);
  if (topology == nullptr) return code;
  if (rank < 0 || rank >= object->size()) return raise(object, MPI_ERR_RANK, __func__);
  const auto node = static_cast<std::size_t>(rank);
  const int begin = node == 0 ? 0 : topology->index[node - 1];
  const int count = std::min(maxneighbors, topology->index[node] - begin);
  if (count > 0 && neighbors_out == nullptr)
    return raise(object, MPI_ERR_ARG, __func__, "the array of neighbours is null");
  for (int i = 0; i < count; ++i)
    neighbors_out[i] = topology->edges[static_cast<std::size_t>(begin + i)];
  return MPI_SUCCESS;
}

MPI_FUNCTION(Graph_map)
(MPI_Comm comm, int nnodes, const int* indx, const int* edges, int* newrank) {
  Comm* object;
  int code = check_intracomm(comm, object, newrank, __func__);
  if (code != MPI_SUCCESS) return code;
  code = check_graph(*object, nnodes, indx, edges);
  if (code != MPI_SUCCESS) return raise(object, code, __func__);
  *newrank = object->rank < nnodes ? object->rank : MPI_UNDEFINED;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Dist_graph_create_adjacent)
(MPI_Comm comm_old, int indegree, const int* sources, const int* sourceweights, int outdegree,
 const int* destinations, const int* destweights, MPI_Info info, int /*reorder*/,
 MPI_Comm* comm_dist_graph) {
  Comm* comm;
  const int code = check_intracomm(comm_old, comm, comm_dist_graph, __func__);
  if (code != MPI_SUCCESS) return code;
  *comm_dist_graph = MPI_COMM_NULL;
  Info* hints = find_info(info);
  if (hints == nullptr && info != MPI_INFO_NULL) return raise(comm, MPI_ERR_INFO, __func__);
  if (indegree < 0 || outdegree < 0) return raise(comm, MPI_ERR_ARG, __func__);
  if ((indegree > 0 && sources == nullptr) || (outdegree > 0 && destinations == nullptr))
    return raise(comm, MPI_ERR_ARG, __func__, "an array of neighbours is null");
  for (int i = 0; i < indegree; ++i)
    if (!is_rank_or_null(*comm, sources[i])) return raise(comm, MPI_ERR_RANK, __func__);
  for (int i = 0; i < outdegree; ++i)
    if (!is_rank_or_null(*comm, destinations[i])) return raise(comm, MPI_ERR_RANK, __func__);
  auto topology = std::make_unique<Topology>();
  topology->kind = MPI_DIST_GRAPH;
  topology->sources.assign(sources, sources + indegree);
  topology->destinations.assign(destinations, destinations + outdegree);
  // Either all processes pass MPI_UNWEIGHTED, for both lists, or none does.
  topology->weighted = sourceweights != MPI_UNWEIGHTED && destweights != MPI_UNWEIGHTED;
  if (topology->weighted) {
    if ((indegree > 0 && (sourceweights == nullptr || sourceweights == MPI_WEIGHTS_EMPTY)) ||
        (outdegree > 0 && (destweights == nullptr || destweights == MPI_WEIGHTS_EMPTY)))
      return raise(comm, MPI_ERR_ARG, __func__, "an array of weights is null");
    if (indegree > 0) topology->source_weights.assign(sourceweights, sourceweights + indegree);
    if (outdegree > 0) topology->destination_weights.assign(destweights, destweights + outdegree);
  }
  return make_topology_comm(comm, comm->size(), std::move(topology), comm_dist_graph, __func__);
}

namespace {

struct Edge {
  int source;
  int destination;
  int weight;
};

// Sends each edge to its two ends alone, so that no process holds more of the graph than it named
// or is part of. They arrive in the order of the ranks that named them.
Status give_edges(coll::Team& team, const std::vector<Edge>& mine, std::vector<Edge>& received) {
  const auto size = static_cast<std::size_t>(team.size());
  const auto for_each_end = [&](auto&& call) {
    for (const Edge& edge : mine) {
      if (edge.source != MPI_PROC_NULL) call(static_cast<std::size_t>(edge.source), edge);
      if (edge.destination != MPI_PROC_NULL && edge.destination != edge.source)
        call(static_cast<std::size_t>(edge.destination), edge);
    }
  };
  std::vector<std::size_t> send_bytes(size), receive_bytes(size);
  for_each_end([&](std::size_t rank, const Edge&) { send_bytes[rank] += sizeof(Edge); });
  Status status =
      coll::alltoall(team, send_bytes.data(), receive_bytes.data(), sizeof(std::size_t));
  if (!status) return status;
  const auto places_of = [&](const std::vector<std::size_t>& bytes) {
    std::vector<std::ptrdiff_t> places(size);
    std::exclusive_scan(bytes.begin(), bytes.end(), places.begin(), std::ptrdiff_t{0});
    return places;
  };
  const auto send_places = places_of(send_bytes), receive_places = places_of(receive_bytes);
  std::vector<Edge> out((static_cast<std::size_t>(send_places.back()) + send_bytes.back()) /
                        sizeof(Edge));
  auto next = send_places;
  for_each_end([&](std::size_t rank, const Edge& edge) {
    out[static_cast<std::size_t>(next[rank]) / sizeof(Edge)] = edge;
    next[rank] += sizeof(Edge);
  });
  received.resize((static_cast<std::size_t>(receive_places.back()) + receive_bytes.back()) /
                  sizeof(Edge));
  return coll::alltoallv(team, coll::not_null(out.data()), send_bytes.data(), send_places.data(),
                         received.data(), receive_bytes.data(), receive_places.data());
}

}  // namespace

MPI_FUNCTION(Dist_graph_create)
(MPI_Comm comm_old, int n, const int* sources, const int* degrees, const int* destinations,
 const int* weights, MPI_Info info, int /*reorder*/, MPI_Comm* comm_dist_graph) {
  Comm* comm;
  const int code = check_intracomm(comm_old, comm, comm_dist_graph, __func__);
  if (code != MPI_SUCCESS) return code;
  *comm_dist_graph = MPI_COMM_NULL;
  if (find_info(info) == nullptr && info != MPI_INFO_NULL)
    return raise(comm, MPI_ERR_INFO, __func__);
  if (n < 0 || (n > 0 && (sources == nullptr || degrees == nullptr)))
    return raise(comm, MPI_ERR_ARG, __func__);
  const bool weighted = weights != MPI_UNWEIGHTED;
  std::vector<Edge> mine;
  int next = 0;
  for (int i = 0; i < n; ++i) {
    if (degrees[i] < 0) return raise(comm, MPI_ERR_ARG, __func__, "a degree is negative");
    for (int j = 0; j < degrees[i]; ++j, ++next) {
      if (destinations == nullptr || !is_rank_or_null(*comm, sources[i]) ||
          !is_rank_or_null(*comm, destinations[next]))
        return raise(comm, MPI_ERR_RANK, __func__);
      mine.push_back({sources[i], destinations[next], weighted ? weights[next] : 0});
    }
  }
  std::vector<Edge> all;
  const Status status = give_edges(*comm->team, mine, all);
  if (!status) return raise_status(comm, status, __func__);
  auto topology = std::make_unique<Topology>();
  topology->kind = MPI_DIST_GRAPH;
  topology->weighted = weighted;
  for (const Edge& edge : all) {
    if (edge.destination == comm->rank) {
      topology->sources.push_back(edge.source);
      if (weighted) topology->source_weights.push_back(edge.weight);
    }
    if (edge.source == comm->rank) {
      topology->destinations.push_back(edge.destination);
      if (weighted) topology->destination_weights.push_back(edge.weight);
    }
  }
  return make_topology_comm(comm, comm->size(), std::move(topology), comm_dist_graph, __func__);
}

MPI_FUNCTION(Dist_graph_neighbors_count)
(MPI_Comm comm, int* indegree, int* outdegree, int* weighted) {
  Comm* object;
  int code = MPI_SUCCESS;
  const Topology* topology = find_topology(comm, MPI_DIST_GRAPH, object, code, __func__);
  if (topology == nullptr) return code;
  if (indegree == nullptr || outdegree == nullptr || weighted == nullptr)
    return raise(object, MPI_ERR_ARG, __func__, "a result is null");
  *indegree = static_cast<int>(topology->sources.size());
  *outdegree = static_cast<int>(topology->destinations.size());
  *weighted = topology->weighted;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Dist_graph_neighbors)
(MPI_Comm comm, int maxindegree, int* sources, int* sourceweights, int maxoutdegree,
 int* destinations, int* destweights) {
  Comm* object;
  int code = MPI_SUCCESS;
  const Topology* topology = find_topology(comm, MPI_DIST_GRAPH, object, code, __func__);
  if (topology == nullptr) return code;
  if (maxindegree < 0 || maxoutdegree < 0) return raise(object, MPI_ERR_ARG, __func__);
  const auto copy = [](const std::vector<int>& from, int most, int* to) {
    for (std::size_t i = 0; i < from.size() && i < static_cast<std::size_t>(most); ++i)
      to[i] = from[i];
  };
  if ((maxindegree > 0 && sources == nullptr) || (maxoutdegree > 0 && destinations == nullptr))
    return raise(object, MPI_ERR_ARG, __func__, "an array is null");
  copy(topology->sources, maxindegree, sources);
  copy(topology->destinations, maxoutdegree, destinations);
  const auto is_array = [](const int* weights) {
    return weights != nullptr && weights != MPI_UNWEIGHTED && weights != MPI_WEIGHTS_EMPTY;
  };
  if (topology->weighted && is_array(sourceweights))
    copy(topology->source_weights, maxindegree, sourceweights);
  if (topology->weighted && is_array(destweights))
    copy(topology->destination_weights, maxoutdegree, destweights);
  return MPI_SUCCESS;
}
