// Graph topologies and the collectives among neighbours: what the calls say of a graph against the
// formula that made it, and every neighbourhood collective, blocking, in the background and
// persistent, on graphs, distributed graphs and grids.
#include "forms.h"

enum { kMost = 64 };  // processes

// Who sends to this process and to whom it sends, in the order of the blocks. A block is told by
// its sender and a key that sender and receiver both know.
typedef struct {
  MPI_Comm comm;
  int num_in, num_out;
  int in[kMost], in_key[kMost];
  int out[kMost], out_key[kMost];
} Neighbours;

static int item(int from, int key, int i) { return (int)(seed_of(from, key, i) & 0x7fffffff); }

// How many items a block has where they differ; some have none.
static int count_of(int base, int from, int key) {
  return (from + key) % 4 == 3 ? 0 : base + (2 * from + key) % 5;
}

// A buffer of blocks, each of them with a gap behind it.
typedef struct {
  int* data;
  int counts[kMost], places[kMost];
  MPI_Aint byte_places[kMost];
  MPI_Datatype types[kMost];
  int steps[kMost];  // from one int of a block to the next
  int total;
} Blocks;

static void make_blocks(Blocks* blocks, int num, const int* counts, MPI_Datatype second, int turn) {
  blocks->total = 1;
  for (int k = 0; k < num; ++k) {
    blocks->counts[k] = counts[k];
    blocks->places[k] = blocks->total;
    blocks->byte_places[k] = blocks->total * (MPI_Aint)sizeof(int);
    blocks->steps[k] = second != MPI_DATATYPE_NULL && (k + turn) % 2 ? 2 : 1;
    blocks->types[k] = blocks->steps[k] == 2 ? second : MPI_INT;
    blocks->total += blocks->steps[k] * counts[k] + 1;
  }
  blocks->data = allocate(blocks->total * sizeof(int));
  for (int i = 0; i < blocks->total; ++i) blocks->data[i] = -1;
}

static void fill_block(Blocks* blocks, int k, int from, int key) {
  for (int i = 0; i < blocks->counts[k]; ++i)
    blocks->data[blocks->places[k] + blocks->steps[k] * i] = item(from, key, i);
}

// Every block has what its sender put into it, and nothing else is touched.
static void check_blocks(const Blocks* blocks, int num, const int* from, const int* key,
                         const char* what) {
  int touched = 0, expected = 0;
  for (int k = 0; k < num; ++k) {
    for (int i = 0; i < blocks->counts[k]; ++i) {
      const int got = blocks->data[blocks->places[k] + blocks->steps[k] * i];
      if (got == (from[k] < 0 ? -1 : item(from[k], key[k], i))) continue;
      fprintf(stderr, "%s, block %d from %d, item %d\n", what, k, from[k], i);
      failed(__FILE__, __LINE__, what);
      return;
    }
    if (from[k] >= 0) expected += blocks->counts[k];
  }
  for (int i = 0; i < blocks->total; ++i) touched += blocks->data[i] != -1;
  EXPECT_EQ(touched, expected);
}

static void gather(const Neighbours* all, int base) {
  int r, counts[kMost], zeros[kMost] = {0};
  MPI_Comm_rank(all->comm, &r);
  int mine = count_of(base, r, 0);
  int* data = allocate((base + 5) * sizeof(int));
  for (int i = 0; i < base + 5; ++i) data[i] = item(r, 0, i);
  Blocks in;
  for (int k = 0; k < all->num_in; ++k)
    counts[k] = all->in[k] < 0 ? 3 : count_of(base, all->in[k], 0);
  make_blocks(&in, all->num_in, counts, MPI_DATATYPE_NULL, 0);
  CALL_ON(all->comm, Neighbor_allgatherv, data, mine, MPI_INT, in.data, in.counts, in.places,
          MPI_INT);
  check_blocks(&in, all->num_in, all->in, zeros, "Neighbor_allgatherv");
  free(in.data);

  // All alike, one behind the other.
  int* equal = allocate(((size_t)base * all->num_in + 1) * sizeof(int));
  for (int i = 0; i <= base * all->num_in; ++i) equal[i] = -1;
  CALL_ON(all->comm, Neighbor_allgather, data, base, MPI_INT, equal, base, MPI_INT);
  for (int k = 0; k < all->num_in; ++k)
    for (int i = 0; i < base; ++i)
      EXPECT_EQ(equal[k * base + i], all->in[k] < 0 ? -1 : item(all->in[k], 0, i));
  EXPECT_EQ(equal[base * all->num_in], -1);
  free(equal);
  free(data);
}

