// MPI_BOTTOM with types of absolute addresses, where buffers are expected: every collective in
// every form, neighbourhoods and both sides of an intercommunicator included, and every way of
// sending, receiving and packing. An element is two ints, next to each other or with a gap between.
#include "forms.h"

enum { kMost = 8, kBlock = 3, kInts = 3 * 2 * kBlock * kMost, kMarker = -7 };

static int step = 2;  // ints from one element to the next; its second int is the last of these

// Memory of `n` elements that is known to MPI by address alone.
typedef struct {
  int data[kInts];
  MPI_Datatype type;  // its first element, and from there the following ones
} Memory;

static int value(int from, int to, int element) {
  return (int)(seed_of(from, to, element) & 0x7fffff);
}

static void make(Memory* memory) {
  for (int i = 0; i < kInts; ++i) memory->data[i] = kMarker;
  MPI_Aint places[2];
  MPI_Datatype whole;
  EXPECT_OK(MPI_Get_address(&memory->data[0], &places[0]));
  EXPECT_OK(MPI_Get_address(&memory->data[step - 1], &places[1]));
  EXPECT_OK(MPI_Type_create_hindexed_block(2, 1, places, MPI_INT, &whole));
  EXPECT_OK(MPI_Type_create_resized(whole, places[0], step * (MPI_Aint)sizeof(int), &memory->type));
  EXPECT_OK(MPI_Type_commit(&memory->type));
  EXPECT_OK(MPI_Type_free(&whole));
}
static void drop(Memory* memory) { EXPECT_OK(MPI_Type_free(&memory->type)); }

static void set(Memory* memory, int place, int count, int from, int to) {
  for (int e = 0; e < count; ++e) {
    memory->data[(place + e) * step] = value(from, to, e);
    memory->data[(place + e) * step + step - 1] = value(from, to, e + 100);
  }
}
static void check(const Memory* memory, int place, int count, int from, int to, const char* what) {
  for (int e = 0; e < count; ++e)
    if (memory->data[(place + e) * step] != value(from, to, e) ||
        memory->data[(place + e) * step + step - 1] != value(from, to, e + 100)) {
      fprintf(stderr, "%s, form %d, step %d, element %d of %d\n", what, form, step, place + e,
              from);
      failed(__FILE__, __LINE__, what);
      return;
    }
}
// Nothing but `count` elements from the beginning was written.
static void check_rest(const Memory* memory, int count, const char* what) {
  for (int i = 0; i < kInts; ++i)
    if ((i / step >= count || (i % step != 0 && i % step != step - 1)) &&
        memory->data[i] != kMarker) {
      fprintf(stderr, "%s, form %d, step %d, int %d\n", what, form, step, i);
      failed(__FILE__, __LINE__, "written beside its place");
      return;
    }
}

static Memory out, in;
static int counts[kMost], places[kMost], zeros[kMost];
static MPI_Aint byte_places[kMost];
static MPI_Datatype out_types[kMost], in_types[kMost];

static void begin_case(void) {
  make(&out);
  make(&in);
}
static void end_case(int elements, const char* what) {
  check_rest(&in, elements, what);
  drop(&out);
  drop(&in);
}
// One type for each process: block i of the memory.
static void block_types(const Memory* memory, MPI_Datatype* types, int num) {
  for (int i = 0; i < num; ++i) {
    MPI_Aint place = (MPI_Aint)i * kBlock * step * (MPI_Aint)sizeof(int);
    EXPECT_OK(MPI_Type_create_hindexed(1, (int[]){kBlock}, &place, memory->type, &types[i]));
    EXPECT_OK(MPI_Type_commit(&types[i]));
  }
}
static void drop_types(MPI_Datatype* types, int num) {
  for (int i = 0; i < num; ++i) EXPECT_OK(MPI_Type_free(&types[i]));
}

