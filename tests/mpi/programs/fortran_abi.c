// What the Fortran side tells about its types is there for those who ask, and is told once.
#include "expect.h"

int main(int argc, char** argv) {
  int rank, is_set = -1, yes = -1, no = 0, got_yes = 9, got_no = 9, flag = 0, length = 8;
  char value[8] = "";
  MPI_Info info;
  // Before MPI_Init too.
  MPI_Abi_get_fortran_booleans(4, &got_yes, &got_no, &is_set);
  EXPECT(is_set == 0 && got_yes == 9);
  MPI_Abi_get_fortran_info(&info);
  EXPECT(info == MPI_INFO_NULL);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  EXPECT(MPI_Abi_set_fortran_booleans(3, &yes, &no) == MPI_ERR_ARG);
  EXPECT(MPI_Abi_set_fortran_booleans(4, &yes, &no) == MPI_SUCCESS);
  EXPECT(MPI_Abi_set_fortran_booleans(4, &yes, &no) == MPI_ERR_ABI);
  EXPECT(MPI_Abi_get_fortran_booleans(8, &got_yes, &got_no, &is_set) == MPI_ERR_ARG);
  EXPECT(MPI_Abi_get_fortran_booleans(4, &got_yes, &got_no, &is_set) == MPI_SUCCESS);
  EXPECT(is_set == 1 && got_yes == -1 && got_no == 0);
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_integer_size", "4");
  EXPECT(MPI_Abi_set_fortran_info(MPI_INFO_NULL) == MPI_ERR_INFO);
  EXPECT(MPI_Abi_set_fortran_info(info) == MPI_SUCCESS);
  EXPECT(MPI_Abi_set_fortran_info(info) == MPI_ERR_ABI);
  MPI_Info_free(&info);
  EXPECT(MPI_Abi_get_fortran_info(&info) == MPI_SUCCESS && info != MPI_INFO_NULL);
  MPI_Info_get_string(info, "mpi_integer_size", &length, value, &flag);
  EXPECT(flag && value[0] == '4');
  MPI_Info_free(&info);
  MPI_Finalize();
  if (rank == 0) puts("as expected");
  return 0;
}
