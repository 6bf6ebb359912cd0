// Reductions with the program's own operations (commutative and not), in place, of derived types,
// with zero elements, large, on subcommunicators, many in a row, in the background and as
// persistent requests.
#include "forms.h"

#define CALL(name, ...) CALL_ON(comm, name, __VA_ARGS__)

static MPI_Comm comm;
static int r, n;

// Composition of x -> a x + b modulo 2^32 is associative and not commutative.
typedef struct {
  uint32_t a, b;
} Map;

static Map compose(Map first, Map second) {
  Map map = {second.a * first.a, second.a * first.b + second.b};
  return map;
}

static Map map_of(int from, int i) {
  Map map = {(uint32_t)seed_of(from, i, 1) | 1, (uint32_t)seed_of(from, i, 2)};
  return map;
}

static int same(Map x, Map y) { return x.a == y.a && x.b == y.b; }

static MPI_Datatype map_type;

static void compose_all(void* in, void* inout, int* count, MPI_Datatype* type) {
  Map *first = in, *second = inout;
  EXPECT(*type == map_type);
  for (int i = 0; i < *count; ++i) second[i] = compose(first[i], second[i]);
}

// Largest of the absolute value: commutative, on plain ints.
static void largest(void* in, void* inout, int* count, MPI_Datatype* type) {
  int *a = in, *b = inout;
  EXPECT(*type == MPI_INT);
  for (int i = 0; i < *count; ++i)
    if (abs(a[i]) > abs(b[i])) b[i] = a[i];
}

static Map fold(int first, int last, int i) {
  Map map = map_of(first, i);
  for (int k = first + 1; k <= last; ++k) map = compose(map, map_of(k, i));
  return map;
}

static void check(const Map* result, int last, int from, int count, const char* what) {
  for (int i = 0; i < count; ++i)
    if (!same(result[i], fold(0, last, from + i))) {
      fprintf(stderr, "%s, element %d of %d in %d processes\n", what, i, count, n);
      failed(__FILE__, __LINE__, what);
      return;
    }
}

static void ordered(MPI_Op op, int count) {
  Map* mine = allocate(count * sizeof(Map));
  Map* result = allocate((count + 1) * sizeof(Map));
  for (int i = 0; i < count; ++i) mine[i] = map_of(r, i);
  for (int root = 0; root < n; ++root) {
    memset(result, 0, count * sizeof(Map));
    CALL(Reduce, mine, result, count, map_type, op, root);
    if (r == root) check(result, n - 1, 0, count, "Reduce");
    memcpy(result, mine, count * sizeof(Map));
    if (r == root)
      CALL(Reduce, MPI_IN_PLACE, result, count, map_type, op, root);
    else
      CALL(Reduce, mine, NULL, count, map_type, op, root);
    if (r == root) check(result, n - 1, 0, count, "Reduce in place");
  }
  CALL(Allreduce, mine, result, count, map_type, op);
  check(result, n - 1, 0, count, "Allreduce");
  memcpy(result, mine, count * sizeof(Map));
  CALL(Allreduce, MPI_IN_PLACE, result, count, map_type, op);
  check(result, n - 1, 0, count, "Allreduce in place");
  CALL(Scan, mine, result, count, map_type, op);
  check(result, r, 0, count, "Scan");
  memcpy(result, mine, count * sizeof(Map));
  CALL(Scan, MPI_IN_PLACE, result, count, map_type, op);
  check(result, r, 0, count, "Scan in place");
  CALL(Exscan, mine, result, count, map_type, op);
  if (r > 0) check(result, r - 1, 0, count, "Exscan");
  memcpy(result, mine, count * sizeof(Map));
  CALL(Exscan, MPI_IN_PLACE, result, count, map_type, op);
  if (r > 0) check(result, r - 1, 0, count, "Exscan in place");

  int block = count / n, counts[64], place = 0, used = 0;
  CALL(Reduce_scatter_block, mine, result, block, map_type, op);
  check(result, n - 1, r * block, block, "Reduce_scatter_block");
  memcpy(result, mine, count * sizeof(Map));
  CALL(Reduce_scatter_block, MPI_IN_PLACE, result, block, map_type, op);
  check(result, n - 1, r * block, block, "Reduce_scatter_block in place");
  for (int i = 0; i < n; ++i) {  // uneven, some zero
    counts[i] = i % 3 == 1                                       ? 0
                : i == n - 1 || (i == n - 2 && (n - 1) % 3 == 1) ? count - used
                                                                 : block;
    if (counts[i] > count - used) counts[i] = count - used;
    if (i < r) place += counts[i];
    used += counts[i];
  }
  CALL(Reduce_scatter, mine, result, counts, map_type, op);
  check(result, n - 1, place, counts[r], "Reduce_scatter");
  memcpy(result, mine, count * sizeof(Map));
  CALL(Reduce_scatter, MPI_IN_PLACE, result, counts, map_type, op);
  check(result, n - 1, place, counts[r], "Reduce_scatter in place");
  free(mine);
  free(result);
}

