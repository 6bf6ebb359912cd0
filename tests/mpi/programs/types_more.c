// Types that tell the shares of a distributed array, against an index-by-index computation; the
// machine-independent form of data, against its bytes; types chosen by precision; pairs found by
// their parts.
#include "expect.h"

enum { kMaxElements = 7 * 6 * 5 };

// Which process of `p` has index `i` of `g`.
static int owner(int distribution, int darg, int g, int p, int i) {
  int block = 1;
  if (distribution == MPI_DISTRIBUTE_NONE) return 0;
  if (distribution == MPI_DISTRIBUTE_BLOCK) block = (g + p - 1) / p;
  if (darg != MPI_DISTRIBUTE_DFLT_DARG) block = darg;
  return i / block % p;
}

static void share(int order, const int* distributions, const int* dargs) {
  const int gsizes[3] = {7, 6, 5};
  int psizes[3], grid = 1;
  for (int d = 0; d < 3; ++d) {
    psizes[d] = distributions[d] == MPI_DISTRIBUTE_NONE ? 1 : 2 + d % 2;
    grid *= psizes[d];
  }
  int seen[kMaxElements] = {0};
  for (int r = 0; r < grid; ++r) {
    MPI_Datatype type;
    EXPECT_OK(MPI_Type_create_darray(grid, r, 3, gsizes, distributions, dargs, psizes, order,
                                     MPI_INT, &type));
    EXPECT_OK(MPI_Type_commit(&type));
    // The expected elements in memory order, which is that of packing.
    int expected[kMaxElements], n = 0;
    const int coords[3] = {r / (psizes[1] * psizes[2]), r / psizes[2] % psizes[1], r % psizes[2]};
    for (int k = 0; k < kMaxElements; ++k) {
      const int c_order[3] = {k / 30, k / 5 % 6, k % 5}, f_order[3] = {k % 7, k / 7 % 6, k / 42};
      const int* index = order == MPI_ORDER_C ? c_order : f_order;
      int mine = 1;
      for (int d = 0; d < 3; ++d)
        mine &= owner(distributions[d], dargs[d], gsizes[d], psizes[d], index[d]) == coords[d];
      if (mine) expected[n++] = k;
    }
    int array[kMaxElements], packed[kMaxElements], bytes = -1, position = 0;
    for (int k = 0; k < kMaxElements; ++k) array[k] = k;
    EXPECT_OK(MPI_Type_size(type, &bytes));
    EXPECT_EQ(bytes, n * (int)sizeof(int));
    MPI_Aint lb, extent;
    EXPECT_OK(MPI_Type_get_extent(type, &lb, &extent));
    EXPECT(lb == 0 && extent == (MPI_Aint)sizeof array);
    EXPECT_OK(MPI_Pack(array, 1, type, packed, sizeof packed, &position, MPI_COMM_WORLD));
    for (int i = 0; i < n; ++i) {
      EXPECT_EQ(packed[i], expected[i]);
      seen[packed[i]]++;
    }
    int integers, addresses, types, combiner, values[16];
    MPI_Datatype inner;
    EXPECT_OK(MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner));
    EXPECT(combiner == MPI_COMBINER_DARRAY && integers == 16 && addresses == 0 && types == 1);
    EXPECT_OK(MPI_Type_get_contents(type, 16, 0, 1, values, NULL, &inner));
    EXPECT(values[0] == grid && values[1] == r && values[2] == 3 && values[3] == 7 &&
           values[15] == order && inner == MPI_INT);
    MPI_Type_free(&type);
  }
  for (int k = 0; k < kMaxElements; ++k) EXPECT_EQ(seen[k], 1);
}

