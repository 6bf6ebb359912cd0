// spawn [WHAT]: processes of other jobs: spawned (the default), met at ports, by names or a joined
// socket, many in turn, or lost. Spawned copies of this program are told what to do by their first
// argument, "child".
#include <arpa/inet.h>
#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "expect.h"

static char** own_arguments;

// Everything that two groups can do with each other.
static void use(MPI_Comm inter, int is_first) {
  int num_others, own_rank, own_size, is_inter = 0;
  MPI_Comm_remote_size(inter, &num_others);
  MPI_Comm_rank(inter, &own_rank);
  MPI_Comm_size(inter, &own_size);
  MPI_Comm_test_inter(inter, &is_inter);
  EXPECT(is_inter);
  for (int other = 0; other < num_others; ++other) {
    int out = own_rank * 1000 + other, in = -1;
    MPI_Status status;
    EXPECT_OK(MPI_Sendrecv(&out, 1, MPI_INT, other, 3, &in, 1, MPI_INT, other, 3, inter, &status));
    EXPECT_EQ(in, other * 1000 + own_rank);
    EXPECT_EQ(status.MPI_SOURCE, other);
  }
  static char data[2097153];
  for (int i = 0; own_rank == 0 && i < kNumSizes && kSizes[i] <= (int)sizeof data; ++i) {
    if (is_first) {
      fill(data, (size_t)kSizes[i], (uint64_t)i);
      EXPECT_OK(MPI_Send(data, kSizes[i], MPI_CHAR, 0, i, inter));
    } else {
      MPI_Status status;
      EXPECT_OK(MPI_Recv(data, sizeof data, MPI_CHAR, MPI_ANY_SOURCE, i, inter, &status));
      EXPECT_EQ(status.MPI_SOURCE, 0);
      EXPECT_EQ(first_difference(data, (size_t)kSizes[i], (uint64_t)i), -1);
    }
  }
  int one = 1, sum = -1;
  EXPECT_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter));
  EXPECT_EQ(sum, num_others);
  MPI_Comm copy, all, half, again;
  EXPECT_OK(MPI_Comm_dup(inter, &copy));
  EXPECT_OK(MPI_Barrier(copy));
  EXPECT_OK(MPI_Comm_free(&copy));
  EXPECT_OK(MPI_Intercomm_merge(inter, !is_first, &all));
  int place, num_all, compared;
  MPI_Comm_rank(all, &place);
  MPI_Comm_size(all, &num_all);
  EXPECT_EQ(num_all, own_size + num_others);
  EXPECT_EQ(place, is_first ? own_rank : num_others + own_rank);
  int* values = allocate((size_t)num_all * sizeof *values);
  EXPECT_OK(MPI_Allgather(&place, 1, MPI_INT, values, 1, MPI_INT, all));
  for (int i = 0; i < num_all; ++i) EXPECT_EQ(values[i], i);
  EXPECT_OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, values, 1, MPI_INT, all));
  MPI_Request request;
  EXPECT_OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all, &request));
  EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT_EQ(sum, num_all);
  // Mixed halves, and an intercommunicator between them whose leaders may be of one job.
  EXPECT_OK(MPI_Comm_split(all, place % 2, 0, &half));
  EXPECT_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, half));
  EXPECT_EQ(sum, (num_all + 1 - place % 2) / 2);
  if (num_all > 1) {
    EXPECT_OK(MPI_Intercomm_create(half, 0, all, 1 - place % 2, 9, &again));
    EXPECT_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, again));
    EXPECT_EQ(sum, (num_all + place % 2) / 2);
    EXPECT_OK(MPI_Comm_disconnect(&again));
  }
  EXPECT_OK(MPI_Comm_free(&half));
  EXPECT_OK(MPI_Comm_idup(all, &copy, &request));
  EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT_OK(MPI_Comm_compare(all, copy, &compared));
  EXPECT_EQ(compared, MPI_CONGRUENT);
  MPI_Group group, own, theirs, united;
  MPI_Comm_group(inter, &own);
  MPI_Comm_remote_group(inter, &theirs);
  MPI_Comm_group(copy, &group);
  MPI_Group_union(own, theirs, &united);
  MPI_Group_compare(united, group, &compared);
  EXPECT(compared != MPI_UNEQUAL);
  EXPECT_OK(MPI_Comm_create_group(all, group, 4, &again));
  EXPECT_OK(MPI_Barrier(again));
  EXPECT_OK(MPI_Comm_free(&again));
  MPI_Group_free(&group);
  MPI_Group_free(&own);
  MPI_Group_free(&theirs);
  MPI_Group_free(&united);
  EXPECT_OK(MPI_Comm_disconnect(&copy));
  EXPECT_OK(MPI_Comm_free(&all));
  free(values);
}

