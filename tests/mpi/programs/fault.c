// fault WHAT SECONDS: pairs of processes on different hosts (0 and 1, 2 and 3, ...) stream checked
// messages to each other while something happens to the network or to one of them.
//   last         for SECONDS; all messages must arrive, once, in order and unaltered
//   cut          until the link is gone: both sides must get an error that names the other, and at
//                most SECONDS after the last message of the other
//   eager, rendezvous
//                the odd ones are killed in the middle of a stream of short or long messages; the
//                others must get an error as for cut
// Started with --on-death continue, for the survivors are to find out by themselves.
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

enum { kWindow = 8, kMaxBytes = 300000, kDieAt = 200 };

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

static int bytes_of(const char* what, int from, int number) {
  uint64_t draw = seed_of(17, from, number);
  if (strcmp(what, "eager") == 0) return 8 + (int)(draw % 2000);
  if (strcmp(what, "rendezvous") == 0) return 100000 + (int)(draw % 200000);
  return draw % 16 == 0 ? 40000 + (int)(draw / 16 % 200000) : 8 + (int)(draw / 16 % 3000);
}

static unsigned char out[kWindow][kMaxBytes], in[kWindow][kMaxBytes];
static double last;  // when the peer was last heard

// One window of messages in both directions; the error of the first call that has one. `stop` goes
// along with it from the even side.
static int exchange(const char* what, int peer, int first, int* stop) {
  MPI_Request requests[2 * kWindow + 1];
  int code = MPI_SUCCESS, num = 0;
  for (int i = 0; i < kWindow && code == MPI_SUCCESS; ++i, ++num)
    code = MPI_Irecv(in[i], kMaxBytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[num]);
  for (int i = 0; i < kWindow && code == MPI_SUCCESS; ++i, ++num) {
    int bytes = bytes_of(what, rank, first + i);
    fill(out[i], bytes, seed_of(rank, first + i, 0));
    code = MPI_Isend(out[i], bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[num]);
  }
  if (code == MPI_SUCCESS) {
    code = rank % 2 == 0 ? MPI_Isend(stop, 1, MPI_INT, peer, 2, MPI_COMM_WORLD, &requests[num++])
                         : MPI_Irecv(stop, 1, MPI_INT, peer, 2, MPI_COMM_WORLD, &requests[num++]);
  }
  for (int i = 0; i < num; ++i) {
    MPI_Status status;
    int done = MPI_Wait(&requests[i], &status);
    if (code == MPI_SUCCESS) code = done;
    if (done != MPI_SUCCESS || i >= kWindow) continue;
    int bytes, expected = bytes_of(what, peer, first + i);
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    EXPECT_EQ(bytes, expected);
    EXPECT_EQ(first_difference(in[i], expected, seed_of(peer, first + i, 0)), -1);
    // Behind an error there may be messages that had come before it.
    if (code == MPI_SUCCESS) last = seconds();
  }
  return code;
}

static void check_error(int code, int peer, double late, double limit) {
  char text[MPI_MAX_ERROR_STRING], name[32];
  int length;
  MPI_Error_string(code, text, &length);
  snprintf(name, sizeof name, "rank %d", peer);
  EXPECT_CLASS(code, MPIX_ERR_PROC_FAILED);
  EXPECT(late <= limit);
  EXPECT(strstr(text, name) != NULL);
  fprintf(stderr, "rank %d: after %.2f s: %s\n", rank, late, text);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const char* what = argc > 1 ? argv[1] : "last";
  double limit = argc > 2 ? atof(argv[2]) : 5;
  int peer = rank ^ 1, stop = 0, code = MPI_SUCCESS, lasts = strcmp(what, "last") == 0;
  int dies = strcmp(what, "eager") == 0 || strcmp(what, "rendezvous") == 0;
  if (size % 2) MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) fprintf(stderr, "rank 0: begins\n");
  double start = last = seconds();
  int number = 0;
  for (; !stop && code == MPI_SUCCESS && num_failures == 0; number += kWindow) {
    if (dies && rank % 2 && number >= kDieAt) {
      MPI_Request request;
      for (int i = 0; i < kWindow; ++i) {
        int bytes = bytes_of(what, rank, number + i);
        fill(out[i], bytes, seed_of(rank, number + i, 0));
        MPI_Isend(out[i], bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &request);
      }
      raise(SIGKILL);
    }
    if (lasts) stop = seconds() - start > limit;
    code = exchange(what, peer, number, &stop);
  }
  if (lasts) {
    EXPECT_EQ(code, MPI_SUCCESS);
    if (rank == 0) fprintf(stderr, "rank 0: %d messages each way\n", number);
    return end();
  }
  check_error(code, peer, seconds() - last, limit);
  if (num_failures == 0) printf("as expected\n");
  fflush(stdout);
  // No agreement needed to leave: nobody may wait for the dead.
  _exit(num_failures ? 1 : 0);
}
