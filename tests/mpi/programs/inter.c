// Collectives between two groups: every collective in its blocking, nonblocking and persistent
// form, with each process of both groups as the root in turn, on types with gaps too; duplicates of
// intercommunicators made in the background; wrong arguments.
#include "forms.h"

enum { kBlock = 3, kMax = 8 };

static MPI_Comm inter;
static int side, local_rank, local_size, remote_size;  // side: 0 even world ranks, 1 odd
static MPI_Datatype spread;                            // an int and a gap of one

// Element i of what process r of a side gives to process `to` of the other (0 where all get one).
static int value(int from_side, int r, int to, int i) {
  return from_side * 100000 + r * 1000 + to * 100 + i;
}

#define CALL(name, ...) CALL_ON(inter, name, __VA_ARGS__)

// The root argument of this process when process r of side s is the root.
static int root_for(int s, int r) {
  if (side != s) return r;
  return local_rank == r ? MPI_ROOT : MPI_PROC_NULL;
}

static void rooted(int s, int r) {
  const int root = root_for(s, r), num_theirs = side == s ? remote_size : local_size;
  int out[kMax * kBlock * 2], in[kMax * kBlock * 2], counts[kMax], places[kMax];

  for (int i = 0; i < kBlock; ++i) out[i] = root == MPI_ROOT ? value(s, r, 0, i) : -1;
  CALL(Bcast, out, kBlock, MPI_INT, root);
  if (side != s)
    for (int i = 0; i < kBlock; ++i) EXPECT_EQ(out[i], value(s, r, 0, i));

  // From a type with gaps to a dense one, and back.
  memset(in, -1, sizeof in);
  for (int i = 0; i < kBlock; ++i) out[2 * i] = value(side, local_rank, r, i);
  CALL(Gather, out, kBlock, spread, in, kBlock, MPI_INT, root);
  for (int p = 0; root == MPI_ROOT && p < num_theirs; ++p)
    for (int i = 0; i < kBlock; ++i) EXPECT_EQ(in[p * kBlock + i], value(1 - s, p, r, i));

  memset(in, -1, sizeof in);
  for (int p = 0; p < num_theirs; ++p)
    for (int i = 0; i < kBlock; ++i) out[p * kBlock + i] = value(s, r, p, i);
  CALL(Scatter, out, kBlock, MPI_INT, in, kBlock, spread, root);
  if (side != s)
    for (int i = 0; i < kBlock; ++i) {
      EXPECT_EQ(in[2 * i], value(s, r, local_rank, i));
      EXPECT_EQ(in[2 * i + 1], -1);
    }

  // Process p has p % 3 + 1 elements, placed in reverse order.
  for (int p = 0; p < num_theirs; ++p) {
    counts[p] = p % 3 + 1;
    places[p] = (num_theirs - 1 - p) * kBlock;
  }
  memset(in, -1, sizeof in);
  for (int i = 0; i < kBlock; ++i) out[i] = value(side, local_rank, r, i);
  CALL(Gatherv, out, local_rank % 3 + 1, MPI_INT, in, counts, places, MPI_INT, root);
  for (int p = 0; root == MPI_ROOT && p < num_theirs; ++p)
    for (int i = 0; i < kBlock; ++i)
      EXPECT_EQ(in[places[p] + i], i < counts[p] ? value(1 - s, p, r, i) : -1);

  memset(in, -1, sizeof in);
  for (int p = 0; p < num_theirs; ++p)
    for (int i = 0; i < kBlock; ++i) out[places[p] + i] = value(s, r, p, i);
  CALL(Scatterv, out, counts, places, MPI_INT, in, local_rank % 3 + 1, MPI_INT, root);
  if (side != s)
    for (int i = 0; i < kBlock; ++i)
      EXPECT_EQ(in[i], i < local_rank % 3 + 1 ? value(s, r, local_rank, i) : -1);

  memset(in, -1, sizeof in);
  for (int i = 0; i < kBlock; ++i) out[i] = value(side, local_rank, 0, i);
  CALL(Reduce, out, in, kBlock, MPI_INT, MPI_SUM, root);
  for (int i = 0; root == MPI_ROOT && i < kBlock; ++i) {
    int sum = 0;
    for (int p = 0; p < remote_size; ++p) sum += value(1 - s, p, 0, i);
    EXPECT_EQ(in[i], sum);
  }
}

