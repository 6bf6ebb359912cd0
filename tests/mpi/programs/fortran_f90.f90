! use mpi: buffers of any type and rank, sentinels of the module, addresses, sizes.
program fortran_f90
  use mpi
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
  implicit none
  integer :: ierror, rank, size, number, win, i, size_of
  integer :: status(MPI_STATUS_SIZE)
  integer(kind=MPI_ADDRESS_KIND) :: bytes, first, second, attribute
  real :: matrix(3, 4), sum(3, 4)
  double precision :: scalar
  logical :: flag
  type(c_ptr) :: memory
  integer, pointer :: window(:)
  character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: version
  character(len=5) :: word
  integer, parameter :: size_of_room = MPI_BSEND_OVERHEAD + 64
  character :: room(size_of_room), untouched(8) = '*'
  call MPI_Init_thread(MPI_THREAD_FUNNELED, number, ierror)
  call expect(ierror == MPI_SUCCESS .and. number >= MPI_THREAD_FUNNELED, 'init')
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierror)
  call MPI_Get_library_version(version, number, ierror)
  call expect(len_trim(version) == number .and. number > 0, 'version')

  matrix = real(rank)
  call MPI_Allreduce(matrix, sum, 12, MPI_REAL, MPI_MAX, MPI_COMM_WORLD, ierror)
  call expect(all(sum == real(size - 1)), 'matrix')
  scalar = rank
  call MPI_Allreduce(MPI_IN_PLACE, scalar, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierror)
  call expect(scalar == size * (size - 1) / 2, 'in place')
  word = merge('hello', '.....', rank == 0)
  call MPI_Bcast(word, 5, MPI_CHARACTER, 0, MPI_COMM_WORLD, ierror)
  call expect(word == 'hello', 'characters')
  flag = rank == size - 1
  call MPI_Allreduce(MPI_IN_PLACE, flag, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD, ierror)
  call expect(flag, 'logical')
  call MPI_Sendrecv(rank, 1, MPI_INTEGER, mod(rank + 1, size), 1, number, 1, MPI_INTEGER, &
                    MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, status, ierror)
  call expect(status(MPI_SOURCE) == mod(rank + size - 1, size), 'source')

  call MPI_Get_address(matrix(1, 1), first, ierror)
  call MPI_Get_address(matrix(1, 2), second, ierror)
  call expect(MPI_Aint_diff(second, first) == 12, 'addresses')
  call MPI_Sizeof(matrix, size_of, ierror)
  call expect(size_of == 4, 'sizeof')

  ! Of any type in this module, and not used: what it names is left alone.
  call MPI_Buffer_attach(room, size_of_room, ierror)
  call MPI_Buffer_detach(untouched, number, ierror)
  call expect(number == size_of_room .and. all(untouched == '*'), 'detached buffer')

  bytes = 16
  call MPI_Win_allocate(bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, memory, win, ierror)
  call c_f_pointer(memory, window, [4])
  window = -1
  call MPI_Win_get_attr(win, MPI_WIN_SIZE, attribute, flag, ierror)
  call expect(flag .and. attribute == 16, 'window size')
  call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, attribute, flag, ierror)
  call expect(flag .and. attribute == 4, 'displacement unit')
  call MPI_Win_fence(0, win, ierror)
  first = 2
  call MPI_Put(rank, 1, MPI_INTEGER, mod(rank + 1, size), first, 1, MPI_INTEGER, win, ierror)
  call MPI_Win_fence(0, win, ierror)
  call expect(window(3) == mod(rank + size - 1, size), 'put')
  call MPI_Win_free(win, ierror)
  call MPI_Alloc_mem(bytes, MPI_INFO_NULL, memory, ierror)
  call c_f_pointer(memory, window, [4])
  window = [(i, i = 1, 4)]
  call MPI_Free_mem(window, ierror)
  call MPI_Finalize(ierror)
  if (rank == 0) print '(a)', 'as expected'
contains
  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (.not. holds) then
      print *, 'not so: ', what
      call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
    end if
  end subroutine
end program
