// A PMPI tool, loaded before a program that knows nothing of it (LD_PRELOAD): it takes over
// functions of MPI, counts their calls and passes them on. The library must never call them by
// these names itself: what it does inside is not the program's communication.
//
// The program says through MPI_Pcontrol how many calls it made: (0, &present) sets a flag, (1,
// name, calls) compares.
#pragma GCC visibility push(default)
#include <mpi.h>
#pragma GCC visibility pop
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMostNames = 64 };
static struct {
  const char* name;
  int calls;
} counts[kMostNames];
static int depth;

static void enter(const char* name) {
  if (depth++ > 0) {
    fprintf(stderr, "the library itself calls %s\n", name);
    exit(4);
  }
  int i = 0;
  while (counts[i].name != NULL && strcmp(counts[i].name, name) != 0) ++i;
  counts[i].name = name;
  counts[i].calls++;
}

#define PASS_ON(name, parameters, arguments)  \
  int MPI_##name parameters {                 \
    enter("MPI_" #name);                      \
    const int result = PMPI_##name arguments; \
    --depth;                                  \
    return result;                            \
  }
PASS_ON(Init, (int* argc, char*** argv), (argc, argv))
PASS_ON(Finalize, (void), ())
PASS_ON(Comm_rank, (MPI_Comm comm, int* rank), (comm, rank))
PASS_ON(Comm_size, (MPI_Comm comm, int* size), (comm, size))
PASS_ON(Comm_dup, (MPI_Comm comm, MPI_Comm* out), (comm, out))
PASS_ON(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm* out), (comm, color, key, out))
PASS_ON(Comm_free, (MPI_Comm * comm), (comm))
PASS_ON(Type_commit, (MPI_Datatype * type), (type))
PASS_ON(Type_free, (MPI_Datatype * type), (type))
PASS_ON(Send, (const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm),
        (data, count, type, to, tag, comm))
PASS_ON(Isend,
        (const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
         MPI_Request* request),
        (data, count, type, to, tag, comm, request))
PASS_ON(Recv,
        (void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
         MPI_Status* status),
        (data, count, type, from, tag, comm, status))
PASS_ON(Irecv,
        (void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
         MPI_Request* request),
        (data, count, type, from, tag, comm, request))
PASS_ON(Sendrecv,
        (const void* out, int num_out, MPI_Datatype out_type, int to, int out_tag, void* in,
         int num_in, MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm, MPI_Status* status),
        (out, num_out, out_type, to, out_tag, in, num_in, in_type, from, in_tag, comm, status))
PASS_ON(Probe, (int from, int tag, MPI_Comm comm, MPI_Status* status), (from, tag, comm, status))
PASS_ON(Wait, (MPI_Request * request, MPI_Status* status), (request, status))
PASS_ON(Test, (MPI_Request * request, int* flag, MPI_Status* status), (request, flag, status))
PASS_ON(Waitall, (int count, MPI_Request* requests, MPI_Status* statuses),
        (count, requests, statuses))
PASS_ON(Barrier, (MPI_Comm comm), (comm))
PASS_ON(Bcast, (void* data, int count, MPI_Datatype type, int root, MPI_Comm comm),
        (data, count, type, root, comm))
PASS_ON(Allreduce,
        (const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
        (in, out, count, type, op, comm))
PASS_ON(Iallreduce,
        (const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
         MPI_Request* request),
        (in, out, count, type, op, comm, request))
PASS_ON(Allgather,
        (const void* out, int num_out, MPI_Datatype out_type, void* in, int num_in,
         MPI_Datatype in_type, MPI_Comm comm),
        (out, num_out, out_type, in, num_in, in_type, comm))

int MPI_Pcontrol(const int level, ...) {
  va_list arguments;
  va_start(arguments, level);
  if (level == 0) {
    *va_arg(arguments, int*) = 1;
  } else {
    const char* name = va_arg(arguments, const char*);
    const int expected = va_arg(arguments, int);
    int found = 0;
    for (int i = 0; i < kMostNames && counts[i].name != NULL; ++i)
      if (strcmp(counts[i].name, name) == 0) found = counts[i].calls;
    if (found != expected) {
      fprintf(stderr, "the tool saw %d calls of %s, not %d\n", found, name, expected);
      exit(5);
    }
  }
  va_end(arguments);
  return MPI_SUCCESS;
}
