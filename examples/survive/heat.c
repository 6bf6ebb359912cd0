// Heat spreading over a square plate, by processes of which any may be killed at any time: those
// that live go on, and the result is the same to the last bit.
//
//   weftcc -O2 heat.c -o heat && weftrun --on-death continue -n 4 ./heat -n 512 -s 2000
//
// The plate of n x n points is cut into bands of rows, one per process. Now and then every process
// keeps a copy of its band, and of that of the process before it: the checkpoint, which counts once
// all have agreed that it is complete. When a process dies, the others revoke the communicator, so
// that nobody waits in it, shrink it, cut the plate anew, and go on from the checkpoint. If a
// process and the keeper of its copy died, they begin anew.
#include <mpi-ext.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int n = 512, num_steps = 2000, steps_between = 50;

typedef struct {
  int first, count;
} Rows;

// Rows of one moment: this process's band, and that of the process before it.
typedef struct {
  int step;  // -1: none was made yet
  int size;  // of the communicator of that time
  int rank;  // in it
  double *own, *before;
} Checkpoint;

typedef struct {
  MPI_Comm comm;
  int size, rank, step;
  Rows rows;
  double *now, *next;  // rows.count + 2 rows, the first and the last are the neighbours'
  Checkpoint kept;
} Plate;

static double* allocate(int rows) {
  double* memory = calloc((size_t)rows * (size_t)n, sizeof(double));
  if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  return memory;
}

// The rows of process `index` of `size`: the first ones get one more if it does not divide.
static Rows share(int size, int index) {
  const int each = n / size, more = n % size;
  return (Rows){each * index + (index < more ? index : more), each + (index < more)};
}

// Cold, with a hot disc, and the upper edge heated.
static double start_value(int row, int col) {
  const double y = (row + 0.5) / n - 0.62, x = (col + 0.5) / n - 0.35;
  return row == 0 ? 100.0 : y * y + x * x < 0.04 ? 90.0 : 0.0;
}

// Cuts the plate for the members of the communicator.
static void cut(Plate* p) {
  MPI_Comm_size(p->comm, &p->size);
  MPI_Comm_rank(p->comm, &p->rank);
  p->rows = share(p->size, p->rank);
  free(p->now);
  free(p->next);
  p->now = allocate(p->rows.count + 2);
  p->next = allocate(p->rows.count + 2);
}

static void begin(Plate* p) {
  p->step = 0;
  for (int row = 0; row < p->rows.count; ++row)
    for (int col = 0; col < n; ++col)
      p->now[(row + 1) * n + col] = start_value(p->rows.first + row, col);
}

// One step. MPI_SUCCESS, or the error of a call.
static int advance(Plate* p) {
  const int above = p->rank > 0 ? p->rank - 1 : MPI_PROC_NULL;
  const int below = p->rank + 1 < p->size ? p->rank + 1 : MPI_PROC_NULL;
  double *u = p->now, *last = u + p->rows.count * n;
  int error = MPI_Sendrecv(u + n, n, MPI_DOUBLE, above, 0, last + n, n, MPI_DOUBLE, below, 0,
                           p->comm, MPI_STATUS_IGNORE);
  if (error == MPI_SUCCESS)
    error = MPI_Sendrecv(last, n, MPI_DOUBLE, below, 1, u, n, MPI_DOUBLE, above, 1, p->comm,
                         MPI_STATUS_IGNORE);
  if (error != MPI_SUCCESS) return error;
  for (int row = 0; row < p->rows.count; ++row) {
    const double* from = u + (row + 1) * n;
    double* to = p->next + (row + 1) * n;
    const bool is_rim = p->rows.first + row == 0 || p->rows.first + row == n - 1;
    for (int col = 0; col < n; ++col)
      to[col] =
          is_rim || col == 0 || col == n - 1
              ? from[col]
              : from[col] +
                    0.2 * (((from[col - n] + from[col + n]) + (from[col - 1] + from[col + 1])) -
                           4.0 * from[col]);
  }
  p->now = p->next;
  p->next = u;
  ++p->step;
  return MPI_SUCCESS;
}

