// Collectives whose send and receive buffers are the same memory where MPI_IN_PLACE would be right,
// in every form: an error class from every process that is wrong, no signal and no hang. Then null
// arguments: where a result should go, the error is raised on the communicator that was passed.
#include "forms.h"

enum { kItems = 3, kMost = 64 };

#define REFUSED_ON(comm, name, ...)                                                 \
  do {                                                                              \
    MPI_Request request_ = MPI_REQUEST_NULL;                                        \
    int refused_ = MPI_SUCCESS;                                                     \
    if (form == kBlocking) refused_ = MPI_##name(__VA_ARGS__, comm);                \
    if (form == kNonblocking) refused_ = MPI_I##name(__VA_ARGS__, comm, &request_); \
    if (form == kPersistent) {                                                      \
      refused_ = MPI_P##name(__VA_ARGS__, comm, MPI_INFO_NULL, &request_);          \
      if (refused_ == MPI_SUCCESS) {                                                \
        refused_ = MPI_Start(&request_);                                            \
        MPI_Request_free(&request_);                                                \
      }                                                                             \
    }                                                                               \
    EXPECT_CLASS(refused_, MPI_ERR_BUFFER);                                         \
  } while (0)

static void same_buffers(void) {
  static int data[kMost * kItems];
  int counts[kMost], places[kMost];
  MPI_Aint bytes[kMost];
  MPI_Datatype types[kMost];
  for (int i = 0; i < kMost; ++i) {
    counts[i] = kItems;
    places[i] = i * kItems;
    bytes[i] = (MPI_Aint)places[i] * (MPI_Aint)sizeof(int);
    types[i] = MPI_INT;
  }
  int byte_places[kMost];
  for (int i = 0; i < kMost; ++i) byte_places[i] = (int)bytes[i];
  int* own = data + rank * kItems;
  const MPI_Comm world = MPI_COMM_WORLD;
  if (rank == 0) {  // the others are not wrong: they do not call
    REFUSED_ON(world, Gather, data, kItems, MPI_INT, data, kItems, MPI_INT, 0);
    REFUSED_ON(world, Gatherv, data, kItems, MPI_INT, data, counts, places, MPI_INT, 0);
    REFUSED_ON(world, Scatter, data, kItems, MPI_INT, data, kItems, MPI_INT, 0);
    REFUSED_ON(world, Scatterv, data, counts, places, MPI_INT, data, kItems, MPI_INT, 0);
    REFUSED_ON(world, Reduce, data, data, kItems, MPI_INT, MPI_SUM, 0);
  }
  REFUSED_ON(world, Allgather, own, kItems, MPI_INT, data, kItems, MPI_INT);
  REFUSED_ON(world, Allgather, data, kItems, MPI_INT, data, kItems, MPI_INT);
  REFUSED_ON(world, Allgatherv, own, kItems, MPI_INT, data, counts, places, MPI_INT);
  REFUSED_ON(world, Alltoall, data, kItems, MPI_INT, data, kItems, MPI_INT);
  REFUSED_ON(world, Alltoallv, data, counts, places, MPI_INT, data, counts, places, MPI_INT);
  REFUSED_ON(world, Alltoallw, data, counts, byte_places, types, data, counts, byte_places, types);
  REFUSED_ON(world, Allreduce, data, data, kItems, MPI_INT, MPI_SUM);
  REFUSED_ON(world, Reduce_scatter, data, data, counts, MPI_INT, MPI_SUM);
  REFUSED_ON(world, Reduce_scatter_block, data, data, kItems, MPI_INT, MPI_SUM);
  REFUSED_ON(world, Scan, data, data, kItems, MPI_INT, MPI_SUM);
  // The first process gets nothing, so that its buffer may be any.
  if (rank != 0) REFUSED_ON(world, Exscan, data, data, kItems, MPI_INT, MPI_SUM);
  int one = 1, sum = 0;
  CALL_ON(world, Exscan, &one, rank == 0 ? &one : &sum, 1, MPI_INT, MPI_SUM);
  EXPECT(one == 1 && sum == rank);
  // A ring, in which everybody has two neighbours.
  MPI_Comm ring;
  const int yes = 1;
  MPI_Cart_create(world, 1, &size, &yes, 0, &ring);
  REFUSED_ON(ring, Neighbor_allgather, data, kItems, MPI_INT, data, kItems, MPI_INT);
  REFUSED_ON(ring, Neighbor_allgatherv, data, kItems, MPI_INT, data, counts, places, MPI_INT);
  REFUSED_ON(ring, Neighbor_alltoall, data, kItems, MPI_INT, data, kItems, MPI_INT);
  REFUSED_ON(ring, Neighbor_alltoallv, data, counts, places, MPI_INT, data, counts, places,
             MPI_INT);
  REFUSED_ON(ring, Neighbor_alltoallw, data, counts, bytes, types, data, counts, bytes, types);
  MPI_Comm_free(&ring);
  // Nothing is sent: nothing overlaps. Blocks that lie apart in one array don't, either.
  CALL_ON(world, Allgather, data, 0, MPI_INT, data, 0, MPI_INT);
  CALL_ON(world, Allreduce, data, data, 0, MPI_INT, MPI_SUM);
  for (int i = 0; i < size; ++i) {
    counts[i] = 1;
    places[i] = size + i;
    data[i] = seed_of(rank, i, 0) & 0xffff;
  }
  int sent[kMost];
  for (int i = 0; i < size; ++i) sent[i] = i;
  CALL_ON(world, Alltoallv, data, counts, sent, MPI_INT, data, counts, places, MPI_INT);
  for (int i = 0; i < size; ++i) EXPECT_EQ(data[size + i], seed_of(i, rank, 0) & 0xffff);
}

