// survive_shrunken WHAT [VICTIMS]: what a job is good for once it has lost some of its ranks.
//   WHAT      use: collectives of all sizes, groups, windows and a file, twice
//             inter: two groups shrink, of which one may be gone as a whole
//             respawn: it spawns as many as it has lost, and has its old size and order
//   VICTIMS   the ranks that die, as 0,2; 1 unless given
#include "survive.h"

static int is_victim[64], num_victims;

// Shrinks until nobody is left that has died.
static MPI_Comm shrink_to(MPI_Comm comm, int expected_size) {
  survive_at = "MPI_Comm_shrink";
  for (;;) {
    int its_size = -1;
    MPI_Comm shrunken = MPI_COMM_NULL;
    EXPECT_OK(MPI_Comm_shrink(comm, &shrunken));
    if (comm != MPI_COMM_WORLD) MPI_Comm_free(&comm);
    MPI_Comm_size(shrunken, &its_size);
    if (its_size <= expected_size) return shrunken;
    comm = shrunken;
  }
}

static void use_collectives(MPI_Comm comm) {
  int place, its_size;
  survive_at = "collectives";
  MPI_Comm_rank(comm, &place);
  MPI_Comm_size(comm, &its_size);
  static const int lengths[] = {1, 7, 300, 5000, 70000, 300000};
  for (int i = 0; i < 6; ++i) {
    const int length = lengths[i];
    long* all = allocate((size_t)length * (size_t)its_size * sizeof *all);
    long* mine = allocate((size_t)length * sizeof *mine);
    for (int j = 0; j < length; ++j) mine[j] = (long)place * j;
    EXPECT_OK(MPI_Allreduce(mine, all, length, MPI_LONG, MPI_SUM, comm));
    int num_wrong = 0;
    for (int j = 0; j < length; ++j) num_wrong += all[j] != (long)its_size * (its_size - 1) / 2 * j;
    EXPECT_OK(MPI_Allgather(mine, length, MPI_LONG, all, length, MPI_LONG, comm));
    for (int j = 0; j < length * its_size; ++j)
      num_wrong += all[j] != (long)(j / length) * (j % length);
    EXPECT_OK(MPI_Bcast(mine, length, MPI_LONG, its_size - 1, comm));
    for (int j = 0; j < length; ++j) num_wrong += mine[j] != (long)(its_size - 1) * j;
    EXPECT_EQ(num_wrong, 0);
    free(all);
    free(mine);
  }
}

// Those of one host, and the first ones of all hosts.
static void use_hosts(MPI_Comm comm) {
  int place, place_here, num_here, sum = 0, one = 1, its_size;
  MPI_Comm host, leaders;
  MPI_Win win;
  int *own, *first;
  survive_at = "communicators of hosts";
  MPI_Comm_rank(comm, &place);
  MPI_Comm_size(comm, &its_size);
  EXPECT_OK(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, place, MPI_INFO_NULL, &host));
  MPI_Comm_rank(host, &place_here);
  MPI_Comm_size(host, &num_here);
  EXPECT_OK(MPI_Comm_split(comm, place_here == 0 ? 0 : MPI_UNDEFINED, place, &leaders));
  EXPECT_OK(MPI_Win_allocate_shared(sizeof *own, sizeof *own, MPI_INFO_NULL, host, &own, &win));
  MPI_Aint bytes;
  int unit;
  EXPECT_OK(MPI_Win_shared_query(win, 0, &bytes, &unit, &first));
  EXPECT_OK(MPI_Win_fence(0, win));
  *own = 1;
  EXPECT_OK(MPI_Win_fence(0, win));
  int all_here = 0;
  for (int i = 0; place_here == 0 && i < num_here; ++i) all_here += first[i];
  if (leaders != MPI_COMM_NULL) {
    EXPECT_EQ(all_here, num_here);
    EXPECT_OK(MPI_Allreduce(&all_here, &sum, 1, MPI_INT, MPI_SUM, leaders));
    EXPECT_EQ(sum, its_size);
    MPI_Comm_free(&leaders);
  }
  EXPECT_OK(MPI_Win_free(&win));
  EXPECT_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, host));
  EXPECT_EQ(sum, num_here);
  MPI_Comm_free(&host);
}

