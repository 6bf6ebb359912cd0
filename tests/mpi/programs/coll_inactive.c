// Persistent collectives that are inactive hold no memory for their steps.
#include <malloc.h>

#include "expect.h"

enum { kRequests = 10, kCount = 1 << 17 };

static size_t in_use(void) {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const int each = kCount / size;
  double *in = allocate(sizeof(double) * (size_t)kCount), *out = allocate(sizeof(double) * each);
  for (int i = 0; i < kCount; ++i) in[i] = rank + 1;
  MPI_Request requests[kRequests];
  for (int i = 0; i < kRequests; ++i)
    EXPECT_OK(MPI_Reduce_scatter_block_init(in, out, each, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD,
                                            MPI_INFO_NULL, &requests[i]));
  const size_t before = in_use();
  for (int round = 0; round < 2; ++round)
    for (int i = 0; i < kRequests; ++i) {
      EXPECT_OK(MPI_Start(&requests[i]));
      EXPECT_OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
      EXPECT_EQ(out[each - 1], size * (size + 1) / 2.0);
    }
  EXPECT(in_use() < before + sizeof(double) * kCount);
  for (int i = 0; i < kRequests; ++i) EXPECT_OK(MPI_Request_free(&requests[i]));
  free(in);
  free(out);
  return end();
}