// Whether all members bring `is_good`, and none has died: the same at all of them. Every member
// that meets an error comes here next, wherever it was: the one place where all are together.
static bool agree(Plate* p, bool is_good) {
  int flag = is_good;
  // Who waits for a member that has met an error would wait for ever.
  if (!is_good) MPIX_Comm_revoke(p->comm);
  return MPIX_Comm_agree(p->comm, &flag) == MPI_SUCCESS && flag == 1;
}

// Keeps this moment, if all members can; else the last one stays.
static bool checkpoint(Plate* p) {
  const int before = (p->rank + p->size - 1) % p->size, behind = (p->rank + 1) % p->size;
  const Rows theirs = share(p->size, before);
  Checkpoint made = {p->step, p->size, p->rank, allocate(p->rows.count), allocate(theirs.count)};
  memcpy(made.own, p->now + n, (size_t)p->rows.count * (size_t)n * sizeof(double));
  const int error =
      MPI_Sendrecv(made.own, p->rows.count * n, MPI_DOUBLE, behind, 2, made.before,
                   theirs.count * n, MPI_DOUBLE, before, 2, p->comm, MPI_STATUS_IGNORE);
  const bool is_kept = agree(p, error == MPI_SUCCESS);
  Checkpoint* drop = is_kept ? &p->kept : &made;
  free(drop->own);
  free(drop->before);
  if (is_kept) p->kept = made;
  return is_kept;
}

// The rows that two bands have in common.
static Rows overlap(Rows a, Rows b) {
  const int first = a.first > b.first ? a.first : b.first;
  const int a_end = a.first + a.count, b_end = b.first + b.count;
  const int end = a_end < b_end ? a_end : b_end;
  return (Rows){first, end > first ? end - first : 0};
}

