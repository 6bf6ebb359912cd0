// Heat spreading over a square plate: an ordinary MPI program.
//
//   mpicc -O2 heat2d.c -o heat2d && mpirun -n 4 ./heat2d -n 512 -s 1000 -o heat2d.pgm
//
// The plate is a grid of n x n points, cut into one block per process. In every step a point
// moves towards the mean of its four neighbours; blocks first exchange their edges with the
// blocks around them. At the end the plate is gathered, written as a picture, and printed as a
// checksum. A point's value depends on nothing but its neighbours' values, always added in the
// same order, so the checksum is the same for any number of processes and any MPI library.

#define _POSIX_C_SOURCE 200809L

#include <limits.h>
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kRow = 0, kColumn = 1 };  // the dimensions of the process grid

typedef struct {
  int n;
  int steps;
  const char* picture;
} Options;

typedef struct {
  MPI_Comm grid;        // all processes, as a grid
  MPI_Comm in_row;      // those beside each other
  MPI_Comm in_column;   // those above each other
  MPI_Datatype column;  // one column of a block, without its halo
  int dims[2];          // processes down and across
  int up, down;         // neighbours; MPI_PROC_NULL beyond the plate
  int left, right;
  int first_row, num_rows;  // of this process's block, in points of the plate
  int first_col, num_cols;
  int pitch;    // num_cols + 2: a block is stored with a halo of one point around it
  double* now;  // (num_rows + 2) x pitch
  double* next;
} Plate;

