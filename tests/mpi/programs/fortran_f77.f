! mpif.h: messages, sentinels, strings, attributes, user operations.
      program fortran_f77
      implicit none
      include 'mpif.h'
      integer ierr, rank, size, next, prev, i
      integer status(MPI_STATUS_SIZE), requests(2)
      integer statuses(MPI_STATUS_SIZE, 2)
      integer value, sum, out(4), indices(2), outcount, length
      integer op, keyval, newcomm, info, errhandler, class
      integer(kind=MPI_ADDRESS_KIND) extra, attribute
      logical flag, periods(1)
      integer dims(1), cart
      character*(MPI_MAX_OBJECT_NAME) name
      character*10 short
      external double_sum, copy_twice, remove_it, on_error
      integer num_deleted, last_error
      common /seen/ num_deleted, last_error

      num_deleted = 0
      last_error = 0
      call MPI_INIT(ierr)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, size, ierr)
      next = mod(rank + 1, size)
      prev = mod(rank + size - 1, size)

! Messages.
      value = -1
      call MPI_SENDRECV(rank, 1, MPI_INTEGER, next, 3, value, 1,
     &    MPI_INTEGER, prev, MPI_ANY_TAG, MPI_COMM_WORLD, status, ierr)
      call expect(value .eq. prev, 'sendrecv')
      call expect(status(MPI_SOURCE) .eq. prev, 'source')
      call expect(status(MPI_TAG) .eq. 3, 'tag')
      call MPI_GET_COUNT(status, MPI_INTEGER, length, ierr)
      call expect(length .eq. 1, 'count')
      value = -1
      call MPI_IRECV(value, 1, MPI_INTEGER, prev, 4, MPI_COMM_WORLD,
     &    requests(1), ierr)
      call MPI_ISEND(rank, 1, MPI_INTEGER, next, 4, MPI_COMM_WORLD,
     &    requests(2), ierr)
      call MPI_WAITALL(2, requests, statuses, ierr)
      call expect(value .eq. prev, 'irecv')
      call expect(requests(1) .eq. MPI_REQUEST_NULL, 'null')
      call MPI_IRECV(value, 1, MPI_INTEGER, prev, 5, MPI_COMM_WORLD,
     &    requests(2), ierr)
      requests(1) = MPI_REQUEST_NULL
      call MPI_SEND(rank, 1, MPI_INTEGER, next, 5, MPI_COMM_WORLD, ierr)
      call MPI_WAITSOME(2, requests, outcount, indices,
     &    MPI_STATUSES_IGNORE, ierr)
      call expect(outcount .eq. 1 .and. indices(1) .eq. 2, 'waitsome')

! Sentinels.
      sum = rank
      call MPI_ALLREDUCE(MPI_IN_PLACE, sum, 1, MPI_INTEGER, MPI_SUM,
     &    MPI_COMM_WORLD, ierr)
      call expect(sum .eq. size * (size - 1) / 2, 'in place')
      call MPI_SENDRECV(rank, 1, MPI_INTEGER, next, 3, value, 1,
     &    MPI_INTEGER, prev, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE,
     &    ierr)

! A user's operation, which is called with a datatype.
      call MPI_OP_CREATE(double_sum, .true., op, ierr)
      call MPI_ALLREDUCE(rank, sum, 1, MPI_INTEGER, op, MPI_COMM_WORLD,
     &    ierr)
      call expect(sum .eq. size * (size - 1) / 2, 'user op')
      call MPI_OP_FREE(op, ierr)
      call expect(op .eq. MPI_OP_NULL, 'op freed')

! Strings.
      call MPI_COMM_SET_NAME(MPI_COMM_WORLD, 'all of it   ', ierr)
      name = 'x'
      call MPI_COMM_GET_NAME(MPI_COMM_WORLD, name, length, ierr)
      call expect(name .eq. 'all of it' .and. length .eq. 9, 'name')
      call MPI_INFO_CREATE(info, ierr)
      call MPI_INFO_SET(info, ' key ', ' a value ', ierr)
      short = 'zzzzzzzzzz'
      call MPI_INFO_GET(info, 'key', 10, short, flag, ierr)
      call expect(flag .and. short .eq. 'a value', 'info')
      call MPI_INFO_GET(info, 'nothing', 10, short, flag, ierr)
      call expect(.not. flag, 'no info')
      call MPI_INFO_FREE(info, ierr)

