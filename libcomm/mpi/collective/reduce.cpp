// The collectives that compute: reductions and prefix sums, in their blocking, nonblocking and
// persistent forms.
//
// Operations see packed elements (op.hpp), so data with gaps are packed and unpacked around.
#include "mpi/collective/collective.hpp"
#include "mpi/collective/intercomm_calls.hpp"
#include "mpi/op/op.hpp"

namespace weft::mpi {
namespace {

// An operation bound to one type, with all it needs. Counted, as the program may free its operation
// before a background reduction ends.
class BoundOp {
 public:
  BoundOp() = default;
  BoundOp(BoundOp&& other) noexcept
      : op_(other.op_),
        user_(std::move(other.user_)),
        reduction_(other.reduction_),
        kept_(other.kept_) {
    other.op_ = nullptr;
    other.kept_ = nullptr;
  }
  BoundOp& operator=(BoundOp&&) = delete;
  ~BoundOp() {
    if (kept_ != nullptr) {
      unpin_handles(kept_);
      release(kept_);
    }
    if (op_ != nullptr) release(op_);
  }
  // Binds: MPI_SUCCESS or MPI_ERR_OP.
  int bind(MPI_Op operation, Datatype* type, MPI_Datatype handle) {
    Op* op = find_op(operation);
    if (op == nullptr) return MPI_ERR_OP;
    retain(op);
    op_ = op;
    return make_reduction(op, type, handle, user_, reduction_);
  }
  // Called before the reduction is used, on up to `count` elements: MPI_SUCCESS or MPI_ERR_NO_MEM.
  int prepare(MPI_Count count) noexcept {
    return user_.make_room(static_cast<std::size_t>(count)) ? MPI_SUCCESS : MPI_ERR_NO_MEM;
  }
  // Keeps the type: the program may free it meanwhile, and the operation's function gets its
  // handle.
  void keep_type() {
    if (user_.type == nullptr || user_.type->predefined_) return;
    kept_ = user_.type;
    retain(kept_);
    pin_handles(kept_);
  }
  // Valid until this object moves.
  const coll::Reduction& reduction() noexcept {
    if (reduction_.argument != nullptr) reduction_.argument = &user_;
    return reduction_;
  }

 private:
  Op* op_ = nullptr;
  UserReduction user_;
  coll::Reduction reduction_{};
  Datatype* kept_ = nullptr;  // counted
};

enum class Shape { reduce, allreduce, scan, exscan };

// On intercommunicators a group gets the result of the other one.
template <class Call>
struct InterReduce;
template <class Call>
struct InterReduceScatter;

// Reductions of one vector per process.
template <Shape shape>
struct ReduceCall {
  static constexpr bool kRooted = shape == Shape::reduce;
  using Inter = std::conditional_t<shape == Shape::reduce || shape == Shape::allreduce,
                                   InterReduce<ReduceCall>, void>;
  const void* send_buffer;
  void* receive_buffer;
  MPI_Count count;
  MPI_Datatype datatype;
  MPI_Op operation;
  int root = 0;
  int rank = 0;
  bool receives = true;
  bool in_place = false;
  Datatype* type = nullptr;
  BoundOp op = {};
  PackedBuffer send = {};
  PackedBuffer receive = {};