static void exchange(const Neighbours* all, int base) {
  int r, counts[kMost];
  MPI_Comm_rank(all->comm, &r);
  MPI_Datatype second;
  MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &second);
  MPI_Type_commit(&second);
  for (int with_types = 0; with_types < 2; ++with_types) {
    Blocks in, out;
    for (int k = 0; k < all->num_in; ++k)
      counts[k] = all->in[k] < 0 ? 3 : count_of(base, all->in[k], all->in_key[k]);
    make_blocks(&in, all->num_in, counts, with_types ? second : MPI_DATATYPE_NULL, 0);
    for (int k = 0; k < all->num_out; ++k) counts[k] = count_of(base, r, all->out_key[k]);
    make_blocks(&out, all->num_out, counts, with_types ? second : MPI_DATATYPE_NULL, 1);
    for (int k = 0; k < all->num_out; ++k) fill_block(&out, k, r, all->out_key[k]);
    if (with_types)
      CALL_ON(all->comm, Neighbor_alltoallw, out.data, out.counts, out.byte_places, out.types,
              in.data, in.counts, in.byte_places, in.types);
    else
      CALL_ON(all->comm, Neighbor_alltoallv, out.data, out.counts, out.places, MPI_INT, in.data,
              in.counts, in.places, MPI_INT);
    check_blocks(&in, all->num_in, all->in, all->in_key,
                 with_types ? "Neighbor_alltoallw" : "Neighbor_alltoallv");
    free(in.data);
    free(out.data);
  }
  MPI_Type_free(&second);

  int* in = allocate(((size_t)base * all->num_in + 1) * sizeof(int));
  int* out = allocate((size_t)base * all->num_out * sizeof(int));
  for (int i = 0; i <= base * all->num_in; ++i) in[i] = -1;
  for (int k = 0; k < all->num_out; ++k)
    for (int i = 0; i < base; ++i) out[k * base + i] = item(r, all->out_key[k], i);
  CALL_ON(all->comm, Neighbor_alltoall, out, base, MPI_INT, in, base, MPI_INT);
  for (int k = 0; k < all->num_in; ++k)
    for (int i = 0; i < base; ++i)
      EXPECT_EQ(in[k * base + i], all->in[k] < 0 ? -1 : item(all->in[k], all->in_key[k], i));
  EXPECT_EQ(in[base * all->num_in], -1);
  free(in);
  free(out);
}

static void all_of_them(const Neighbours* all) {
  static const int bases[] = {0, 1, 7, 1000, 20000};
  for (form = kBlocking; form < kForms; ++form)
    for (int i = 0; i < 5; ++i) {
      gather(all, bases[i]);
      exchange(all, bases[i]);
    }
}

// Whether the random graph has an edge; a process may be its own neighbour.
static int has_edge(int from, int to) { return mix(from * 100 + to) % 5 < 2; }
static int weight(int from, int to) { return 1 + (from * 7 + to) % 11; }

static void expect_graph(const Neighbours* all, int weighted, int in_any_order) {
  int num_in = -1, num_out = -1, is_weighted = -1, kind = -1;
  int in[kMost], out[kMost], in_weights[kMost], out_weights[kMost], seen[kMost] = {0};
  EXPECT_OK(MPI_Topo_test(all->comm, &kind));
  EXPECT_EQ(kind, MPI_DIST_GRAPH);
  EXPECT_OK(MPI_Dist_graph_neighbors_count(all->comm, &num_in, &num_out, &is_weighted));
  EXPECT_EQ(num_in, all->num_in);
  EXPECT_EQ(num_out, all->num_out);
  EXPECT_EQ(!is_weighted, !weighted);
  if (num_in != all->num_in || num_out != all->num_out) return;
  EXPECT_OK(MPI_Dist_graph_neighbors(all->comm, num_in, in, weighted ? in_weights : MPI_UNWEIGHTED,
                                     num_out, out, weighted ? out_weights : MPI_UNWEIGHTED));
  for (int k = 0; k < num_in; ++k) {
    if (in_any_order)
      seen[in[k]]++;
    else
      EXPECT_EQ(in[k], all->in[k]);
    if (weighted) EXPECT_EQ(in_weights[k], weight(in[k], rank));
  }
  for (int k = 0; k < num_out; ++k) {
    if (in_any_order)
      seen[out[k]] += 100;
    else
      EXPECT_EQ(out[k], all->out[k]);
    if (weighted) EXPECT_EQ(out_weights[k], weight(rank, out[k]));
  }
  for (int i = 0; in_any_order && i < size; ++i)
    EXPECT_EQ(seen[i], has_edge(i, rank) + 100 * has_edge(rank, i));
}