// What the members of several jobs cannot have together.
static void use_wrongly(MPI_Comm inter, int is_first) {
  MPI_Comm all;
  MPI_Win win;
  MPI_File file;
  int value;
  EXPECT_OK(MPI_Intercomm_merge(inter, !is_first, &all));
  MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
  EXPECT_CLASS(MPI_Win_create(&value, 4, 1, MPI_INFO_NULL, all, &win),
               MPI_ERR_UNSUPPORTED_OPERATION);
  EXPECT_CLASS(MPI_File_open(all, "none", MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
               MPI_ERR_UNSUPPORTED_OPERATION);
  // No memory is shared with those of the other job.
  MPI_Comm host;
  int num_here, num_own;
  EXPECT_OK(MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
  MPI_Comm_size(host, &num_here);
  MPI_Comm_size(inter, &num_own);
  EXPECT(num_here <= num_own);
  EXPECT_OK(MPI_Comm_free(&host));
  EXPECT_OK(MPI_Comm_free(&all));
}

// A child's life.
static void be_child(int argc, char** argv) {
  MPI_Comm parent;
  char name[MPI_MAX_OBJECT_NAME];
  int length;
  EXPECT_OK(MPI_Comm_get_parent(&parent));
  EXPECT(parent != MPI_COMM_NULL);
  MPI_Comm_get_name(parent, name, &length);
  EXPECT(strcmp(name, "MPI_COMM_PARENT") == 0);
  const char* what = argc > 2 ? argv[2] : "";
  if (strcmp(what, "use") == 0) {
    use(parent, 0);
    use_wrongly(parent, 0);
  } else if (strcmp(what, "tell") == 0) {
    // What it was started with, for the parent to look at.
    char text[1024];
    char folder[512];
    int *number, flag;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag);
    const char* variable = getenv("SPAWN_TEST");
    snprintf(text, sizeof text, "%d %s %s %s %d", flag ? *number : -1, argc > 3 ? argv[3] : "-",
             getcwd(folder, sizeof folder), variable ? variable : "-", size);
    EXPECT_OK(MPI_Send(text, (int)strlen(text) + 1, MPI_CHAR, 0, 1, parent));
  } else if (strcmp(what, "grand") == 0) {
    MPI_Comm child;
    char* arguments[] = {"child", "use", NULL};
    EXPECT_OK(MPI_Comm_spawn(argv[0], arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &child,
                             MPI_ERRCODES_IGNORE));
    use(child, 1);
    use_wrongly(child, 1);
    EXPECT_OK(MPI_Comm_disconnect(&child));
  } else if (strcmp(what, "answer") == 0) {
    int value;
    EXPECT_OK(MPI_Recv(&value, 1, MPI_INT, 0, 1, parent, MPI_STATUS_IGNORE));
    EXPECT_OK(MPI_Send(&value, 1, MPI_INT, 0, 1, parent));
  } else if (strcmp(what, "die") == 0) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) raise(SIGKILL);
    pause();
  } else if (strcmp(what, "orphan") == 0) {
    // Its parent dies: a receive from it ends with an error.
    int value;
    MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
    EXPECT_CLASS(MPI_Recv(&value, 1, MPI_INT, 0, 1, parent, MPI_STATUS_IGNORE),
                 MPIX_ERR_PROC_FAILED);
    if (num_failures == 0) fprintf(stderr, "the child has seen the end of its parent\n");
    MPI_Comm_free(&parent);
    return;
  }
  EXPECT_OK(MPI_Comm_disconnect(&parent));
  EXPECT_OK(MPI_Comm_get_parent(&parent));
  EXPECT(parent == MPI_COMM_NULL);
}

static void spawn(const char* what, int num, MPI_Info info, MPI_Comm comm, MPI_Comm* child) {
  char* arguments[] = {"child", (char*)what, NULL};
  int codes[8];
  EXPECT_OK(MPI_Comm_spawn(own_arguments[0], arguments, num, info, 0, comm, child, codes));
  for (int i = 0; i < num; ++i) EXPECT_EQ(codes[i], MPI_SUCCESS);
}

static void expect_told(MPI_Comm child, int from, const char* expected) {
  char text[1024] = "";
  EXPECT_OK(MPI_Recv(text, sizeof text, MPI_CHAR, from, 1, child, MPI_STATUS_IGNORE));
  if (strcmp(text, expected) != 0) failed(__FILE__, __LINE__, text);
}

