// Communicators and groups: dup, split, create, compare, and the algebra of groups, each against
// the ranks worked out by hand.
#include "expect.h"

static void check_traffic(MPI_Comm comm) {
  int r, n, sum = -1, got = -1;
  MPI_Comm_rank(comm, &r);
  MPI_Comm_size(comm, &n);
  EXPECT_OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
  EXPECT_OK(MPI_Sendrecv(&r, 1, MPI_INT, (r + 1) % n, 0, &got, 1, MPI_INT, (r + n - 1) % n, 0, comm,
                         MPI_STATUS_IGNORE));
  EXPECT_EQ(got, (r + n - 1) % n);
}

static void dup(void) {
  MPI_Comm copies[20];
  int result;
  for (int i = 0; i < 20; ++i) {
    EXPECT_OK(MPI_Comm_dup(i ? copies[i - 1] : MPI_COMM_WORLD, &copies[i]));
    EXPECT_OK(MPI_Comm_compare(MPI_COMM_WORLD, copies[i], &result));
    EXPECT_EQ(result, MPI_CONGRUENT);
  }
  EXPECT_OK(MPI_Comm_compare(copies[3], copies[3], &result));
  EXPECT_EQ(result, MPI_IDENT);
  for (int i = 19; i >= 0; i -= 2) check_traffic(copies[i]);
  for (int i = 0; i < 20; ++i) {
    EXPECT_OK(MPI_Comm_free(&copies[i]));
    EXPECT(copies[i] == MPI_COMM_NULL);
  }
  // Many more than any table of contexts would hold if they were not given back.
  for (int i = 0; i < 500; ++i) {
    MPI_Comm one;
    EXPECT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &one));
    EXPECT_OK(MPI_Comm_free(&one));
  }
  // Freed with a receive pending: that still completes.
  MPI_Comm pending;
  MPI_Request request;
  int value = -1;
  MPI_Comm_dup(MPI_COMM_WORLD, &pending);
  MPI_Irecv(&value, 1, MPI_INT, (rank + size - 1) % size, 1, pending, &request);
  MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, 1, pending);
  EXPECT_OK(MPI_Comm_free(&pending));
  EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT_EQ(value, (rank + size - 1) % size);
  MPI_Comm self;
  EXPECT_OK(MPI_Comm_dup(MPI_COMM_SELF, &self));
  check_traffic(self);
  MPI_Comm_free(&self);
}

// The processes of this one's host, unless they are told not to share memory.
static int num_sharing(void) {
  char(*hosts)[MPI_MAX_PROCESSOR_NAME] = calloc((size_t)size, sizeof *hosts);
  int length, count = 0;
  MPI_Get_processor_name(hosts[rank], &length);
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, hosts, MPI_MAX_PROCESSOR_NAME, MPI_CHAR,
                MPI_COMM_WORLD);
  for (int i = 0; i < size; ++i) count += strcmp(hosts[i], hosts[rank]) == 0;
  free(hosts);
  const char* fabrics = getenv("WEFT_FABRIC");
  return fabrics && !strstr(fabrics, "shm") ? 1 : count;
}

static void split(void) {
  for (int colours = 1; colours <= 3; ++colours)
    for (int order = 0; order < 3; ++order) {
      // Keys in order, reversed, and all equal (which keeps the old order).
      int colour = rank % colours, key = order == 0 ? rank : order == 1 ? -rank : 7, n, r, result;
      MPI_Comm part;
      EXPECT_OK(MPI_Comm_split(MPI_COMM_WORLD, colour, key, &part));
      int members = 0, before = 0;
      for (int i = 0; i < size; ++i)
        if (i % colours == colour) {
          members++;
          before += order == 1 ? i > rank : i < rank;
        }
      MPI_Comm_size(part, &n);
      MPI_Comm_rank(part, &r);
      EXPECT_EQ(n, members);
      EXPECT_EQ(r, before);
      EXPECT_OK(MPI_Comm_compare(MPI_COMM_WORLD, part, &result));
      EXPECT_EQ(result, n != size                ? MPI_UNEQUAL
                        : order == 1 && size > 1 ? MPI_SIMILAR
                                                 : MPI_CONGRUENT);
      int* all = allocate(n * sizeof(int));
      EXPECT_OK(MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, part));
      for (int i = 1; i < n; ++i) EXPECT_EQ(all[i] - all[i - 1], order == 1 ? -colours : colours);
      free(all);
      check_traffic(part);
      MPI_Comm_free(&part);
    }
  MPI_Comm part;
  EXPECT_OK(MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, 0, &part));
  EXPECT((part == MPI_COMM_NULL) == (rank == 0));
  if (rank > 0) MPI_Comm_free(&part);
  EXPECT_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &part));
  int n;
  MPI_Comm_size(part, &n);
  EXPECT_EQ(n, num_sharing());
  MPI_Comm_free(&part);
