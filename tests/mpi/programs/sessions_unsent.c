// A session ends after a send whose request was freed: the message has left by then, whatever its
// type, as the process may call nothing of MPI any more.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "expect.h"

enum { kBlocks = 1 << 17, kBlock = 8, kBytes = kBlocks * kBlock };

// A word that rank 0 sets without MPI when it has the message.
static volatile int* open_word(void) {
  char name[64];
  snprintf(name, sizeof name, "/weft-test-%d", (int)getppid());
  const int fd = shm_open(name, O_CREAT | O_RDWR, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(int)) != 0) return NULL;
  void* word = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return word == MAP_FAILED ? NULL : word;
}

int main(void) {
  MPI_Session session;
  MPI_Group group;
  MPI_Comm comm;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "one", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  volatile int* word = open_word();
  EXPECT(word != NULL);
  MPI_Barrier(comm);
  char name[64];
  snprintf(name, sizeof name, "/weft-test-%d", (int)getppid());
  if (rank == 0) shm_unlink(name);
  char* data = calloc(2, kBytes);
  MPI_Datatype type;
  MPI_Type_vector(kBlocks, kBlock, 2 * kBlock, MPI_CHAR, &type);
  MPI_Type_commit(&type);
  if (rank == 1) {
    MPI_Request request;
    MPI_Isend(data, 1, type, 0, 5, comm, &request);
    MPI_Request_free(&request);
  } else if (rank == 0) {
    usleep(100000);
    MPI_Recv(data, kBytes, MPI_CHAR, 1, 5, comm, MPI_STATUS_IGNORE);
    *word = 1;
  }
  MPI_Type_free(&type);
  MPI_Group_free(&group);
  MPI_Comm_free(&comm);
  MPI_Session_finalize(&session);
  if (rank == 1) {
    for (int i = 0; i < 20000 && *word == 0; ++i) usleep(1000);
    EXPECT_EQ(*word, 1);
  }
  free(data);
  if (rank == 0 && num_failures == 0) printf("as expected\n");
  return num_failures == 0 ? 0 : 1;
}