// On an intercommunicator `others` are the remote group's.
static void move_data(MPI_Comm comm, int others, int me, int first_other) {
  const MPI_Datatype* so = &out.type;
  const MPI_Datatype* ri = &in.type;
  for (int i = 0; i < others; ++i) {
    counts[i] = kBlock;
    places[i] = i * kBlock;
  }
#define FROM(i) (first_other + (i))

  begin_case();
  set(&out, 0, kBlock, me, 0);
  CALL_ON(comm, Allgather, MPI_BOTTOM, kBlock, *so, MPI_BOTTOM, kBlock, *ri);
  for (int i = 0; i < others; ++i) check(&in, i * kBlock, kBlock, FROM(i), 0, "Allgather");
  end_case(others * kBlock, "Allgather");

  begin_case();
  set(&out, 0, kBlock, me, 0);
  CALL_ON(comm, Allgatherv, MPI_BOTTOM, kBlock, *so, MPI_BOTTOM, counts, places, *ri);
  for (int i = 0; i < others; ++i) check(&in, i * kBlock, kBlock, FROM(i), 0, "Allgatherv");
  end_case(others * kBlock, "Allgatherv");

  begin_case();
  for (int i = 0; i < others; ++i) set(&out, i * kBlock, kBlock, me, FROM(i));
  CALL_ON(comm, Alltoall, MPI_BOTTOM, kBlock, *so, MPI_BOTTOM, kBlock, *ri);
  for (int i = 0; i < others; ++i) check(&in, i * kBlock, kBlock, FROM(i), me, "Alltoall");
  end_case(others * kBlock, "Alltoall");

  begin_case();
  for (int i = 0; i < others; ++i) set(&out, i * kBlock, kBlock, me, FROM(i));
  CALL_ON(comm, Alltoallv, MPI_BOTTOM, counts, places, *so, MPI_BOTTOM, counts, places, *ri);
  for (int i = 0; i < others; ++i) check(&in, i * kBlock, kBlock, FROM(i), me, "Alltoallv");
  end_case(others * kBlock, "Alltoallv");

  begin_case();
  block_types(&out, out_types, others);
  block_types(&in, in_types, others);
  for (int i = 0; i < others; ++i) {
    counts[i] = 1;
    set(&out, i * kBlock, kBlock, me, FROM(i));
  }
  CALL_ON(comm, Alltoallw, MPI_BOTTOM, counts, zeros, out_types, MPI_BOTTOM, counts, zeros,
          in_types);
  for (int i = 0; i < others; ++i) check(&in, i * kBlock, kBlock, FROM(i), me, "Alltoallw");
  drop_types(out_types, others);
  drop_types(in_types, others);
  end_case(others * kBlock, "Alltoallw");
#undef FROM
}

static void rooted(int root) {
  const MPI_Comm comm = MPI_COMM_WORLD;
  const int is_root = rank == root;
  for (int i = 0; i < size; ++i) {
    counts[i] = kBlock;
    places[i] = i * kBlock;
  }
  for (int v = 0; v < 2; ++v) {
    begin_case();
    set(&out, 0, kBlock, rank, root);
    if (v)
      CALL_ON(comm, Gatherv, MPI_BOTTOM, kBlock, out.type, MPI_BOTTOM, counts, places, in.type,
              root);
    else
      CALL_ON(comm, Gather, MPI_BOTTOM, kBlock, out.type, MPI_BOTTOM, kBlock, in.type, root);
    if (is_root)
      for (int i = 0; i < size; ++i) check(&in, i * kBlock, kBlock, i, root, "Gather");
    end_case(is_root ? size * kBlock : 0, "Gather");

    begin_case();
    for (int i = 0; i < size; ++i) set(&out, i * kBlock, kBlock, root, i);
    if (v)
      CALL_ON(comm, Scatterv, MPI_BOTTOM, counts, places, out.type, MPI_BOTTOM, kBlock, in.type,
              root);
    else
      CALL_ON(comm, Scatter, MPI_BOTTOM, kBlock, out.type, MPI_BOTTOM, kBlock, in.type, root);
    check(&in, 0, kBlock, root, rank, "Scatter");
    end_case(kBlock, "Scatter");

    // In place at the root.
    begin_case();
    if (is_root) set(&in, root * kBlock, kBlock, root, root);
    set(&out, 0, kBlock, rank, root);
    const void* from = is_root ? MPI_IN_PLACE : MPI_BOTTOM;
    if (v)
      CALL_ON(comm, Gatherv, from, kBlock, out.type, MPI_BOTTOM, counts, places, in.type, root);
    else
      CALL_ON(comm, Gather, from, kBlock, out.type, MPI_BOTTOM, kBlock, in.type, root);
    if (is_root)
      for (int i = 0; i < size; ++i) check(&in, i * kBlock, kBlock, i, root, "Gather in place");
    end_case(is_root ? size * kBlock : 0, "Gather in place");

    begin_case();
    for (int i = 0; i < size; ++i) set(&out, i * kBlock, kBlock, root, i);
    void* to = is_root ? MPI_IN_PLACE : MPI_BOTTOM;
    if (v)
      CALL_ON(comm, Scatterv, MPI_BOTTOM, counts, places, out.type, to, kBlock, in.type, root);
    else
      CALL_ON(comm, Scatter, MPI_BOTTOM, kBlock, out.type, to, kBlock, in.type, root);
    if (!is_root) check(&in, 0, kBlock, root, rank, "Scatter in place");
    end_case(is_root ? 0 : kBlock, "Scatter in place");
  }
  begin_case();
  if (is_root) set(&in, 0, kBlock, root, 0);
  CALL_ON(comm, Bcast, MPI_BOTTOM, kBlock, in.type, root);
  check(&in, 0, kBlock, root, 0, "Bcast");
  end_case(kBlock, "Bcast");
}

