// A conjugate gradient solver, plain MPI: A x = b with b = A 1, for a symmetric positive definite
// matrix from a MatrixMarket file (real, coordinate, symmetric or general). Every process holds a
// block of rows; each step takes one MPI_Allgatherv of the direction and two MPI_Allreduce of eight
// bytes, which is what switches can compute. Prints the residual of every step, with all its digits
// in hexadecimal, so that two runs can be compared bit for bit.
//
//   mpicc -O2 cg.c -o cg -lm && mpirun -n 4 ./cg matrix.mtx [MOST_STEPS [TOLERANCE]]
#include <ctype.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct matrix {  // the rows of this process, compressed
  int rows, first;
  int* begin;
  int* column;
  double* value;
};

static void fail(const char* what, const char* name) {
  fprintf(stderr, "cg: %s: %s\n", name, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void* allocate(size_t bytes) {
  void* memory = malloc(bytes + 1);
  if (memory == NULL) fail("out of memory", "the matrix");
  return memory;
}

// Every process reads the file and keeps its rows.
static int read_matrix(const char* name, int rank, int size, struct matrix* a) {
  FILE* file = fopen(name, "r");
  if (file == NULL) fail("cannot be read", name);
  char line[1024];
  if (fgets(line, sizeof line, file) == NULL) fail("is empty", name);
  for (char* c = line; *c; ++c) *c = (char)tolower((unsigned char)*c);
  if (strncmp(line, "%%matrixmarket matrix coordinate real", 37) != 0)
    fail("is no MatrixMarket file of a real matrix in coordinates", name);
  const int symmetric = strstr(line, "symmetric") != NULL;
  do {
    if (fgets(line, sizeof line, file) == NULL) fail("ends before its size", name);
  } while (line[0] == '%');
  int n, columns;
  long entries;
  if (sscanf(line, "%d %d %ld", &n, &columns, &entries) != 3 || n != columns || n < 1 ||
      entries < 0)
    fail("has no square size", name);
  const int first = (int)((long)n * rank / size), last = (int)((long)n * (rank + 1) / size);
  a->first = first;
  a->rows = last - first;
  a->begin = allocate(sizeof(int) * ((size_t)a->rows + 1));
  memset(a->begin, 0, sizeof(int) * ((size_t)a->rows + 1));
  const long start = ftell(file);
  // Twice: count, then fill.
  for (int pass = 0; pass < 2; ++pass) {
    if (fseek(file, start, SEEK_SET) != 0) fail("cannot be read twice", name);
    int* next = NULL;
    if (pass == 1) {
      for (int i = 0; i < a->rows; ++i) a->begin[i + 1] += a->begin[i];
      a->column = allocate(sizeof(int) * (size_t)a->begin[a->rows]);
      a->value = allocate(sizeof(double) * (size_t)a->begin[a->rows]);
      next = allocate(sizeof(int) * (size_t)a->rows);
      memcpy(next, a->begin, sizeof(int) * (size_t)a->rows);
    }
    for (long e = 0; e < entries; ++e) {
      int i, j;
      double v;
      if (fscanf(file, "%d %d %lf", &i, &j, &v) != 3 || i < 1 || j < 1 || i > n || j > n)
        fail("has an entry that is none", name);
      for (int side = 0; side < 1 + (symmetric && i != j); ++side) {
        const int row = (side == 0 ? i : j) - 1 - first, column = (side == 0 ? j : i) - 1;
        if (row < 0 || row >= a->rows) continue;
        if (pass == 0) {
          ++a->begin[row + 1];
        } else {
          a->column[next[row]] = column;
          a->value[next[row]++] = v;
        }
      }
    }
    free(next);
  }
  fclose(file);
  return n;
}

static void multiply(const struct matrix* a, const double* x, double* y) {
  for (int i = 0; i < a->rows; ++i) {
    double sum = 0;
    for (int k = a->begin[i]; k < a->begin[i + 1]; ++k) sum += a->value[k] * x[a->column[k]];
    y[i] = sum;
  }
}

static double dot(const double* a, const double* b, int count) {
  double mine = 0, all;
  for (int i = 0; i < count; ++i) mine += a[i] * b[i];
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 2) {
    if (rank == 0) fprintf(stderr, "cg: which matrix? cg MATRIX.mtx [MOST_STEPS [TOLERANCE]]\n");
    MPI_Finalize();
    return 2;
  }
  struct matrix a = {0};
  const int n = read_matrix(argv[1], rank, size, &a);
  const int most = argc > 2 ? atoi(argv[2]) : 10 * n;
  const double tolerance = argc > 3 ? atof(argv[3]) : 1e-10;
  int* counts = allocate(sizeof(int) * (size_t)size);
  int* places = allocate(sizeof(int) * (size_t)size);
  for (int r = 0; r < size; ++r) {
    places[r] = (int)((long)n * r / size);
    counts[r] = (int)((long)n * (r + 1) / size) - places[r];
  }
  double* whole = allocate(sizeof(double) * (size_t)n);
  double* x = allocate(sizeof(double) * (size_t)a.rows);
  double* r = allocate(sizeof(double) * (size_t)a.rows);
  double* p = allocate(sizeof(double) * (size_t)a.rows);
  double* q = allocate(sizeof(double) * (size_t)a.rows);
  for (int i = 0; i < n; ++i) whole[i] = 1;
  multiply(&a, whole, r);
  for (int i = 0; i < a.rows; ++i) {
    x[i] = 0;
    p[i] = r[i];
  }
  const double begin = MPI_Wtime();
  double rr = dot(r, r, a.rows);
  const double target = tolerance * tolerance * rr;
  int step = 0;
  for (; step < most && rr > target; ++step) {
    MPI_Allgatherv(p, a.rows, MPI_DOUBLE, whole, counts, places, MPI_DOUBLE, MPI_COMM_WORLD);
    multiply(&a, whole, q);
    const double alpha = rr / dot(p, q, a.rows);
    for (int i = 0; i < a.rows; ++i) {
      x[i] += alpha * p[i];
      r[i] -= alpha * q[i];
    }
    const double before = rr;
    rr = dot(r, r, a.rows);
    for (int i = 0; i < a.rows; ++i) p[i] = r[i] + rr / before * p[i];
    if (rank == 0) printf("%d %a\n", step + 1, sqrt(rr));
  }
  double mine = 0, worst;
  for (int i = 0; i < a.rows; ++i) mine = fmax(mine, fabs(x[i] - 1));
  MPI_Allreduce(&mine, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0)
    fprintf(stderr, "cg: %d unknowns, %d steps, %.3f s, largest error %.2e\n", n, step,
            MPI_Wtime() - begin, worst);
  free(a.begin);
  free(a.column);
  free(a.value);
  free(counts);
  free(places);
  free(whole);
  free(x);
  free(r);
  free(p);
  free(q);
  MPI_Finalize();
  return worst < 1e-4 ? 0 : 1;
}