static void* allocate(size_t count, size_t size) {
  void* memory = calloc(count, size);
  if (memory == NULL) {
    fprintf(stderr, "heat2d: out of memory\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return memory;
}

// The points that process `index` of `parts` has of `n`: the first ones get one more if it does
// not divide.
static void share(int n, int parts, int index, int* first, int* count) {
  *count = n / parts + (index < n % parts);
  *first = n / parts * index + (index < n % parts ? index : n % parts);
}

// The initial plate: cold, with a hot disc and a hot bar, and its upper edge heated.
static double start_value(int n, int row, int col) {
  const double y = (row + 0.5) / n, x = (col + 0.5) / n;
  const double dy = y - 0.62, dx = x - 0.35;
  if (row == 0) return 100.0;
  if (dy * dy + dx * dx < 0.04) return 90.0;
  if (x > 0.65 && x < 0.9 && y > 0.3 && y < 0.38) return 70.0;
  return 0.0;
}

static Plate plate_create(int n) {
  Plate p;
  int num_processes, rank, coords[2];
  const int periodic[2] = {0, 0};
  MPI_Comm_size(MPI_COMM_WORLD, &num_processes);
  p.dims[kRow] = p.dims[kColumn] = 0;
  MPI_Dims_create(num_processes, 2, p.dims);
  MPI_Cart_create(MPI_COMM_WORLD, 2, p.dims, periodic, 1, &p.grid);
  MPI_Comm_rank(p.grid, &rank);
  MPI_Cart_coords(p.grid, rank, 2, coords);
  MPI_Cart_shift(p.grid, kRow, 1, &p.up, &p.down);
  MPI_Cart_shift(p.grid, kColumn, 1, &p.left, &p.right);
  const int along_row[2] = {0, 1}, along_column[2] = {1, 0};
  MPI_Cart_sub(p.grid, along_row, &p.in_row);
  MPI_Cart_sub(p.grid, along_column, &p.in_column);

  share(n, p.dims[kRow], coords[kRow], &p.first_row, &p.num_rows);
  share(n, p.dims[kColumn], coords[kColumn], &p.first_col, &p.num_cols);
  p.pitch = p.num_cols + 2;
  MPI_Type_vector(p.num_rows, 1, p.pitch, MPI_DOUBLE, &p.column);
  MPI_Type_commit(&p.column);

  const size_t num_points = (size_t)(p.num_rows + 2) * (size_t)p.pitch;
  p.now = allocate(num_points, sizeof(double));
  p.next = allocate(num_points, sizeof(double));
  for (int row = 0; row < p.num_rows; ++row) {
    for (int col = 0; col < p.num_cols; ++col) {
      p.now[(row + 1) * p.pitch + col + 1] = start_value(n, p.first_row + row, p.first_col + col);
    }
  }
  return p;
}

static void plate_free(Plate* p) {
  free(p->now);
  free(p->next);
  MPI_Type_free(&p->column);
  MPI_Comm_free(&p->in_row);
  MPI_Comm_free(&p->in_column);
  MPI_Comm_free(&p->grid);
}

// Fills the halo with the neighbours' edges. Beyond the plate nothing is received, and the halo
// stays as it is.
static void exchange_edges(Plate* p) {
  double* u = p->now;
  const int pitch = p->pitch, rows = p->num_rows, cols = p->num_cols;
  double *first_row = &u[pitch + 1], *last_row = &u[rows * pitch + 1];
  double *above = &u[1], *below = &u[(rows + 1) * pitch + 1];
  MPI_Sendrecv(first_row, cols, MPI_DOUBLE, p->up, 0, below, cols, MPI_DOUBLE, p->down, 0, p->grid,
               MPI_STATUS_IGNORE);
  MPI_Sendrecv(last_row, cols, MPI_DOUBLE, p->down, 1, above, cols, MPI_DOUBLE, p->up, 1, p->grid,
               MPI_STATUS_IGNORE);
  double *first_col = &u[pitch + 1], *last_col = &u[pitch + cols];
  double *before = &u[pitch], *after = &u[pitch + cols + 1];
  MPI_Sendrecv(first_col, 1, p->column, p->left, 2, after, 1, p->column, p->right, 2, p->grid,
               MPI_STATUS_IGNORE);
  MPI_Sendrecv(last_col, 1, p->column, p->right, 3, before, 1, p->column, p->left, 3, p->grid,
               MPI_STATUS_IGNORE);
}

// One step of this block; returns its largest change. The rim of the plate keeps its value.
static double step(Plate* p, int n) {
  double largest = 0;
  for (int row = 1; row <= p->num_rows; ++row) {
    const bool is_rim_row = p->first_row + row - 1 == 0 || p->first_row + row == n;
    const double* u = &p->now[row * p->pitch];
    double* out = &p->next[row * p->pitch];
    for (int col = 1; col <= p->num_cols; ++col) {
      if (is_rim_row || p->first_col + col - 1 == 0 || p->first_col + col == n) {
        out[col] = u[col];
        continue;
      }
      const double vertical = u[col - p->pitch] + u[col + p->pitch];
      const double horizontal = u[col - 1] + u[col + 1];
      const double change = 0.2 * ((vertical + horizontal) - 4.0 * u[col]);
      out[col] = u[col] + change;
      if (fabs(change) > largest) largest = fabs(change);
    }
  }
  double* swap = p->now;
  p->now = p->next;
  p->next = swap;
  return largest;
}

// Collects the plate at rank 0 of the grid, which gets n x n points; the others get NULL. First
// the blocks beside each other become full rows at the leftmost process, then these are collected
// from top to bottom.
static double* gather(const Plate* p, int n) {
  const int num_mine = p->num_rows * p->num_cols;
  double* mine = allocate((size_t)num_mine, sizeof(double));
  for (int row = 0; row < p->num_rows; ++row) {
    memcpy(&mine[row * p->num_cols], &p->now[(row + 1) * p->pitch + 1],
           (size_t)p->num_cols * sizeof(double));
  }

  int row_rank, column_rank;
  MPI_Comm_rank(p->in_row, &row_rank);
  MPI_Comm_rank(p->in_column, &column_rank);
  const int most = p->dims[kRow] > p->dims[kColumn] ? p->dims[kRow] : p->dims[kColumn];
  int* counts = allocate((size_t)most, sizeof(int));
  int* places = allocate((size_t)most, sizeof(int));
  for (int i = 0; i < p->dims[kColumn]; ++i) {
    int first, count;
    share(n, p->dims[kColumn], i, &first, &count);
    counts[i] = count * p->num_rows;
    places[i] = first * p->num_rows;
  }
  const size_t band_points = row_rank == 0 ? (size_t)p->num_rows * (size_t)n : 1;
  double* blocks = allocate(band_points, sizeof(double));
  MPI_Gatherv(mine, num_mine, MPI_DOUBLE, blocks, counts, places, MPI_DOUBLE, 0, p->in_row);

  double* plate = NULL;
  if (row_rank == 0) {
    double* band = allocate(band_points, sizeof(double));
    for (int i = 0; i < p->dims[kColumn]; ++i) {
      int first, count;
      share(n, p->dims[kColumn], i, &first, &count);
      for (int row = 0; row < p->num_rows; ++row) {
        memcpy(&band[row * n + first], &blocks[places[i] + row * count],
               (size_t)count * sizeof(double));
      }
    }
    if (column_rank == 0) plate = allocate((size_t)n * (size_t)n, sizeof(double));
    for (int i = 0; i < p->dims[kRow]; ++i) {
      int first, count;
      share(n, p->dims[kRow], i, &first, &count);
      counts[i] = count * n;
      places[i] = first * n;
    }
    MPI_Gatherv(band, p->num_rows * n, MPI_DOUBLE, plate, counts, places, MPI_DOUBLE, 0,
                p->in_column);
    free(band);
  }
  free(blocks);
  free(places);
  free(counts);
  free(mine);
  return plate;
}

// FNV-1a over the bits of every value: equal only if the plates are equal to the last bit.
static uint64_t checksum(const double* plate, size_t num_points) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < num_points; ++i) {
    uint64_t bits;
    memcpy(&bits, &plate[i], sizeof bits);
    for (int shift = 0; shift < 64; shift += 8) {
      hash = (hash ^ ((bits >> shift) & 0xff)) * 0x100000001b3u;
    }
  }
  return hash;
}

