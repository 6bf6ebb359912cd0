// Collectives that move data: Bcast, Gather(v), Scatter(v), Allgather(v), Alltoall(v,w) and
// Barrier, with every root, at sizes across the algorithms, in place, with zero counts, with
// datatypes that have gaps, and on subcommunicators in another order.
#include "forms.h"

#define CALL(name, ...) CALL_ON(comm, name, __VA_ARGS__)

static MPI_Comm comm;
static int r, n;  // in comm

// Element i of what `from` has for `to`.
static int item(int from, int to, int i) { return (int)(seed_of(from, to, i) & 0x7fffffff); }

static const int kCounts[] = {0, 1, 3, 64, 1000, 5000, 70000};
enum { kNumCounts = sizeof kCounts / sizeof kCounts[0] };

static int* make(size_t count) {
  int* data = allocate(count * sizeof(int));
  for (size_t i = 0; i < count; ++i) data[i] = -1;
  return data;
}

static void check_items(const int* data, int from, int to, int count, const char* what) {
  for (int i = 0; i < count; ++i)
    if (data[i] != item(from, to, i)) {
      fprintf(stderr, "%s of %d in %d processes, from %d to %d: item %d\n", what, count, n, from,
              to, i);
      failed(__FILE__, __LINE__, what);
      return;
    }
}

static void fill_items(int* data, int from, int to, int count) {
  for (int i = 0; i < count; ++i) data[i] = item(from, to, i);
}

static void bcast(int count) {
  int* data = make(count + 1);
  for (int root = 0; root < n; ++root) {
    for (int i = 0; i <= count; ++i) data[i] = -1;
    if (r == root) fill_items(data, root, 0, count);
    CALL(Bcast, data, count, MPI_INT, root);
    check_items(data, root, 0, count, "Bcast");
    EXPECT_EQ(data[count], -1);
  }
  free(data);
}

static void gather(int count) {
  int* mine = make(count);
  int* all = make((size_t)count * n + 1);
  fill_items(mine, r, 0, count);
  for (int root = 0; root < n; ++root)
    for (int in_place = 0; in_place < 2; ++in_place) {
      for (int i = 0; i < count * n; ++i) all[i] = -1;
      if (in_place && r == root) {
        fill_items(all + (size_t)count * r, r, 0, count);
        CALL(Gather, MPI_IN_PLACE, 0, MPI_INT, all, count, MPI_INT, root);
      } else {  // the receive side means nothing elsewhere
        CALL(Gather, mine, count, MPI_INT, r == root ? all : NULL, r == root ? count : 0, MPI_INT,
             root);
      }
      if (r == root) {
        for (int i = 0; i < n; ++i) check_items(all + (size_t)count * i, i, 0, count, "Gather");
        EXPECT_EQ(all[(size_t)count * n], -1);
      }
    }
  free(mine);
  free(all);
}

static void scatter(int count) {
  int* mine = make(count + 1);
  int* all = make((size_t)count * n);
  for (int root = 0; root < n; ++root)
    for (int in_place = 0; in_place < 2; ++in_place) {
      for (int i = 0; i <= count; ++i) mine[i] = -1;
      if (r == root)
        for (int i = 0; i < n; ++i) fill_items(all + (size_t)count * i, root, i, count);
      if (in_place && r == root)
        CALL(Scatter, all, count, MPI_INT, MPI_IN_PLACE, 0, MPI_INT, root);
      else
        CALL(Scatter, all, count, MPI_INT, mine, count, MPI_INT, root);
      if (in_place && r == root)
        check_items(all + (size_t)count * r, root, r, count, "Scatter");
      else
        check_items(mine, root, r, count, "Scatter");
      EXPECT_EQ(mine[count], -1);
    }
  free(mine);
  free(all);
}

