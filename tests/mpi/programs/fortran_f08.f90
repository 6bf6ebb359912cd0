! use mpi_f08: types, optional ierror, array sections, large counts, procedures, statuses.
module fortran_f08_procedures
  use mpi_f08
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
  implicit none
  integer :: num_errors = 0
contains
  subroutine add(in, inout, n, datatype)
    type(c_ptr), value :: in, inout
    integer :: n
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    call c_f_pointer(in, a, [n])
    call c_f_pointer(inout, b, [n])
    if (datatype == MPI_INTEGER) b = a + b
  end subroutine
  subroutine on_error(comm, code)
    type(MPI_Comm) :: comm
    integer :: code
    if (comm == MPI_COMM_WORLD .and. code /= MPI_SUCCESS) num_errors = num_errors + 1
  end subroutine
  subroutine query(extra_state, status, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    type(MPI_Status) :: status
    integer :: ierror
    call MPI_Status_set_elements(status, MPI_INTEGER, int(extra_state))
    call MPI_Status_set_cancelled(status, .false.)
    status%MPI_SOURCE = MPI_UNDEFINED
    status%MPI_TAG = MPI_UNDEFINED
    ierror = MPI_SUCCESS
  end subroutine
  subroutine release(extra_state, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    ierror = merge(MPI_SUCCESS, MPI_ERR_OTHER, extra_state == 3)
    extra_state = extra_state + 1
  end subroutine
  subroutine cancel(extra_state, complete, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    logical :: complete
    integer :: ierror
    ierror = merge(MPI_SUCCESS, MPI_ERR_OTHER, complete .or. extra_state == 3)
  end subroutine
  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (.not. holds) then
      print *, 'not so: ', what
      call MPI_Abort(MPI_COMM_WORLD, 1)
    end if
  end subroutine
end module

program fortran_f08
  use fortran_f08_procedures
  implicit none
  integer :: rank, size, next, prev, i, j, number, ierror, f_status(MPI_STATUS_SIZE), index
  integer(kind=MPI_COUNT_KIND) :: large
  integer(kind=MPI_ADDRESS_KIND) :: extra = 3, attribute
  integer(kind=MPI_ADDRESS_KIND), volatile :: state = 3
  integer, asynchronous :: matrix(6, 5), copy(6, 5), vector(10)
  type(MPI_Comm) :: comm
  type(MPI_Status) :: status
  type(MPI_Request) :: requests(2)
  type(MPI_Op) :: op
  type(MPI_Errhandler) :: errhandler
  character(len=MPI_MAX_OBJECT_NAME) :: name
  logical :: flag

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierror)
  call expect(ierror == MPI_SUCCESS .and. MPI_SUBARRAYS_SUPPORTED, 'size')
  next = mod(rank + 1, size)
  prev = mod(rank + size - 1, size)
  matrix = reshape([(100 * rank + i, i = 1, 30)], [6, 5])

  ! A section that both sides have with gaps, on a copy and by a datatype.
  copy = -1
  call MPI_Sendrecv(matrix(2:6:2, 1:5:2), 9, MPI_INTEGER, next, 1, copy(1:5:2, 2:4), 9, &
                    MPI_INTEGER, prev, 1, MPI_COMM_WORLD, status)
  call check_section('blocking')
  call MPI_Get_count(status, MPI_INTEGER, number)
  call expect(number == 9 .and. status%MPI_SOURCE == prev, 'status')
  copy = -1
  call MPI_Irecv(copy(1:5:2, 2:4), 9, MPI_INTEGER, prev, 2, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(matrix(2:6:2, 1:5:2), 9, MPI_INTEGER, next, 2, MPI_COMM_WORLD, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call expect(requests(1) == MPI_REQUEST_NULL, 'requests')
  call check_section('nonblocking')
  ! Backwards, and fewer than there are.
  vector = -1
  call MPI_Irecv(vector(10:1:-3), 3, MPI_INTEGER, prev, 3, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(matrix(1, :), 3, MPI_INTEGER, next, 3, MPI_COMM_WORLD, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call expect(all(vector == [-1, -1, -1, 100 * prev + 13, -1, -1, 100 * prev + 7, -1, -1, &
                             100 * prev + 1]), 'backwards')
  copy = 0
  call MPI_Allreduce(matrix(2:6:2, 1:5:2), copy(1:3, 1:3), 9, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
  call expect(copy(2, 2) == 100 * (size - 1) + matrix(4, 3) - 100 * rank .and. copy(4, 1) == 0, &
              'reduced section')
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
  call MPI_Iallreduce(matrix(2:6:2, 1), vector, 3, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, &
                      requests(1), ierror)
  call expect(ierror == MPI_ERR_BUFFER, 'refused section')

  ! Large counts.
  large = 30
  call MPI_Allreduce(matrix, copy, large, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call expect(copy(1, 1) == sum([(100 * i + 1, i = 0, size - 1)]), 'large count')

  ! Procedures.
  call MPI_Op_create(add, .true., op)
  call MPI_Allreduce(rank, number, 1, MPI_INTEGER, op, MPI_COMM_WORLD)
  call expect(number == size * (size - 1) / 2, 'user op')
  call MPI_Op_free(op)
  call MPI_Comm_create_errhandler(on_error, errhandler)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, errhandler)
  call MPI_Send(rank, 1, MPI_INTEGER, size, 3, MPI_COMM_WORLD)
  call expect(num_errors == 1, 'handler')
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL)
  call MPI_Errhandler_free(errhandler)
  call MPI_Grequest_start(query, release, cancel, state, requests(1))
  call MPI_Grequest_complete(requests(1))
  requests(2) = requests(1)
  requests(1) = MPI_REQUEST_NULL
  call MPI_Waitany(2, requests, index, status)
  call MPI_Get_count(status, MPI_INTEGER, number)
  call expect(number == 3 .and. index == 2 .and. state == 4, 'grequest')
  call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, number, extra)
  call MPI_Comm_set_attr(MPI_COMM_WORLD, number, extra)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Comm_get_attr(comm, number, attribute, flag)
  call expect(flag .and. attribute == 3, 'attribute')

  ! Statuses of the other modules, strings, arrays of logicals.
  status%MPI_TAG = 17
  call MPI_Status_f082f(status, f_status)
  call expect(f_status(MPI_F_TAG) == 17, 'f082f')
  call MPI_Status_f2f08(f_status, status)
  call MPI_Comm_set_name(comm, 'a name')
  call MPI_Comm_get_name(comm, name, number)
  call expect(name == 'a name' .and. number == 6, 'name')
  call MPI_Sizeof(matrix(1, :), number)
  call expect(number == storage_size(number) / 8, 'sizeof')
  call MPI_Comm_free(comm)
  call expect(comm == MPI_COMM_NULL .and. comm /= MPI_COMM_WORLD, 'freed')
  call MPI_Finalize()
  if (rank == 0) print '(a)', 'as expected'
contains
  subroutine check_section(what)
    character(len=*), intent(in) :: what
    do j = 1, 3
      do i = 1, 3
        call expect(copy(2 * i - 1, j + 1) == 100 * prev + 2 * i + 12 * (j - 1), what)
      end do
    end do
    call expect(count(copy == -1) == 21, what)
  end subroutine
end program