  template <class F>
  void each_type(F&& f) const {
    f(type);
  }
  void outlive() { op.keep_type(); }
  int check(Comm& comm) {
    rank = comm.rank;
    const int code = check_elements(count, datatype, type);
    if (code != MPI_SUCCESS) return code;
    if (const int bound = op.bind(operation, type, datatype); bound != MPI_SUCCESS) return bound;
    if constexpr (shape == Shape::reduce) {
      if (const int wrong = check_root(comm, root); wrong != MPI_SUCCESS) return wrong;
      receives = rank == root;
    }
    const bool is_first_exscan = shape == Shape::exscan && rank == 0;  // its result is none
    in_place = send_buffer == MPI_IN_PLACE;
    if (in_place && !receives) return MPI_ERR_BUFFER;
    if (receives && receive_buffer == MPI_IN_PLACE) return MPI_ERR_BUFFER;
    if (receives && !is_first_exscan && !in_place && send_buffer == receive_buffer && count > 0 &&
        send_buffer != MPI_BOTTOM)
      return MPI_ERR_BUFFER;
    return MPI_SUCCESS;
  }
  int prepare(Comm&) {
    if (const int code = op.prepare(count); code != MPI_SUCCESS) return code;
    if (!in_place) {
      const int code = send.set(send_buffer, count, type);
      if (code != MPI_SUCCESS) return code;
      send.pack();
    }
    if (!receives) return MPI_SUCCESS;
    const int code = receive.set(receive_buffer, count, type);
    // MPI_Exscan leaves rank 0's result alone: its receive buffer must come back unchanged.
    if (code == MPI_SUCCESS && (in_place || shape == Shape::exscan)) receive.pack();
    return code;
  }
  Status run(coll::Team& team) {
    const void* from = in_place ? nullptr : not_null(send.data());
    const auto n = static_cast<std::size_t>(count);
    if constexpr (shape == Shape::reduce)
      return coll::reduce(team, from, receive.data(), n, op.reduction(), root);
    else if constexpr (shape == Shape::allreduce)
      return coll::allreduce(team, from, receive.data(), n, op.reduction());
    else if constexpr (shape == Shape::scan)
      return coll::scan(team, from, receive.data(), n, op.reduction());
    else
      return coll::exscan(team, from, receive.data(), n, op.reduction());
  }
  Switched through(const coll::Team&) requires(shape == Shape::allreduce ||
                                               shape == Shape::reduce) {
    const void* input = in_place ? receive.data() : send.data();
    const auto n = static_cast<std::size_t>(count);
    if constexpr (shape == Shape::allreduce)
      return offload::allreduce_call(input, receive.data(), n, op.reduction());
    else
      return offload::reduce_call(input, receives ? receive.data() : nullptr, n, op.reduction());
  }
  void build(Schedule& schedule) {
    const coll::Reduction& reduction = op.reduction();
    const coll::Vector vector{static_cast<std::size_t>(count), reduction.element_bytes};
    if (vector.bytes() == 0) return;
    const void* input = in_place ? receive.data() : send.data();
    if constexpr (shape == Shape::reduce) {
      schedule.add_steps(
          input, receive.data(), &reduction, [&](const coll::TeamShape& team, coll::Plan& plan) {
            coll::write_reduce_steps(team, plan, vector, reduction.commutative, root);
          });
    } else if constexpr (shape == Shape::allreduce) {
      schedule.copy(receive.data(), input, vector.bytes());
      schedule.add_steps(nullptr, receive.data(), &reduction,
                         [&](const coll::TeamShape& team, coll::Plan& plan) {
                           coll::write_allreduce_steps(team, plan, vector, reduction.commutative);
                         });
    } else {
      // A separate buffer, as MPI_Exscan leaves rank 0's result alone.
      char* data = schedule.allocate(vector.bytes());
      if (data == nullptr) return;
      schedule.copy(data, input, vector.bytes());
      schedule.add_steps(nullptr, data, &reduction,
                         [&](const coll::TeamShape& team, coll::Plan& plan) {
                           coll::write_scan_steps(team, plan, vector, shape == Shape::exscan);
                         });
      if (shape == Shape::scan || rank != 0) schedule.copy(receive.data(), data, vector.bytes());
    }
  }
  void finish() {
    if (receives) receive.unpack();
  }
};

// reduce_scatter and reduce_scatter_block: `counts` is null for equal blocks of `block`.
template <class Count>
struct ReduceScatterCall {
  using Inter = InterReduceScatter<ReduceScatterCall>;
  const void* send_buffer;
  void* receive_buffer;
  const Count* counts;
  MPI_Count block;
  MPI_Datatype datatype;
  MPI_Op operation;
  int rank = 0;
  bool in_place = false;
  Datatype* type = nullptr;
  BoundOp op = {};
  std::vector<std::size_t> elements = {};
  MPI_Count total = 0;
  PackedBuffer send = {};
  PackedBuffer receive = {};