static void in_place(void) {
  const MPI_Comm comm = MPI_COMM_WORLD;
  for (int i = 0; i < size; ++i) {
    counts[i] = kBlock;
    places[i] = i * kBlock;
  }
  for (int v = 0; v < 2; ++v) {
    begin_case();
    set(&in, rank * kBlock, kBlock, rank, 0);
    if (v)
      CALL_ON(comm, Allgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, MPI_BOTTOM, counts, places,
              in.type);
    else
      CALL_ON(comm, Allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, MPI_BOTTOM, kBlock, in.type);
    for (int i = 0; i < size; ++i) check(&in, i * kBlock, kBlock, i, 0, "Allgather in place");
    end_case(size * kBlock, "Allgather in place");
  }
  for (int v = 0; v < 3; ++v) {
    begin_case();
    block_types(&in, in_types, size);
    for (int i = 0; i < size; ++i) {
      set(&in, i * kBlock, kBlock, rank, i);
      counts[i] = v == 2 ? 1 : kBlock;
    }
    if (v == 2)
      CALL_ON(comm, Alltoallw, MPI_IN_PLACE, NULL, NULL, NULL, MPI_BOTTOM, counts, zeros, in_types);
    else if (v == 1)
      CALL_ON(comm, Alltoallv, MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, MPI_BOTTOM, counts,
              places, in.type);
    else
      CALL_ON(comm, Alltoall, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, MPI_BOTTOM, kBlock, in.type);
    for (int i = 0; i < size; ++i) check(&in, i * kBlock, kBlock, i, rank, "Alltoall in place");
    drop_types(in_types, size);
    end_case(size * kBlock, "Alltoall in place");
  }
}

// The function sees the addresses that its type's displacements belong to.
static void add(void* from, void* to, int* num, MPI_Datatype* type) {
  MPI_Aint true_lb, true_extent, lb, extent;
  MPI_Type_get_true_extent(*type, &true_lb, &true_extent);
  MPI_Type_get_extent(*type, &lb, &extent);
  for (int e = 0; e < *num; ++e) {
    const int* a = (const int*)((uintptr_t)from + (uintptr_t)(true_lb + e * extent));
    int* b = (int*)((uintptr_t)to + (uintptr_t)(true_lb + e * extent));
    b[0] += a[0];
    b[step - 1] += a[step - 1];
  }
}

static void check_sum(const Memory* memory, int place, int count, int first, int ranks,
                      const char* what) {
  for (int e = 0; e < count; ++e) {
    int a = 0, b = 0;
    for (int r = 0; r < ranks; ++r) {
      a += value(r, 0, first + e);
      b += value(r, 0, first + e + 100);
    }
    if (memory->data[(place + e) * step] != a || memory->data[(place + e) * step + step - 1] != b) {
      fprintf(stderr, "%s, form %d, step %d, element %d\n", what, form, step, e);
      failed(__FILE__, __LINE__, what);
      return;
    }
  }
}