#ifdef MPI_COMM_TYPE_RESOURCE_GUIDED
  // Those of a process set; a guide that names nothing here leaves everyone out.
  const struct {
    const char *key, *value;
    int members;
  } guides[] = {{"mpi_pset_name", "mpi://WORLD", size},
                {"mpi_pset_name", "MPI://world", size},
                {"mpi_pset_name", "mpi://SELF", 1},
                {"mpi_hw_resource_type", "mpi_shared_memory", num_sharing()},
                {"mpi_pset_name", "mpi://NOBODY", 0},
                {"mpi_hw_resource_type", "nothing", 0}};
  for (size_t i = 0; i < sizeof guides / sizeof *guides; ++i) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, guides[i].key, guides[i].value);
    EXPECT_OK(
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, -rank, info, &part));
    MPI_Info_free(&info);
    EXPECT((part == MPI_COMM_NULL) == (guides[i].members == 0));
    if (part == MPI_COMM_NULL) continue;
    int me;
    MPI_Comm_size(part, &n);
    MPI_Comm_rank(part, &me);
    EXPECT_EQ(n, guides[i].members);
    if (n == size) EXPECT_EQ(me, size - 1 - rank);
    MPI_Comm_free(&part);
  }
#endif
}

static int size_of(MPI_Group group) {
  int n = -1;
  MPI_Group_size(group, &n);
  return n;
}

// The group's members, as ranks of the world, must be these.
static void expect_members(MPI_Group group, MPI_Group world, int n, const int* expected) {
  int from[16], to[16];
  EXPECT_EQ(size_of(group), n);
  for (int i = 0; i < n; ++i) from[i] = i;
  EXPECT_OK(MPI_Group_translate_ranks(group, n, from, world, to));
  for (int i = 0; i < n; ++i) EXPECT_EQ(to[i], expected[i]);
}

