// Messages of types that do not lie in one block, from some bytes to megabytes, so that they go
// through the lanes in pieces that end anywhere inside an element: typed or packed at either end,
// posted before or after the message comes, shorter and longer than what is received, between
// neighbours around a ring and to oneself, blocking, nonblocking, synchronous and persistent.
#include "expect.h"

enum { kTypes = 6, kTag = 3 };

typedef struct {
  const char* name;
  MPI_Datatype type;
} Shape;

static Shape shapes[kTypes];

static void make_shapes(void) {
  MPI_Datatype vector, resized, block, nested, indexed, structure, backward;
  // Every other word, as columns of a matrix.
  MPI_Type_vector(1000, 1, 2, MPI_DOUBLE, &vector);
  shapes[0] = (Shape){"vector", vector};
  // One block in each element, with a gap behind it.
  MPI_Type_create_resized(MPI_INT, 0, 12, &resized);
  shapes[1] = (Shape){"resized", resized};
  // A box in a cube, three levels.
  const int sizes[3] = {9, 11, 13}, part[3] = {4, 5, 7}, first[3] = {2, 3, 1};
  MPI_Type_create_subarray(3, sizes, part, first, MPI_ORDER_C, MPI_SHORT, &block);
  shapes[2] = (Shape){"subarray", block};
  MPI_Type_create_hvector(3, 2, 5000, block, &nested);
  shapes[3] = (Shape){"vector of subarrays", nested};
  // Many blocks of all lengths.
  enum { kBlocks = 5000 };
  static int lengths[kBlocks], places[kBlocks];
  for (int i = 0, place = 0; i < kBlocks; ++i) {
    lengths[i] = i % 7;
    places[i] = place;
    place += lengths[i] + 1 + i % 3;
  }
  MPI_Type_indexed(kBlocks, lengths, places, MPI_CHAR, &indexed);
  shapes[4] = (Shape){"indexed", indexed};
  // Downwards in memory, and of two kinds.
  MPI_Type_create_hvector(100, 3, -16, MPI_INT, &backward);
  const int counts[2] = {1, 17};
  const MPI_Aint at[2] = {1600, 1700};
  const MPI_Datatype of[2] = {backward, MPI_CHAR};
  MPI_Type_create_struct(2, counts, at, of, &structure);
  MPI_Type_create_resized(structure, 0, 1800, &shapes[5].type);
  shapes[5].name = "backward";
  MPI_Type_free(&structure);
  MPI_Type_free(&backward);
  for (int i = 0; i < kTypes; ++i) MPI_Type_commit(&shapes[i].type);
}

static size_t span_of(MPI_Datatype type, int count) {
  MPI_Aint lb, extent, true_lb, true_extent;
  MPI_Type_get_extent(type, &lb, &extent);
  MPI_Type_get_true_extent(type, &true_lb, &true_extent);
  return (size_t)(true_lb + true_extent + extent * (count > 0 ? count - 1 : 0));
}

// What a rank sends in a round, as it lies in memory, and packed.
static void fill_typed(char* memory, size_t span, int from, int round) {
  fill(memory, span, seed_of(8, (uint64_t)from, (uint64_t)round));
}
static void pack(const char* memory, MPI_Datatype type, int count, char* packed, int bytes) {
  int position = 0;
  MPI_Pack(memory, count, type, packed, bytes, &position, MPI_COMM_WORLD);
  EXPECT_EQ(position, bytes);
}

// What is to be at the receiver: nothing but the first `bytes` of the data may have changed.
static void check_typed(const char* received, MPI_Datatype type, int count, size_t span,
                        const char* packed, int bytes, char* expected, char* whole, int most) {
  memset(expected, 0x5a, span);
  memcpy(whole, packed, (size_t)bytes);
  if (bytes == most) {
    int position = 0;
    MPI_Unpack(whole, most, &position, expected, count, type, MPI_COMM_WORLD);
    EXPECT(memcmp(received, expected, span) == 0);
    return;
  }
  // Packed again: the rest must be as it was.
  memset(expected, 0x5a, span);
  pack(received, type, count, whole, most);
  EXPECT(memcmp(whole, packed, (size_t)bytes) == 0);
  for (int i = bytes; i < most; ++i)
    if (whole[i] != 0x5a) {
      EXPECT_EQ(i, -1);
      break;
    }
}

static int round_number = 0;