static void spawn_some(void) {
  MPI_Comm child;
  for (int num = 1; num <= 3; ++num) {
    spawn("use", num, MPI_INFO_NULL, MPI_COMM_WORLD, &child);
    use(child, 1);
    use_wrongly(child, 1);
    EXPECT_OK(MPI_Comm_disconnect(&child));
  }
  // Each process by itself, all at once.
  spawn("use", 1, MPI_INFO_NULL, MPI_COMM_SELF, &child);
  use(child, 1);
  use_wrongly(child, 1);
  EXPECT_OK(MPI_Comm_disconnect(&child));
  // Children that have children.
  spawn("grand", 1, MPI_INFO_NULL, MPI_COMM_WORLD, &child);
  EXPECT_OK(MPI_Comm_disconnect(&child));
  if (rank != 0) return;

  char expected[1024], folder[512];
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "wdir", "/");
  MPI_Info_set(info, "weft_env", "SPAWN_TEST=some value");
  MPI_Info_set(info, "soft", "1:9:2");  // of at most 4: 3
  char program[1024];
  EXPECT(own_arguments[0][0] == '/' || getcwd(folder, sizeof folder) != NULL);
  if (own_arguments[0][0] == '/')
    snprintf(program, sizeof program, "%s", own_arguments[0]);
  else
    snprintf(program, sizeof program, "%s/%s", folder, own_arguments[0]);
  char* arguments[] = {"child", "tell", "an argument", NULL};
  int codes[4];
  EXPECT_OK(MPI_Comm_spawn(program, arguments, 4, info, 0, MPI_COMM_SELF, &child, codes));
  int num_children;
  MPI_Comm_remote_size(child, &num_children);
  EXPECT_EQ(num_children, 3);
  EXPECT_EQ(codes[2], MPI_SUCCESS);
  EXPECT_EQ(codes[3], MPI_ERR_SPAWN);
  for (int i = 0; i < 3; ++i) expect_told(child, i, "0 an argument / some value 3");
  EXPECT_OK(MPI_Comm_disconnect(&child));
  MPI_Info_free(&info);

  // A path, and two programs.
  char* slash = strrchr(program, '/');
  *slash = '\0';
  MPI_Info_create(&info);
  MPI_Info_set(info, "path", program);
  MPI_Info infos[] = {info, MPI_INFO_NULL};
  char* commands[] = {slash + 1, slash + 1};
  char* first[] = {"child", "tell", "first", NULL};
  char* second[] = {"child", "tell", "second", NULL};
  char** all_arguments[] = {first, second};
  const int nums[] = {1, 2};
  EXPECT_OK(MPI_Comm_spawn_multiple(2, commands, all_arguments, nums, infos, 0, MPI_COMM_SELF,
                                    &child, MPI_ERRCODES_IGNORE));
  EXPECT(getcwd(folder, sizeof folder) != NULL);
  snprintf(expected, sizeof expected, "0 first %s - 3", folder);
  expect_told(child, 0, expected);
  snprintf(expected, sizeof expected, "1 second %s - 3", folder);
  expect_told(child, 1, expected);
  expect_told(child, 2, expected);
  EXPECT_OK(MPI_Comm_disconnect(&child));
  MPI_Info_free(&info);
}

