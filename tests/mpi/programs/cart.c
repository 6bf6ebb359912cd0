// Cartesian topologies: coordinates, ranks, shifts and slices against the row-major formula, and
// Dims_create.
#include "expect.h"

static void grid(int ndims, const int* dims, const int* periods) {
  MPI_Comm cart;
  int n = 1, r, got_dims[3], got_periods[3], coords[3], kind, count;
  for (int i = 0; i < ndims; ++i) n *= dims[i];
  // Places that a reordering would give: as many as the grid has, each once. Open MPI forgets that
  // some get none.
  int place = -9, *map = allocate(size * sizeof(int)), *seen = calloc(n, sizeof(int));
  EXPECT_OK(MPI_Cart_map(MPI_COMM_WORLD, ndims, dims, periods, &place));
  MPI_Allgather(&place, 1, MPI_INT, map, 1, MPI_INT, MPI_COMM_WORLD);
  for (int i = 0; i < size; ++i)
    if (map[i] >= 0 && map[i] < n)
      seen[map[i]]++;
    else if (!kOpenMpi)
      EXPECT_EQ(map[i], MPI_UNDEFINED);
  for (int i = 0; i < n; ++i) EXPECT_EQ(seen[i], 1);
  free(map);
  free(seen);
  EXPECT_OK(MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, periods, 0, &cart));
  EXPECT((cart == MPI_COMM_NULL) == (rank >= n));
  if (cart == MPI_COMM_NULL) return;
  MPI_Comm_rank(cart, &r);
  EXPECT_EQ(r, rank);
  EXPECT_OK(MPI_Topo_test(cart, &kind));
  EXPECT_EQ(kind, MPI_CART);
  EXPECT_OK(MPI_Cartdim_get(cart, &count));
  EXPECT_EQ(count, ndims);
  EXPECT_OK(MPI_Cart_get(cart, ndims, got_dims, got_periods, coords));
  int rest = r, expected[3];
  for (int i = ndims - 1; i >= 0; --i) {
    expected[i] = rest % dims[i];
    rest /= dims[i];
  }
  for (int i = 0; i < ndims; ++i) {
    EXPECT_EQ(got_dims[i], dims[i]);
    EXPECT_EQ(!got_periods[i], !periods[i]);
    EXPECT_EQ(coords[i], expected[i]);
  }
  for (int k = 0; k < n; ++k) {
    int back = -1;
    EXPECT_OK(MPI_Cart_coords(cart, k, ndims, coords));
    EXPECT_OK(MPI_Cart_rank(cart, coords, &back));
    EXPECT_EQ(back, k);
  }
  for (int d = 0; d < ndims; ++d) {
    int stride = 1;
    for (int i = d + 1; i < ndims; ++i) stride *= dims[i];
    for (int by = -2; by <= 2; ++by) {
      int source = -9, target = -9, ends[2];
      EXPECT_OK(MPI_Cart_shift(cart, d, by, &source, &target));
      for (int side = 0; side < 2; ++side) {
        int c = expected[d] + (side ? by : -by);
        if (periods[d]) c = ((c % dims[d]) + dims[d]) % dims[d];
        ends[side] = c < 0 || c >= dims[d] ? MPI_PROC_NULL : r + (c - expected[d]) * stride;
      }
      EXPECT_EQ(source, ends[0]);
      EXPECT_EQ(target, ends[1]);
      int out = rank, in = -5;
      EXPECT_OK(MPI_Sendrecv(&out, 1, MPI_INT, target, 0, &in, 1, MPI_INT, source, 0, cart,
                             MPI_STATUS_IGNORE));
      EXPECT_EQ(in, source == MPI_PROC_NULL ? -5 : source);
    }
    // A coordinate beyond a periodic dimension wraps.
    if (periods[d]) {
      int back = -1;
      memcpy(coords, expected, sizeof coords);
      coords[d] += 3 * dims[d];
      EXPECT_OK(MPI_Cart_rank(cart, coords, &back));
      EXPECT_EQ(back, r);
      coords[d] -= 7 * dims[d];
      EXPECT_OK(MPI_Cart_rank(cart, coords, &back));
      EXPECT_EQ(back, r);
    }
  }
  // Lines along each dimension.
  for (int d = 0; d < ndims; ++d) {
    int remain[3] = {0, 0, 0}, sub_rank, sub_size, sub_dims;
    MPI_Comm line;
    remain[d] = 1;
    EXPECT_OK(MPI_Cart_sub(cart, remain, &line));
    MPI_Comm_rank(line, &sub_rank);
    MPI_Comm_size(line, &sub_size);
    EXPECT_EQ(sub_rank, expected[d]);
    EXPECT_EQ(sub_size, dims[d]);
    EXPECT_OK(MPI_Cartdim_get(line, &sub_dims));
    EXPECT_EQ(sub_dims, 1);
    int sum = -1, ranks = 0, stride = 1;
    for (int i = d + 1; i < ndims; ++i) stride *= dims[i];
    EXPECT_OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, line));
    for (int i = 0; i < dims[d]; ++i) ranks += r + (i - expected[d]) * stride;
    EXPECT_EQ(sum, ranks);
    MPI_Comm_free(&line);
  }
  MPI_Comm_free(&cart);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int kind;
  EXPECT_OK(MPI_Topo_test(MPI_COMM_WORLD, &kind));
  EXPECT_EQ(kind, MPI_UNDEFINED);
  for (int a = 1; a <= size; ++a)
    for (int b = 1; a * b <= size; ++b) {
      grid(2, (int[]){a, b}, (int[]){1, 0});
      grid(2, (int[]){a, b}, (int[]){0, 1});
      for (int c = 1; a * b * c <= size; ++c) grid(3, (int[]){a, b, c}, (int[]){1, 0, 1});
    }
  grid(1, &size, (int[]){1});

  // Dims_create: the product is right, in falling order, and as near to each other as can be.
  static const struct {
    int nodes, ndims, in[3], out[3];
  } cases[] = {{6, 2, {0, 0}, {3, 2}},        {7, 2, {0, 0}, {7, 1}},
               {12, 3, {0, 0, 0}, {3, 2, 2}}, {6, 3, {0, 3, 0}, {2, 3, 1}},
               {16, 2, {0, 0}, {4, 4}},       {64, 3, {0, 0, 0}, {4, 4, 4}},
               {36, 2, {0, 0}, {6, 6}},       {1, 3, {0, 0, 0}, {1, 1, 1}},
               {24, 2, {0, 4}, {6, 4}},       {5, 1, {0}, {5}}};
  for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    int dims[3];
    memcpy(dims, cases[i].in, sizeof dims);
    EXPECT_OK(MPI_Dims_create(cases[i].nodes, cases[i].ndims, dims));
    for (int d = 0; d < cases[i].ndims; ++d) EXPECT_EQ(dims[d], cases[i].out[d]);
  }
  return end();
}