static bool write_picture(const char* path, const double* plate, int n) {
  FILE* file = fopen(path, "wb");
  if (file == NULL) return false;
  fprintf(file, "P5\n%d %d\n255\n", n, n);
  for (size_t i = 0; i < (size_t)n * (size_t)n; ++i) {
    fputc((int)(plate[i] * 2.55 + 0.5), file);
  }
  const bool written = ferror(file) == 0;
  return fclose(file) == 0 && written;
}

static int whole_number(const char* text, int least, int most) {
  char* end;
  const long value = strtol(text, &end, 10);
  return end != text && *end == '\0' && value >= least && value <= most ? (int)value : -1;
}

// False if the command line is wrong.
static bool parse(int argc, char** argv, Options* options, bool* help) {
  *options = (Options){.n = 512, .steps = 1000, .picture = "heat2d.pgm"};
  *help = false;
  opterr = 0;
  int flag;
  while ((flag = getopt(argc, argv, "n:s:o:h")) != -1) {
    if (flag == 'n') {
      options->n = whole_number(optarg, 4, 20000);
    } else if (flag == 's') {
      options->steps = whole_number(optarg, 0, INT_MAX);
    } else if (flag == 'o') {
      options->picture = optarg;
    } else if (flag == 'h') {
      *help = true;
    } else {
      return false;
    }
  }
  return optind == argc && options->n > 0 && options->steps >= 0;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, num_processes;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &num_processes);
  Options options;
  bool help;
  const bool usable = parse(argc, argv, &options, &help);
  if (!usable || help || options.n < num_processes) {
    if (rank == 0) {
      fprintf(help ? stdout : stderr,
              "usage: heat2d [-n points per side, 4 to 20000, at least one per process]"
              " [-s steps] [-o file.pgm]\n");
    }
    MPI_Finalize();
    return help ? 0 : 1;
  }

  Plate plate = plate_create(options.n);
  MPI_Comm_rank(plate.grid, &rank);
  if (rank == 0) {
    printf("heat2d: %d x %d points, %d steps, %d processes as %d x %d\n", options.n, options.n,
           options.steps, num_processes, plate.dims[kRow], plate.dims[kColumn]);
    fflush(stdout);
  }
  const int report_every = options.steps >= 5 ? options.steps / 5 : 1;
  const double start = MPI_Wtime();
  for (int i = 1; i <= options.steps; ++i) {
    exchange_edges(&plate);
    double mine = step(&plate, options.n), largest;
    if (i % report_every != 0) continue;
    MPI_Allreduce(&mine, &largest, 1, MPI_DOUBLE, MPI_MAX, plate.grid);
    if (rank == 0) {
      printf("step %d: largest change %.6e\n", i, largest);
      fflush(stdout);
    }
  }
  const double elapsed_s = MPI_Wtime() - start;

  double* whole = gather(&plate, options.n);
  int status = 0;
  if (rank == 0) {
    printf("time %.3f s\n", elapsed_s);
    printf("checksum %016llx\n",
           (unsigned long long)checksum(whole, (size_t)options.n * (size_t)options.n));
    if (!write_picture(options.picture, whole, options.n)) {
      fprintf(stderr, "heat2d: cannot write %s\n", options.picture);
      status = 1;
    }
  }
  free(whole);
  plate_free(&plate);
  MPI_Finalize();
  return status;
}