static void nothing(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)in, (void)inout, (void)count, (void)type;
}

static void reduce_local(void) {
  int a[4] = {1, 2, 3, 4}, b[4] = {1, 1, 1, 1};
  MPI_Datatype gaps;
  MPI_Type_vector(2, 1, 2, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  MPI_Op own;
  MPI_Op_create(nothing, 1, &own);
  const MPI_Datatype types[] = {MPI_INT, gaps};
  const MPI_Op ops[] = {MPI_SUM, own};
  for (int i = 0; i < 2; ++i) {
    EXPECT_CLASS(MPI_Reduce_local(NULL, b, 1, types[i], ops[i]), MPI_ERR_BUFFER);
    EXPECT_CLASS(MPI_Reduce_local(a, NULL, 1, types[i], ops[i]), MPI_ERR_BUFFER);
    EXPECT_CLASS(MPI_Reduce_local(MPI_IN_PLACE, b, 1, types[i], ops[i]), MPI_ERR_BUFFER);
    EXPECT_CLASS(MPI_Reduce_local(a, MPI_IN_PLACE, 1, types[i], ops[i]), MPI_ERR_BUFFER);
    EXPECT_CLASS(MPI_Reduce_local(a, a, 1, types[i], ops[i]), MPI_ERR_BUFFER);
  }
  EXPECT_CLASS(MPI_Reduce_local(NULL, NULL, 1, MPI_DATATYPE_NULL, MPI_SUM), MPI_ERR_TYPE);
  EXPECT_CLASS(MPI_Reduce_local(NULL, NULL, 1, MPI_INT, MPI_OP_NULL), MPI_ERR_OP);
  EXPECT_CLASS(MPI_Reduce_local(NULL, NULL, -1, MPI_INT, MPI_SUM), MPI_ERR_COUNT);
  EXPECT_OK(MPI_Reduce_local(NULL, NULL, 0, MPI_INT, MPI_SUM));
  EXPECT_OK(MPI_Reduce_local(a, b, 4, MPI_INT, MPI_SUM));
  EXPECT(b[0] == 2 && b[3] == 5);
  MPI_Type_free(&gaps);
  MPI_Op_free(&own);
}

static MPI_Comm last;
static int calls;
static void handler(MPI_Comm* comm, int* code, ...) {
  int class = -1;
  MPI_Error_class(*code, &class);
  EXPECT_EQ(class, MPI_ERR_ARG);
  last = *comm;
  calls++;
}

// Every function that has a communicator and a place for a result.
static void null_results(void) {
  MPI_Comm comm, cart, inter = MPI_COMM_NULL, made;
  MPI_Group group;
  MPI_Errhandler errhandler;
  int number, numbers[4] = {0}, flag, yes = 1;
  MPI_Request request;
  MPI_Status status;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_group(comm, &group);
  MPI_Cart_create(comm, 1, &size, &yes, 0, &cart);
  MPI_Comm_create_errhandler(handler, &errhandler);
  MPI_Comm_set_errhandler(comm, errhandler);
  MPI_Comm_set_errhandler(cart, errhandler);
  if (size > 1) {
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 3, &inter);
    MPI_Comm_set_errhandler(inter, errhandler);
    MPI_Comm_free(&half);
  }
#define RAISED_ON(comm, ...)                \
  do {                                      \
    const int before_ = calls;              \
    EXPECT_CLASS(__VA_ARGS__, MPI_ERR_ARG); \
    EXPECT_EQ(calls, before_ + 1);          \
    EXPECT(last == (comm));                 \
  } while (0)
  RAISED_ON(comm, MPI_Comm_rank(comm, NULL));
  RAISED_ON(comm, MPI_Comm_size(comm, NULL));
  RAISED_ON(comm, MPI_Comm_test_inter(comm, NULL));
  RAISED_ON(comm, MPI_Comm_group(comm, NULL));
  RAISED_ON(comm, MPI_Comm_compare(comm, MPI_COMM_WORLD, NULL));
  RAISED_ON(comm, MPI_Comm_dup(comm, NULL));
  RAISED_ON(comm, MPI_Comm_dup_with_info(comm, MPI_INFO_NULL, NULL));
  RAISED_ON(comm, MPI_Comm_idup(comm, NULL, &request));
  RAISED_ON(comm, MPI_Comm_idup(comm, &made, NULL));
  RAISED_ON(comm, MPI_Comm_idup_with_info(comm, MPI_INFO_NULL, NULL, &request));
  RAISED_ON(comm, MPI_Comm_split(comm, 0, 0, NULL));
  RAISED_ON(comm, MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, NULL));
  RAISED_ON(comm, MPI_Comm_create(comm, group, NULL));
  RAISED_ON(comm, MPI_Comm_create_group(comm, group, 0, NULL));
  RAISED_ON(comm, MPI_Comm_get_name(comm, NULL, &number));
  RAISED_ON(comm, MPI_Comm_get_info(comm, NULL));
  RAISED_ON(comm, MPI_Comm_get_errhandler(comm, NULL));
  RAISED_ON(comm, MPI_Comm_get_attr(comm, MPI_TAG_UB, NULL, &flag));
  RAISED_ON(comm, MPI_Topo_test(comm, NULL));
  RAISED_ON(comm, MPI_Cart_create(comm, 1, &size, &yes, 0, NULL));
  RAISED_ON(comm, MPI_Graph_create(comm, 1, numbers, numbers, 0, NULL));
  RAISED_ON(comm, MPI_Dist_graph_create_adjacent(comm, 0, numbers, MPI_UNWEIGHTED, 0, numbers,
                                                 MPI_UNWEIGHTED, MPI_INFO_NULL, 0, NULL));
  RAISED_ON(comm, MPI_Dist_graph_create(comm, 0, numbers, numbers, numbers, MPI_UNWEIGHTED,
                                        MPI_INFO_NULL, 0, NULL));
  RAISED_ON(comm, MPI_Cart_map(comm, 1, &size, &yes, NULL));
  RAISED_ON(comm, MPI_Graph_map(comm, 1, numbers, numbers, NULL));
  RAISED_ON(cart, MPI_Cartdim_get(cart, NULL));
  RAISED_ON(cart, MPI_Cart_get(cart, 1, NULL, numbers, numbers));
  RAISED_ON(cart, MPI_Cart_rank(cart, numbers, NULL));
  RAISED_ON(cart, MPI_Cart_coords(cart, 0, 1, NULL));
  RAISED_ON(cart, MPI_Cart_shift(cart, 0, 1, NULL, &number));
  RAISED_ON(cart, MPI_Cart_sub(cart, &yes, NULL));
  RAISED_ON(comm, MPI_Intercomm_create(comm, 0, MPI_COMM_WORLD, 0, 0, NULL));
  RAISED_ON(comm, MPI_Iprobe(0, 0, comm, NULL, &status));
  RAISED_ON(comm, MPI_Mprobe(0, 0, comm, NULL, &status));
  RAISED_ON(comm, MPI_Improbe(0, 0, comm, &flag, NULL, &status));
  RAISED_ON(comm, MPI_Isend(&number, 1, MPI_INT, 0, 0, comm, NULL));
  RAISED_ON(comm, MPI_Issend(&number, 1, MPI_INT, 0, 0, comm, NULL));
  RAISED_ON(comm, MPI_Irsend(&number, 1, MPI_INT, 0, 0, comm, NULL));
  RAISED_ON(comm, MPI_Ibsend(&number, 1, MPI_INT, 0, 0, comm, NULL));
  RAISED_ON(comm, MPI_Irecv(&number, 1, MPI_INT, 0, 0, comm, NULL));
  RAISED_ON(comm, MPI_Send_init(&number, 1, MPI_INT, 0, 0, comm, NULL));
  RAISED_ON(comm, MPI_Recv_init(&number, 1, MPI_INT, 0, 0, comm, NULL));
  RAISED_ON(comm, MPI_Psend_init(&number, 1, 1, MPI_INT, 0, 0, comm, MPI_INFO_NULL, NULL));
  RAISED_ON(comm, MPI_Precv_init(&number, 1, 1, MPI_INT, 0, 0, comm, MPI_INFO_NULL, NULL));
  RAISED_ON(comm, MPI_Isendrecv(&number, 1, MPI_INT, 0, 0, numbers, 1, MPI_INT, 0, 0, comm, NULL));
  RAISED_ON(comm, MPI_Ibarrier(comm, NULL));
  RAISED_ON(comm, MPI_Ibcast(&number, 1, MPI_INT, 0, comm, NULL));
  RAISED_ON(comm, MPI_Iallreduce(&number, numbers, 1, MPI_INT, MPI_SUM, comm, NULL));
  RAISED_ON(comm,
            MPI_Allreduce_init(&number, numbers, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, NULL));
  RAISED_ON(comm, MPI_Pack_size(1, MPI_INT, comm, NULL));
  RAISED_ON(comm, MPI_Pack(&number, 1, MPI_INT, numbers, 4, NULL, comm));
  RAISED_ON(comm, MPI_Unpack(numbers, 4, NULL, &number, 1, MPI_INT, comm));
  RAISED_ON(comm, MPI_Comm_detach_buffer(comm, NULL, &number));
  RAISED_ON(comm, MPI_Comm_iflush_buffer(comm, NULL));
  if (inter != MPI_COMM_NULL) {
    RAISED_ON(inter, MPI_Comm_remote_size(inter, NULL));
    RAISED_ON(inter, MPI_Comm_remote_group(inter, NULL));
    RAISED_ON(inter, MPI_Intercomm_merge(inter, 0, NULL));
    MPI_Comm_free(&inter);
  }
  MPI_Errhandler_free(&errhandler);
  MPI_Group_free(&group);
  MPI_Comm_free(&cart);
  MPI_Comm_free(&comm);
}

