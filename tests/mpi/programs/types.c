// Derived datatypes: sizes, extents and bounds worked out by hand, and messages of every
// combination of layouts, checked element by element with the gaps untouched.
#include "expect.h"

enum { kInts = 600 };

// A layout: which ints of an array one element of the type takes, in order.
typedef struct {
  const char* name;
  MPI_Datatype type;
  int places[16];
  int num_places;
  int extent_ints;
} Layout;

static Layout layouts[12];
static int num_layouts;

static Layout* add(const char* name, MPI_Datatype type, int num, const int* places, int extent) {
  Layout* layout = &layouts[num_layouts++];
  int bytes = -1;
  MPI_Aint low = -1, extent_bytes = -1;
  layout->name = name;
  layout->type = type;
  layout->num_places = num;
  memcpy(layout->places, places, num * sizeof(int));
  layout->extent_ints = extent;
  EXPECT_OK(MPI_Type_commit(&layout->type));
  EXPECT_OK(MPI_Type_size(type, &bytes));
  EXPECT_EQ(bytes, num * sizeof(int));
  EXPECT_OK(MPI_Type_get_extent(type, &low, &extent_bytes));
  EXPECT_EQ(extent_bytes, extent * sizeof(int));
  return layout;
}

static void make_layouts(void) {
  MPI_Datatype t, u;
  const MPI_Aint n = sizeof(int);
  EXPECT_OK(MPI_Type_contiguous(4, MPI_INT, &t));
  add("contiguous", t, 4, (int[]){0, 1, 2, 3}, 4);
  EXPECT_OK(MPI_Type_vector(3, 2, 4, MPI_INT, &t));
  add("vector", t, 6, (int[]){0, 1, 4, 5, 8, 9}, 10);
  EXPECT_OK(MPI_Type_create_hvector(2, 1, 3 * n, MPI_INT, &t));
  add("hvector", t, 2, (int[]){0, 3}, 4);
  EXPECT_OK(MPI_Type_indexed(3, (int[]){1, 2, 1}, (int[]){5, 0, 3}, MPI_INT, &t));
  add("indexed", t, 4, (int[]){5, 0, 1, 3}, 6);
  EXPECT_OK(MPI_Type_create_hindexed(2, (int[]){2, 1}, (MPI_Aint[]){4 * n, 1 * n}, MPI_INT, &u));
  EXPECT_OK(MPI_Type_create_resized(u, 0, 8 * n, &t));
  EXPECT_OK(MPI_Type_free(&u));
  add("hindexed, resized", t, 3, (int[]){4, 5, 1}, 8);
  EXPECT_OK(MPI_Type_create_indexed_block(3, 2, (int[]){6, 0, 3}, MPI_INT, &t));
  add("indexed block", t, 6, (int[]){6, 7, 0, 1, 3, 4}, 8);
  EXPECT_OK(MPI_Type_create_hindexed_block(2, 1, (MPI_Aint[]){0, 2 * n}, MPI_INT, &t));
  add("hindexed block", t, 2, (int[]){0, 2}, 3);
  MPI_Datatype pieces[2] = {MPI_INT, layouts[1].type};
  EXPECT_OK(MPI_Type_create_struct(2, (int[]){2, 1}, (MPI_Aint[]){0, 3 * n}, pieces, &t));
  add("struct of int and vector", t, 8, (int[]){0, 1, 3, 4, 7, 8, 11, 12}, 13);
  EXPECT_OK(MPI_Type_vector(2, 1, 2, layouts[3].type, &t));  // indexed inside a vector
  add("vector of indexed", t, 8, (int[]){5, 0, 1, 3, 17, 12, 13, 15}, 18);
  EXPECT_OK(MPI_Type_create_subarray(2, (int[]){4, 5}, (int[]){2, 3}, (int[]){1, 1}, MPI_ORDER_C,
                                     MPI_INT, &t));
  add("subarray", t, 6, (int[]){6, 7, 8, 11, 12, 13}, 20);
  EXPECT_OK(MPI_Type_dup(layouts[1].type, &t));
  add("dup", t, 6, (int[]){0, 1, 4, 5, 8, 9}, 10);
}