static void groups(void) {
  MPI_Group world, even, odd, low, g;
  int ranks[16], r, result;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  EXPECT_EQ(size_of(world), size);
  MPI_Group_rank(world, &r);
  EXPECT_EQ(r, rank);
  int range[1][3] = {{0, size - 1, 2}};
  EXPECT_OK(MPI_Group_range_incl(world, 1, range, &even));
  EXPECT_OK(MPI_Group_range_excl(world, 1, range, &odd));
  int half = (size + 1) / 2;
  for (int i = 0; i < half; ++i) ranks[i] = i;
  EXPECT_OK(MPI_Group_incl(world, half, ranks, &low));
  int expected[16], n = 0;
  for (int i = 0; i < size; i += 2) expected[n++] = i;
  expect_members(even, world, n, expected);
  n = 0;
  for (int i = 1; i < size; i += 2) expected[n++] = i;
  expect_members(odd, world, n, expected);
  MPI_Group_rank(odd, &r);
  EXPECT_EQ(r, rank % 2 ? rank / 2 : MPI_UNDEFINED);

  // Union: all of the first, then those of the second that are new.
  EXPECT_OK(MPI_Group_union(odd, low, &g));
  n = 0;
  for (int i = 1; i < size; i += 2) expected[n++] = i;
  for (int i = 0; i < half; i += 2) expected[n++] = i;
  expect_members(g, world, n, expected);
  MPI_Group_free(&g);
  EXPECT_OK(MPI_Group_intersection(low, odd, &g));
  n = 0;
  for (int i = 1; i < half; i += 2) expected[n++] = i;
  expect_members(g, world, n, expected);
  MPI_Group_free(&g);
  EXPECT_OK(MPI_Group_difference(low, odd, &g));
  n = 0;
  for (int i = 0; i < half; i += 2) expected[n++] = i;
  expect_members(g, world, n, expected);
  MPI_Group_free(&g);
  EXPECT_OK(MPI_Group_excl(world, half, ranks, &g));
  n = 0;
  for (int i = half; i < size; ++i) expected[n++] = i;
  expect_members(g, world, n, expected);
  EXPECT_OK(MPI_Group_compare(g, world, &result));
  EXPECT_EQ(result, MPI_UNEQUAL);
  MPI_Group_free(&g);
  EXPECT_OK(MPI_Group_difference(low, world, &g));
  EXPECT(g == MPI_GROUP_EMPTY || size_of(g) == 0);
  EXPECT_OK(MPI_Group_compare(g, MPI_GROUP_EMPTY, &result));
  EXPECT_EQ(result, MPI_IDENT);
  if (g != MPI_GROUP_EMPTY) MPI_Group_free(&g);

  // Backwards, and backwards by a range with a negative step.
  MPI_Group back, again;
  for (int i = 0; i < size; ++i) ranks[i] = size - 1 - i;
  EXPECT_OK(MPI_Group_incl(world, size, ranks, &back));
  int down[1][3] = {{size - 1, 0, -1}};
  EXPECT_OK(MPI_Group_range_incl(world, 1, down, &again));
  EXPECT_OK(MPI_Group_compare(back, again, &result));
  EXPECT_EQ(result, MPI_IDENT);
  EXPECT_OK(MPI_Group_compare(back, world, &result));
  EXPECT_EQ(result, size == 1 ? MPI_IDENT : MPI_SIMILAR);
  int none = MPI_PROC_NULL, to = 0;
  EXPECT_OK(MPI_Group_translate_ranks(world, 1, &none, back, &to));
  EXPECT_EQ(to, MPI_PROC_NULL);
  if (size > 1) {
    int last = size - 1;
    last -= last % 2 == 0;
    EXPECT_OK(MPI_Group_translate_ranks(world, 1, &last, even, &to));
    EXPECT_EQ(to, MPI_UNDEFINED);
  }

  // Communicators of groups.
  MPI_Comm comm;
  EXPECT_OK(MPI_Comm_create(MPI_COMM_WORLD, back, &comm));
  MPI_Comm_rank(comm, &r);
  EXPECT_EQ(r, size - 1 - rank);
  check_traffic(comm);
  MPI_Comm_free(&comm);
  EXPECT_OK(MPI_Comm_create(MPI_COMM_WORLD, even, &comm));
  EXPECT((comm == MPI_COMM_NULL) == (rank % 2 == 1));
  if (comm != MPI_COMM_NULL) {
    check_traffic(comm);
    MPI_Comm_free(&comm);
  }
  if (rank % 2 == 0) {  // only its members call
    EXPECT_OK(MPI_Comm_create_group(MPI_COMM_WORLD, even, 3, &comm));
    check_traffic(comm);
    MPI_Comm_free(&comm);
  }
  EXPECT_OK(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_EMPTY, &comm));
  EXPECT(comm == MPI_COMM_NULL);
  MPI_Group* all[] = {&world, &even, &odd, &low, &back, &again};
  for (int i = 0; i < 6; ++i) {
    if (*all[i] == MPI_GROUP_EMPTY) continue;
    EXPECT_OK(MPI_Group_free(all[i]));
    EXPECT(*all[i] == MPI_GROUP_NULL);
  }
}