static void allgather(int count) {
  int* mine = make(count);
  int* all = make((size_t)count * n + 1);
  fill_items(mine, r, 0, count);
  for (int in_place = 0; in_place < 2; ++in_place) {
    for (int i = 0; i < count * n; ++i) all[i] = -1;
    if (in_place) {
      fill_items(all + (size_t)count * r, r, 0, count);
      CALL(Allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, count, MPI_INT);
    } else {
      CALL(Allgather, mine, count, MPI_INT, all, count, MPI_INT);
    }
    for (int i = 0; i < n; ++i) check_items(all + (size_t)count * i, i, 0, count, "Allgather");
    EXPECT_EQ(all[(size_t)count * n], -1);
  }
  free(mine);
  free(all);
}

static void alltoall(int count) {
  int* out = make((size_t)count * n);
  int* in = make((size_t)count * n + 1);
  for (int i = 0; i < n; ++i) fill_items(out + (size_t)count * i, r, i, count);
  CALL(Alltoall, out, count, MPI_INT, in, count, MPI_INT);
  for (int i = 0; i < n; ++i) check_items(in + (size_t)count * i, i, r, count, "Alltoall");
  EXPECT_EQ(in[(size_t)count * n], -1);
  for (int i = 0; i < n; ++i) check_items(out + (size_t)count * i, r, i, count, "Alltoall's input");
  CALL(Alltoall, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, count, MPI_INT);
  for (int i = 0; i < n; ++i)
    check_items(out + (size_t)count * i, i, r, count, "Alltoall in place");
  free(out);
  free(in);
}

// Counts by rank, some zero; blocks in reverse order with a gap of one between them.
static int count_of(int base, int i) { return i % 3 == 1 ? 0 : base + i; }

static void vectors(int base) {
  int counts[64], places[64], total = 0;
  for (int i = n - 1; i >= 0; --i) {
    counts[i] = count_of(base, i);
    places[i] = total + 1;
    total += counts[i] + 1;
  }
  int *mine = make(counts[r]), *all = make(total + 1);
  fill_items(mine, r, 0, counts[r]);
  for (int root = 0; root < n; ++root)
    for (int in_place = 0; in_place < 2; ++in_place) {
      for (int i = 0; i <= total; ++i) all[i] = -1;
      if (in_place && r == root) {
        fill_items(all + places[r], r, 0, counts[r]);
        CALL(Gatherv, MPI_IN_PLACE, 0, MPI_INT, all, counts, places, MPI_INT, root);
      } else {
        CALL(Gatherv, mine, counts[r], MPI_INT, all, counts, places, MPI_INT, root);
      }
      if (r == root)
        for (int i = 0; i < n; ++i) {
          check_items(all + places[i], i, 0, counts[i], "Gatherv");
          EXPECT_EQ(all[places[i] - 1], -1);
        }
      for (int i = 0; i < n; ++i) fill_items(all + places[i], root, i, counts[i]);
      int* got = make(counts[r] + 1);
      if (in_place && r == root)
        CALL(Scatterv, all, counts, places, MPI_INT, MPI_IN_PLACE, 0, MPI_INT, root);
      else
        CALL(Scatterv, all, counts, places, MPI_INT, got, counts[r], MPI_INT, root);
      if (!(in_place && r == root)) check_items(got, root, r, counts[r], "Scatterv");
      EXPECT_EQ(got[counts[r]], -1);
      free(got);
    }
  // MPICH ignores the displacement in a communicator of one.
  for (int in_place = kMpich && n == 1; in_place < 2; ++in_place) {
    for (int i = 0; i <= total; ++i) all[i] = -1;
    if (in_place) {
      fill_items(all + places[r], r, 0, counts[r]);
      CALL(Allgatherv, MPI_IN_PLACE, 0, MPI_INT, all, counts, places, MPI_INT);
    } else {
      CALL(Allgatherv, mine, counts[r], MPI_INT, all, counts, places, MPI_INT);
    }
    for (int i = 0; i < n; ++i) {
      check_items(all + places[i], i, 0, counts[i], "Allgatherv");
      EXPECT_EQ(all[places[i] - 1], -1);
    }
  }
  free(mine);
  free(all);
}

// What i sends k has a size of its own, zero for some; the same both ways for the in-place form.
static int pair_count(int base, int i, int k) { return (i + k) % 4 == 3 ? 0 : base + i + k; }