static int at(const Layout* layout, int k) {
  return k / layout->num_places * layout->extent_ints + layout->places[k % layout->num_places];
}

// Sends `a` elements of one layout, receives them as the other.
static void transfer(const Layout* out, const Layout* in) {
  static int source[kInts], target[kInts], used[kInts];
  int total = 24 * 2, to = (rank + 1) % size, from = (rank + size - 1) % size;
  MPI_Status status;
  int counts[2] = {total / out->num_places, total / in->num_places}, count;
  if (total % out->num_places || total % in->num_places) return;
  for (int i = 0; i < kInts; ++i) {
    source[i] = rank * 10000 + i;
    target[i] = -i - 1;
    used[i] = 0;
  }
  EXPECT_OK(MPI_Sendrecv(source, counts[0], out->type, to, 1, target, counts[1], in->type, from, 1,
                         MPI_COMM_WORLD, &status));
  MPI_Get_count(&status, in->type, &count);
  EXPECT_EQ(count, counts[1]);
  for (int k = 0; k < total; ++k) {
    int place = at(in, k);
    used[place] = 1;
    if (target[place] != from * 10000 + at(out, k)) {
      fprintf(stderr, "%s to %s, element %d: %d\n", out->name, in->name, k, target[place]);
      failed(__FILE__, __LINE__, "wrong element");
      return;
    }
  }
  for (int i = 0; i < kInts; ++i)
    if (!used[i]) EXPECT_EQ(target[i], -i - 1);
}

static void pack(const Layout* layout) {
  static int source[kInts], target[kInts];
  int room, position = 0, header = 77, count = 8 / 2;
  for (int i = 0; i < kInts; ++i) {
    source[i] = i * 3;
    target[i] = -1;
  }
  EXPECT_OK(MPI_Pack_size(count, layout->type, MPI_COMM_WORLD, &room));
  EXPECT(room >= count * layout->num_places * (int)sizeof(int));
  int header_room;
  MPI_Pack_size(1, MPI_INT, MPI_COMM_WORLD, &header_room);
  room += header_room;
  char* buffer = allocate(room);
  char* other = allocate(room);
  EXPECT_OK(MPI_Pack(&header, 1, MPI_INT, buffer, room, &position, MPI_COMM_WORLD));
  EXPECT_OK(MPI_Pack(source, count, layout->type, buffer, room, &position, MPI_COMM_WORLD));
  MPI_Status status;
  MPI_Sendrecv(buffer, position, MPI_PACKED, (rank + 1) % size, 2, other, room, MPI_PACKED,
               (rank + size - 1) % size, 2, MPI_COMM_WORLD, &status);
  int got;
  MPI_Get_count(&status, MPI_PACKED, &got);
  EXPECT_EQ(got, position);
  int end_position = position;
  position = header = 0;
  EXPECT_OK(MPI_Unpack(other, got, &position, &header, 1, MPI_INT, MPI_COMM_WORLD));
  EXPECT_EQ(header, 77);
  EXPECT_OK(MPI_Unpack(other, got, &position, target, count, layout->type, MPI_COMM_WORLD));
  EXPECT_EQ(position, end_position);
  for (int k = 0; k < count * layout->num_places; ++k)
    EXPECT_EQ(target[at(layout, k)], 3 * at(layout, k));
  // What was packed can be received unpacked, and the other way round.
  for (int i = 0; i < kInts; ++i) target[i] = -1;
  position = 0;
  MPI_Pack(source, count, layout->type, buffer, room, &position, MPI_COMM_WORLD);
  MPI_Sendrecv(buffer, position, MPI_PACKED, (rank + 1) % size, 2, target, count, layout->type,
               (rank + size - 1) % size, 2, MPI_COMM_WORLD, &status);
  for (int k = 0; k < count * layout->num_places; ++k)
    EXPECT_EQ(target[at(layout, k)], 3 * at(layout, k));
  free(buffer);
  free(other);
}

