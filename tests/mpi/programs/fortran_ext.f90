! The functions of mpi-ext.h by both modules: a communicator is revoked, agreed on and shrunk, a window and
! a file are revoked.
module by_old
contains
  subroutine check_old()
    use mpi
    use mpi_ext
    implicit none
    integer :: comm, living, group, size, number, flag, request, win, ierror
    logical :: is_revoked
    call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierror)
    call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN, ierror)
    call MPIX_Comm_is_revoked(comm, is_revoked, ierror)
    if (ierror /= MPI_SUCCESS .or. is_revoked) stop 'is_revoked before'
    flag = 6
    call PMPIX_Comm_agree(comm, flag, ierror)
    if (ierror /= MPI_SUCCESS .or. flag /= 6) stop 'agree'
    call MPIX_Comm_iagree(comm, flag, request, ierror)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
    if (ierror /= MPI_SUCCESS .or. flag /= 6) stop 'iagree'
    call MPIX_Comm_get_failed(comm, group, ierror)
    call MPI_Group_size(group, number, ierror)
    if (number /= 0) stop 'get_failed'
    call MPI_Group_free(group, ierror)
    call MPIX_Comm_ack_failed(comm, 1, number, ierror)
    if (ierror /= MPI_SUCCESS .or. number /= 0) stop 'ack_failed'
    call MPIX_Comm_revoke(comm, ierror)
    call MPIX_Comm_is_revoked(comm, is_revoked, ierror)
    if (ierror /= MPI_SUCCESS .or. .not. is_revoked) stop 'is_revoked after'
    call MPI_Barrier(comm, ierror)
    if (ierror /= MPIX_ERR_REVOKED) stop 'barrier'
    call MPIX_Comm_shrink(comm, living, ierror)
    if (ierror /= MPI_SUCCESS) stop 'shrink'
    call MPI_Comm_size(living, number, ierror)
    call MPI_Comm_size(MPI_COMM_WORLD, size, ierror)
    if (number /= size) stop 'size'
    call MPI_Barrier(living, ierror)
    if (ierror /= MPI_SUCCESS) stop 'barrier of the living'
    call MPI_Comm_free(living, ierror)
    call MPI_Comm_free(comm, ierror)
    call MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
    call MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN, ierror)
    call MPIX_Win_revoke(win, ierror)
    if (ierror /= MPI_SUCCESS) stop 'Win_revoke'
    call MPI_Win_fence(0, win, ierror)
    if (ierror /= MPIX_ERR_REVOKED) stop 'fence'
    call MPIX_Win_is_revoked(win, is_revoked, ierror)
    if (ierror /= MPI_SUCCESS .or. .not. is_revoked) stop 'Win_is_revoked'
    call PMPIX_Win_get_failed(win, group, ierror)
    call MPI_Group_size(group, number, ierror)
    if (number /= 0) stop 'Win_get_failed'
    call MPI_Group_free(group, ierror)
    call MPIX_Win_ack_failed(win, 1, number, ierror)
    if (ierror /= MPI_SUCCESS .or. number /= 0) stop 'Win_ack_failed'
    call MPI_Win_free(win, ierror)
    if (ierror /= MPI_SUCCESS) stop 'Win_free'
  end subroutine
end module

module by_new
contains
  subroutine check_new()
    use mpi_f08
    use mpi_f08_ext
    implicit none
    type(MPI_Comm) :: comm, living
    type(MPI_Group) :: group
    type(MPI_File) :: file
    integer :: number, flag, ierror
    logical :: is_revoked
    call MPI_Comm_dup(MPI_COMM_WORLD, comm)
    call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN)
    call MPIX_Comm_failure_ack(comm)
    call MPIX_Comm_failure_get_acked(comm, group)
    call MPI_Group_size(group, number)
    if (number /= 0) stop 'get_acked'
    call MPI_Group_free(group)
    flag = 3
    call MPIX_Comm_agree(comm, flag, ierror)
    if (ierror /= MPI_SUCCESS .or. flag /= 3) stop 'agree of mpi_f08'
    call MPIX_Comm_revoke(comm)
    call MPI_Barrier(comm, ierror)
    if (ierror /= MPIX_ERR_REVOKED) stop 'barrier of mpi_f08'
    call MPIX_Comm_is_revoked(comm, is_revoked)
    if (.not. is_revoked) stop 'is_revoked of mpi_f08'
    call PMPIX_Comm_shrink(comm, living)
    call MPI_Barrier(living)
    call MPI_Comm_free(living)
    call MPI_Comm_free(comm)
    call MPI_File_open(MPI_COMM_WORLD, '/dev/null', MPI_MODE_RDWR, MPI_INFO_NULL, file)
    call MPIX_File_is_revoked(file, is_revoked)
    call MPIX_File_revoke(file)
    call MPI_File_sync(file, ierror)
    if (ierror /= MPIX_ERR_REVOKED) stop 'sync of mpi_f08'
    call MPIX_File_is_revoked(file, is_revoked)
    if (.not. is_revoked) stop 'File_is_revoked of mpi_f08'
    call MPIX_File_get_failed(file, group)
    call MPI_Group_size(group, number)
    if (number /= 0) stop 'File_get_failed'
    call MPI_Group_free(group)
    call MPIX_File_ack_failed(file, 1, number)
    if (number /= 0) stop 'File_ack_failed'
    call MPI_File_close(file, ierror)
    if (ierror /= MPI_SUCCESS) stop 'File_close'
  end subroutine
end module

program fortran_ext
  use mpi
  use by_old
  use by_new
  implicit none
  integer :: rank, ierror
  include 'mpif-ext.h'
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  if (MPIX_ERR_PROC_FAILED == MPIX_ERR_REVOKED) stop 'constants'
  call check_old()
  call check_new()
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  if (rank == 0) print '(a)', 'as expected'
  call MPI_Finalize(ierror)
end program