// The operation's function is given one type for both of its arguments, so that a type of absolute
// addresses can stand for the result alone: the data are reduced in place, ...
static void reduce(MPI_Op op) {
  const MPI_Comm comm = MPI_COMM_WORLD;
  const int root = size - 1, n = kBlock;
  for (int i = 0; i < size; ++i) counts[i] = n;

  begin_case();
  set(&in, 0, n, rank, 0);
  CALL_ON(comm, Allreduce, MPI_IN_PLACE, MPI_BOTTOM, n, in.type, op);
  check_sum(&in, 0, n, 0, size, "Allreduce");
  end_case(n, "Allreduce");

  begin_case();
  set(&in, 0, n, rank, 0);
  if (rank == root)
    CALL_ON(comm, Reduce, MPI_IN_PLACE, MPI_BOTTOM, n, in.type, op, root);
  else  // ... or sent from where only this process has them
    CALL_ON(comm, Reduce, MPI_BOTTOM, NULL, n, in.type, op, root);
  if (rank == root) check_sum(&in, 0, n, 0, size, "Reduce");
  end_case(n, "Reduce");

  begin_case();
  set(&in, 0, n, rank, 0);
  CALL_ON(comm, Scan, MPI_IN_PLACE, MPI_BOTTOM, n, in.type, op);
  check_sum(&in, 0, n, 0, rank + 1, "Scan");
  end_case(n, "Scan");

  begin_case();
  set(&in, 0, n, rank, 0);
  CALL_ON(comm, Exscan, MPI_IN_PLACE, MPI_BOTTOM, n, in.type, op);
  if (rank > 0) check_sum(&in, 0, n, 0, rank, "Exscan");
  end_case(n, "Exscan");

  for (int v = 0; v < 2; ++v) {
    begin_case();
    set(&in, 0, n * size, rank, 0);
    if (v)
      CALL_ON(comm, Reduce_scatter, MPI_IN_PLACE, MPI_BOTTOM, counts, in.type, op);
    else
      CALL_ON(comm, Reduce_scatter_block, MPI_IN_PLACE, MPI_BOTTOM, n, in.type, op);
    check_sum(&in, 0, n, n * rank, size, "Reduce_scatter");
    end_case(n * size, "Reduce_scatter");
  }
}

static void neighbours(void) {
  MPI_Comm ring;
  EXPECT_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, (int[]){1}, 0, &ring));
  const int below = (rank + size - 1) % size, above = (rank + 1) % size;
  const int sides[2] = {below, above};
  for (int i = 0; i < 2; ++i) {
    counts[i] = kBlock;
    places[i] = i * kBlock;
  }
  for (int v = 0; v < 2; ++v) {
    begin_case();
    set(&out, 0, kBlock, rank, 0);
    if (v)
      CALL_ON(ring, Neighbor_allgatherv, MPI_BOTTOM, kBlock, out.type, MPI_BOTTOM, counts, places,
              in.type);
    else
      CALL_ON(ring, Neighbor_allgather, MPI_BOTTOM, kBlock, out.type, MPI_BOTTOM, kBlock, in.type);
    for (int i = 0; i < 2; ++i) check(&in, i * kBlock, kBlock, sides[i], 0, "Neighbor_allgather");
    end_case(2 * kBlock, "Neighbor_allgather");
  }
  for (int v = 0; v < 3; ++v) {
    begin_case();
    block_types(&out, out_types, 2);
    block_types(&in, in_types, 2);
    // Block 0 goes below and is what the process there gets from above.
    set(&out, 0, kBlock, rank, 0);
    set(&out, kBlock, kBlock, rank, 1);
    for (int i = 0; i < 2; ++i) counts[i] = v == 2 ? 1 : kBlock;
    if (v == 2)
      CALL_ON(ring, Neighbor_alltoallw, MPI_BOTTOM, counts, byte_places, out_types, MPI_BOTTOM,
              counts, byte_places, in_types);
    else if (v == 1)
      CALL_ON(ring, Neighbor_alltoallv, MPI_BOTTOM, counts, places, out.type, MPI_BOTTOM, counts,
              places, in.type);
    else
      CALL_ON(ring, Neighbor_alltoall, MPI_BOTTOM, kBlock, out.type, MPI_BOTTOM, kBlock, in.type);
    check(&in, 0, kBlock, below, 1, "Neighbor_alltoall");
    check(&in, kBlock, kBlock, above, 0, "Neighbor_alltoall");
    drop_types(out_types, 2);
    drop_types(in_types, 2);
    end_case(2 * kBlock, "Neighbor_alltoall");
  }
  // Who gives nothing to a neighbour need not name a type for it.
  for (int i = 0; i < 2; ++i) {
    counts[i] = 0;
    in_types[i] = MPI_DATATYPE_NULL;
  }
  CALL_ON(ring, Neighbor_alltoallw, MPI_BOTTOM, counts, byte_places, in_types, MPI_BOTTOM, counts,
          byte_places, in_types);
  EXPECT_OK(MPI_Comm_free(&ring));
}