static void commutative(MPI_Op op, int count) {
  int *mine = allocate(count * sizeof(int)), *result = allocate(count * sizeof(int));
  for (int i = 0; i < count; ++i) mine[i] = (int)(seed_of(r, i, 3) % 2000001) - 1000000;
  CALL(Allreduce, mine, result, count, MPI_INT, op);
  for (int i = 0; i < count; ++i) {
    int expected = 0;
    for (int k = 0; k < n; ++k) {
      int value = (int)(seed_of(k, i, 3) % 2000001) - 1000000;
      if (abs(value) > expected) expected = abs(value);
    }
    EXPECT_EQ(abs(result[i]), expected);
  }
  free(mine);
  free(result);
}

// A double sum is the same on every process to the last bit, and right to rounding.
static void doubles(int count) {
  double* mine = allocate(count * sizeof(double));
  double* result = allocate(count * sizeof(double));
  double* first = allocate(count * sizeof(double));
  for (int i = 0; i < count; ++i) mine[i] = (double)(seed_of(r, i, 4) >> 11) * 0x1p-53;
  CALL(Allreduce, mine, result, count, MPI_DOUBLE, MPI_SUM);
  memcpy(first, result, count * sizeof(double));
  CALL(Bcast, first, count, MPI_DOUBLE, 0);
  EXPECT(memcmp(first, result, count * sizeof(double)) == 0);
  for (int i = 0; i < count; ++i) {
    double sum = 0;
    for (int k = 0; k < n; ++k) sum += (double)(seed_of(k, i, 4) >> 11) * 0x1p-53;
    EXPECT(sum - result[i] < 1e-12 && result[i] - sum < 1e-12);
  }
  free(mine);
  free(result);
  free(first);
}

static void many(void) {
  for (int i = 0; i < 3000; ++i) {
    int value = r + i, sum = -1;
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
    EXPECT_EQ(sum, n * (n - 1) / 2 + n * i);
    // The next one may start while slower processes are still in this one.
    if (i % 7 == 0) {
      int root = i % n, token = r == root ? i : -1;
      MPI_Bcast(&token, 1, MPI_INT, root, comm);
      EXPECT_EQ(token, i);
    }
  }
}

static void all_of_them(MPI_Op composing, MPI_Op own, int most) {
  MPI_Comm_rank(comm, &r);
  MPI_Comm_size(comm, &n);
  static const int counts[] = {0, 1, 7, 100, 3000, 40000};
  for (int i = 0; i < 6 && counts[i] <= most; ++i) {
    ordered(composing, counts[i]);
    commutative(own, counts[i]);
    doubles(counts[i]);
  }
  if (form != kBlocking) return;
  doubles(300000);
  many();
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Op composing, own;
  int flag;
  EXPECT_OK(MPI_Type_contiguous(2, MPI_UINT32_T, &map_type));
  EXPECT_OK(MPI_Type_commit(&map_type));
  EXPECT_OK(MPI_Op_create(compose_all, 0, &composing));
  EXPECT_OK(MPI_Op_create(largest, 1, &own));
  EXPECT_OK(MPI_Op_commutative(composing, &flag));
  EXPECT_EQ(flag, 0);
  EXPECT_OK(MPI_Op_commutative(own, &flag));
  EXPECT_EQ(flag, 1);
  EXPECT_OK(MPI_Op_commutative(MPI_SUM, &flag));
  EXPECT_EQ(flag, 1);
  comm = MPI_COMM_WORLD;
  all_of_them(composing, own, 40000);
  for (form = kNonblocking; form < kForms; ++form) all_of_them(composing, own, 3000);
  form = kBlocking;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm);
  all_of_them(composing, own, 40000);
  MPI_Comm_free(&comm);
  comm = MPI_COMM_SELF;
  all_of_them(composing, own, 40000);
  EXPECT_OK(MPI_Op_free(&composing));
  EXPECT(composing == MPI_OP_NULL);
  EXPECT_OK(MPI_Op_free(&own));
  EXPECT_OK(MPI_Type_free(&map_type));
  return end();
}