static void bounds(void) {
  MPI_Datatype t, u;
  MPI_Aint low, extent;
  int bytes;
  // A negative displacement moves the lower bound; resizing moves it elsewhere, true bounds stay.
  EXPECT_OK(MPI_Type_indexed(2, (int[]){1, 1}, (int[]){-2, 3}, MPI_INT, &t));
  EXPECT_OK(MPI_Type_get_extent(t, &low, &extent));
  EXPECT_EQ(low, -8);
  EXPECT_EQ(extent, 24);
  EXPECT_OK(MPI_Type_create_resized(t, -12, 100, &u));
  EXPECT_OK(MPI_Type_get_extent(u, &low, &extent));
  EXPECT_EQ(low, -12);
  EXPECT_EQ(extent, 100);
  EXPECT_OK(MPI_Type_get_true_extent(u, &low, &extent));
  EXPECT_EQ(low, -8);
  EXPECT_EQ(extent, 24);
  MPI_Count large, large_low;
  EXPECT_OK(MPI_Type_size_x(u, &large));
  EXPECT_EQ(large, 8);
  EXPECT_OK(MPI_Type_get_extent_x(u, &large_low, &large));
  EXPECT(large_low == -12 && large == 100);
  EXPECT_OK(MPI_Type_get_true_extent_x(u, &large_low, &large));
  EXPECT(large_low == -8 && large == 24);
  EXPECT_OK(MPI_Type_free(&t));
  EXPECT(t == MPI_DATATYPE_NULL);
  MPI_Type_free(&u);
  // A struct is padded to its alignment.
  struct {
    double d;
    char c;
  } example;
  EXPECT_OK(MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 8},
                                   (MPI_Datatype[]){MPI_DOUBLE, MPI_CHAR}, &t));
  EXPECT_OK(MPI_Type_get_extent(t, &low, &extent));
  EXPECT_EQ(extent, sizeof example);
  EXPECT_OK(MPI_Type_size(t, &bytes));
  EXPECT_EQ(bytes, 9);
  MPI_Type_free(&t);
  // Of nothing.
  EXPECT_OK(MPI_Type_contiguous(0, MPI_INT, &t));
  EXPECT_OK(MPI_Type_commit(&t));
  EXPECT_OK(MPI_Type_size(t, &bytes));
  EXPECT_EQ(bytes, 0);
  EXPECT_OK(MPI_Send(NULL, 3, t, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
  MPI_Type_free(&t);
}

#define PLAIN(type, c_type) \
  { type, sizeof(c_type), sizeof(c_type), #type }
#define PAIR(type, c_type)                              \
  {                                                     \
    type, sizeof(c_type) + sizeof(int), sizeof(struct { \
      c_type value;                                     \
      int index;                                        \
    }),                                                 \
        #type                                           \
  }

// Every type of C: as large as the compiler has it, and whole on its way.
static void predefined(void) {
  const struct {
    MPI_Datatype type;
    int bytes;
    MPI_Aint extent;
    const char* name;
  } all[] = {PLAIN(MPI_CHAR, char),
             PLAIN(MPI_SIGNED_CHAR, signed char),
             PLAIN(MPI_UNSIGNED_CHAR, unsigned char),
             PLAIN(MPI_BYTE, unsigned char),
             PLAIN(MPI_WCHAR, wchar_t),
             PLAIN(MPI_SHORT, short),
             PLAIN(MPI_UNSIGNED_SHORT, unsigned short),
             PLAIN(MPI_INT, int),
             PLAIN(MPI_UNSIGNED, unsigned),
             PLAIN(MPI_LONG, long),
             PLAIN(MPI_UNSIGNED_LONG, unsigned long),
             PLAIN(MPI_LONG_LONG, long long),
             PLAIN(MPI_LONG_LONG_INT, long long),
             PLAIN(MPI_UNSIGNED_LONG_LONG, unsigned long long),
             PLAIN(MPI_FLOAT, float),
             PLAIN(MPI_DOUBLE, double),
             PLAIN(MPI_LONG_DOUBLE, long double),
             PLAIN(MPI_C_BOOL, _Bool),
             PLAIN(MPI_INT8_T, int8_t),
             PLAIN(MPI_INT16_T, int16_t),
             PLAIN(MPI_INT32_T, int32_t),
             PLAIN(MPI_INT64_T, int64_t),
             PLAIN(MPI_UINT8_T, uint8_t),
             PLAIN(MPI_UINT16_T, uint16_t),
             PLAIN(MPI_UINT32_T, uint32_t),
             PLAIN(MPI_UINT64_T, uint64_t),
             PLAIN(MPI_AINT, MPI_Aint),
             PLAIN(MPI_COUNT, MPI_Count),
             PLAIN(MPI_OFFSET, MPI_Offset),
             PLAIN(MPI_C_COMPLEX, float _Complex),
             PLAIN(MPI_C_FLOAT_COMPLEX, float _Complex),
             PLAIN(MPI_C_DOUBLE_COMPLEX, double _Complex),
             PLAIN(MPI_C_LONG_DOUBLE_COMPLEX, long double _Complex),
             PAIR(MPI_FLOAT_INT, float),
             PAIR(MPI_DOUBLE_INT, double),
             PAIR(MPI_LONG_INT, long),
             PAIR(MPI_2INT, int),
             PAIR(MPI_SHORT_INT, short),
             PAIR(MPI_LONG_DOUBLE_INT, long double)};
  enum { kElements = 3 };
  int to = (rank + 1) % size, from = (rank + size - 1) % size;
  for (unsigned i = 0; i < sizeof all / sizeof all[0]; ++i) {
    int bytes = -1, before = num_failures, count = -1;
    MPI_Aint low = -1, extent = -1;
    MPI_Status status;
    EXPECT_OK(MPI_Type_size(all[i].type, &bytes));
    EXPECT_EQ(bytes, all[i].bytes);
    EXPECT_OK(MPI_Type_get_extent(all[i].type, &low, &extent));
    EXPECT_EQ(low, 0);
    EXPECT_EQ(extent, all[i].extent);
    unsigned char out[kElements * 64], in[kElements * 64];
    fill(out, sizeof out, seed_of(rank, i, 6));
    memset(in, 0, sizeof in);
    EXPECT_OK(MPI_Sendrecv(out, kElements, all[i].type, to, 6, in, kElements, all[i].type, from, 6,
                           MPI_COMM_WORLD, &status));
    EXPECT_OK(MPI_Get_count(&status, all[i].type, &count));
    EXPECT_EQ(count, kElements);
    fill(out, sizeof out, seed_of(from, i, 6));
    // The gaps of pairs stay behind; their parts are compared by the reductions' tests.
    if (all[i].extent == all[i].bytes) EXPECT(memcmp(in, out, kElements * all[i].bytes) == 0);
    if (num_failures > before) fprintf(stderr, "that was %s\n", all[i].name);
  }
}

// Absolute addresses from MPI_BOTTOM.
static void bottom(void) {
  int a[2] = {rank, rank + 1}, b[2] = {-1, -1};
  double c = rank * 0.5, d = -1;
  MPI_Aint places[2];
  MPI_Datatype out, in, types[2] = {MPI_INT, MPI_DOUBLE};
  MPI_Get_address(a, &places[0]);
  MPI_Get_address(&c, &places[1]);
  MPI_Type_create_struct(2, (int[]){2, 1}, places, types, &out);
  MPI_Get_address(b, &places[0]);
  MPI_Get_address(&d, &places[1]);
  MPI_Type_create_struct(2, (int[]){2, 1}, places, types, &in);
  MPI_Type_commit(&out);
  MPI_Type_commit(&in);
  int from = (rank + size - 1) % size;
  EXPECT_OK(MPI_Sendrecv(MPI_BOTTOM, 1, out, (rank + 1) % size, 3, MPI_BOTTOM, 1, in, from, 3,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  EXPECT(b[0] == from && b[1] == from + 1 && d == from * 0.5);
  MPI_Type_free(&out);
  MPI_Type_free(&in);
}

// A column of a large matrix: past every eager limit, both ways.
static void large(void) {
  enum { kRows = 1500, kColumns = 400 };
  double* matrix = allocate(sizeof(double) * kRows * kColumns);
  double* column = allocate(sizeof(double) * kRows * 100);
  MPI_Datatype columns;
  int to = (rank + 1) % size, from = (rank + size - 1) % size;
  MPI_Type_vector(kRows, 100, kColumns, MPI_DOUBLE, &columns);
  MPI_Type_commit(&columns);
  for (int i = 0; i < kRows * kColumns; ++i) matrix[i] = rank * 1e6 + i;
  EXPECT_OK(MPI_Sendrecv(matrix + 7, 1, columns, to, 4, column, kRows * 100, MPI_DOUBLE, from, 4,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  int wrong = 0;
  for (int i = 0; i < kRows; ++i)
    for (int k = 0; k < 100; ++k) wrong += column[i * 100 + k] != from * 1e6 + i * kColumns + 7 + k;
  EXPECT_EQ(wrong, 0);
  // Back into other columns, without a copy in between, freeing the type while in flight.
  MPI_Request requests[2];
  MPI_Irecv(matrix + 200, 1, columns, to, 5, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(column, kRows * 100, MPI_DOUBLE, from, 5, MPI_COMM_WORLD, &requests[1]);
  EXPECT_OK(MPI_Type_free(&columns));
  EXPECT_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < kRows; ++i)
    for (int k = 0; k < kColumns; ++k) {
      int origin = k >= 200 && k < 300 ? i * kColumns + 7 + (k - 200) : i * kColumns + k;
      wrong += matrix[i * kColumns + k] != rank * 1e6 + origin;
    }
  EXPECT_EQ(wrong, 0);
  free(matrix);
  free(column);
}

static void names(void) {
  char name[MPI_MAX_OBJECT_NAME];
  int length = -1;
  MPI_Datatype type;
  EXPECT_OK(MPI_Type_get_name(MPI_DOUBLE, name, &length));
  EXPECT(strcmp(name, "MPI_DOUBLE") == 0 && length == (int)strlen(name));
  EXPECT_OK(MPI_Type_get_name(MPI_C_COMPLEX, name, &length));
  EXPECT(strcmp(name, "MPI_C_COMPLEX") == 0);
  MPI_Type_contiguous(2, MPI_INT, &type);
  EXPECT_OK(MPI_Type_get_name(type, name, &length));
  EXPECT(name[0] == 0 && length == 0);
  EXPECT_OK(MPI_Type_set_name(type, "two of them"));
  EXPECT_OK(MPI_Type_get_name(type, name, &length));
  EXPECT(strcmp(name, "two of them") == 0 && length == (int)strlen(name));
  MPI_Type_free(&type);
}

static void match_size(void) {
  MPI_Datatype type;
  int bytes;
  EXPECT_OK(MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 4, &type));
  EXPECT_OK(MPI_Type_size(type, &bytes));
  EXPECT_EQ(bytes, 4);
  EXPECT_OK(MPI_Type_match_size(MPI_TYPECLASS_REAL, sizeof(long double), &type));
  EXPECT_OK(MPI_Type_size(type, &bytes));
  EXPECT_EQ(bytes, sizeof(long double));
}

static void envelope(void) {
  int integers, addresses, types, combiner;
  EXPECT_OK(MPI_Type_get_envelope(MPI_INT, &integers, &addresses, &types, &combiner));
  EXPECT_EQ(combiner, MPI_COMBINER_NAMED);
  EXPECT_OK(MPI_Type_get_envelope(layouts[1].type, &integers, &addresses, &types, &combiner));
  EXPECT_EQ(combiner, MPI_COMBINER_VECTOR);
  EXPECT(integers == 3 && addresses == 0 && types == 1);
  int values[3];
  MPI_Datatype inner;
  EXPECT_OK(MPI_Type_get_contents(layouts[1].type, 3, 0, 1, values, NULL, &inner));
  EXPECT(values[0] == 3 && values[1] == 2 && values[2] == 4 && inner == MPI_INT);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  make_layouts();
  for (int i = 0; i < num_layouts; ++i)
    for (int k = 0; k < num_layouts; ++k) transfer(&layouts[i], &layouts[k]);
  for (int i = 0; i < num_layouts; ++i) pack(&layouts[i]);
  bounds();
  predefined();
  names();
  bottom();
  large();
  if (argc > 1 && strcmp(argv[1], "envelope") == 0) {
    envelope();
    match_size();
  }
  for (int i = 0; i < num_layouts; ++i) MPI_Type_free(&layouts[i].type);
  return end();
}