// a then b: 2x2 matrices of small numbers modulo a prime do not commute.
static void multiply(void* in, void* inout, int* n, MPI_Datatype* type) {
  (void)type;
  int *a = in, *b = inout;
  for (int k = 0; k < *n; ++k, a += 4, b += 4) {
    int c[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2],
                a[2] * b[1] + a[3] * b[3]};
    for (int i = 0; i < 4; ++i) b[i] = c[i] % 997;
  }
}

static void matrix_of(int s, int r, int* m) {
  for (int i = 0; i < 4; ++i) m[i] = (int)(mix((uint64_t)(s * 100 + r * 10 + i)) % 997);
}

static void symmetric(void) {
  int out[kMax * kBlock], in[kMax * kBlock], counts[kMax], places[kMax], out_counts[kMax],
      out_places[kMax];
  memset(in, -1, sizeof in);
  for (int i = 0; i < kBlock; ++i) out[i] = value(side, local_rank, 0, i);
  CALL(Allgather, out, kBlock, MPI_INT, in, kBlock, MPI_INT);
  for (int p = 0; p < remote_size; ++p)
    for (int i = 0; i < kBlock; ++i) EXPECT_EQ(in[p * kBlock + i], value(1 - side, p, 0, i));

  for (int p = 0; p < remote_size; ++p) {
    counts[p] = p % 3 + 1;
    places[p] = (remote_size - 1 - p) * kBlock;
  }
  memset(in, -1, sizeof in);
  CALL(Allgatherv, out, local_rank % 3 + 1, MPI_INT, in, counts, places, MPI_INT);
  for (int p = 0; p < remote_size; ++p)
    for (int i = 0; i < kBlock; ++i)
      EXPECT_EQ(in[places[p] + i], i < counts[p] ? value(1 - side, p, 0, i) : -1);

  memset(in, -1, sizeof in);
  for (int p = 0; p < remote_size; ++p)
    for (int i = 0; i < kBlock; ++i) out[p * kBlock + i] = value(side, local_rank, p, i);
  CALL(Alltoall, out, kBlock, MPI_INT, in, kBlock, MPI_INT);
  for (int p = 0; p < remote_size; ++p)
    for (int i = 0; i < kBlock; ++i)
      EXPECT_EQ(in[p * kBlock + i], value(1 - side, p, local_rank, i));

  // p gives q (p + q) % 4 elements; of none the type may be null in alltoallw.
  MPI_Datatype types[kMax];
  int bytes[kMax], out_bytes[kMax];
  MPI_Datatype out_types[kMax];
  for (int p = 0; p < remote_size; ++p) {
    counts[p] = out_counts[p] = (p + local_rank) % 4;
    places[p] = out_places[p] = p * kBlock;
    bytes[p] = out_bytes[p] = p * kBlock * (int)sizeof(int);
    types[p] = out_types[p] = MPI_INT;
  }
  memset(in, -1, sizeof in);
  CALL(Alltoallv, out, out_counts, out_places, MPI_INT, in, counts, places, MPI_INT);
  for (int p = 0; p < remote_size; ++p)
    for (int i = 0; i < counts[p]; ++i)
      EXPECT_EQ(in[places[p] + i], value(1 - side, p, local_rank, i));
  memset(in, -1, sizeof in);
  CALL(Alltoallw, out, out_counts, out_bytes, out_types, in, counts, bytes, types);
  for (int p = 0; p < remote_size; ++p)
    for (int i = 0; i < counts[p]; ++i)
      EXPECT_EQ(in[places[p] + i], value(1 - side, p, local_rank, i));

  memset(in, -1, sizeof in);
  for (int i = 0; i < kBlock; ++i) out[i] = value(side, local_rank, 0, i);
  CALL(Allreduce, out, in, kBlock, MPI_INT, MPI_MAX);
  for (int i = 0; i < kBlock; ++i) EXPECT_EQ(in[i], value(1 - side, remote_size - 1, 0, i));

  MPI_Datatype matrix;
  MPI_Op product;
  int mine[4], got[4], expected[4];
  MPI_Type_contiguous(4, MPI_INT, &matrix);
  MPI_Type_commit(&matrix);
  MPI_Op_create(multiply, 0, &product);
  matrix_of(side, local_rank, mine);
  CALL(Allreduce, mine, got, 1, matrix, product);
  matrix_of(1 - side, remote_size - 1, expected);
  for (int p = remote_size - 2; p >= 0; --p) {
    int one = 1;
    matrix_of(1 - side, p, mine);
    multiply(mine, expected, &one, &matrix);
  }
  for (int i = 0; i < 4; ++i) EXPECT_EQ(got[i], expected[i]);
  MPI_Op_free(&product);
  MPI_Type_free(&matrix);
}