// Around the ring by `step` ranks.
static void exchange(const Shape* shape, int count, int step) {
  const int to = (rank + step) % size, from = (rank + size - step) % size;
  int unit;
  MPI_Type_size(shape->type, &unit);
  const int bytes = unit * count;
  const size_t span = span_of(shape->type, count);
  char *out = allocate(span + 1), *in = allocate(span + 1), *theirs = allocate(span + 1);
  char *packed_out = allocate((size_t)bytes + 1), *packed_in = allocate((size_t)bytes + 1);
  char *expected = allocate((size_t)bytes + 1), *whole = allocate((size_t)bytes + 1);
  const int round = ++round_number;
  fill_typed(out, span, rank, round);
  fill_typed(theirs, span, from, round);
  pack(out, shape->type, count, packed_out, bytes);
  pack(theirs, shape->type, count, expected, bytes);

  for (int way = 0; way < 8; ++way) {
    const int typed_out = way & 1, typed_in = way & 2, posted = way & 4;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    memset(in, 0x5a, span);
    memset(packed_in, 0x5a, (size_t)bytes);
    if (!posted) {
      if (typed_out)
        MPI_Isend(out, count, shape->type, to, kTag, MPI_COMM_WORLD, &requests[0]);
      else
        MPI_Issend(packed_out, bytes, MPI_PACKED, to, kTag, MPI_COMM_WORLD, &requests[0]);
      MPI_Barrier(MPI_COMM_WORLD);
    }
    if (typed_in)
      MPI_Irecv(in, count, shape->type, from, kTag, MPI_COMM_WORLD, &requests[1]);
    else
      MPI_Irecv(packed_in, bytes, MPI_PACKED, from, kTag, MPI_COMM_WORLD, &requests[1]);
    if (posted) {
      MPI_Barrier(MPI_COMM_WORLD);
      if (typed_out)
        MPI_Issend(out, count, shape->type, to, kTag, MPI_COMM_WORLD, &requests[0]);
      else
        MPI_Isend(packed_out, bytes, MPI_PACKED, to, kTag, MPI_COMM_WORLD, &requests[0]);
    }
    MPI_Waitall(2, requests, statuses);
    int received;
    MPI_Get_count(&statuses[1], MPI_PACKED, &received);
    EXPECT_EQ(received, bytes);
    if (typed_in)
      check_typed(in, shape->type, count, span, expected, bytes, theirs, whole, bytes);
    else
      EXPECT(memcmp(packed_in, expected, (size_t)bytes) == 0);
  }

  // A message that ends in the middle of an element, and one that is longer than what is received.
  const int part = bytes - unit / 2 - 1;
  if (part > 0) {
    MPI_Request request;
    MPI_Status status;
    memset(in, 0x5a, span);
    MPI_Isend(packed_out, part, MPI_PACKED, to, kTag, MPI_COMM_WORLD, &request);
    MPI_Recv(in, count, shape->type, from, kTag, MPI_COMM_WORLD, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check_typed(in, shape->type, count, span, expected, part, theirs, whole, bytes);
  }
  if (count > 1) {
    MPI_Request request;
    memset(in, 0x5a, span);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Isend(out, count, shape->type, to, kTag, MPI_COMM_WORLD, &request);
    int class;
    MPI_Error_class(
        MPI_Recv(in, count - 1, shape->type, from, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
        &class);
    EXPECT_EQ(class, MPI_ERR_TRUNCATE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    check_typed(in, shape->type, count, span, expected, bytes - unit, theirs, whole, bytes);
  }

  // Again and again with one request, then both at once.
  MPI_Request persistent[2];
  MPI_Send_init(out, count, shape->type, to, kTag, MPI_COMM_WORLD, &persistent[0]);
  MPI_Recv_init(in, count, shape->type, from, kTag, MPI_COMM_WORLD, &persistent[1]);
  for (int i = 0; i < 2; ++i) {
    memset(in, 0x5a, span);
    MPI_Startall(2, persistent);
    MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE);
    check_typed(in, shape->type, count, span, expected, bytes, theirs, whole, bytes);
  }
  for (int i = 0; i < 2; ++i) MPI_Request_free(&persistent[i]);
  memset(in, 0x5a, span);
  MPI_Sendrecv(out, count, shape->type, to, kTag, in, count, shape->type, from, kTag,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  check_typed(in, shape->type, count, span, expected, bytes, theirs, whole, bytes);

  char* all[] = {out, in, theirs, packed_out, packed_in, expected, whole};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) free(all[i]);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  make_shapes();
  static const int kBytes[] = {1, 300, 2100, 20000, 40000, 130000, 1000000, 5000000};
  const int num_sizes = argc > 1 ? atoi(argv[1]) : (int)(sizeof kBytes / sizeof kBytes[0]);
  for (int i = 0; i < kTypes; ++i) {
    int unit;
    MPI_Type_size(shapes[i].type, &unit);
    int last = 0;
    for (int j = 0; j < num_sizes; ++j) {
      const int count = (kBytes[j] + unit - 1) / unit;
      if (count == last) continue;
      last = count;
      for (int step = 0; step < 2 && step < size; ++step) {
        const int before = num_failures;
        exchange(&shapes[i], count, step);
        if (num_failures != before)
          fprintf(stderr, "rank %d: %d x %s to rank %d\n", rank, count, shapes[i].name,
                  (rank + step) % size);
      }
    }
    MPI_Type_free(&shapes[i].type);
  }
  return end();
}
