// Buffered sends in one thread while another takes the buffer away and attaches it again: every
// message that was accepted arrives whole.
#include <pthread.h>

#include "expect.h"

enum { kBytes = 100000, kRoom = 4 * kBytes + 10000, kMessages = 6000 };
static char room[kRoom];
static int is_over;

static void* take_and_give(void* unused) {
  (void)unused;
  while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
    void* address = NULL;
    int bytes = 0;
    EXPECT_OK(MPI_Buffer_detach(&address, &bytes));
    EXPECT(address == room && bytes == kRoom);
    EXPECT_OK(MPI_Buffer_attach(room, kRoom));
  }
  return NULL;
}

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  learn_place();
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  unsigned char* data = allocate(kBytes);
  int accepted = 0, arrived = 0;
  if (rank == 0) {
    pthread_t thread;
    MPI_Buffer_attach(room, kRoom);
    pthread_create(&thread, NULL, take_and_give, NULL);
    for (int i = 0; i < kMessages; ++i) {
      memset(data, accepted % 251, kBytes);
      // Refused while there is no buffer, or no room in it.
      const int code = MPI_Bsend(data, kBytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
      if (code == MPI_SUCCESS) ++accepted;
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    MPI_Send(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
  } else if (rank == 1) {
    for (;;) {
      MPI_Status status;
      MPI_Recv(data, kBytes, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
      if (status.MPI_TAG == 2) break;
      EXPECT(data[0] == arrived % 251 && data[kBytes - 1] == arrived % 251);
      ++arrived;
    }
  }
  MPI_Bcast(&accepted, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (rank == 1) EXPECT_EQ(arrived, accepted);
  free(data);
  return end();
}
