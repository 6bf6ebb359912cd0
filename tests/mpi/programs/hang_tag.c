// hang_tag [asserted]: stands still: rank 1 waits for another tag than that of the message which
// rank 0 has sent.
//   asserted   on a communicator whose tags have channels of their own, if a thread polls
#include <mpi.h>

int main(int argc, char** argv) {
  int rank, value = 0;
  MPI_Comm comm = MPI_COMM_WORLD;
  MPI_Init(&argc, &argv);
  if (argc > 1) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    MPI_Comm_set_name(comm, "asserted");
    MPI_Info_free(&info);
  }
  MPI_Comm_rank(comm, &rank);
  if (rank == 0) MPI_Send(&value, 1, MPI_INT, 1, 8, comm);
  if (rank == 1) MPI_Recv(&value, 1, MPI_INT, 0, 7, comm, MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Finalize();
}