static void use_window(MPI_Comm comm) {
  enum { kLength = 20000 };
  int place, its_size;
  MPI_Win win;
  long* memory;
  survive_at = "a window";
  MPI_Comm_rank(comm, &place);
  MPI_Comm_size(comm, &its_size);
  const int next = (place + 1) % its_size, before = (place + its_size - 1) % its_size;
  EXPECT_OK(MPI_Win_allocate((kLength + 1) * sizeof(long), sizeof(long), MPI_INFO_NULL, comm,
                             &memory, &win));
  long* mine = allocate(kLength * sizeof(long));
  for (int i = 0; i < kLength; ++i) mine[i] = (long)place << 32 | i;
  memory[kLength] = 0;
  EXPECT_OK(MPI_Win_fence(0, win));
  EXPECT_OK(MPI_Put(mine, kLength, MPI_LONG, next, 0, kLength, MPI_LONG, win));
  EXPECT_OK(MPI_Win_fence(0, win));
  int num_wrong = 0;
  for (int i = 0; i < kLength; ++i) num_wrong += memory[i] != ((long)before << 32 | i);
  EXPECT_EQ(num_wrong, 0);
  const long one = 1;
  long sum = -1;
  EXPECT_OK(MPI_Win_lock_all(0, win));
  for (int to = 0; to < its_size; ++to)
    EXPECT_OK(MPI_Accumulate(&one, 1, MPI_LONG, to, kLength, 1, MPI_LONG, MPI_SUM, win));
  EXPECT_OK(MPI_Win_flush_all(win));
  EXPECT_OK(MPI_Barrier(comm));
  EXPECT_OK(MPI_Get(&sum, 1, MPI_LONG, next, kLength, 1, MPI_LONG, win));
  EXPECT_OK(MPI_Win_unlock_all(win));
  EXPECT_EQ(sum, its_size);
  free(mine);
  EXPECT_OK(MPI_Win_free(&win));
}

static void use_file(MPI_Comm comm) {
  int place, its_size, code;
  MPI_File file;
  char name[64] = "";
  survive_at = "a file";
  MPI_Comm_rank(comm, &place);
  MPI_Comm_size(comm, &its_size);
  if (place == 0) snprintf(name, sizeof name, "/tmp/weft-survive-%d", (int)getpid());
  EXPECT_OK(MPI_Bcast(name, sizeof name, MPI_CHAR, 0, comm));
  code = MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                       MPI_INFO_NULL, &file);
  EXPECT_OK(code);
  if (code != MPI_SUCCESS) return;
  EXPECT_OK(MPI_File_write_at_all(file, place * (MPI_Offset)sizeof place, &place, 1, MPI_INT,
                                  MPI_STATUS_IGNORE));
  EXPECT_OK(MPI_File_sync(file));
  EXPECT_OK(MPI_Barrier(comm));
  EXPECT_OK(MPI_File_sync(file));
  int* all = allocate((size_t)its_size * sizeof *all);
  EXPECT_OK(MPI_File_read_at_all(file, 0, all, its_size, MPI_INT, MPI_STATUS_IGNORE));
  for (int i = 0; i < its_size; ++i) EXPECT_EQ(all[i], i);
  free(all);
  EXPECT_OK(MPI_File_close(&file));
}

static void use_groups(MPI_Comm comm) {
  MPI_Group now, world, lost;
  int num, compared, at_world[64], own[64];
  survive_at = "groups";
  EXPECT_OK(MPI_Comm_group(comm, &now));
  EXPECT_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
  EXPECT_OK(MPI_Group_difference(world, now, &lost));
  MPI_Group_size(lost, &num);
  EXPECT_EQ(num, num_victims);
  MPI_Group_size(now, &num);
  // The order is that of the ranks before.
  for (int i = 0; i < num; ++i) own[i] = i;
  EXPECT_OK(MPI_Group_translate_ranks(now, num, own, world, at_world));
  for (int i = 0; i < num; ++i) {
    EXPECT(!is_victim[at_world[i]]);
    if (i > 0) EXPECT(at_world[i] > at_world[i - 1]);
  }
  MPI_Comm again;
  EXPECT_OK(MPI_Comm_create_group(comm, now, 5, &again));
  EXPECT_OK(MPI_Comm_compare(comm, again, &compared));
  EXPECT_EQ(compared, MPI_CONGRUENT);
  MPI_Comm_free(&again);
  MPI_Group_free(&now);
  MPI_Group_free(&world);
  if (lost != MPI_GROUP_EMPTY) MPI_Group_free(&lost);
}

static MPI_Comm use(void) {
  use_collectives(MPI_COMM_WORLD);
  use_window(MPI_COMM_WORLD);
  EXPECT_OK(MPI_Barrier(MPI_COMM_WORLD));
  if (is_victim[rank]) die();
  MPI_Comm comm = shrink_to(MPI_COMM_WORLD, size - num_victims);
  for (int time = 0; time < 2; ++time) {
    survive_use(comm, size - num_victims);
    use_groups(comm);
    use_collectives(comm);
    use_hosts(comm);
    use_window(comm);
    use_file(comm);
    if (time == 1 || size - num_victims < 3) break;
    // And the last one of those that are left.
    EXPECT_OK(MPI_Barrier(comm));
    int last = size - 1;
    while (is_victim[last]) --last;
    if (rank == last) die();
    is_victim[last] = 1;
    comm = shrink_to(comm, size - ++num_victims);
  }
  return comm;
}