// The sums over both groups' counts are one number: a multiple of both sizes, then uneven parts.
static void scattered(void) {
  const int total = local_size * remote_size;
  int out[kMax * kMax], in[kMax * kMax], counts[kMax];
  for (int i = 0; i < total; ++i) out[i] = value(side, local_rank, 0, i);
  memset(in, -1, sizeof in);
  CALL(Reduce_scatter_block, out, in, remote_size, MPI_INT, MPI_SUM);
  for (int i = 0; i < remote_size; ++i) {
    int sum = 0;
    for (int p = 0; p < remote_size; ++p)
      sum += value(1 - side, p, 0, local_rank * remote_size + i);
    EXPECT_EQ(in[i], sum);
  }
  // All to the last but one element each.
  for (int p = 0; p < local_size; ++p) counts[p] = p + 1 < local_size ? 1 : total - local_size + 1;
  memset(in, -1, sizeof in);
  CALL(Reduce_scatter, out, in, counts, MPI_INT, MPI_SUM);
  for (int i = 0; i < counts[local_rank]; ++i) {
    int sum = 0;
    for (int p = 0; p < remote_size; ++p) sum += value(1 - side, p, 0, local_rank + i);
    EXPECT_EQ(in[i], sum);
  }
}

static void duplicates(void) {
  MPI_Comm copies[2];
  MPI_Request requests[2];
  EXPECT_OK(MPI_Comm_idup(inter, &copies[0], &requests[0]));
  EXPECT_OK(MPI_Comm_idup(inter, &copies[1], &requests[1]));
  EXPECT_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  int result;
  EXPECT_OK(MPI_Comm_compare(inter, copies[1], &result));
  EXPECT_EQ(result, MPI_CONGRUENT);
  // Messages of one do not reach the other.
  for (int c = 0; c < 2; ++c) {
    int out = c, in = -1;
    EXPECT_OK(MPI_Allreduce(&out, &in, 1, MPI_INT, MPI_MAX, copies[c]));
    EXPECT_EQ(in, c);
  }
  MPI_Comm_free(&copies[0]);
  MPI_Comm_free(&copies[1]);
}

// Both groups become one, whichever says that it comes last.
static int has_hint(MPI_Comm comm) {
  MPI_Info info;
  char value[20];
  int flag = -1;
  EXPECT_OK(MPI_Comm_get_info(comm, &info));
  EXPECT_OK(MPI_Info_get(info, "mpi_assert_no_any_tag", sizeof value - 1, value, &flag));
  EXPECT_OK(MPI_Info_free(&info));
  return flag;
}

