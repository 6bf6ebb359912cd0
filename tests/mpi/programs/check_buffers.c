// For weftrun --check: rank 0 changes what it sends, and rank 1 receives twice into the same
// memory, the second time beyond the variable's end; "right": none of that.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

// A type that goes from one block of memory to another one is right.
static void send_two_blocks(int rank) {
  char* blocks[2] = {calloc(64, 1), calloc(128, 1)};
  MPI_Aint places[2] = {0, blocks[1] - blocks[0]};
  const int lengths[2] = {16, 32};
  const MPI_Datatype types[2] = {MPI_INT, MPI_INT};
  MPI_Datatype both;
  MPI_Type_create_struct(2, lengths, places, types, &both);
  MPI_Type_commit(&both);
  if (rank == 0) MPI_Send(blocks[0], 1, both, 1, 3, MPI_COMM_WORLD);
  if (rank == 1) MPI_Recv(blocks[0], 1, both, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Type_free(&both);
  free(blocks[0]);
  free(blocks[1]);
}

int main(int argc, char** argv) {
  int rank, sent[8] = {1}, received[8];
  const int is_right = argc > 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Request requests[2];
  if (rank == 0) {
    MPI_Isend(sent, 4, MPI_INT, 1, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(sent, 4, MPI_INT, 1, 2, MPI_COMM_WORLD, &requests[1]);
    if (!is_right) sent[0] = 2;
  } else {
    MPI_Irecv(received, 4, MPI_INT, 0, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(received + (is_right ? 4 : 2), is_right ? 4 : 8, MPI_INT, 0, 2, MPI_COMM_WORLD,
              &requests[1]);
  }
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  send_two_blocks(rank);
  MPI_Finalize();
  if (rank == 0) puts("as expected");
  return 0;
}