// The halves of the job are two groups.
static MPI_Comm inter(void) {
  const int num_low = size / 2, is_high = rank >= num_low;
  int left[2] = {num_low, size - num_low};
  MPI_Comm half, both, living, merged;
  for (int i = 0; i < size; ++i) left[i >= num_low] -= is_victim[i];
  EXPECT_OK(MPI_Comm_split(MPI_COMM_WORLD, is_high, rank, &half));
  EXPECT_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_high ? 0 : num_low, 6, &both));
  MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN);
  EXPECT_OK(MPI_Barrier(both));
  if (is_victim[rank]) die();
  for (int blocking = 1; blocking >= 0; --blocking) {
    for (int num = -1, others = -1; num != left[is_high] || others != left[!is_high];) {
      survive_at = "MPI_Comm_shrink of two groups";
      MPI_Request request = MPI_REQUEST_NULL;
      int is_inter = 0;
      if (blocking)
        EXPECT_OK(MPI_Comm_shrink(both, &living));
      else
        EXPECT_OK(MPI_Comm_ishrink(both, &living, &request));
      EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
      if (living == MPI_COMM_NULL) {
        // One of the groups is gone.
        EXPECT_EQ(left[!is_high], 0);
        MPI_Comm_free(&both);
        return shrink_to(half, left[is_high]);
      }
      MPI_Comm_test_inter(living, &is_inter);
      EXPECT(is_inter);
      MPI_Comm_free(&both);
      both = living;
      MPI_Comm_size(both, &num);
      MPI_Comm_remote_size(both, &others);
    }
    survive_at = "two groups that have shrunk";
    int one = 1, sum = 0, place = -1;
    MPI_Comm_rank(both, &place);
    EXPECT_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, both));
    EXPECT_EQ(sum, left[!is_high]);
    for (int other = 0; other < left[!is_high]; ++other) {
      int mine = place * 64 + other, theirs = -1;
      EXPECT_OK(MPI_Sendrecv(&mine, 1, MPI_INT, other, 3, &theirs, 1, MPI_INT, other, 3, both,
                             MPI_STATUS_IGNORE));
      EXPECT_EQ(theirs, other * 64 + place);
    }
    EXPECT_OK(MPI_Intercomm_merge(both, is_high, &merged));
    survive_use(merged, left[0] + left[1]);
    if (blocking) MPI_Comm_free(&merged);
  }
  MPI_Comm_free(&both);
  MPI_Comm_free(&half);
  return merged;
}

// Who was spawned gets a rank of those that were lost; the others keep theirs.
static MPI_Comm take_old_places(MPI_Comm between, int is_new, int old_rank, int old_size) {
  MPI_Comm merged, whole;
  int place = -1, its_size = -1;
  survive_at = "the merge of old and new";
  MPI_Comm_set_errhandler(between, MPI_ERRORS_RETURN);
  EXPECT_OK(MPI_Intercomm_merge(between, is_new, &merged));
  MPI_Comm_set_errhandler(merged, MPI_ERRORS_RETURN);
  int* ranks = allocate(64 * sizeof *ranks);
  MPI_Comm_rank(merged, &place);
  MPI_Comm_size(merged, &its_size);
  EXPECT_OK(MPI_Bcast(&old_size, 1, MPI_INT, 0, merged));
  EXPECT_EQ(its_size, old_size);
  EXPECT_OK(MPI_Allgather(&old_rank, 1, MPI_INT, ranks, 1, MPI_INT, merged));
  if (is_new) {
    int free_place = 0, turn = 0, own = 0;
    MPI_Comm_rank(between, &own);
    for (old_rank = -1; turn <= own; ++free_place) {
      int is_taken = 0;
      for (int i = 0; i < its_size; ++i) is_taken = is_taken || ranks[i] == free_place;
      if (!is_taken && turn++ == own) old_rank = free_place;
    }
  }
  EXPECT_OK(MPI_Comm_split(merged, 0, old_rank, &whole));
  MPI_Comm_rank(whole, &place);
  EXPECT_EQ(place, old_rank);
  free(ranks);
  MPI_Comm_free(&merged);
  survive_use(whole, old_size);
  use_collectives(whole);
  return whole;
}

static MPI_Comm respawn(char* program) {
  if (is_victim[rank]) die();
  MPI_Comm living = shrink_to(MPI_COMM_WORLD, size - num_victims), between;
  use_window(living);
  use_file(living);
  survive_at = "MPI_Comm_spawn";
  char* arguments[] = {"respawned", NULL};
  EXPECT_OK(MPI_Comm_spawn(program, arguments, num_victims, MPI_INFO_NULL, 0, living, &between,
                           MPI_ERRCODES_IGNORE));
  MPI_Comm whole = take_old_places(between, 0, rank, size);
  MPI_Comm_free(&living);
  MPI_Comm_free(&between);
  return whole;
}

int main(int argc, char** argv) {
  survive_begin(&argc, &argv);
  const char* what = argc > 1 ? argv[1] : "use";
  if (strcmp(what, "respawned") == 0) {
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    MPI_Comm whole = take_old_places(parent, 1, -1, 0);
    MPI_Comm_free(&parent);
    return survive_end(whole);
  }
  for (const char* at = argc > 2 ? argv[2] : "1"; at != NULL;
       at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL) {
    is_victim[atoi(at)] = 1;
    ++num_victims;
  }
  EXPECT_OK(MPI_Barrier(MPI_COMM_WORLD));
  MPI_Comm comm;
  if (strcmp(what, "inter") == 0)
    comm = inter();
  else if (strcmp(what, "respawn") == 0)
    comm = respawn(argv[0]);
  else
    comm = use();
  return survive_end(comm);
}
