// MPI_Dims_create against a search of all products: the product is right, in falling order, and the
// largest dimension is as near to the smallest as can be. Then numbers with so many divisors that
// no search of all products ends within the deadline.
#include "expect.h"

// The least difference of the largest of `left` factors of `rest`, the first among them `largest`,
// and the smallest.
static int least_spread(int rest, int left, int limit, int largest) {
  int best = INT32_MAX;
  if (left == 1) return rest <= limit ? (largest ? largest : rest) - rest : best;
  for (int first = 1; first <= rest && first <= limit; ++first) {
    if (rest % first) continue;
    const int spread = least_spread(rest / first, left - 1, first, largest ? largest : first);
    if (spread < best) best = spread;
  }
  return best;
}

static int create(int n, int count, int* dims) {
  long product = 1;
  memset(dims, 0, count * sizeof *dims);
  EXPECT_OK(MPI_Dims_create(n, count, dims));
  for (int d = 0; d < count; ++d) {
    product *= dims[d];
    if (d > 0) EXPECT(dims[d] <= dims[d - 1]);
  }
  EXPECT_EQ(product, n);
  return dims[0] - dims[count - 1];
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int dims[64];
  for (int count = 1; count <= 5; ++count)
    for (int n = 1; n <= (count < 4 ? 2000 : 400); ++n)
      EXPECT_EQ(create(n, count, dims), least_spread(n, count, n, 0));

  const int many[] = {735134400,  1396755360, 2095133040, 223092870,  1073741824, 1162261467,
                      2147483647, 2147483646, 1999999973, 2147395600, 698377680,  1102701600,
                      1220703125, 2146654199, 2147117569, 1551950400, 2025777600, 46339 * 46337};
  for (size_t i = 0; i < sizeof many / sizeof *many; ++i)
    for (int count = 1; count <= 64; ++count) {
      const double start = MPI_Wtime();
      create(many[i], count, dims);
      if (argc > 1) printf("%d in %d: %.0f us\n", many[i], count, (MPI_Wtime() - start) * 1e6);
    }
  uint64_t random = 5;
  for (int i = 0; i < 20000; ++i) {
    // Products of small primes, which have the most divisors.
    static const int primes[] = {2, 2, 2, 2, 3, 3, 3, 5, 5, 7, 11, 13, 17, 19, 23, 101};
    long n = 1, next;
    while ((next = n * primes[next_random(&random) % 16]) < INT32_MAX) n = next;
    create((int)n, 2 + (int)(next_random(&random) % 12), dims);
  }
  return end();
}