static void shares(void) {
  const int kinds[] = {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b)
      for (int c = 0; c < 3; ++c)
        for (int k = 0; k < 2; ++k) {
          const int distributions[3] = {kinds[a], kinds[b], kinds[c]};
          int dargs[3];
          for (int d = 0; d < 3; ++d) {
            dargs[d] = MPI_DISTRIBUTE_DFLT_DARG;
            if (k == 1 && distributions[d] == MPI_DISTRIBUTE_CYCLIC) dargs[d] = 2;
            if (k == 1 && distributions[d] == MPI_DISTRIBUTE_BLOCK) dargs[d] = 4;
          }
          share(MPI_ORDER_C, distributions, dargs);
          share(MPI_ORDER_FORTRAN, distributions, dargs);
        }
  // Blocks that do not hold the array, a grid of another size.
  const int g = 10, p = 2, small = 4, kind = MPI_DISTRIBUTE_BLOCK;
  MPI_Datatype type;
  EXPECT_CLASS(MPI_Type_create_darray(2, 0, 1, &g, &kind, &small, &p, MPI_ORDER_C, MPI_INT, &type),
               MPI_ERR_ARG);
  const int enough = 5;
  EXPECT_CLASS(MPI_Type_create_darray(3, 0, 1, &g, &kind, &enough, &p, MPI_ORDER_C, MPI_INT, &type),
               MPI_ERR_ARG);
}

static void external(void) {
  struct {
    char c;
    int i[2];
    double d;
    long l;
    long double x;
    wchar_t w;
  } in = {'q', {0x01020304, -2}, 1.5, -3, -0.5L, 0x263a}, out;
  const unsigned char bytes[] = {'q', 1, 2, 3,    4,    0xff, 0xff, 0xff, 0xfe, 0x3f, 0xf8, 0, 0, 0,
                                 0,   0, 0, 0xff, 0xff, 0xff, 0xfd, 0xbf, 0xfe, 0,    0,    0, 0, 0,
                                 0,   0, 0, 0,    0,    0,    0,    0,    0,    0x26, 0x3a};
  const int lengths[] = {1, 2, 1, 1, 1, 1};
  const MPI_Aint places[] = {(char*)&in.c - (char*)&in, (char*)in.i - (char*)&in,
                             (char*)&in.d - (char*)&in, (char*)&in.l - (char*)&in,
                             (char*)&in.x - (char*)&in, (char*)&in.w - (char*)&in};
  const MPI_Datatype types[] = {MPI_CHAR, MPI_INT,         MPI_DOUBLE,
                                MPI_LONG, MPI_LONG_DOUBLE, MPI_WCHAR};
  MPI_Datatype type;
  MPI_Type_create_struct(6, lengths, places, types, &type);
  MPI_Type_commit(&type);
  unsigned char buffer[100];
  memset(buffer, 0, sizeof buffer);
  memset(&out, 0, sizeof out);
  MPI_Aint size_bytes = -1, position = 3;
  EXPECT_OK(MPI_Pack_external_size("external32", 1, type, &size_bytes));
  EXPECT_EQ(size_bytes, sizeof bytes);
  EXPECT_OK(MPI_Pack_external("external32", &in, 1, type, buffer, sizeof buffer, &position));
  EXPECT_EQ(position, 3 + sizeof bytes);
  EXPECT(memcmp(buffer + 3, bytes, sizeof bytes) == 0);
  position = 3;
  EXPECT_OK(MPI_Unpack_external("external32", buffer, sizeof buffer, &position, &out, 1, type));
  EXPECT_EQ(position, 3 + sizeof bytes);
  EXPECT(out.c == in.c && out.i[0] == in.i[0] && out.i[1] == in.i[1] && out.d == in.d &&
         out.l == in.l && out.x == in.x && out.w == in.w);
  MPI_Type_free(&type);

  // Many elements of a type with gaps; complex numbers keep the order of their parts.
  enum { kMany = 40000 };
  int* many = allocate(2 * kMany * sizeof(int));
  unsigned char* packed = allocate(kMany * sizeof(int));
  for (int i = 0; i < 2 * kMany; ++i) many[i] = i;
  MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &type);
  MPI_Type_commit(&type);
  position = 0;
  EXPECT_OK(MPI_Pack_external("external32", many, kMany, type, packed, kMany * 4, &position));
  for (int i = 0; i < kMany; ++i)
    EXPECT_EQ(
        packed[4 * i] << 24 | packed[4 * i + 1] << 16 | packed[4 * i + 2] << 8 | packed[4 * i + 3],
        2 * i);
  memset(many, 0, 2 * kMany * sizeof(int));
  position = 0;
  EXPECT_OK(MPI_Unpack_external("external32", packed, kMany * 4, &position, many, kMany, type));
  for (int i = 0; i < kMany; ++i) EXPECT(many[2 * i] == 2 * i && many[2 * i + 1] == 0);
  MPI_Type_free(&type);
  free(many);
  free(packed);
  const float parts[2] = {1.0f, -2.0f};
  const unsigned char complex_bytes[] = {0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0};
  position = 0;
  EXPECT_OK(MPI_Pack_external("external32", parts, 1, MPI_C_FLOAT_COMPLEX, buffer, sizeof buffer,
                              &position));
  EXPECT(position == 8 && memcmp(buffer, complex_bytes, 8) == 0);

  long large = 1L << 40;
  position = 0;
  EXPECT_CLASS(MPI_Pack_external("external32", &large, 1, MPI_LONG, buffer, 100, &position),
               MPI_ERR_CONVERSION);
  EXPECT_EQ(position, 0);
  EXPECT_CLASS(MPI_Pack_external("native", &large, 1, MPI_LONG, buffer, 100, &position),
               MPI_ERR_ARG);
  EXPECT_CLASS(MPI_Pack_external("external32", &large, 1, MPI_DOUBLE, buffer, 7, &position),
               MPI_ERR_TRUNCATE);
}