static void alltoallv(int base) {
  int counts[64], in_counts[64], places[64], in_places[64], total = 0;
  for (int i = 0; i < n; ++i) {
    counts[i] = pair_count(base, r, i);
    in_counts[i] = pair_count(base, i, r);
    places[i] = in_places[i] = total;
    total += counts[i] + 2;
  }
  int *out = make(total), *in = make(total);
  for (int i = 0; i < n; ++i) fill_items(out + places[i], r, i, counts[i]);
  CALL(Alltoallv, out, counts, places, MPI_INT, in, in_counts, in_places, MPI_INT);
  for (int i = 0; i < n; ++i) {
    check_items(in + in_places[i], i, r, in_counts[i], "Alltoallv");
    EXPECT_EQ(in[in_places[i] + in_counts[i]], -1);
  }
  CALL(Alltoallv, MPI_IN_PLACE, NULL, NULL, MPI_INT, out, counts, places, MPI_INT);
  for (int i = 0; i < n; ++i) check_items(out + places[i], i, r, counts[i], "Alltoallv in place");
  free(out);
  free(in);
}

// The same with a type for every pair, of ints in a row or of every second one, and places in
// bytes.
static void alltoallw(int base) {
  MPI_Datatype second, types[64], in_types[64];
  MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &second);
  MPI_Type_commit(&second);
  int counts[64], in_counts[64], places[64], in_places[64], total = 0;
  for (int i = 0; i < n; ++i) {
    counts[i] = pair_count(base, r, i);
    in_counts[i] = pair_count(base, i, r);
    types[i] = (r + i) % 2 ? second : MPI_INT;
    in_types[i] = i % 3 == 0 ? second : MPI_INT;
    places[i] = in_places[i] = total * (int)sizeof(int);
    total += 2 * counts[i] + 2;
  }
  int *out = make(total), *in = make(total), *got = make(total);
  for (int i = 0; i < n; ++i) {
    const int step = types[i] == second ? 2 : 1, first = places[i] / (int)sizeof(int);
    for (int k = 0; k < counts[i]; ++k) out[first + step * k] = item(r, i, k);
  }
  CALL(Alltoallw, out, counts, places, types, in, in_counts, in_places, in_types);
  for (int i = 0; i < n; ++i) {
    const int step = in_types[i] == second ? 2 : 1, first = in_places[i] / (int)sizeof(int);
    for (int k = 0; k < in_counts[i]; ++k) {
      got[k] = in[first + step * k];
      if (step == 2) EXPECT_EQ(in[first + 2 * k + 1], -1);
    }
    check_items(got, i, r, in_counts[i], "Alltoallw");
    EXPECT_EQ(in[first + step * in_counts[i]], -1);
  }
  // In place each pair's two blocks have one type.
  CALL(Alltoallw, MPI_IN_PLACE, NULL, NULL, NULL, out, counts, places, types);
  for (int i = 0; i < n; ++i) {
    const int step = types[i] == second ? 2 : 1, first = places[i] / (int)sizeof(int);
    for (int k = 0; k < counts[i]; ++k) got[k] = out[first + step * k];
    check_items(got, i, r, counts[i], "Alltoallw in place");
  }
  MPI_Type_free(&second);
  free(out);
  free(in);
  free(got);
}

