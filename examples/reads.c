// reads FILE [cold]: what a nonblocking read or write of a file takes, by length and by how many
// are under way at a time: microseconds until it is complete, microseconds of them in the call that
// begins it, and processor time. One process. FILE is made and deleted. cold: reads of what the
// kernel does not have in memory.
//
//   weftcc -O2 examples/reads.c -o reads && ./reads /var/tmp/reads.data cold
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { kMost = 64, kRounds = 9 };
static const MPI_Offset kFileBytes = 256 << 20;

static double processor_us(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return 1e6 * (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static void drop(const char* name) {
  const int file = open(name, O_RDONLY);
  fsync(file);
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  close(file);
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double median(double* values) {
  qsort(values, kRounds, sizeof *values, compare);
  return values[kRounds / 2];
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc < 2) MPI_Abort(MPI_COMM_WORLD, 2);
  const int is_cold = argc > 2;
  MPI_File file;
  MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                MPI_INFO_NULL, &file);
  char* memory = malloc(kMost << 20);
  memset(memory, 1, kMost << 20);
  for (MPI_Offset at = 0; at < kFileBytes; at += kMost << 20)
    MPI_File_write_at(file, at, memory, kMost << 20, MPI_BYTE, MPI_STATUS_IGNORE);
  printf("%-6s %8s %5s %9s %9s %9s\n", is_cold ? "cold" : "warm", "bytes", "depth", "us", "begin",
         "cpu");
  for (int writes = 0; writes <= !is_cold; ++writes)
    for (int bytes = 4096; bytes <= 1 << 20; bytes *= 4)
      for (int depth = 1; depth <= kMost; depth *= depth == 1 ? 4 : 16) {
        const MPI_Offset places = kFileBytes / bytes;
        // Half of the file at most, each place once.
        int batches = (int)(places / 2 / depth);
        const int most = (is_cold ? 4096 : 16384) / depth / (1 + bytes / 65536);
        if (batches > most) batches = most;
        double us[kRounds], begin_us[kRounds], cpu_us[kRounds];
        for (int round = 0; round < kRounds; ++round) {
          if (is_cold) drop(argv[1]);
          MPI_Offset place = round;
          double begins = 0;
          const double cpu = processor_us(), start = MPI_Wtime();
          for (int batch = 0; batch < batches; ++batch) {
            MPI_Request requests[kMost];
            const double before = MPI_Wtime();
            for (int i = 0; i < depth; ++i) {
              place = (place + (places * 5 / 13 | 1)) % places;
              if (writes)
                MPI_File_iwrite_at(file, place * bytes, memory + (i << 20), bytes, MPI_BYTE,
                                   &requests[i]);
              else
                MPI_File_iread_at(file, place * bytes, memory + (i << 20), bytes, MPI_BYTE,
                                  &requests[i]);
            }
            begins += MPI_Wtime() - before;
            MPI_Waitall(depth, requests, MPI_STATUSES_IGNORE);
          }
          const double num = (double)batches * depth;
          us[round] = 1e6 * (MPI_Wtime() - start) / num;
          begin_us[round] = 1e6 * begins / num;
          cpu_us[round] = (processor_us() - cpu) / num;
        }
        printf("%-6s %8d %5d %9.1f %9.1f %9.1f\n", writes ? "write" : "read", bytes, depth,
               median(us), median(begin_us), median(cpu_us));
        fflush(stdout);
      }
  MPI_File_close(&file);
  free(memory);
  MPI_Finalize();
  return 0;
}