static void by_precision(void) {
  MPI_Datatype type, again;
  int bytes, integers, addresses, types, combiner, values[2];
  EXPECT_OK(MPI_Type_create_f90_real(6, MPI_UNDEFINED, &type));
  EXPECT_OK(MPI_Type_size(type, &bytes));
  EXPECT_EQ(bytes, 4);
  EXPECT_OK(MPI_Type_create_f90_real(15, 307, &type));
  EXPECT_OK(MPI_Type_size(type, &bytes));
  EXPECT_EQ(bytes, 8);
  EXPECT_OK(MPI_Type_create_f90_real(15, 307, &again));
  EXPECT(type == again);
  EXPECT_OK(MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner));
  EXPECT(combiner == MPI_COMBINER_F90_REAL && integers == 2 && addresses == 0 && types == 0);
  EXPECT_OK(MPI_Type_get_contents(type, 2, 0, 0, values, NULL, NULL));
  EXPECT(values[0] == 15 && values[1] == 307);
  double one = 1, sum = 0;
  EXPECT_OK(MPI_Allreduce(&one, &sum, 1, type, MPI_SUM, MPI_COMM_WORLD));
  EXPECT_EQ(sum, size);
  EXPECT_CLASS(MPI_Type_free(&again), MPI_ERR_TYPE);
  EXPECT_OK(MPI_Type_create_f90_integer(9, &type));
  EXPECT_OK(MPI_Type_size(type, &bytes));
  EXPECT_EQ(bytes, 4);
  EXPECT_OK(MPI_Type_create_f90_complex(MPI_UNDEFINED, 300, &type));
  EXPECT_OK(MPI_Type_size(type, &bytes));
  EXPECT_EQ(bytes, 16);
  EXPECT_CLASS(MPI_Type_create_f90_real(4000, 10, &type), MPI_ERR_ARG);
  EXPECT_OK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &type));
  EXPECT(type == MPI_DOUBLE_INT);
  EXPECT_OK(MPI_Type_get_value_index(MPI_CHAR, MPI_INT, &type));
  EXPECT(type == MPI_DATATYPE_NULL);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  shares();
  external();
  by_precision();
  return end();
}