// Every second int goes, every third is where it arrives.
static void gaps(int count) {
  MPI_Datatype second, third;
  MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &second);
  MPI_Type_create_resized(MPI_INT, 0, 3 * sizeof(int), &third);
  MPI_Type_commit(&second);
  MPI_Type_commit(&third);
  int* out = make((size_t)2 * count * n);
  int* in = make((size_t)3 * count * n);
  for (int k = 0; k < n; ++k)
    for (int i = 0; i < count; ++i) out[2 * (k * count + i)] = item(r, k, i);
  CALL(Alltoall, out, count, second, in, count, third);
  for (int k = 0; k < n; ++k)
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(in[3 * (k * count + i)], item(k, r, i));
      EXPECT_EQ(in[3 * (k * count + i) + 1], -1);
    }
  for (int i = 0; i < 3 * count * n; ++i) in[i] = -1;
  CALL(Allgather, out, count, second, in, count, third);
  for (int k = 0; k < n; ++k)
    for (int i = 0; i < count; ++i) EXPECT_EQ(in[3 * (k * count + i)], item(k, 0, i));
  int root = n - 1;
  for (int i = 0; i < 3 * count * n; ++i) in[i] = -1;
  // The types of the root and of the others differ, the signature is one.
  if (r == root)
    for (int i = 0; i < count; ++i) in[3 * i] = item(7, 7, i);
  CALL(Bcast, in, count, r == root ? third : second, root);
  for (int i = 0; i < count; ++i) EXPECT_EQ(in[(r == root ? 3 : 2) * i], item(7, 7, i));
  CALL(Gather, out, count, second, in, count, third, root);
  if (r == root)
    for (int k = 0; k < n; ++k)
      for (int i = 0; i < count; ++i) EXPECT_EQ(in[3 * (k * count + i)], item(k, 0, i));
  MPI_Type_free(&second);
  MPI_Type_free(&third);
  free(out);
  free(in);
}

// Nobody leaves before everybody has come.
static void barrier(void) {
  for (int late = 0; late < n; ++late) {
    int token = 0;
    MPI_Request request;
    if (r != late) MPI_Irecv(&token, 1, MPI_INT, late, 99, comm, &request);
    if (r == late) {
      token = 1;
      for (int i = 0; i < n; ++i)
        if (i != r) MPI_Ssend(&token, 1, MPI_INT, i, 99, comm);
    }
    barrier_on(comm);
    if (r != late) {
      // Ssend returned before the barrier: the message has matched.
      int flag = 0;
      for (int i = 0; i < 1000 && !flag; ++i) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
      EXPECT_EQ(flag, 1);
      if (!flag) MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
  }
  for (int i = 0; i < 1000; ++i) barrier_on(comm);
}

static void all_of_them(int most) {
  MPI_Comm_rank(comm, &r);
  MPI_Comm_size(comm, &n);
  barrier();
  for (int i = 0; i < kNumCounts && kCounts[i] <= most; ++i) {
    bcast(kCounts[i]);
    gather(kCounts[i]);
    scatter(kCounts[i]);
    allgather(kCounts[i]);
    alltoall(kCounts[i]);
    vectors(kCounts[i]);
    alltoallv(kCounts[i]);
    alltoallw(kCounts[i]);
    if (kCounts[i] <= 5000) gaps(kCounts[i]);
  }
  if (form != kBlocking) return;
  bcast(2000000);
  for (int i = 0; i < 2; ++i) {
    allgather(300000);
    alltoall(300000);
  }
}

// A persistent one sends what is in its buffer when it is started.
static void repeated(void) {
#if MPI_VERSION >= 4
  if (kMpich) return;  // where it sends what was there the first time
  enum { kCount = 1000 };
  MPI_Request request;
  int *mine = make(kCount), *all = make((size_t)kCount * n);
  EXPECT_OK(MPI_Allgather_init(mine, kCount, MPI_INT, all, kCount, MPI_INT, comm, MPI_INFO_NULL,
                               &request));
  for (int round = 0; round < 5; ++round) {
    fill_items(mine, r, round, kCount);
    EXPECT_OK(MPI_Start(&request));
    EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT(request != MPI_REQUEST_NULL);
    for (int i = 0; i < n; ++i) check_items(all + i * kCount, i, round, kCount, "Allgather_init");
  }
  EXPECT_OK(MPI_Request_free(&request));
  free(mine);
  free(all);
#endif
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  comm = MPI_COMM_WORLD;
  all_of_them(70000);
  for (form = kNonblocking; form < kForms; ++form) all_of_them(5000);
  form = kBlocking;
  repeated();
  // Halves of the world with ranks reversed, both at work at once.
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm);
  all_of_them(70000);
  MPI_Comm_free(&comm);
  comm = MPI_COMM_SELF;
  all_of_them(70000);
  return end();
}