  template <class F>
  void each_type(F&& f) const {
    f(type);
  }
  void outlive() { op.keep_type(); }
  int check(Comm& comm) {
    rank = comm.rank;
    const int counted = check_elements(counts == nullptr ? block : 0, datatype, type);
    if (counted != MPI_SUCCESS) return counted;
    const int code = op.bind(operation, type, datatype);
    if (code != MPI_SUCCESS) return code;
    elements.resize(static_cast<std::size_t>(comm.size()));
    total = 0;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const MPI_Count count = counts == nullptr ? block : static_cast<MPI_Count>(counts[i]);
      if (count < 0) return MPI_ERR_COUNT;
      if (__builtin_add_overflow(total, count, &total)) return MPI_ERR_COUNT;
      elements[i] = static_cast<std::size_t>(count);
    }
    in_place = send_buffer == MPI_IN_PLACE;
    if (receive_buffer == MPI_IN_PLACE) return MPI_ERR_BUFFER;
    if (!in_place && send_buffer == receive_buffer && total > 0 && send_buffer != MPI_BOTTOM)
      return MPI_ERR_BUFFER;
    return MPI_SUCCESS;
  }
  // In place the whole vector is in the receive buffer, and this process's part of the result goes
  // to its beginning.
  int prepare(Comm&) {
    if (const int room = op.prepare(total); room != MPI_SUCCESS) return room;
    const int code = send.set(in_place ? receive_buffer : send_buffer, total, type);
    if (code != MPI_SUCCESS) return code;
    send.pack();
    return receive.set(receive_buffer,
                       static_cast<MPI_Count>(elements[static_cast<std::size_t>(rank)]), type);
  }
  Status run(coll::Team& team) {
    if (!in_place || type->is_contiguous())
      return coll::reduce_scatter(team, in_place ? nullptr : not_null(send.data()), receive.data(),
                                  elements.data(), op.reduction());
    return coll::reduce_scatter(team, send.data(), receive.data(), elements.data(), op.reduction());
  }
  Switched through(const coll::Team& team) {
    return offload::reduce_scatter_call(send.data(), receive.data(), elements.data(), rank,
                                        team.size(), op.reduction());
  }
  void build(Schedule& schedule) {
    const coll::Reduction& reduction = op.reduction();
    if (total == 0 || reduction.element_bytes == 0) return;
    schedule.add_steps(send.data(), receive.data(), &reduction,
                       [&](const coll::TeamShape& team, coll::Plan& plan) {
                         coll::write_reduce_scatter_steps(team, plan, elements.data(),
                                                          reduction.element_bytes,
                                                          reduction.commutative);
                       });
  }
  void finish() { receive.unpack(); }
};

template <class Call>
struct InterReduce {
  explicit InterReduce(Call&& the_call) : call(std::move(the_call)) {}
  Call call;
  bool sends = true;
  bool receives = true;

  template <class F>
  void each_type(F&& f) const {
    f(call.type);
  }
  void outlive() { call.op.keep_type(); }
  int check(Comm& comm) {
    if constexpr (Call::kRooted) {
      if (const int code = check_inter_root(comm, call.root); code != MPI_SUCCESS) return code;
      sends = call.root >= 0;
      receives = call.root == MPI_ROOT;
      if (!sends && !receives) return MPI_SUCCESS;
    }
    const int code = check_elements(call.count, call.datatype, call.type);
    if (code != MPI_SUCCESS) return code;
    if (sends && call.send_buffer == MPI_IN_PLACE) return MPI_ERR_BUFFER;
    if (receives && call.receive_buffer == MPI_IN_PLACE) return MPI_ERR_BUFFER;
    return call.op.bind(call.operation, call.type, call.datatype);
  }
  int prepare(Comm&) {
    if (sends) {
      if (const int code = call.op.prepare(call.count); code != MPI_SUCCESS) return code;
      const int code = call.send.set(call.send_buffer, call.count, call.type);
      if (code != MPI_SUCCESS) return code;
      call.send.pack();
    }
    return receives ? call.receive.set(call.receive_buffer, call.count, call.type) : MPI_SUCCESS;
  }
  void build(Schedule& schedule) {
    const char* result = nullptr;
    std::size_t bytes = 0;
    if (sends) {
      const auto n = static_cast<std::size_t>(call.count);
      bytes = n * call.op.reduction().element_bytes;
      char* mine = schedule.allocate(bytes);
      if (mine == nullptr) return;
      schedule.copy(mine, call.send.data(), bytes);
      result = schedule_reduce(schedule, mine, n, call.op.reduction(), 0);
    }
    if constexpr (Call::kRooted) {
      if (result != nullptr) schedule.send_remote(call.root, result, bytes);
      if (receives) schedule.receive_remote(0, call.receive.data(), call.receive.bytes());
      schedule.wait();
    } else {
      if (result != nullptr) {
        schedule.receive_remote(0, call.receive.data(), call.receive.bytes());
        schedule.send_remote(0, result, bytes);
        schedule.wait();
      }
      schedule_bcast(schedule, call.receive.data(), call.receive.bytes(), 0);
    }
  }
  void finish() {
    if (receives) call.receive.unpack();
  }
};

// `counts` are those of the local group; their sum is the same in both.
template <class Call>
struct InterReduceScatter {
  explicit InterReduceScatter(Call&& the_call) : call(std::move(the_call)) {}
  Call call;

