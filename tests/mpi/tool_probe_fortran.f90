! A Fortran program in front of which tool.c is loaded: its calls by MPI_ names reach the tool once
! each, those by PMPI_ names never do.
program tool_probe_fortran
  use mpi_f08
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_null_char
  implicit none
  interface
    subroutine compare(level, name, calls) bind(C, name='MPI_Pcontrol')
      import :: c_char, c_int
      integer(c_int), value :: level, calls
      character(kind=c_char), intent(in) :: name(*)
    end subroutine
    subroutine mpi_barrier_of_mpif(comm, ierror) bind(C, name='mpi_barrier_')
      integer :: comm, ierror
    end subroutine
  end interface
  integer :: rank, size, i, ierror, matrix(4, 4), column(4)
  type(MPI_Request) :: requests(2)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  matrix = rank
  do i = 1, 3
    call MPI_Irecv(column, 4, MPI_INTEGER, mod(rank + size - 1, size), i, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(matrix(2, :), 4, MPI_INTEGER, mod(rank + 1, size), i, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  end do
  call PMPI_Bcast(matrix, 16, MPI_INTEGER, 0, MPI_COMM_WORLD)
  call MPI_Barrier(MPI_COMM_WORLD)
  call mpi_barrier_of_mpif(MPI_COMM_WORLD%MPI_VAL, ierror)
  call compare(1, 'MPI_Init' // c_null_char, 1)
  call compare(1, 'MPI_Comm_size' // c_null_char, 1)
  call compare(1, 'MPI_Isend' // c_null_char, 3)
  call compare(1, 'MPI_Irecv' // c_null_char, 3)
  call compare(1, 'MPI_Waitall' // c_null_char, 3)
  call compare(1, 'MPI_Barrier' // c_null_char, 2)
  call compare(1, 'MPI_Bcast' // c_null_char, 0)
  ! What the wrappers do for a section's datatype is not the program's.
  call compare(1, 'MPI_Type_commit' // c_null_char, 0)
  call MPI_Finalize()
end program
