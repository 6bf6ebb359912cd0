// Wrong arguments give the standard's error class through the error handler, and the library goes
// on working. Nothing here may crash.
#include "expect.h"

static MPI_Comm world;

static void communication(void) {
  int value = 1, peer = (rank + 1) % size, count;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status;
  EXPECT_CLASS(MPI_Send(&value, 1, MPI_INT, peer, 0, MPI_COMM_NULL), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Send(&value, -1, MPI_INT, peer, 0, world), MPI_ERR_COUNT);
  EXPECT_CLASS(MPI_Send(&value, 1, MPI_DATATYPE_NULL, peer, 0, world), MPI_ERR_TYPE);
  EXPECT_CLASS(MPI_Send(&value, 1, MPI_INT, size, 0, world), MPI_ERR_RANK);
  EXPECT_CLASS(MPI_Send(&value, 1, MPI_INT, -100, 0, world), MPI_ERR_RANK);
  EXPECT_CLASS(MPI_Send(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, world), MPI_ERR_RANK);
  EXPECT_CLASS(MPI_Send(&value, 1, MPI_INT, peer, -100, world), MPI_ERR_TAG);
  EXPECT_CLASS(MPI_Send(&value, 1, MPI_INT, peer, MPI_ANY_TAG, world), MPI_ERR_TAG);
  EXPECT_CLASS(MPI_Send(NULL, 1, MPI_INT, peer, 0, world), MPI_ERR_BUFFER);
  EXPECT_CLASS(MPI_Ssend(&value, 1, MPI_INT, size, 0, world), MPI_ERR_RANK);
  EXPECT_CLASS(MPI_Rsend(&value, 1, MPI_INT, size, 0, world), MPI_ERR_RANK);
  EXPECT_CLASS(MPI_Bsend(&value, -2, MPI_INT, peer, 0, world), MPI_ERR_COUNT);
  EXPECT_CLASS(MPI_Isend(&value, 1, MPI_INT, size + 5, 0, world, &request), MPI_ERR_RANK);
  EXPECT_CLASS(MPI_Issend(&value, 1, MPI_INT, peer, -50, world, &request), MPI_ERR_TAG);
  EXPECT_CLASS(MPI_Send_init(&value, -1, MPI_INT, peer, 0, world, &request), MPI_ERR_COUNT);
  EXPECT_CLASS(MPI_Recv(&value, 1, MPI_INT, peer, 0, MPI_COMM_NULL, &status), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Recv(&value, -1, MPI_INT, peer, 0, world, &status), MPI_ERR_COUNT);
  EXPECT_CLASS(MPI_Recv(&value, 1, MPI_INT, size, 0, world, &status), MPI_ERR_RANK);
  EXPECT_CLASS(MPI_Recv(&value, 1, MPI_INT, peer, -100, world, &status), MPI_ERR_TAG);
  EXPECT_CLASS(MPI_Irecv(&value, 1, MPI_DATATYPE_NULL, peer, 0, world, &request), MPI_ERR_TYPE);
  EXPECT_CLASS(MPI_Recv_init(&value, 1, MPI_INT, -77, 0, world, &request), MPI_ERR_RANK);
  EXPECT_CLASS(MPI_Probe(size, 0, world, &status), MPI_ERR_RANK);
  EXPECT_CLASS(MPI_Iprobe(0, -100, world, &count, &status), MPI_ERR_TAG);
  EXPECT_CLASS(
      MPI_Sendrecv(&value, 1, MPI_INT, size, 0, &count, 1, MPI_INT, peer, 0, world, &status),
      MPI_ERR_RANK);
  if (!kMpich)  // which crashes
    EXPECT_CLASS(MPI_Sendrecv_replace(&value, -1, MPI_INT, peer, 0, peer, 0, world, &status),
                 MPI_ERR_COUNT);
  if (!kMpich && !kOpenMpi) {  // which crash
    EXPECT_CLASS(MPI_Sendrecv_replace(NULL, 1, MPI_INT, peer, 0, peer, 0, world, &status),
                 MPI_ERR_BUFFER);
#if MPI_VERSION >= 4
    EXPECT_CLASS(MPI_Isendrecv_replace(NULL, 1, MPI_INT, peer, 0, peer, 0, world, &request),
                 MPI_ERR_BUFFER);
#endif
  }
  // Above the largest tag.
  int flag, *largest;
  MPI_Comm_get_attr(world, MPI_TAG_UB, &largest, &flag);
  if (*largest < 2147483647)
    EXPECT_CLASS(MPI_Send(&value, 1, MPI_INT, peer, *largest + 1, world), MPI_ERR_TAG);
  // A type that has not been committed.
  MPI_Datatype type;
  MPI_Type_contiguous(2, MPI_INT, &type);
  int pair[2] = {1, 2};
  EXPECT_CLASS(MPI_Send(pair, 1, type, peer, 0, world), MPI_ERR_TYPE);
  EXPECT_CLASS(MPI_Irecv(pair, 1, type, peer, 0, world, &request), MPI_ERR_TYPE);
  MPI_Type_free(&type);
}

