// MPI_Allreduce of many types, operations and lengths, in place and not, on several communicators.
// Results are checked against the vectors of all ranks, put together here: equal, or for sums and
// products of floating-point numbers near. Rank 0 prints a hash of all results, so that two runs
// can be compared bit for bit. Arguments: SEED ROUNDS MOST_BYTES [MICROSECONDS between rounds].
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t state;
static uint64_t next_number(void) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Complex numbers are two of these.
static MPI_Datatype part_of(MPI_Datatype type) {
  if (type == MPI_C_FLOAT_COMPLEX || type == MPI_CXX_FLOAT_COMPLEX) return MPI_FLOAT;
  return type == MPI_C_DOUBLE_COMPLEX || type == MPI_DOUBLE_COMPLEX ? MPI_DOUBLE : type;
}
static int is_float(MPI_Datatype type) {
  return part_of(type) == MPI_FLOAT || part_of(type) == MPI_DOUBLE;
}

static void fill(char* data, int count, MPI_Datatype type, uint64_t seed) {
  int size;
  if (part_of(type) != type) count *= 2;
  type = part_of(type);
  MPI_Type_size(type, &size);
  MPI_Aint lb, extent;
  MPI_Type_get_extent(type, &lb, &extent);
  const uint64_t before = state;
  state = seed;
  memset(data, 0, (size_t)count * (size_t)extent);
  for (int i = 0; i < count; ++i) {
    char* at = data + (size_t)i * (size_t)extent;
    const uint64_t number = next_number();
    const double value = ldexp((double)(int64_t)number, (int)(number % 30) - 78);
    const float narrow = (float)value;
    if (type == MPI_FLOAT || type == MPI_FLOAT_INT) {
      memcpy(at, &narrow, 4);
    } else if (type == MPI_DOUBLE || type == MPI_DOUBLE_INT) {
      memcpy(at, &value, 8);
    } else if (type == MPI_SHORT_INT) {
      const short small = (short)(number % 5);
      memcpy(at, &small, 2);
    } else if (type == MPI_LONG_INT) {
      const long small = (long)(number % 5);
      memcpy(at, &small, 8);
    } else if (type == MPI_2INT) {
      const int small = (int)(number % 5);
      memcpy(at, &small, 4);
    } else {
      memcpy(at, &number, (size_t)(size < 8 ? size : 8));
    }
    const int index = (int)(number >> 40);
    if (type == MPI_FLOAT_INT || type == MPI_2INT) memcpy(at + 4, &index, 4);
    if (type == MPI_DOUBLE_INT || type == MPI_LONG_INT) memcpy(at + 8, &index, 4);
    if (type == MPI_SHORT_INT) memcpy(at + 4, &index, 4);
  }
  state = before;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc < 4) return 2;
  state = (uint64_t)atoll(argv[1]);
  const int rounds = atoi(argv[2]), most = atoi(argv[3]);
  const int pause_us = argc > 4 ? atoi(argv[4]) : 0;
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const MPI_Datatype types[] = {
      MPI_INT8_T,        MPI_UINT8_T,         MPI_INT16_T,          MPI_UINT16_T,
      MPI_INT32_T,       MPI_UINT32_T,        MPI_INT64_T,          MPI_UINT64_T,
      MPI_FLOAT,         MPI_DOUBLE,          MPI_DOUBLE,           MPI_DOUBLE,
      MPI_FLOAT_INT,     MPI_DOUBLE_INT,      MPI_LONG_INT,         MPI_2INT,
      MPI_SHORT_INT,     MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_CXX_FLOAT_COMPLEX,
      MPI_DOUBLE_COMPLEX};
  const MPI_Op arithmetic[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN};
  const MPI_Op logical[] = {MPI_LAND, MPI_BAND, MPI_LOR, MPI_BOR, MPI_LXOR, MPI_BXOR};
  const MPI_Op located[] = {MPI_MINLOC, MPI_MAXLOC};
  // Room for what the longest element has.
  char* mine = malloc((size_t)most + 64);
  char* got = malloc((size_t)most + 64);
  char* expected = malloc((size_t)most + 64);
  char* other = malloc((size_t)most + 64);
  uint64_t hash = 14695981039346656037u;
  MPI_Comm comm = MPI_COMM_WORLD;
  for (int round = 0; round < rounds; ++round) {
    if (round % 50 == 25) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    const int which = (int)(next_number() % (sizeof types / sizeof *types));
    const MPI_Datatype type = types[which];
    const int pairs = which >= 12 && which < 17;
    const uint64_t chosen = next_number();
    const MPI_Op op = pairs                               ? located[chosen % 2]
                      : part_of(type) != type             ? MPI_SUM
                      : is_float(type) || chosen % 2 == 0 ? arithmetic[chosen / 2 % 4]
                                                          : logical[chosen / 2 % 6];
    MPI_Aint lb, extent;
    MPI_Type_get_extent(type, &lb, &extent);
    // Mostly short, sometimes as long as they may be.
    const uint64_t bytes =
        next_number() % 4 == 0 ? next_number() % (uint64_t)most : next_number() % 512;
    const int count = (int)(bytes < (uint64_t)most ? bytes : (uint64_t)most) / (int)extent + 1;
    const uint64_t seed = next_number();
    const int in_place = next_number() % 3 == 0;
    if ((size_t)count * (size_t)extent > (size_t)most + 64) return 2;
    fill(mine, count, type, seed + (uint64_t)rank);
    memset(got, 0, (size_t)count * (size_t)extent);
    if (in_place) memcpy(got, mine, (size_t)count * (size_t)extent);
    if (pause_us != 0) usleep((useconds_t)(next_number() % (uint64_t)pause_us));
    MPI_Allreduce(in_place ? MPI_IN_PLACE : mine, got, count, type, op, comm);
    fill(expected, count, type, seed + (uint64_t)(size - 1));
    for (int r = size - 2; r >= 0; --r) {
      fill(other, count, type, seed + (uint64_t)r);
      MPI_Reduce_local(other, expected, count, type, op);
    }
    const int near_only = is_float(type) && (op == MPI_SUM || op == MPI_PROD);
    int wrong = 0;
    if (!near_only) {
      wrong = memcmp(got, expected, (size_t)count * (size_t)extent) != 0;
    } else {
      const int is_narrow = part_of(type) == MPI_FLOAT;
      const int numbers = part_of(type) != type ? 2 * count : count;
      for (int i = 0; i < numbers; ++i) {
        double a, b, scale = 0;
        if (is_narrow) {
          a = ((float*)got)[i];
          b = ((float*)expected)[i];
        } else {
          a = ((double*)got)[i];
          b = ((double*)expected)[i];
        }
        // The error of a sum is of the size of its largest parts.
        scale = op == MPI_SUM ? 1e10 : fabs(b);
        wrong =
            wrong || !(fabs(a - b) <= scale * (is_narrow ? 1e-5 : 1e-12) || (isinf(a) && a == b));
      }
    }
    if (wrong) {
      fprintf(stderr, "rank %d: round %d: type %d, %d elements: wrong\n", rank, round, which,
              count);
      MPI_Abort(MPI_COMM_WORLD, 3);
    }
    for (size_t i = 0; i < (size_t)count * (size_t)extent; ++i)
      hash = (hash ^ (unsigned char)got[i]) * 1099511628211u;
    if (round % 50 == 45) MPI_Comm_free(&comm), comm = MPI_COMM_WORLD;
    if (rank == 0 && round % 20 == 0) {
      printf("round %d\n", round);
      fflush(stdout);
    }
  }
  uint64_t low, high;
  MPI_Allreduce(&hash, &low, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&hash, &high, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0) {
    if (low == high)
      printf("hash %016llx\n", (unsigned long long)hash);
    else
      printf("ranks differ\n");
  }
  free(mine);
  free(got);
  free(expected);
  free(other);
  MPI_Finalize();
  return 0;
}
