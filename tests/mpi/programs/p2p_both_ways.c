// Windows of long messages in both directions at once between pairs of processes, at sizes and
// addresses of all kinds, each buffer filled anew as soon as its message is sent:
//   - with both sides waiting
//   - with receives that are too short for some of them
//   - with a sender that is busy elsewhere until its messages have arrived
#include <unistd.h>

#include "expect.h"

enum { kWindow = 8, kLargest = 2500000, kShort = 300000, kTag = 4, kArrived = 5 };

static char *out[kWindow], *in[kWindow];

static size_t offset_of(int index) { return (size_t)index * 37 % 4096; }

static uint64_t seed(int from, int round, int index) {
  return seed_of(8, (uint64_t)from, (uint64_t)(round * kWindow + index));
}

// Room for `room` bytes where `bytes` arrive.
static void expect_arrived(int from, int round, int index, size_t bytes, size_t room) {
  const size_t length = bytes < room ? bytes : room;
  EXPECT_EQ(first_difference(in[index] + offset_of(index), length, seed(from, round, index)), -1);
}

static void windows(int peer, size_t bytes, size_t room, int rounds, int* round) {
  MPI_Request requests[2 * kWindow];
  MPI_Status statuses[2 * kWindow];
  for (; rounds > 0; --rounds, ++*round) {
    for (int i = 0; i < kWindow; ++i)
      MPI_Irecv(in[i] + offset_of(i), (int)room, MPI_CHAR, peer, kTag, MPI_COMM_WORLD,
                &requests[kWindow + i]);
    for (int i = 0; i < kWindow; ++i) {
      char* data = out[i] + offset_of(kWindow - i);
      fill(data, bytes, seed(rank, *round, i));
      MPI_Isend(data, (int)bytes, MPI_CHAR, peer, kTag, MPI_COMM_WORLD, &requests[i]);
    }
    const int code = MPI_Waitall(2 * kWindow, requests, statuses);
    EXPECT_CLASS(code, bytes > room ? MPI_ERR_IN_STATUS : MPI_SUCCESS);
    for (int i = 0; i < kWindow; ++i) {
      if (bytes > room) EXPECT_CLASS(statuses[kWindow + i].MPI_ERROR, MPI_ERR_TRUNCATE);
      expect_arrived(peer, *round, i, bytes, room);
    }
  }
}

// The lower rank of a pair sends and waits for nothing but a word that says that all is there.
static void busy_sender(int peer, size_t bytes, int* round) {
  MPI_Request requests[kWindow];
  const int sends = rank < peer;
  for (int i = 0; i < kWindow && sends; ++i) {
    char* data = out[i] + offset_of(kWindow - i);
    fill(data, bytes, seed(rank, *round, i));
    MPI_Isend(data, (int)bytes, MPI_CHAR, peer, kTag, MPI_COMM_WORLD, &requests[i]);
  }
  if (sends) {
    // Not a call to MPI until then: the peer goes on without us.
    usleep(100000);
    MPI_Recv(NULL, 0, MPI_CHAR, peer, kArrived, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    EXPECT_OK(MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE));
  } else {
    for (int i = 0; i < kWindow; ++i) {
      MPI_Recv(in[i] + offset_of(i), (int)bytes, MPI_CHAR, peer, kTag, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
      expect_arrived(peer, *round, i, bytes, bytes);
    }
    MPI_Send(NULL, 0, MPI_CHAR, peer, kArrived, MPI_COMM_WORLD);
  }
  ++*round;
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int i = 0; i < kWindow; ++i) {
    out[i] = allocate(kLargest + 4096);
    in[i] = allocate(kLargest + 4096);
  }
  const int peer = rank ^ 1;
  MPI_Barrier(MPI_COMM_WORLD);
  if (peer < size) {
    static const size_t kSizes[] = {70001,  262145,  520191,  520192,
                                    520193, 1048576, 1500003, kLargest};
    int round = 0;
    for (size_t s = 0; s < sizeof kSizes / sizeof *kSizes; ++s)
      windows(peer, kSizes[s], kSizes[s], 3, &round);
    windows(peer, kLargest, kShort, 2, &round);
    busy_sender(peer, 1048577, &round);
    windows(peer, 1048577, 1048577, 2, &round);
  }
  for (int i = 0; i < kWindow; ++i) {
    free(out[i]);
    free(in[i]);
  }
  return end();
}