// Made in the background, several at once, among other traffic of the same communicator.
static void idup(void) {
  enum { kCopies = 5 };
  MPI_Comm copies[kCopies], parent;
  MPI_Request requests[kCopies + 1];
  int one = 1, sum = 0, key, flag, *value;
  static int attribute = 7;
  MPI_Comm_dup(MPI_COMM_WORLD, &parent);
  MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
  MPI_Comm_set_attr(parent, key, &attribute);
  for (int i = 0; i < kCopies; ++i) EXPECT_OK(MPI_Comm_idup(parent, &copies[i], &requests[i]));
  EXPECT_OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, parent, &requests[kCopies]));
  EXPECT_OK(MPI_Comm_free(&parent));  // the duplicates still come
  EXPECT_OK(MPI_Waitall(kCopies + 1, requests, MPI_STATUSES_IGNORE));
  EXPECT_EQ(sum, size);
  for (int i = 0; i < kCopies; ++i) {
    EXPECT_OK(MPI_Comm_get_attr(copies[i], key, &value, &flag));
    EXPECT(flag && value == &attribute);
    check_traffic(copies[i]);
    EXPECT_OK(MPI_Comm_free(&copies[i]));
  }
  MPI_Comm_free_keyval(&key);
  MPI_Info info, used;
  MPI_Info_create(&info);
  MPI_Info_set(info, "colour", "blue");
  EXPECT_OK(MPI_Comm_idup_with_info(MPI_COMM_WORLD, info, &parent, &requests[0]));
  MPI_Info_free(&info);
  EXPECT_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
  EXPECT_OK(MPI_Comm_get_info(parent, &used));
  MPI_Info_free(&used);
  check_traffic(parent);
  MPI_Comm_free(&parent);
}

// Hints are kept, copied with a duplicate or replaced, and change nothing.
static void hints(void) {
  MPI_Comm first, second;
  MPI_Info info, used;
  char value[MPI_MAX_INFO_VAL + 1] = "";
  int flag = -1;
  MPI_Info_create(&info);
  MPI_Info_set(info, "colour", "blue");
  EXPECT_OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &first));
  MPI_Info_set(info, "colour", "green");
  EXPECT_OK(MPI_Comm_dup(first, &second));
  EXPECT_OK(MPI_Comm_set_info(second, info));
  EXPECT_OK(MPI_Info_free(&info));
  // A library may drop hints it does not know.
  EXPECT_OK(MPI_Comm_get_info(first, &used));
  EXPECT_OK(MPI_Info_get(used, "colour", MPI_MAX_INFO_VAL, value, &flag));
  EXPECT(!flag || strcmp(value, "blue") == 0);
  MPI_Info_free(&used);
  EXPECT_OK(MPI_Comm_get_info(second, &used));
  EXPECT_OK(MPI_Info_get(used, "colour", MPI_MAX_INFO_VAL, value, &flag));
  EXPECT(!flag || strcmp(value, "green") == 0);
  MPI_Info_free(&used);
  check_traffic(first);
  check_traffic(second);
  MPI_Comm_free(&first);
  EXPECT_OK(MPI_Comm_disconnect(&second));
  EXPECT(second == MPI_COMM_NULL);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int r, n, flag = 1, length;
  char name[MPI_MAX_OBJECT_NAME];
  MPI_Comm_rank(MPI_COMM_SELF, &r);
  MPI_Comm_size(MPI_COMM_SELF, &n);
  EXPECT(r == 0 && n == 1);
  dup();
  split();
  groups();
  hints();
  if (!kOpenMpi && !kMpich) idup();
  EXPECT_OK(MPI_Comm_test_inter(MPI_COMM_WORLD, &flag));
  EXPECT_EQ(flag, 0);
  EXPECT_OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &length));
  EXPECT(strcmp(name, "MPI_COMM_WORLD") == 0 && length == (int)strlen(name));
  MPI_Comm named;
  MPI_Comm_dup(MPI_COMM_WORLD, &named);
  EXPECT_OK(MPI_Comm_set_name(named, "north"));
  EXPECT_OK(MPI_Comm_get_name(named, name, &length));
  EXPECT(strcmp(name, "north") == 0);
  MPI_Comm_free(&named);
  return end();
}