static void spawn_wrongly(void) {
  MPI_Comm child;
  int codes[3] = {0, 0, 0};
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  EXPECT_CLASS(MPI_Comm_spawn("/nowhere/nothing", MPI_ARGV_NULL, 3, MPI_INFO_NULL, 0,
                              MPI_COMM_WORLD, &child, codes),
               MPI_ERR_SPAWN);
  EXPECT(child == MPI_COMM_NULL);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(codes[i], MPI_ERR_SPAWN);
  // No program of MPI: it ends without a word.
  EXPECT_CLASS(MPI_Comm_spawn("/bin/true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, size - 1,
                              MPI_COMM_WORLD, &child, codes),
               MPI_ERR_SPAWN);
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "soft", "seven");
  EXPECT_CLASS(
      MPI_Comm_spawn(own_arguments[0], MPI_ARGV_NULL, 1, info, 0, MPI_COMM_WORLD, &child, codes),
      MPI_ERR_SPAWN);
  MPI_Info_free(&info);
  EXPECT_CLASS(MPI_Comm_spawn(own_arguments[0], MPI_ARGV_NULL, 0, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                              &child, codes),
               MPI_ERR_SPAWN);
  EXPECT_CLASS(MPI_Comm_spawn(own_arguments[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, size,
                              MPI_COMM_WORLD, &child, codes),
               MPI_ERR_ROOT);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

// Two halves of the job meet as if they were of two.
static void meet_at_ports(void) {
  MPI_Comm half, inter;
  char port[MPI_MAX_PORT_NAME] = "";
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
  MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN);
  for (int round = 0; round < 3; ++round) {
    if (rank == 0) {
      EXPECT_OK(MPI_Open_port(MPI_INFO_NULL, port));
      EXPECT_OK(MPI_Publish_name("a service", MPI_INFO_NULL, port));
      EXPECT_CLASS(MPI_Publish_name("a service", MPI_INFO_NULL, port), MPI_ERR_SERVICE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
      EXPECT_OK(MPI_Lookup_name("a service", MPI_INFO_NULL, port));
      EXPECT_CLASS(MPI_Lookup_name("no service", MPI_INFO_NULL, port), MPI_ERR_NAME);
    }
    if (rank % 2 == 0)
      EXPECT_OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter));
    else
      EXPECT_OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter));
    use(inter, rank % 2 == 0);
    EXPECT_OK(MPI_Comm_disconnect(&inter));
    if (rank == 0) {
      EXPECT_OK(MPI_Unpublish_name("a service", MPI_INFO_NULL, port));
      EXPECT_CLASS(MPI_Unpublish_name("a service", MPI_INFO_NULL, port), MPI_ERR_SERVICE);
      EXPECT_OK(MPI_Close_port(port));
      EXPECT_CLASS(MPI_Close_port(port), MPI_ERR_PORT);
    }
    // Nobody is there any more, or nobody accepts.
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
    EXPECT_CLASS(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter), MPI_ERR_PORT);
    EXPECT_CLASS(MPI_Comm_connect("no port", MPI_INFO_NULL, 0, half, &inter), MPI_ERR_PORT);
    EXPECT_CLASS(MPI_Comm_accept("no port", MPI_INFO_NULL, 0, half, &inter), MPI_ERR_PORT);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "timeout", "1");
    MPI_Open_port(MPI_INFO_NULL, port);
    EXPECT_CLASS(MPI_Comm_connect(port, info, 0, MPI_COMM_SELF, &inter), MPI_ERR_PORT);
    EXPECT_CLASS(MPI_Comm_accept(port, info, 0, MPI_COMM_SELF, &inter), MPI_ERR_PORT);
    MPI_Close_port(port);
    MPI_Info_free(&info);
  }
  MPI_Comm_free(&half);
}

