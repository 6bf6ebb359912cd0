// A program's own operation on a type with gaps whose data begin behind the element's address: the
// function gets its layout back, at addresses as aligned as malloc gives them. The standard does
// not ask for the alignment; the function's compiler does.
#include "expect.h"

typedef struct {
  int gap;
  int count;
  double sum;
} Element;

static int misaligned;

static void add(void* in, void* inout, int* num, MPI_Datatype* type) {
  (void)type;
  if ((uintptr_t)in % sizeof(double) || (uintptr_t)inout % sizeof(double)) {
    misaligned = 1;
    return;
  }
  for (int i = 0; i < *num; ++i) {
    ((Element*)inout)[i].count += ((const Element*)in)[i].count;
    ((Element*)inout)[i].sum += ((const Element*)in)[i].sum;
  }
}

int main(int argc, char** argv) {
  enum { kElements = 5 };
  Element mine[kElements], all[kElements];
  MPI_Datatype inner, type;
  MPI_Op op;
  begin(&argc, &argv);
  EXPECT_OK(MPI_Type_create_struct(2, (int[]){1, 1},
                                   (MPI_Aint[]){offsetof(Element, count), offsetof(Element, sum)},
                                   (MPI_Datatype[]){MPI_INT, MPI_DOUBLE}, &inner));
  EXPECT_OK(MPI_Type_create_resized(inner, 0, sizeof(Element), &type));
  EXPECT_OK(MPI_Type_free(&inner));
  EXPECT_OK(MPI_Type_commit(&type));
  EXPECT_OK(MPI_Op_create(add, 1, &op));
  for (int i = 0; i < kElements; ++i) {
    mine[i] = (Element){7, rank + i, 0.5 * rank * i};
    all[i] = (Element){-1, -1, -1};
  }
  EXPECT_OK(MPI_Allreduce(mine, all, kElements, type, op, MPI_COMM_WORLD));
  EXPECT(!misaligned);
  for (int i = 0; i < kElements; ++i) {
    EXPECT_EQ(all[i].gap, -1);
    EXPECT_EQ(all[i].count, size * (size - 1) / 2 + size * i);
    EXPECT(all[i].sum == 0.25 * size * (size - 1) * i);
  }
  EXPECT_OK(MPI_Op_free(&op));
  EXPECT_OK(MPI_Type_free(&type));
  return end();
}
