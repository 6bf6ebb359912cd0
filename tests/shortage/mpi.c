/* A rank of an MPI program that does a little of everything, for tests/shortage/run. Errors are
 * returned; the rank says in one line how that ended. */
#include <mpi-ext.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank = -1;

static void must(int code, const char* what) {
  char text[MPI_MAX_ERROR_STRING];
  int class, length;
  if (code == MPI_SUCCESS) return;
  MPI_Error_class(code, &class);
  MPI_Error_string(code, text, &length);
  printf("rank %d: told %s: %s\n", rank, what,
         class == MPI_ERR_NO_MEM         ? "out of memory"
         : class == MPIX_ERR_PROC_FAILED ? "peer lost"
                                         : text);
  fflush(stdout);
  exit(3);
}

static void is(int right, const char* what) {
  if (right) return;
  printf("rank %d: wrong: %s\n", rank, what);
  fflush(stdout);
  exit(4);
}

enum { kLarge = 300000 };

static void exchange(MPI_Comm comm) {
  static char out[kLarge], in[kLarge];
  int size, me;
  MPI_Request requests[2];
  must(MPI_Comm_size(comm, &size), "size");
  must(MPI_Comm_rank(comm, &me), "rank");
  const int next = (me + 1) % size, before = (me + size - 1) % size;
  const int lengths[] = {8, 1000, 8000, kLarge};
  for (int i = 0; i < 4; ++i) {
    memset(out, me + i, kLarge);
    must(MPI_Irecv(in, lengths[i], MPI_BYTE, before, i, comm, &requests[0]), "irecv");
    must(MPI_Isend(out, lengths[i], MPI_BYTE, next, i, comm, &requests[1]), "isend");
    must(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), "wait");
    must(MPI_Wait(&requests[1], MPI_STATUS_IGNORE), "wait");
    is(in[lengths[i] - 1] == (char)(before + i), "what was received");
  }
  /* Nobody waits for these when they come. */
  for (int i = 3; i >= 0; --i)
    must(MPI_Isend(out, i == 3 ? kLarge : lengths[i], MPI_BYTE, next, 10 + i, comm,
                   i == 3 ? &requests[1] : &requests[0]),
         "isend"),
        i == 3 ? 0 : MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  must(MPI_Barrier(comm), "barrier");
  for (int i = 0; i < 4; ++i)
    must(MPI_Recv(in, kLarge, MPI_BYTE, before, 10 + i, comm, MPI_STATUS_IGNORE), "recv");
  must(MPI_Wait(&requests[1], MPI_STATUS_IGNORE), "wait");
}

int main(int argc, char** argv) {
  const char* number = getenv("WEFT_RANK");
  if (number != NULL) rank = atoi(number);
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  exchange(MPI_COMM_WORLD);

  MPI_Comm dup, half;
  must(MPI_Comm_dup(MPI_COMM_WORLD, &dup), "dup");
  must(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half), "split");
  MPI_Datatype type;
  must(MPI_Type_vector(10, 2, 5, MPI_INT, &type), "vector");
  must(MPI_Type_commit(&type), "commit");
  int values[50], sums[50], size;
  MPI_Comm_size(dup, &size);
  for (int i = 0; i < 50; ++i) values[i] = i;
  must(MPI_Bcast(values, 1, type, 0, dup), "bcast");
  must(MPI_Allreduce(values, sums, 50, MPI_INT, MPI_SUM, dup), "allreduce");
  is(sums[49] == 49 * size, "a sum");
  MPI_Request request;
  must(MPI_Iallreduce(values, sums, 50, MPI_INT, MPI_MAX, dup, &request), "iallreduce");
  must(MPI_Wait(&request, MPI_STATUS_IGNORE), "wait");
  int* all = malloc(sizeof(int) * 50 * (size_t)size);
  must(MPI_Allgather(values, 50, MPI_INT, all, 50, MPI_INT, dup), "allgather");
  must(MPI_Sendrecv(values, 1, type, (rank + 1) % size, 5, sums, 20, MPI_INT,
                    (rank + size - 1) % size, 5, dup, MPI_STATUS_IGNORE),
       "sendrecv");
  free(all);
  must(MPI_Type_free(&type), "type_free");
  must(MPI_Comm_free(&half), "comm_free");
  must(MPI_Comm_free(&dup), "comm_free");
  must(MPI_Finalize(), "finalize");
  printf("rank %d: fine\n", rank);
  return 0;
}