// A duplicate has the hints of the original, or those it is made with.
static void hints(void) {
  MPI_Comm plain, hinted, kept, dropped;
  MPI_Info info;
  EXPECT_OK(MPI_Info_create(&info));
  EXPECT_OK(MPI_Info_set(info, "mpi_assert_no_any_tag", "true"));
  EXPECT_OK(MPI_Comm_dup(inter, &plain));
  EXPECT_OK(MPI_Comm_dup_with_info(inter, info, &hinted));
  EXPECT_OK(MPI_Comm_dup(hinted, &kept));
  EXPECT_OK(MPI_Comm_dup_with_info(hinted, MPI_INFO_NULL, &dropped));
  EXPECT_EQ(has_hint(plain), 0);
  EXPECT_EQ(has_hint(hinted), 1);
  EXPECT_EQ(has_hint(kept), 1);
  EXPECT_EQ(has_hint(dropped), 0);
  MPI_Comm* const all[] = {&plain, &hinted, &kept, &dropped};
  for (int i = 0; i < 4; ++i) EXPECT_OK(MPI_Comm_free(all[i]));
  EXPECT_OK(MPI_Info_free(&info));
}

static void merged(void) {
  for (int high = 0; high < 2; ++high) {
    MPI_Comm one;
    MPI_Group theirs, world;
    int r = -1, n = -1, result = -1, num_theirs = -1;
    EXPECT_OK(MPI_Intercomm_merge(inter, side == high, &one));
    MPI_Comm_rank(one, &r);
    MPI_Comm_size(one, &n);
    EXPECT_EQ(n, size);
    EXPECT_EQ(r, side == high ? remote_size + local_rank : local_rank);
    int sum = -1;
    EXPECT_OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, one));
    EXPECT_EQ(sum, size * (size - 1) / 2);
    MPI_Comm_free(&one);
    // The other side: every second rank of the world.
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    EXPECT_OK(MPI_Comm_remote_group(inter, &theirs));
    MPI_Group_size(theirs, &num_theirs);
    EXPECT_EQ(num_theirs, remote_size);
    for (int i = 0; i < num_theirs; ++i) {
      EXPECT_OK(MPI_Group_translate_ranks(theirs, 1, &i, world, &result));
      EXPECT_EQ(result, 2 * i + 1 - side);
    }
    MPI_Group_free(&theirs);
    MPI_Group_free(&world);
  }
}

static void wrong(void) {
  int a = 1, b[kMax];
  MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
  EXPECT_CLASS(MPI_Bcast(&a, 1, MPI_INT, remote_size, inter), MPI_ERR_ROOT);
  EXPECT_CLASS(MPI_Scan(&a, b, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_COMM);
  if (!kOpenMpi && !kMpich)
    EXPECT_CLASS(MPI_Allgather(MPI_IN_PLACE, 1, MPI_INT, b, 1, MPI_INT, inter), MPI_ERR_BUFFER);
  if (!kOpenMpi) EXPECT_CLASS(MPI_Gather(&a, -1, MPI_INT, b, 1, MPI_INT, 0, inter), MPI_ERR_COUNT);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm local;
  side = rank % 2;
  MPI_Comm_split(MPI_COMM_WORLD, side, rank, &local);
  EXPECT_OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, 1 - side, 5, &inter));
  MPI_Comm_rank(inter, &local_rank);
  MPI_Comm_size(inter, &local_size);
  MPI_Comm_remote_size(inter, &remote_size);
  MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spread);
  MPI_Type_commit(&spread);
  for (form = 0; form < kForms; ++form) {
    for (int s = 0; s < 2; ++s)
      for (int r = 0; r < (side == s ? local_size : remote_size); ++r) rooted(s, r);
    symmetric();
    scattered();
    barrier_on(inter);
  }
  duplicates();
  hints();
  merged();
  wrong();
  MPI_Type_free(&spread);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&local);
  return end();
}
