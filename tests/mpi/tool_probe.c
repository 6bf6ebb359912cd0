// An ordinary program; tool.c counts its calls.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int right, const char* what) {
  if (right) return;
  fprintf(stderr, "%s\n", what);
  exit(1);
}

int main(int argc, char** argv) {
  enum { kRounds = 50, kLong = 300000 };
  int rank, size, present = 0, sum = 0, flag = 0, tests = 0;
  MPI_Init(&argc, &argv);
  MPI_Pcontrol(0, &present);
  check(present, "the tool is not there");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  MPI_Comm copy, half;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_split(copy, rank % 2, rank, &half);
  MPI_Datatype gaps;
  MPI_Type_vector(kLong / 2, 1, 2, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  int* out = malloc(kLong * sizeof *out);
  int* in = malloc(kLong * sizeof *in);
  for (int i = 0; i < kLong; ++i) out[i] = rank + i;
  MPI_Request requests[2];
  for (int round = 0; round < kRounds; ++round) {
    // Short, then so long that it is announced, then with gaps.
    const int count = round % 3 == 0 ? 1 : round % 3 == 1 ? kLong : 1;
    const MPI_Datatype type = round % 3 == 2 ? gaps : MPI_INT;
    MPI_Irecv(in, count, type, before, 1, copy, &requests[0]);
    MPI_Isend(out, count, type, next, 1, copy, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    check(in[0] == before, "wrong data");
  }
  MPI_Irecv(in, 1, MPI_INT, before, 2, copy, &requests[0]);
  MPI_Send(out, 1, MPI_INT, next, 2, copy);
  for (; !flag; ++tests) MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
  MPI_Sendrecv(out, 1, MPI_INT, next, 3, in, 1, MPI_INT, before, 3, copy, MPI_STATUS_IGNORE);
  MPI_Barrier(half);
  MPI_Bcast(out, kLong, MPI_INT, 0, copy);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, copy);
  check(sum == size * (size - 1) / 2, "wrong sum");
  MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_MAX, copy, &requests[0]);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  check(sum == size - 1, "wrong maximum");
  MPI_Type_free(&gaps);
  MPI_Comm_free(&half);
  MPI_Comm_free(&copy);
  const struct {
    const char* name;
    int calls;
  } made[] = {{"MPI_Init", 1},
              {"MPI_Comm_rank", 1},
              {"MPI_Comm_dup", 1},
              {"MPI_Comm_split", 1},
              {"MPI_Type_commit", 1},
              {"MPI_Isend", kRounds},
              {"MPI_Irecv", kRounds + 1},
              {"MPI_Waitall", kRounds},
              {"MPI_Send", 1},
              {"MPI_Test", tests},
              {"MPI_Recv", 0},
              {"MPI_Sendrecv", 1},
              {"MPI_Barrier", 1},
              {"MPI_Bcast", 1},
              {"MPI_Allreduce", 1},
              {"MPI_Iallreduce", 1},
              {"MPI_Wait", 1},
              {"MPI_Allgather", 0},
              {"MPI_Comm_free", 2},
              {"MPI_Type_free", 1}};
  for (unsigned i = 0; i < sizeof made / sizeof *made; ++i)
    MPI_Pcontrol(1, made[i].name, made[i].calls);
  free(out);
  free(in);
  MPI_Finalize();
  return 0;
}