static void between_groups(void) {
  MPI_Comm half, inter;
  const int low = (size + 1) / 2, is_low = rank < low, first = is_low ? low : 0;
  EXPECT_OK(MPI_Comm_split(MPI_COMM_WORLD, is_low, rank, &half));
  EXPECT_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, first, 3, &inter));
  move_data(inter, is_low ? size - low : low, rank, first);
  EXPECT_OK(MPI_Comm_free(&inter));
  EXPECT_OK(MPI_Comm_free(&half));
}

enum {
  kSend,
  kIsend,
  kSendInit,
  kSendrecv,
  kReplace,
  kIsendrecv,
  kIreplace,
  kMatched,
  kPartitioned,
  kWays
};

static void point_to_point(int n) {
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  const MPI_Comm comm = MPI_COMM_WORLD;
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  static char attached[4 * sizeof out.data + 4 * MPI_BSEND_OVERHEAD];
  EXPECT_OK(MPI_Buffer_attach(attached, sizeof attached));
  for (int way = 0; way < kWays; ++way)
    for (int mode = 0; mode < 4; ++mode) {
      if (way > kSendInit && mode > 0) continue;
      begin_case();
      Memory* source = way == kReplace || way == kIreplace ? &in : &out;
      set(source, 0, n, rank, to);
      MPI_Request* r = requests;
      switch (way) {
        case kSend:
          EXPECT_OK(MPI_Irecv(MPI_BOTTOM, n, in.type, from, 0, comm, r));
          EXPECT_OK(MPI_Barrier(comm));
          if (mode == 0) EXPECT_OK(MPI_Send(MPI_BOTTOM, n, out.type, to, 0, comm));
          if (mode == 1) EXPECT_OK(MPI_Ssend(MPI_BOTTOM, n, out.type, to, 0, comm));
          if (mode == 2) EXPECT_OK(MPI_Rsend(MPI_BOTTOM, n, out.type, to, 0, comm));
          if (mode == 3) EXPECT_OK(MPI_Bsend(MPI_BOTTOM, n, out.type, to, 0, comm));
          break;
        case kIsend:
          EXPECT_OK(MPI_Irecv(MPI_BOTTOM, n, in.type, from, 0, comm, r));
          EXPECT_OK(MPI_Barrier(comm));
          if (mode == 0) EXPECT_OK(MPI_Isend(MPI_BOTTOM, n, out.type, to, 0, comm, r + 1));
          if (mode == 1) EXPECT_OK(MPI_Issend(MPI_BOTTOM, n, out.type, to, 0, comm, r + 1));
          if (mode == 2) EXPECT_OK(MPI_Irsend(MPI_BOTTOM, n, out.type, to, 0, comm, r + 1));
          if (mode == 3) EXPECT_OK(MPI_Ibsend(MPI_BOTTOM, n, out.type, to, 0, comm, r + 1));
          break;
        case kSendInit:
          EXPECT_OK(MPI_Recv_init(MPI_BOTTOM, n, in.type, from, 0, comm, r));
          EXPECT_OK(MPI_Start(r));
          EXPECT_OK(MPI_Barrier(comm));
          if (mode == 0) EXPECT_OK(MPI_Send_init(MPI_BOTTOM, n, out.type, to, 0, comm, r + 1));
          if (mode == 1) EXPECT_OK(MPI_Ssend_init(MPI_BOTTOM, n, out.type, to, 0, comm, r + 1));
          if (mode == 2) EXPECT_OK(MPI_Rsend_init(MPI_BOTTOM, n, out.type, to, 0, comm, r + 1));
          if (mode == 3) EXPECT_OK(MPI_Bsend_init(MPI_BOTTOM, n, out.type, to, 0, comm, r + 1));
          EXPECT_OK(MPI_Start(r + 1));
          EXPECT_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
          for (int i = 0; i < 2; ++i) EXPECT_OK(MPI_Request_free(&requests[i]));
          break;
        case kSendrecv:
          EXPECT_OK(MPI_Sendrecv(MPI_BOTTOM, n, out.type, to, 0, MPI_BOTTOM, n, in.type, from, 0,
                                 comm, MPI_STATUS_IGNORE));
          break;
        case kReplace:
          EXPECT_OK(MPI_Sendrecv_replace(MPI_BOTTOM, n, in.type, to, 0, from, 0, comm,
                                         MPI_STATUS_IGNORE));
          break;
        case kIsendrecv:
          EXPECT_OK(MPI_Isendrecv(MPI_BOTTOM, n, out.type, to, 0, MPI_BOTTOM, n, in.type, from, 0,
                                  comm, r));
          break;
        case kIreplace:
          EXPECT_OK(MPI_Isendrecv_replace(MPI_BOTTOM, n, in.type, to, 0, from, 0, comm, r));
          break;
        case kMatched: {
          MPI_Message message;
          EXPECT_OK(MPI_Isend(MPI_BOTTOM, n, out.type, to, 0, comm, r));
          EXPECT_OK(MPI_Mprobe(from, 0, comm, &message, MPI_STATUS_IGNORE));
          EXPECT_OK(MPI_Imrecv(MPI_BOTTOM, n, in.type, &message, r + 1));
          break;
        }
        case kPartitioned:
          EXPECT_OK(
              MPI_Psend_init(MPI_BOTTOM, 1, n, out.type, to, 0, comm, MPI_INFO_NULL, requests));
          EXPECT_OK(MPI_Precv_init(MPI_BOTTOM, 1, n, in.type, from, 0, comm, MPI_INFO_NULL, r + 1));
          EXPECT_OK(MPI_Startall(2, requests));
          EXPECT_OK(MPI_Pready(0, requests[0]));
          EXPECT_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
          for (int i = 0; i < 2; ++i) EXPECT_OK(MPI_Request_free(&requests[i]));
          break;
      }
      EXPECT_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
      check(&in, 0, n, from, rank, "point to point");
      end_case(n, "point to point");
    }
  void* address;
  int bytes;
  EXPECT_OK(MPI_Buffer_detach(&address, &bytes));
}