static void distributed_graphs(void) {
  Neighbours all = {.num_in = 0};
  int in_weights[kMost], out_weights[kMost];
  for (int i = size - 1; i >= 0; --i) {  // neither in the order of ranks
    if (has_edge(i, rank)) {
      in_weights[all.num_in] = weight(i, rank);
      all.in_key[all.num_in] = rank;
      all.in[all.num_in++] = i;
    }
    if (has_edge(rank, i)) {
      out_weights[all.num_out] = weight(rank, i);
      all.out_key[all.num_out] = i;
      all.out[all.num_out++] = i;
    }
  }
  for (int weighted = 0; weighted < 2; ++weighted) {
    EXPECT_OK(MPI_Dist_graph_create_adjacent(
        MPI_COMM_WORLD, all.num_in, all.in, weighted ? in_weights : MPI_UNWEIGHTED, all.num_out,
        all.out, weighted ? out_weights : MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &all.comm));
    expect_graph(&all, weighted, 0);
    if (!weighted) all_of_them(&all);
    // A duplicate has the same graph.
    MPI_Comm original = all.comm;
    EXPECT_OK(MPI_Comm_dup(original, &all.comm));
    expect_graph(&all, weighted, 0);
    MPI_Comm_free(&original);
    MPI_Comm_free(&all.comm);
  }

  // Each process tells of the edges that leave the one after it.
  int source = (rank + 1) % size, degree = 0, targets[kMost], weights[kMost];
  for (int i = 0; i < size; ++i)
    if (has_edge(source, i)) {
      weights[degree] = weight(source, i);
      targets[degree++] = i;
    }
  for (int weighted = 0; weighted < 2; ++weighted) {
    EXPECT_OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &source, &degree, targets,
                                    weighted ? weights : MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                    &all.comm));
    expect_graph(&all, weighted, 1);
    MPI_Comm_free(&all.comm);
  }
}

// The same edges both ways, which graphs by the older call should have.
static int are_joined(int a, int b) { return a != b && has_edge(a < b ? a : b, a < b ? b : a); }

static void graphs(void) {
  for (int n = 1; n <= size; n += size > 3 ? 2 : 1) {
    int index[kMost], edges[kMost * kMost], num = 0;
    Neighbours all = {.num_in = 0};
    for (int i = 0; i < n; ++i) {
      for (int k = 0; k < n; ++k)
        if (are_joined(i, k)) edges[num++] = k;
      index[i] = num;
    }
    for (int i = 0; i < n; ++i)
      if (rank < n && are_joined(rank, i)) {
        all.in_key[all.num_in] = rank;
        all.out_key[all.num_in] = i;
        all.in[all.num_in] = all.out[all.num_in] = i;
        all.num_out = ++all.num_in;
      }
    int place = -9;
    EXPECT_OK(MPI_Graph_map(MPI_COMM_WORLD, n, index, edges, &place));
    EXPECT(place == MPI_UNDEFINED || (place >= 0 && place < n));
    EXPECT_OK(MPI_Graph_create(MPI_COMM_WORLD, n, index, edges, 0, &all.comm));
    EXPECT((all.comm == MPI_COMM_NULL) == (rank >= n));
    if (all.comm == MPI_COMM_NULL) continue;
    int kind = -1, nodes = -1, num_edges = -1, got_index[kMost], got_edges[kMost * kMost];
    EXPECT_OK(MPI_Topo_test(all.comm, &kind));
    EXPECT_EQ(kind, MPI_GRAPH);
    EXPECT_OK(MPI_Graphdims_get(all.comm, &nodes, &num_edges));
    EXPECT_EQ(nodes, n);
    EXPECT_EQ(num_edges, num);
    EXPECT_OK(MPI_Graph_get(all.comm, n, num, got_index, got_edges));
    EXPECT(memcmp(got_index, index, n * sizeof(int)) == 0);
    EXPECT(memcmp(got_edges, edges, num * sizeof(int)) == 0);
    for (int i = 0; i < n; ++i) {
      int count = -1, neighbours[kMost], first = i ? index[i - 1] : 0;
      EXPECT_OK(MPI_Graph_neighbors_count(all.comm, i, &count));
      EXPECT_EQ(count, index[i] - first);
      EXPECT_OK(MPI_Graph_neighbors(all.comm, i, count, neighbours));
      EXPECT(memcmp(neighbours, edges + first, count * sizeof(int)) == 0);
    }
    all_of_them(&all);
    MPI_Comm_free(&all.comm);
  }
}

// On a grid the blocks are those from before and behind in each dimension, which may be one
// process, this one, or none: what is sent backwards comes from behind.
static void grids(void) {
  for (int periodic = 0; periodic < 2; ++periodic) {
    int dims[2] = {0, 0}, periods[2] = {periodic, !periodic};
    Neighbours all = {.num_in = 4, .num_out = 4};
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &all.comm);
    for (int d = 0; d < 2; ++d) {
      MPI_Cart_shift(all.comm, d, 1, &all.in[2 * d], &all.in[2 * d + 1]);
      for (int k = 2 * d; k < 2 * d + 2; ++k) {
        all.out[k] = all.in[k];
        all.out_key[k] = k;
        all.in_key[k] = k ^ 1;
      }
    }
    all_of_them(&all);
    MPI_Comm_free(&all.comm);
  }
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  distributed_graphs();
  graphs();
  grids();
  return end();
}