! Attributes, predefined and of its own.
      call MPI_COMM_GET_ATTR(MPI_COMM_WORLD, MPI_TAG_UB, attribute,
     &    flag, ierr)
      call expect(flag .and. attribute .ge. 32767, 'tag_ub')
      extra = 7
      call MPI_COMM_CREATE_KEYVAL(copy_twice, remove_it, keyval, extra,
     &    ierr)
      attribute = -21
      call MPI_COMM_SET_ATTR(MPI_COMM_WORLD, keyval, attribute, ierr)
      call MPI_COMM_DUP(MPI_COMM_WORLD, newcomm, ierr)
      call MPI_COMM_GET_ATTR(newcomm, keyval, attribute, flag, ierr)
      call expect(flag .and. attribute .eq. -42, 'copied')
      call MPI_COMM_FREE(newcomm, ierr)
      call expect(num_deleted .eq. 1, 'deleted')
      call MPI_COMM_DELETE_ATTR(MPI_COMM_WORLD, keyval, ierr)
      call expect(num_deleted .eq. 2, 'deleted again')
      call MPI_COMM_FREE_KEYVAL(keyval, ierr)
      call MPI_COMM_CREATE_KEYVAL(MPI_COMM_DUP_FN,
     &    MPI_COMM_NULL_DELETE_FN, keyval, extra, ierr)
      call MPI_COMM_FREE_KEYVAL(keyval, ierr)

! Error handlers.
      call MPI_COMM_CREATE_ERRHANDLER(on_error, errhandler, ierr)
      call MPI_COMM_SET_ERRHANDLER(MPI_COMM_WORLD, errhandler, ierr)
      call MPI_SEND(rank, 1, MPI_INTEGER, size, 3, MPI_COMM_WORLD, ierr)
      call MPI_ERROR_CLASS(last_error, class, i)
      call expect(class .eq. MPI_ERR_RANK, 'handler called')
      call MPI_COMM_SET_ERRHANDLER(MPI_COMM_WORLD,
     &    MPI_ERRORS_ARE_FATAL, ierr)

! Logicals.
      dims(1) = size
      periods(1) = .true.
      call MPI_CART_CREATE(MPI_COMM_WORLD, 1, dims, periods, .false.,
     &    cart, ierr)
      periods(1) = .false.
      call MPI_CART_GET(cart, 1, dims, periods, out, ierr)
      call expect(periods(1), 'periods')
      call MPI_COMM_FREE(cart, ierr)
      call expect(MPI_WTIME() .gt. 0.0d0, 'wtime')
      call MPI_FINALIZE(ierr)
      if (rank .eq. 0) print '(a)', 'as expected'
      end

      subroutine expect(holds, what)
      include 'mpif.h'
      logical holds
      character*(*) what
      integer ierr
      if (.not. holds) then
        print *, 'not so: ', what
        call MPI_ABORT(MPI_COMM_WORLD, 1, ierr)
      end if
      end

      subroutine double_sum(in, inout, n, type)
      include 'mpif.h'
      integer n, in(n), inout(n), type, i
      if (type .ne. MPI_INTEGER) inout(1) = -1000000
      do i = 1, n
        inout(i) = inout(i) + in(i)
      end do
      end

      subroutine copy_twice(comm, keyval, extra, from, to, flag, ierr)
      include 'mpif.h'
      integer comm, keyval, ierr
      integer(kind=MPI_ADDRESS_KIND) extra, from, to
      logical flag
      to = from * 2
      flag = extra .eq. 7 .and. comm .ne. keyval
      ierr = MPI_SUCCESS
      end

      subroutine remove_it(comm, keyval, attribute, extra, ierr)
      include 'mpif.h'
      integer comm, keyval, ierr
      integer(kind=MPI_ADDRESS_KIND) extra, attribute
      integer num_deleted, last_error
      common /seen/ num_deleted, last_error
      if (extra .eq. 7 .and. attribute .lt. 0 .and. comm .ne. keyval)
     &    num_deleted = num_deleted + 1
      ierr = MPI_SUCCESS
      end

      subroutine on_error(comm, code)
      include 'mpif.h'
      integer comm, code
      integer num_deleted, last_error
      common /seen/ num_deleted, last_error
      if (comm .eq. MPI_COMM_WORLD) last_error = code
      end