// Ranks 0 and 1 over a socket of their own.
static void join(void) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t length = sizeof address;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (rank == 0) {
    EXPECT(bind(fd, (struct sockaddr*)&address, length) == 0 && listen(fd, 1) == 0);
    getsockname(fd, (struct sockaddr*)&address, &length);
    MPI_Send(&address, sizeof address, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    const int listener = fd;
    fd = accept(listener, NULL, NULL);
    close(listener);
  } else {
    MPI_Recv(&address, sizeof address, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    EXPECT(connect(fd, (struct sockaddr*)&address, length) == 0);
  }
  MPI_Comm inter;
  EXPECT_OK(MPI_Comm_join(fd, &inter));
  use(inter, rank == 0);
  EXPECT_OK(MPI_Comm_disconnect(&inter));
  // The socket is the program's, and as it was.
  char letter = 'a';
  EXPECT_EQ(send(fd, &letter, 1, 0), 1);
  EXPECT_EQ(recv(fd, &letter, 1, 0), 1);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  shutdown(fd, SHUT_RDWR);
  EXPECT(MPI_Comm_join(fd, &inter) != MPI_SUCCESS);
  close(fd);
}

static int count_files(const char* folder) {
  DIR* entries = opendir(folder);
  int count = 0;
  while (readdir(entries) != NULL) ++count;
  closedir(entries);
  return count;
}

static long resident_kib(void) {
  long pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
  fclose(file);
  return pages * 4;
}

// Workers in turn: each is spawned, used and disconnected. Nothing grows.
static void spawn_in_turn(int rounds) {
  int num_fds = 0, num_threads = 0;
  long memory = 0;
  for (int round = 0; round < rounds; ++round) {
    MPI_Comm child;
    spawn("use", 1, MPI_INFO_NULL, MPI_COMM_WORLD, &child);
    use(child, 1);
    use_wrongly(child, 1);
    EXPECT_OK(MPI_Comm_disconnect(&child));
    if (round != rounds / 2) continue;
    num_fds = count_files("/proc/self/fd");
    num_threads = count_files("/proc/self/task");
    memory = resident_kib();
  }
  // The last may not have gone yet.
  EXPECT(count_files("/proc/self/fd") <= num_fds + 4);
  EXPECT(count_files("/proc/self/task") <= num_threads);
  if (resident_kib() > memory + 4096 + 16 * rounds) {
    char text[100];
    snprintf(text, sizeof text, "%ld KiB, and %ld halfway", resident_kib(), memory);
    failed(__FILE__, __LINE__, text);
  }
}

// Children that speak to rank 0 alone and are gone before the others have spoken to them: that is
// no news for anybody. Runs on for several times the timeout by which silent processes are lost.
static void spawn_quietly(void) {
  const double end = MPI_Wtime() + 3;
  for (int goes_on = 1; goes_on;) {
    MPI_Comm child;
    int out = 7, in = 0;
    spawn("answer", 1, MPI_INFO_NULL, MPI_COMM_WORLD, &child);
    if (rank == 0) {
      EXPECT_OK(MPI_Send(&out, 1, MPI_INT, 0, 1, child));
      EXPECT_OK(MPI_Recv(&in, 1, MPI_INT, 0, 1, child, MPI_STATUS_IGNORE));
      EXPECT_EQ(in, 7);
    }
    EXPECT_OK(MPI_Comm_disconnect(&child));
    goes_on = MPI_Wtime() < end;
    MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
}

// A child dies: what its parents do with it ends with an error.
static void lose_child(void) {
  MPI_Comm child;
  int value;
  spawn("die", 2, MPI_INFO_NULL, MPI_COMM_WORLD, &child);
  MPI_Comm_set_errhandler(child, MPI_ERRORS_RETURN);
  EXPECT_CLASS(
      MPI_Recv(&value, 1, MPI_INT, rank == 0 ? 0 : MPI_ANY_SOURCE, 1, child, MPI_STATUS_IGNORE),
      MPIX_ERR_PROC_FAILED);
  EXPECT(MPI_Comm_disconnect(&child) != MPI_SUCCESS);
  // Those of this job go on.
  int one = 1, sum = 0;
  EXPECT_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  EXPECT_EQ(sum, size);
}

// Two jobs of children, of which one dies: who waits for anybody of the other hears nothing of
// that.
static void lose_one_of_two(void) {
  MPI_Comm dying, living;
  MPI_Request request;
  int in = -1, out = 7;
  spawn("answer", 1, MPI_INFO_NULL, MPI_COMM_WORLD, &living);
  spawn("die", 2, MPI_INFO_NULL, MPI_COMM_WORLD, &dying);
  MPI_Comm_set_errhandler(dying, MPI_ERRORS_RETURN);
  if (rank == 0) EXPECT_OK(MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 1, living, &request));
  int value;
  EXPECT_CLASS(MPI_Recv(&value, 1, MPI_INT, 0, 1, dying, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
  EXPECT_CLASS(MPI_Recv(&value, 1, MPI_INT, 1, 1, dying, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
  // Nobody is left who could send.
  EXPECT_CLASS(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, dying, MPI_STATUS_IGNORE),
               MPIX_ERR_PROC_FAILED);
  if (rank == 0) {
    EXPECT_OK(MPI_Send(&out, 1, MPI_INT, 0, 1, living));
    EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_EQ(in, 7);
  }
  EXPECT_OK(MPI_Comm_disconnect(&living));
  EXPECT_OK(MPI_Comm_free(&dying));
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  own_arguments = argv;
  const char* what = argc > 1 ? argv[1] : "spawn";
  if (strcmp(what, "child") == 0) {
    be_child(argc, argv);
    MPI_Finalize();
    return num_failures == 0 ? 0 : 1;
  }
  if (strcmp(what, "spawn") == 0) spawn_some();
  if (strcmp(what, "wrong") == 0) spawn_wrongly();
  if (strcmp(what, "ports") == 0) meet_at_ports();
  if (strcmp(what, "join") == 0) join();
  if (strcmp(what, "turns") == 0) spawn_in_turn(atoi(argv[2]));
  if (strcmp(what, "quiet") == 0) spawn_quietly();
  if (strcmp(what, "lose") == 0) lose_child();
  if (strcmp(what, "lose_one") == 0) lose_one_of_two();
  if (strcmp(what, "leave") == 0) {
    MPI_Comm child;
    spawn("orphan", 1, MPI_INFO_NULL, MPI_COMM_WORLD, &child);
    raise(SIGKILL);
  }
  return end();
}