static void requests(void) {
  MPI_Request request = MPI_REQUEST_NULL;
  EXPECT_CLASS(MPI_Start(&request), MPI_ERR_REQUEST);
  EXPECT_CLASS(MPI_Request_free(&request), MPI_ERR_REQUEST);
  EXPECT_CLASS(MPI_Cancel(&request), MPI_ERR_REQUEST);
  if (!kMpich)  // there a negative count is MPI_ERR_COUNT only in some of these
    EXPECT_CLASS(MPI_Waitall(-1, &request, MPI_STATUSES_IGNORE),
                 kOpenMpi ? MPI_ERR_ARG : MPI_ERR_COUNT);
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  int value;
  if (!kOpenMpi)  // which takes the error to be fatal
    EXPECT_CLASS(MPI_Mrecv(&value, 1, MPI_INT, &message, &status), MPI_ERR_REQUEST);
}

static void collectives(void) {
  int a = rank, b = -1, counts[64] = {0}, displacements[64] = {0};
  EXPECT_CLASS(MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Bcast(&a, 1, MPI_INT, size, world), MPI_ERR_ROOT);
  EXPECT_CLASS(MPI_Bcast(&a, 1, MPI_INT, -1, world), MPI_ERR_ROOT);
  EXPECT_CLASS(MPI_Bcast(&a, -1, MPI_INT, 0, world), MPI_ERR_COUNT);
  EXPECT_CLASS(MPI_Bcast(&a, 1, MPI_DATATYPE_NULL, 0, world), MPI_ERR_TYPE);
  EXPECT_CLASS(MPI_Reduce(&a, &b, 1, MPI_INT, MPI_OP_NULL, 0, world), MPI_ERR_OP);
  EXPECT_CLASS(MPI_Reduce(&a, &b, 1, MPI_INT, MPI_SUM, size, world), MPI_ERR_ROOT);
  EXPECT_CLASS(MPI_Allreduce(&a, &b, 1, MPI_DOUBLE, MPI_BAND, world), MPI_ERR_OP);
  EXPECT_CLASS(MPI_Allreduce(&a, &b, -1, MPI_INT, MPI_SUM, world), MPI_ERR_COUNT);
  EXPECT_CLASS(MPI_Allreduce(&a, &b, 1, MPI_INT, MPI_MAXLOC, world), MPI_ERR_OP);
  EXPECT_CLASS(MPI_Scan(&a, &b, 1, MPI_INT, MPI_OP_NULL, world), MPI_ERR_OP);
  EXPECT_CLASS(MPI_Gather(&a, 1, MPI_INT, counts, 1, MPI_INT, size, world), MPI_ERR_ROOT);
  EXPECT_CLASS(MPI_Scatter(counts, 1, MPI_INT, &b, 1, MPI_INT, -2, world), MPI_ERR_ROOT);
  EXPECT_CLASS(MPI_Alltoall(counts, 1, MPI_INT, displacements, 1, MPI_DATATYPE_NULL, world),
               MPI_ERR_TYPE);
  if (kOpenMpi || kMpich) return;  // which crash in these
  EXPECT_CLASS(MPI_Reduce_local(NULL, &b, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
  EXPECT_CLASS(MPI_Reduce_local(&a, NULL, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
  MPI_Request request = MPI_REQUEST_NULL;
  counts[0] = -1;
  EXPECT_CLASS(MPI_Iallgatherv(&a, 1, MPI_INT, displacements, counts, displacements, MPI_INT, world,
                               &request),
               MPI_ERR_COUNT);
  EXPECT(request == MPI_REQUEST_NULL);
  counts[0] = 1;
  EXPECT_CLASS(
      MPI_Iallgatherv(&a, 1, MPI_INT, NULL, counts, displacements, MPI_INT, world, &request),
      MPI_ERR_BUFFER);
  EXPECT_CLASS(MPI_Allgather(&a, -1, MPI_INT, counts, 1, MPI_INT, world), MPI_ERR_COUNT);
  counts[0] = -1;
  EXPECT_CLASS(MPI_Allgatherv(&a, 1, MPI_INT, displacements, counts, displacements, MPI_INT, world),
               MPI_ERR_COUNT);
}

static void objects(void) {
  int value, flag, length;
  char text[MPI_MAX_ERROR_STRING];
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Group group, other;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
  EXPECT_CLASS(MPI_Comm_size(MPI_COMM_NULL, &value), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Comm_rank(MPI_COMM_NULL, &value), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Comm_dup(MPI_COMM_NULL, &comm), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Comm_free(&comm), MPI_ERR_COMM);
  if (!kMpich && !kOpenMpi) {  // both abort or allow it
    MPI_Comm copy = MPI_COMM_WORLD;
    EXPECT_CLASS(MPI_Comm_free(&copy), MPI_ERR_COMM);
    EXPECT(copy == MPI_COMM_WORLD);
  }
  EXPECT_CLASS(MPI_Comm_split(world, -5, 0, &comm), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_Comm_group(MPI_COMM_NULL, &group), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Group_size(MPI_GROUP_NULL, &value), MPI_ERR_GROUP);
  MPI_Comm_group(world, &group);
  int ranks[2] = {0, 0};
  if (!kOpenMpi) EXPECT_CLASS(MPI_Group_incl(group, 2, ranks, &other), MPI_ERR_RANK);
  ranks[1] = size;
  EXPECT_CLASS(MPI_Group_incl(group, 2, ranks, &other), MPI_ERR_RANK);
  EXPECT_CLASS(MPI_Group_excl(group, 2, ranks, &other),
               kOpenMpi && size == 1 ? MPI_ERR_GROUP : MPI_ERR_RANK);
  MPI_Group_free(&group);
  EXPECT_CLASS(MPI_Group_free(&group), MPI_ERR_GROUP);
  EXPECT_CLASS(MPI_Type_free(&type), MPI_ERR_TYPE);
  EXPECT_CLASS(MPI_Type_commit(&type), MPI_ERR_TYPE);
  EXPECT_CLASS(MPI_Type_size(MPI_DATATYPE_NULL, &value), MPI_ERR_TYPE);
  type = MPI_INT;
  EXPECT_CLASS(MPI_Type_free(&type), MPI_ERR_TYPE);
  EXPECT_CLASS(MPI_Type_contiguous(-1, MPI_INT, &type), MPI_ERR_COUNT);
  EXPECT_CLASS(MPI_Type_vector(2, -1, 1, MPI_INT, &type), kMpich ? MPI_ERR_COUNT : MPI_ERR_ARG);
  if (!kMpich && !kOpenMpi)
    EXPECT_CLASS(MPI_Type_get_envelope(MPI_INT, &value, NULL, &flag, &length), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_Op_free(&op), MPI_ERR_OP);
  op = MPI_SUM;
  EXPECT_CLASS(MPI_Op_free(&op), MPI_ERR_OP);
  EXPECT_CLASS(MPI_Comm_get_attr(MPI_COMM_NULL, MPI_TAG_UB, &value, &flag), MPI_ERR_COMM);
  int keyval = MPI_KEYVAL_INVALID;
  EXPECT_CLASS(MPI_Comm_set_attr(world, keyval, NULL), kOpenMpi ? MPI_ERR_OTHER : MPI_ERR_KEYVAL);
  EXPECT_CLASS(MPI_Comm_get_attr(world, keyval, &value, &flag), MPI_ERR_KEYVAL);
  EXPECT_CLASS(MPI_Comm_free_keyval(&keyval), kOpenMpi ? MPI_ERR_OTHER : MPI_ERR_KEYVAL);
  EXPECT_CLASS(MPI_Error_string(-17, text, &length), MPI_ERR_ARG);
  int dims[2] = {0, 5}, periods[2] = {0, 0};
  if (size != 5 && size != 15) EXPECT_CLASS(MPI_Dims_create(size * 5 + 1, 2, dims), MPI_ERR_DIMS);
  dims[0] = size + 1;
  dims[1] = 1;
  // More places than processes: the standard names no class.
  EXPECT(MPI_Cart_create(world, 2, dims, periods, 0, &comm) != MPI_SUCCESS);
  EXPECT_CLASS(MPI_Cart_coords(world, 0, 2, dims), MPI_ERR_TOPOLOGY);
}

static void add(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i) ((int*)inout)[i] += ((int*)in)[i];
}

// Handles whose objects are freed name nothing, also once others are made in their place; nor do
// handles that never named anything.
static void freed(void) {
  if (kOpenMpi || kMpich) return;  // which crash or go on with them
  int a = 1, b = -1, key;
  for (int round = 0; round < 2; ++round) {
    MPI_Comm comm, old_comm;
    MPI_Comm_dup(world, &comm);
    old_comm = comm;
    MPI_Comm_free(&comm);
    MPI_Comm_dup(world, &comm);
    if (round == 1) old_comm = (MPI_Comm)(intptr_t)0x123456789abc;
    EXPECT(old_comm != comm);
    EXPECT_CLASS(MPI_Send(&a, 1, MPI_INT, 0, 0, old_comm), MPI_ERR_COMM);
    EXPECT_CLASS(MPI_Barrier(old_comm), MPI_ERR_COMM);
    EXPECT_CLASS(MPI_Comm_size(old_comm, &b), MPI_ERR_COMM);
    EXPECT_CLASS(MPI_Comm_free(&old_comm), MPI_ERR_COMM);
    MPI_Comm_free(&comm);

    MPI_Datatype type, old_type;
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_commit(&type);
    old_type = round == 0 ? type : (MPI_Datatype)(intptr_t)-5;
    MPI_Type_free(&type);
    EXPECT_CLASS(MPI_Send(&a, 1, old_type, 0, 0, world), MPI_ERR_TYPE);
    EXPECT_CLASS(MPI_Type_size(old_type, &b), MPI_ERR_TYPE);
    EXPECT_CLASS(MPI_Type_free(&old_type), MPI_ERR_TYPE);

    MPI_Op op, old_op;
    MPI_Op_create(add, 1, &op);
    old_op = round == 0 ? op : (MPI_Op)(intptr_t)-5;
    MPI_Op_free(&op);
    EXPECT_CLASS(MPI_Allreduce(&a, &b, 1, MPI_INT, old_op, world), MPI_ERR_OP);
    EXPECT_CLASS(MPI_Op_free(&old_op), MPI_ERR_OP);

    MPI_Group group, old_group;
    MPI_Comm_group(world, &group);
    old_group = round == 0 ? group : (MPI_Group)(intptr_t)-5;
    MPI_Group_free(&group);
    EXPECT_CLASS(MPI_Group_size(old_group, &b), MPI_ERR_GROUP);
    EXPECT_CLASS(MPI_Comm_create(world, old_group, &comm), MPI_ERR_GROUP);

    MPI_Request request, old_request;
    MPI_Irecv(&b, 1, MPI_INT, rank, 5, world, &request);
    old_request = round == 0 ? request : (MPI_Request)(intptr_t)-5;
    MPI_Send(&a, 1, MPI_INT, rank, 5, world);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EXPECT_CLASS(MPI_Wait(&old_request, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    EXPECT_CLASS(MPI_Request_free(&old_request), MPI_ERR_REQUEST);
  }
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
  int old_key = key;
  MPI_Comm_free_keyval(&key);
  EXPECT_CLASS(MPI_Comm_set_attr(world, old_key, NULL), MPI_ERR_KEYVAL);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  EXPECT_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  EXPECT_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
  EXPECT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &world));  // takes the error handler along
  communication();
  requests();
  collectives();
  objects();
  freed();
  // All of that has left nothing behind that disturbs communication.
  int sum = -1, one = 1;
  EXPECT_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, world));
  EXPECT_EQ(sum, size);
  MPI_Comm_free(&world);
  return end();
}
