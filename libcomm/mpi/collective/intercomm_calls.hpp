#pragma once
// Collectives on intercommunicators, as Calls (collective.hpp): MPI 5.0 section 6.2.3. A process's
// contribution goes to the remote group, and its result comes from there. All run as schedules.
// Where the standard has a root, it passes MPI_ROOT, the others of its group MPI_PROC_NULL, and the
// other group its rank.
#include <vector>

#include "mpi/collective/collective.hpp"

namespace weft::mpi {

inline int check_inter_root(const Comm& comm, int root) noexcept {
  return root == MPI_ROOT || root == MPI_PROC_NULL || is_peer(comm, root) ? MPI_SUCCESS
                                                                          : MPI_ERR_ROOT;
}

// Blocks that go to, or come from, ranks of the remote group. One block for several ranks is the
// same block for all of them.
class RemoteBlocks {
 public:
  // Sets one block of `count` elements for `num_ranks` ranks from `first` on.
  int one(const void* buffer, MPI_Count count, MPI_Datatype handle, int first, int num_ranks) {
    if (buffer == MPI_IN_PLACE) return MPI_ERR_BUFFER;
    types_.resize(1);
    const int code = check_elements(count, handle, types_[0]);
    if (code != MPI_SUCCESS) return code;
    for (int i = 0; i < num_ranks; ++i) ranks_.push_back(first + i);
    return blocks_.set(
        const_cast<void*>(buffer), 1, [count](std::size_t) { return count; },
        [](std::size_t) { return std::ptrdiff_t{0}; }, [this](std::size_t) { return types_[0]; });
  }
  // Sets blocks of one size, one after the other, for each rank of the remote group.
  int equal(const void* buffer, MPI_Count count, MPI_Datatype handle, const Comm& comm) {
    return each(
        buffer, comm, false, [count](std::size_t) { return count; },
        [count](std::size_t i) { return static_cast<std::ptrdiff_t>(i) * count; },
        [handle](std::size_t) { return handle; });
  }
  // place(i) counts extents, or bytes.
  template <class CountOf, class PlaceOf, class HandleOf>
  int each(const void* buffer, const Comm& comm, bool in_bytes, CountOf&& count, PlaceOf&& place,
           HandleOf&& handle) {
    if (buffer == MPI_IN_PLACE) return MPI_ERR_BUFFER;
    types_.resize(static_cast<std::size_t>(comm.peer_group().size()));
    for (std::size_t i = 0; i < types_.size(); ++i) {
      const int code = check_elements(count(i), handle(i), types_[i]);
      // A process that gets nothing may have any type.
      if (code == MPI_ERR_TYPE && count(i) == 0 && in_bytes)
        types_[i] = find_datatype(MPI_BYTE);
      else if (code != MPI_SUCCESS)
        return code;
      ranks_.push_back(static_cast<int>(i));
    }
    return blocks_.set(
        const_cast<void*>(buffer), comm.peer_group().size(), count,
        [&](std::size_t i) {
          const auto at = static_cast<std::ptrdiff_t>(place(i));
          return in_bytes ? at : at * static_cast<std::ptrdiff_t>(types_[i]->extent());
        },
        [this](std::size_t i) { return types_[i]; });
  }

  template <class F>
  void each_type(F&& f) const {
    for (Datatype* type : types_) f(type);
  }
  void pack() { blocks_.pack(); }
  void unpack() { blocks_.unpack(); }
  void schedule_sends(Schedule& schedule) const {
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      schedule.send_remote(ranks_[i], blocks_.block(of(i)), blocks_.bytes[of(i)]);
  }
  void schedule_receives(Schedule& schedule) const {
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      schedule.receive_remote(ranks_[i], blocks_.block(of(i)), blocks_.bytes[of(i)]);
  }

 private:
  std::size_t of(std::size_t i) const noexcept { return types_.size() == 1 ? 0 : i; }

  std::vector<int> ranks_;
  std::vector<Datatype*> types_;
  Blocks blocks_;
};

// Plans a member's contribution to a gather of the remote group's (root: as MPI has it) or an
// allgather (root -1). receives: the member also gets something.
inline int plan_gathered(const Comm& comm, int root, const void* buffer, MPI_Count count,
                         MPI_Datatype datatype, RemoteBlocks& out, bool& receives) {
  receives = root == -1 || root == MPI_ROOT;
  if (root == -1) return out.one(buffer, count, datatype, 0, comm.peer_group().size());
  if (const int code = check_inter_root(comm, root); code != MPI_SUCCESS) return code;
  return root >= 0 ? out.one(buffer, count, datatype, root, 1) : MPI_SUCCESS;
}

// Gather, scatter, allgather and alltoall in all their forms: the Call plans the blocks that go out
// and come in,
//   int plan(const Comm&, RemoteBlocks& out, RemoteBlocks& in)
// and returns MPI_SUCCESS or the error class.
template <class Call>
class InterMove {
 public:
  explicit InterMove(Call&& call) : call_(std::move(call)) {}
  template <class F>
  void each_type(F&& f) const {
    out_.each_type(f);
    in_.each_type(f);
  }
  int check(Comm& comm) { return call_.plan(comm, out_, in_); }
  int prepare(Comm&) {
    out_.pack();
    return MPI_SUCCESS;
  }
  void build(Schedule& schedule) {
    in_.schedule_receives(schedule);
    out_.schedule_sends(schedule);
    schedule.wait();
  }
  void finish() { in_.unpack(); }

 private:
  Call call_;
  RemoteBlocks out_;
  RemoteBlocks in_;
};

// The local group meets, its first process sends to the other group's first, and passes on to its
// own group what it received.
template <class Call>
struct InterBarrier {
  explicit InterBarrier(Call&&) {}
  template <class F>
  void each_type(F&&) const {}
  int check(Comm&) { return MPI_SUCCESS; }
  int prepare(Comm&) { return MPI_SUCCESS; }
  void build(Schedule& schedule) {
    schedule_barrier(schedule);
    if (schedule.rank() == 0) {
      schedule.receive_remote(0, nullptr, 0);
      schedule.send_remote(0, nullptr, 0);
      schedule.wait();
    }
    schedule_bcast(schedule, nullptr, 0, 0);
  }
  void finish() {}
};

template <class Call>
struct InterBcast {
  explicit InterBcast(Call&& the_call) : call(std::move(the_call)) {}
  Call call;
  bool sends = false;
  bool receives = false;

  template <class F>
  void each_type(F&& f) const {
    f(call.type);
  }
  int check(Comm& comm) {
    if (const int code = check_inter_root(comm, call.root); code != MPI_SUCCESS) return code;
    sends = call.root == MPI_ROOT;
    receives = call.root >= 0;
    return sends || receives ? check_elements(call.count, call.datatype, call.type) : MPI_SUCCESS;
  }
  int prepare(Comm&) {
    if (!sends && !receives) return MPI_SUCCESS;
    const int code = call.piece.set(call.buffer, call.count, call.type);
    if (code == MPI_SUCCESS && sends) call.piece.pack();
    return code;
  }
  void build(Schedule& schedule) {
    if (sends) schedule.send_remote(0, call.piece.data(), call.piece.bytes());
    if (receives) {
      if (schedule.rank() == 0) {
        schedule.receive_remote(call.root, call.piece.data(), call.piece.bytes());
        schedule.wait();
      }
      schedule_bcast(schedule, call.piece.data(), call.piece.bytes(), 0);
    }
    schedule.wait();
  }
  void finish() {
    if (receives) call.piece.unpack();
  }
};

}  // namespace weft::mpi
