// Fortran's types, used from C: each has a name, a size and an extent, makes other types, travels,
// has a form for every machine, and is computed with, the ones of 2 and 16 bytes included.
#include "expect.h"

typedef struct {
  MPI_Datatype type;
  const char* name;
  int bytes;
} Row;
#define ROW(name, bytes) \
  { name, #name, bytes }
static const Row kRows[] = {
    ROW(MPI_LOGICAL, 4),
    ROW(MPI_INTEGER, 4),
    ROW(MPI_REAL, 4),
    ROW(MPI_COMPLEX, 8),
    ROW(MPI_DOUBLE_PRECISION, 8),
    ROW(MPI_DOUBLE_COMPLEX, 16),
    ROW(MPI_CHARACTER, 1),
    ROW(MPI_2REAL, 8),
    ROW(MPI_2DOUBLE_PRECISION, 16),
    ROW(MPI_2INTEGER, 8),
    ROW(MPI_LOGICAL1, 1),
    ROW(MPI_LOGICAL2, 2),
    ROW(MPI_LOGICAL4, 4),
    ROW(MPI_LOGICAL8, 8),
    ROW(MPI_LOGICAL16, 16),
    ROW(MPI_INTEGER1, 1),
    ROW(MPI_INTEGER2, 2),
    ROW(MPI_INTEGER4, 4),
    ROW(MPI_INTEGER8, 8),
    ROW(MPI_INTEGER16, 16),
    ROW(MPI_REAL2, 2),
    ROW(MPI_REAL4, 4),
    ROW(MPI_REAL8, 8),
    ROW(MPI_REAL16, 16),
    ROW(MPI_COMPLEX4, 4),
    ROW(MPI_COMPLEX8, 8),
    ROW(MPI_COMPLEX16, 16),
    ROW(MPI_COMPLEX32, 32),
};

static void describe(const Row* row) {
  int bytes = -1, length = -1, integers, addresses, types, combiner = -1;
  char name[MPI_MAX_OBJECT_NAME];
  MPI_Aint lb = -1, extent = -1;
  EXPECT_OK(MPI_Type_size(row->type, &bytes));
  EXPECT_EQ(bytes, row->bytes);
  EXPECT_OK(MPI_Type_get_extent(row->type, &lb, &extent));
  EXPECT(lb == 0 && extent == row->bytes);
  EXPECT_OK(MPI_Type_get_true_extent(row->type, &lb, &extent));
  EXPECT(lb == 0 && extent == row->bytes);
  EXPECT_OK(MPI_Type_get_name(row->type, name, &length));
  if (strcmp(name, row->name) != 0) failed(__FILE__, __LINE__, row->name);
  EXPECT_OK(MPI_Type_get_envelope(row->type, &integers, &addresses, &types, &combiner));
  EXPECT_EQ(combiner, MPI_COMBINER_NAMED);
}

static void derive(const Row* row) {
  const int two = 2, one[2] = {1, 1}, places[2] = {0, 2}, start = 1;
  const MPI_Aint offsets[2] = {0, 2 * row->bytes};
  const MPI_Datatype both[2] = {row->type, row->type};
  MPI_Datatype made[8];
  int bytes = -1;
  EXPECT_OK(MPI_Type_contiguous(2, row->type, &made[0]));
  EXPECT_OK(MPI_Type_vector(2, 1, 2, row->type, &made[1]));
  EXPECT_OK(MPI_Type_create_hvector(2, 1, 2 * row->bytes, row->type, &made[2]));
  EXPECT_OK(MPI_Type_indexed(2, one, places, row->type, &made[3]));
  EXPECT_OK(MPI_Type_create_indexed_block(2, 1, places, row->type, &made[4]));
  EXPECT_OK(MPI_Type_create_struct(2, one, offsets, both, &made[5]));
  EXPECT_OK(
      MPI_Type_create_subarray(1, &(int){3}, &two, &start, MPI_ORDER_FORTRAN, row->type, &made[6]));
  EXPECT_OK(MPI_Type_dup(row->type, &made[7]));
  for (int i = 0; i < 8; ++i) {
    EXPECT_OK(MPI_Type_size(made[i], &bytes));
    EXPECT_EQ(bytes, i < 7 ? 2 * row->bytes : row->bytes);
    EXPECT_OK(MPI_Type_free(&made[i]));
  }
}

// To oneself, and through the form for every machine, which reverses each number.
static void move(const Row* row) {
  unsigned char out[64], in[64], packed[64];
  fill(out, sizeof out, (uint64_t)row->bytes);
  memset(in, 0, sizeof in);
  EXPECT_OK(MPI_Sendrecv(out, 2, row->type, rank, 5, in, 2, row->type, rank, 5, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE));
  EXPECT(memcmp(in, out, 2 * row->bytes) == 0);
  MPI_Aint position = 0;
  EXPECT_OK(MPI_Pack_external("external32", out, 1, row->type, packed, sizeof packed, &position));
  EXPECT_EQ(position, row->bytes);
  memset(in, 0, sizeof in);
  position = 0;
  EXPECT_OK(MPI_Unpack_external("external32", packed, row->bytes, &position, in, 1, row->type));
  EXPECT(memcmp(in, out, row->bytes) == 0);
}

static void match(void) {
  const struct {
    int kind, bytes;
    MPI_Datatype type;
  } cases[] = {{MPI_TYPECLASS_INTEGER, 16, MPI_INTEGER16}, {MPI_TYPECLASS_REAL, 2, MPI_REAL2},
               {MPI_TYPECLASS_REAL, 16, MPI_REAL16},       {MPI_TYPECLASS_COMPLEX, 4, MPI_COMPLEX4},
               {MPI_TYPECLASS_COMPLEX, 32, MPI_COMPLEX32}, {MPI_TYPECLASS_REAL, 8, MPI_REAL8}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    EXPECT_OK(MPI_Type_match_size(cases[i].kind, cases[i].bytes, &type));
    EXPECT(type == cases[i].type);
  }
}

static void reduce(void) {
  const __int128 wide = ((__int128)7 << 100) - 3;
  __int128 integers[2] = {wide, -wide}, sum[2] = {0, 0};
  EXPECT_OK(MPI_Allreduce(integers, sum, 2, MPI_INTEGER16, MPI_SUM, MPI_COMM_WORLD));
  EXPECT(sum[0] == size * wide && sum[1] == -size * wide);
  EXPECT_OK(MPI_Allreduce(integers, sum, 2, MPI_INTEGER16, MPI_MAX, MPI_COMM_WORLD));
  EXPECT(sum[0] == wide && sum[1] == -wide);
  EXPECT_OK(MPI_Allreduce(integers, sum, 2, MPI_INTEGER16, MPI_BXOR, MPI_COMM_WORLD));
  EXPECT(sum[0] == (size % 2 ? wide : 0));
  // True only above the first 64 bits.
  __int128 logical[2] = {(__int128)1 << 90, 0}, both[2] = {0, 1};
  EXPECT_OK(MPI_Reduce_local(logical, both, 2, MPI_LOGICAL16, MPI_LOR));
  EXPECT(both[0] == 1 && both[1] == 1);

  __float128 reals[3] = {1, 0x1p-100, 3}, total[3] = {2, 1, -1};
  EXPECT_OK(MPI_Reduce_local(reals, total, 2, MPI_REAL16, MPI_SUM));
  EXPECT(total[0] == 3 && total[1] == 1 + (__float128)0x1p-100);
  EXPECT(total[1] != 1);
  EXPECT_OK(MPI_Reduce_local(reals + 2, total + 2, 1, MPI_REAL16, MPI_MIN));
  EXPECT(total[2] == -1);
  __float128 complexes[2] = {1, 2}, product[2] = {3, -1};
  EXPECT_OK(MPI_Reduce_local(complexes, product, 1, MPI_COMPLEX32, MPI_PROD));
  EXPECT(product[0] == 5 && product[1] == 5);
  EXPECT_CLASS(MPI_Reduce_local(complexes, product, 1, MPI_COMPLEX32, MPI_MAX), MPI_ERR_OP);
}

#ifdef __FLT16_MAX__
// Every number of two bytes with others, against the compiler's arithmetic.
static void halves(void) {
  enum { kAll = 1 << 16 };
  static const struct {
    MPI_Op op;
    int kind;
  } operations[] = {{MPI_SUM, 0}, {MPI_PROD, 1}, {MPI_MAX, 2}};
  _Float16* a = allocate(kAll * sizeof *a);
  _Float16* b = allocate(kAll * sizeof *b);
  uint64_t random = 7;
  for (int turn = 0; turn < 20; ++turn)
    for (int k = 0; k < 3; ++k) {
      uint16_t* bits = allocate(2 * kAll * sizeof *bits);
      for (int i = 0; i < kAll; ++i) {
        bits[i] = (uint16_t)i;
        bits[kAll + i] = (uint16_t)next_random(&random);
      }
      memcpy(a, bits, kAll * sizeof *a);
      memcpy(b, bits + kAll, kAll * sizeof *b);
      EXPECT_OK(MPI_Reduce_local(a, b, kAll, MPI_REAL2, operations[k].op));
      for (int i = 0; i < kAll; ++i) {
        _Float16 x, y, expected;
        memcpy(&x, bits + i, sizeof x);
        memcpy(&y, bits + kAll + i, sizeof y);
        // A maximum with what is no number is either.
        if (k == 2 && (x != x || y != y)) continue;
        expected = k == 0 ? x + y : k == 1 ? x * y : x < y ? y : x;
        const int same = expected != expected ? b[i] != b[i] : b[i] == expected;
        if (!same) failed(__FILE__, __LINE__, "arithmetic of MPI_REAL2");
      }
      free(bits);
    }
  free(a);
  free(b);
  _Float16 number[2] = {1.5, -2}, result[2] = {2, 0.5};
  EXPECT_OK(MPI_Reduce_local(number, result, 1, MPI_COMPLEX4, MPI_PROD));
  EXPECT(result[0] == 4 && result[1] == (_Float16)-3.25);
}
#else
static void halves(void) {}
#endif

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (size_t i = 0; i < sizeof kRows / sizeof *kRows; ++i) {
    describe(&kRows[i]);
    derive(&kRows[i]);
    move(&kRows[i]);
  }
  match();
  reduce();
  if (rank == 0) halves();
  return end();
}