  template <class F>
  void each_type(F&& f) const {
    f(call.type);
  }
  void outlive() { call.op.keep_type(); }
  int check(Comm& comm) {
    return call.send_buffer == MPI_IN_PLACE ? MPI_ERR_BUFFER : call.check(comm);
  }
  int prepare(Comm& comm) { return call.prepare(comm); }
  void build(Schedule& schedule) {
    const std::size_t element = call.op.reduction().element_bytes;
    const auto n = static_cast<std::size_t>(call.total);
    char* mine = schedule.allocate(n * element);
    if (mine == nullptr) return;
    schedule.copy(mine, call.send.data(), n * element);
    const char* result = schedule_reduce(schedule, mine, n, call.op.reduction(), 0);
    const auto bytes = [&](int rank) {
      return call.elements[static_cast<std::size_t>(rank)] * element;
    };
    if (result == nullptr) {
      schedule.receive(0, call.receive.data(), bytes(schedule.rank()));
    } else {
      char* theirs = schedule.allocate(n * element);
      if (theirs == nullptr) return;
      schedule.receive_remote(0, theirs, n * element);
      schedule.send_remote(0, result, n * element);
      schedule.wait();
      std::size_t place = bytes(0);
      for (int i = 1; i < schedule.size(); ++i) {
        schedule.send(i, theirs + place, bytes(i));
        place += bytes(i);
      }
      schedule.copy(call.receive.data(), theirs, bytes(0));
    }
    schedule.wait();
  }
  void finish() { call.receive.unpack(); }
};

}  // namespace
}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

#define WEFT_REDUCTION(name, iname, suffix, parameters, call)                    \
  MPI_FUNCTION(name##suffix)(WEFT_PARAMETERS parameters, MPI_Comm comm) {        \
    return run_blocking(comm, call, __func__);                                   \
  }                                                                              \
  MPI_FUNCTION(iname##suffix)                                                    \
  (WEFT_PARAMETERS parameters, MPI_Comm comm, MPI_Request * request) {           \
    return run_background(comm, call, false, request, __func__);                 \
  }                                                                              \
  MPI_FUNCTION(name##_init##suffix)                                              \
  (WEFT_PARAMETERS parameters, MPI_Comm comm, MPI_Info, MPI_Request * request) { \
    return run_background(comm, call, true, request, __func__);                  \
  }
#define WEFT_PARAMETERS(...) __VA_ARGS__

#define WEFT_EACH_FORM(Count, suffix)                                                          \
  WEFT_REDUCTION(Reduce, Ireduce, suffix,                                                      \
                 (const void* sendbuf, void* recvbuf, Count count, MPI_Datatype datatype,      \
                  MPI_Op op, int root),                                                        \
                 (ReduceCall<Shape::reduce>{sendbuf, recvbuf, count, datatype, op, root}))     \
  WEFT_REDUCTION(                                                                              \
      Allreduce, Iallreduce, suffix,                                                           \
      (const void* sendbuf, void* recvbuf, Count count, MPI_Datatype datatype, MPI_Op op),     \
      (ReduceCall<Shape::allreduce>{sendbuf, recvbuf, count, datatype, op}))                   \
  WEFT_REDUCTION(                                                                              \
      Scan, Iscan, suffix,                                                                     \
      (const void* sendbuf, void* recvbuf, Count count, MPI_Datatype datatype, MPI_Op op),     \
      (ReduceCall<Shape::scan>{sendbuf, recvbuf, count, datatype, op}))                        \
  WEFT_REDUCTION(                                                                              \
      Exscan, Iexscan, suffix,                                                                 \
      (const void* sendbuf, void* recvbuf, Count count, MPI_Datatype datatype, MPI_Op op),     \
      (ReduceCall<Shape::exscan>{sendbuf, recvbuf, count, datatype, op}))                      \
  WEFT_REDUCTION(Reduce_scatter, Ireduce_scatter, suffix,                                      \
                 (const void* sendbuf, void* recvbuf, const Count* recvcounts,                 \
                  MPI_Datatype datatype, MPI_Op op),                                           \
                 (ReduceScatterCall<Count>{sendbuf, recvbuf, recvcounts, 0, datatype, op}))    \
  WEFT_REDUCTION(                                                                              \
      Reduce_scatter_block, Ireduce_scatter_block, suffix,                                     \
      (const void* sendbuf, void* recvbuf, Count recvcount, MPI_Datatype datatype, MPI_Op op), \
      (ReduceScatterCall<Count>{sendbuf, recvbuf, nullptr, recvcount, datatype, op}))

WEFT_EACH_FORM(int, )
WEFT_EACH_FORM(MPI_Count, _c)
#undef WEFT_EACH_FORM