// Hands out the rows of the checkpoint to the members of the communicator. All have the same
// checkpoint, as they agreed on it; false: a call failed.
static bool restore(Plate* p) {
  const Checkpoint* kept = &p->kept;
  if (kept->step < 0) {
    begin(p);
    return true;
  }
  int* ranks = malloc((size_t)p->size * sizeof(int));       // of members, at that time
  int* holders = malloc((size_t)kept->size * sizeof(int));  // of that time's bands, now
  MPI_Request* requests = malloc((size_t)(kept->size + 2 * p->size) * sizeof(MPI_Request));
  if (ranks == NULL || holders == NULL || requests == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  bool is_good = MPI_Allgather(&kept->rank, 1, MPI_INT, ranks, 1, MPI_INT, p->comm) == MPI_SUCCESS;
  bool is_complete = true;
  for (int band = 0; is_good && band < kept->size; ++band) {
    holders[band] = -1;
    for (int member = 0; member < p->size; ++member)
      if (ranks[member] == (band + 1) % kept->size && holders[band] < 0) holders[band] = member;
    for (int member = 0; member < p->size; ++member)
      if (ranks[member] == band) holders[band] = member;
    if (holders[band] < 0) is_complete = false;
  }
  if (is_good && !is_complete) begin(p);
  if (is_good && is_complete) {
    int num = 0;
    for (int i = 0; i < kept->size + 2 * p->size; ++i) requests[i] = MPI_REQUEST_NULL;
    for (int band = 0; band < kept->size; ++band) {
      const Rows there = share(kept->size, band);
      const Rows mine = overlap(there, p->rows);
      if (mine.count > 0)
        is_good &=
            MPI_Irecv(p->now + (mine.first - p->rows.first + 1) * n, mine.count * n, MPI_DOUBLE,
                      holders[band], band, p->comm, &requests[num++]) == MPI_SUCCESS;
      const double* rows = band == kept->rank ? kept->own : kept->before;
      for (int member = 0; holders[band] == p->rank && member < p->size; ++member) {
        const Rows part = overlap(there, share(p->size, member));
        if (part.count > 0)
          is_good &= MPI_Isend(rows + (part.first - there.first) * n, part.count * n, MPI_DOUBLE,
                               member, band, p->comm, &requests[num++]) == MPI_SUCCESS;
      }
    }
    is_good &= MPI_Waitall(num, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS;
    p->step = kept->step;
  }
  free(ranks);
  free(holders);
  free(requests);
  return is_good;
}

// Goes on with those that live. All call it together, after an agreement that failed.
static void recover(Plate* p) {
  for (;;) {
    MPI_Comm smaller;
    const int error = MPIX_Comm_shrink(p->comm, &smaller);
    if (error != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
    if (p->comm != MPI_COMM_WORLD) MPI_Comm_free(&p->comm);
    p->comm = smaller;
    MPI_Comm_set_errhandler(p->comm, MPI_ERRORS_RETURN);
    cut(p);
    // A checkpoint of the new bands, before the old one's keepers die.
    if (agree(p, restore(p)) && checkpoint(p)) break;
  }
  if (p->rank == 0) {
    printf("%d processes go on from step %d\n", p->size, p->step);
    fflush(stdout);
  }
}

// Prints the checksum of the plate, FNV-1a over the bits of its points, at rank 0.
static bool print_checksum(Plate* p) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (int member = 0; member < p->size; ++member) {
    const Rows theirs = share(p->size, member);
    double* rows = p->now + n;
    if (p->rank != 0 && p->rank != member) continue;
    if (p->rank != member) rows = allocate(theirs.count);
    int error = MPI_SUCCESS;
    if (p->rank != member)
      error = MPI_Recv(rows, theirs.count * n, MPI_DOUBLE, member, 3, p->comm, MPI_STATUS_IGNORE);
    else if (member != 0)
      error = MPI_Send(rows, theirs.count * n, MPI_DOUBLE, 0, 3, p->comm);
    const unsigned char* bytes = (const unsigned char*)rows;
    for (size_t i = 0; p->rank == 0 && i < (size_t)theirs.count * (size_t)n * sizeof(double); ++i)
      hash = (hash ^ bytes[i]) * 0x100000001b3u;
    if (p->rank != member) free(rows);
    if (error != MPI_SUCCESS) return false;
  }
  if (p->rank == 0) {
    printf("checksum %016llx\n", (unsigned long long)hash);
    fflush(stdout);
  }
  return true;
}

static int number_at_least(int least, const char* text) {
  char* end;
  const long value = strtol(text, &end, 10);
  return end != text && *end == '\0' && value >= least && value <= 1000000 ? (int)value : -1;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  bool shows_pids = false, is_usable = true;
  int flag;
  while ((flag = getopt(argc, argv, "n:s:c:p")) != -1) {
    if (flag == 'n')
      is_usable &= (n = number_at_least(4, optarg)) > 0;
    else if (flag == 's')
      is_usable &= (num_steps = number_at_least(1, optarg)) > 0;
    else if (flag == 'c')
      is_usable &= (steps_between = number_at_least(1, optarg)) > 0;
    else if (flag == 'p')
      shows_pids = true;
    else
      is_usable = false;
  }
  Plate plate = {.comm = MPI_COMM_WORLD, .kept = {.step = -1}};
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_size(MPI_COMM_WORLD, &plate.size);
  if (!is_usable || optind != argc || n < plate.size) {
    fprintf(stderr,
            "usage: heat [-n points a side, 4 or more and one a process] [-s steps] "
            "[-c steps between checkpoints] [-p: print process ids]\n");
    MPI_Finalize();
    return 2;
  }
  cut(&plate);
  begin(&plate);
  if (shows_pids) {
    printf("rank %d is process %d\n", plate.rank, (int)getpid());
    fflush(stdout);
  }
  for (;;) {
    bool is_good = true;
    if (plate.step < num_steps) {
      if (advance(&plate) != MPI_SUCCESS)
        is_good = agree(&plate, false);
      else if (plate.step % steps_between == 0)
        is_good = checkpoint(&plate);
    } else if (agree(&plate, print_checksum(&plate))) {
      break;
    } else {
      is_good = false;
    }
    if (!is_good) recover(&plate);
  }
  if (plate.comm != MPI_COMM_WORLD) MPI_Comm_free(&plate.comm);
  free(plate.now);
  free(plate.next);
  free(plate.kept.own);
  free(plate.kept.before);
  MPI_Finalize();
  return 0;
}
