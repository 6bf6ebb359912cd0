// meet serve NUM | connect FILE: the server publishes a port and serves NUM jobs that connect to
// it, one after the other, whatever becomes of them; a client looks the port up, connects, writes
// FILE and waits for an answer to each message until there is none.
#include <mpi-ext.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char kService[] = "meet";

static int serve(int num) {
  char port[MPI_MAX_PORT_NAME];
  int served = 0, lost = 0;
  MPI_Open_port(MPI_INFO_NULL, port);
  if (MPI_Publish_name(kService, MPI_INFO_NULL, port) != MPI_SUCCESS) return 3;
  printf("published\n");
  fflush(stdout);
  for (int i = 0; i < num; ++i) {
    MPI_Comm client;
    int code = MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &client);
    if (code != MPI_SUCCESS) return 4;
    MPI_Comm_set_errhandler(client, MPI_ERRORS_RETURN);
    for (int value = 0; value >= 0 && code == MPI_SUCCESS;) {
      MPI_Status status;
      code = MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, client, &status);
      if (code == MPI_SUCCESS) code = MPI_Send(&value, 1, MPI_INT, status.MPI_SOURCE, 0, client);
    }
    if (code == MPI_SUCCESS) {
      ++served;
      MPI_Comm_disconnect(&client);
    } else {
      int class = 0;
      MPI_Error_class(code, &class);
      if (class == MPIX_ERR_PROC_FAILED) ++lost;
      MPI_Comm_free(&client);
    }
    printf("served %d, lost %d\n", served, lost);
    fflush(stdout);
  }
  MPI_Unpublish_name(kService, MPI_INFO_NULL, port);
  MPI_Close_port(port);
  return 0;
}

static int connect_to(const char* path) {
  char port[MPI_MAX_PORT_NAME];
  int rank, code;
  MPI_Comm server;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  code = MPI_Lookup_name(kService, MPI_INFO_NULL, port);
  if (code == MPI_SUCCESS) code = MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &server);
  if (code != MPI_SUCCESS) {
    int class = 0;
    MPI_Error_class(code, &class);
    printf("%s\n", class == MPI_ERR_NAME ? "no such name" : "not connected");
    return 5;
  }
  MPI_Comm_set_errhandler(server, MPI_ERRORS_RETURN);
  const int is_short = strcmp(path, "-") == 0;
  for (int i = 0; code == MPI_SUCCESS && rank == 0; ++i) {
    int value = is_short && i == 10 ? -1 : i;
    code = MPI_Send(&value, 1, MPI_INT, 0, 0, server);
    if (code == MPI_SUCCESS) code = MPI_Recv(&value, 1, MPI_INT, 0, 0, server, MPI_STATUS_IGNORE);
    if (value < 0) break;
    if (i == 10 && !is_short) fclose(fopen(path, "w"));
  }
  if (code != MPI_SUCCESS) {
    printf("lost the server\n");
    MPI_Comm_free(&server);
    return 0;
  }
  if (is_short || rank == 0) MPI_Comm_disconnect(&server);
  return 0;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  const int code = strcmp(argv[1], "serve") == 0 ? serve(atoi(argv[2])) : connect_to(argv[2]);
  MPI_Finalize();
  return code;
}