// A call whose send is refused has received nothing.
static void refused_send(void) {
  MPI_Datatype strided;
  MPI_Type_vector(8, 8, 16, MPI_CHAR, &strided);
  MPI_Type_commit(&strided);
  const MPI_Count many = (MPI_Count)1 << 60;
  const char out[256] = "abc";
  char in[4] = "...";
  MPI_Request sent, both;
  int found = 0;
  MPI_Isend(out, 4, MPI_CHAR, 0, 5, MPI_COMM_SELF, &sent);
  EXPECT_CLASS(MPI_Sendrecv_c(out, many, strided, 0, 1, in, 4, MPI_CHAR, 0, 5, MPI_COMM_SELF,
                              MPI_STATUS_IGNORE),
               MPI_ERR_COUNT);
  EXPECT_CLASS(
      MPI_Isendrecv_c(out, many, strided, 0, 1, in, 4, MPI_CHAR, 0, 5, MPI_COMM_SELF, &both),
      MPI_ERR_COUNT);
  MPI_Iprobe(0, 5, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE);
  EXPECT_EQ(found, 1);
  MPI_Recv(in, 4, MPI_CHAR, 0, 5, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  EXPECT(memcmp(in, out, 4) == 0);
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
  MPI_Type_free(&strided);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (form = kBlocking; form < kForms; ++form) same_buffers();
  reduce_local();
  refused_send();
  null_results();
  return end();
}