static void packing(void) {
  char packed[sizeof in.data];
  int place = 0;
  begin_case();
  set(&out, 0, kBlock, rank, 0);
  EXPECT_OK(MPI_Pack(MPI_BOTTOM, kBlock, out.type, packed, sizeof packed, &place, MPI_COMM_WORLD));
  EXPECT_EQ(place, 2 * kBlock * (int)sizeof(int));
  place = 0;
  EXPECT_OK(MPI_Unpack(packed, sizeof packed, &place, MPI_BOTTOM, kBlock, in.type, MPI_COMM_WORLD));
  check(&in, 0, kBlock, rank, 0, "Pack");
  end_case(kBlock, "Pack");

  MPI_Aint far = 0;
  begin_case();
  set(&out, 0, kBlock, rank, 0);
  EXPECT_OK(
      MPI_Pack_external("external32", MPI_BOTTOM, kBlock, out.type, packed, sizeof packed, &far));
  far = 0;
  EXPECT_OK(
      MPI_Unpack_external("external32", packed, sizeof packed, &far, MPI_BOTTOM, kBlock, in.type));
  check(&in, 0, kBlock, rank, 0, "Pack_external");
  end_case(kBlock, "Pack_external");
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Op op;
  EXPECT_OK(MPI_Op_create(add, 1, &op));
  for (step = 2; step <= 3; ++step) {
    for (form = 0; form < kForms; ++form) {
      move_data(MPI_COMM_WORLD, size, rank, 0);
      rooted(0);
      rooted(size - 1);
      in_place();
      reduce(op);
      neighbours();
      if (size > 1) between_groups();
    }
    point_to_point(1);
    point_to_point(kBlock * kMost);
    packing();
  }
  EXPECT_OK(MPI_Op_free(&op));
  return end();
}
