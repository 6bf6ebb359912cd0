// WEFT_PROGRESS=thread: what rank 1 has started comes to its end while rank 1 calls nothing of MPI,
// but looks at memory that rank 0 writes when it has seen that end.
#include <stdbool.h>
#include <unistd.h>

#include "expect.h"

enum { kBytes = 3000001, kFloats = 700001, kTag = 4 };

static volatile int* flag;

// Rank 0 has seen the end. Otherwise there is nothing to see: without MPI nobody can tell.
static void await(int value) {
  for (int i = 0; i < 20000 && *flag != value; ++i) usleep(1000);
  EXPECT_EQ(*flag, value);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Win window;
  int* mine;
  MPI_Win_allocate_shared(rank == 0 ? sizeof(int) : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine,
                          &window);
  MPI_Aint bytes;
  int unit;
  int* base;
  MPI_Win_shared_query(window, 0, &bytes, &unit, &base);
  flag = base;
  if (rank == 0) *flag = 0;
  char* data = allocate(kBytes);
  float *in = allocate(kFloats * sizeof *in), *sum = allocate(kFloats * sizeof *sum);
  const int room = kBytes + MPI_BSEND_OVERHEAD;
  void* buffer = allocate((size_t)room);
  MPI_Buffer_attach(buffer, room);
  MPI_Datatype pieces;
  MPI_Type_vector(kBytes / 100, 50, 100, MPI_CHAR, &pieces);
  MPI_Type_commit(&pieces);
  MPI_Barrier(MPI_COMM_WORLD);

  int done = 0;
  for (int round = 0; round < 3; ++round) {
    MPI_Request request = MPI_REQUEST_NULL;
    // Received and sent, in one block and in pieces; matched before; from a buffer.
    for (int way = 0; way < 8; ++way) {
      const int count = way & 1 ? 1 : kBytes;
      const MPI_Datatype type = way & 1 ? pieces : MPI_CHAR;
      const bool apart = way & 4;
      ++done;
      if (rank == 0) {
        if (way & 2)
          MPI_Recv(data, count, type, 1, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
          MPI_Ssend(data, count, type, 1, kTag, MPI_COMM_WORLD);
        *flag = done;
      } else if (rank == 1) {
        MPI_Message message;
        if (way & 2) {
          if (apart)
            MPI_Ibsend(data, count, type, 0, kTag, MPI_COMM_WORLD, &request);
          else
            MPI_Isend(data, count, type, 0, kTag, MPI_COMM_WORLD, &request);
        } else if (apart) {
          MPI_Mprobe(0, kTag, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
          MPI_Imrecv(data, count, type, &message, &request);
        } else {
          MPI_Irecv(data, count, type, 0, kTag, MPI_COMM_WORLD, &request);
        }
        await(done);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      }
    }
    ++done;
    for (int i = 0; i < kFloats; ++i) in[i] = (float)(i % 100 + rank);
    MPI_Iallreduce(in, sum, kFloats, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    if (rank == 1) await(done);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 0) *flag = done;
    for (int i = 0; i < kFloats; ++i)
      if (sum[i] != (float)(i % 100 * size + size * (size - 1) / 2)) {
        EXPECT_EQ(i, -1);
        break;
      }
  }

  MPI_Type_free(&pieces);
  int detached;
  MPI_Buffer_detach(&buffer, &detached);
  free(buffer);
  free(data);
  free(in);
  free(sum);
  MPI_Win_free(&window);
  return end();
}
