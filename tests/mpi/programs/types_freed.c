// MPI_THREAD_MULTIPLE: one thread frees a type, and makes others, while another is in a blocking
// call that uses it.
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#include "expect.h"

enum { kBlocks = 1 << 17, kBlock = 8, kBytes = kBlocks * kBlock, kOthers = 200 };

static MPI_Datatype type;
static char* data;
static bool sends;

static void* call(void* unused) {
  (void)unused;
  if (sends)
    MPI_Ssend(data, 1, type, 1, 5, MPI_COMM_WORLD);
  else
    MPI_Recv(data, 1, type, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return NULL;
}

static char byte_at(int i) { return (char)(i * 7 + i / 251); }

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  learn_place();
  data = allocate(2 * kBytes);
  char* packed = allocate(kBytes);
  for (int way = 0; way < 2 && size > 1; ++way) {
    sends = way == 0;
    MPI_Type_vector(kBlocks, kBlock, 2 * kBlock, MPI_CHAR, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < 2 * kBytes; ++i) data[i] = sends ? byte_at(i) : 0;
    for (int i = 0; i < kBytes; ++i) packed[i] = sends ? 0 : byte_at(i);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
      pthread_t thread;
      pthread_create(&thread, NULL, call, NULL);
      usleep(50000);
      MPI_Type_free(&type);
      MPI_Datatype others[kOthers];
      for (int i = 0; i < kOthers; ++i) {
        MPI_Type_vector(kBlocks, kBlock, 3 * kBlock, MPI_CHAR, &others[i]);
        MPI_Type_commit(&others[i]);
      }
      const int word = 1;
      MPI_Send(&word, 1, MPI_INT, 1, 6, MPI_COMM_WORLD);  // now the message may move
      pthread_join(thread, NULL);
      for (int i = 0; i < kOthers; ++i) MPI_Type_free(&others[i]);
      int wrong = 0;
      for (int i = 0; i < kBytes && !sends; ++i)
        wrong += data[i / kBlock * 2 * kBlock + i % kBlock] != byte_at(i);
      EXPECT_EQ(wrong, 0);
    } else {
      MPI_Type_free(&type);
    }
    if (rank == 1) {
      int word;
      MPI_Recv(&word, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (sends) {
        MPI_Recv(packed, kBytes, MPI_CHAR, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        int wrong = 0;
        for (int i = 0; i < kBytes; ++i)
          wrong += packed[i] != byte_at(i / kBlock * 2 * kBlock + i % kBlock);
        EXPECT_EQ(wrong, 0);
      } else {
        MPI_Send(packed, kBytes, MPI_CHAR, 0, 5, MPI_COMM_WORLD);
      }
    }
  }
  free(data);
  free(packed);
  return end();
}
