#pragma once
// The collectives that move data, as Calls (collective.hpp). Count is int or MPI_Count, Place int
// or MPI_Aint: the plain and the large-count forms of the interface.
#include "mpi/collective/collective.hpp"
#include "mpi/collective/intercomm_calls.hpp"

namespace weft::mpi {

struct BarrierCall {
  using Inter = InterBarrier<BarrierCall>;
  template <class F>
  void each_type(F&&) const {}
  int check(Comm&) { return MPI_SUCCESS; }
  int prepare(Comm&) { return MPI_SUCCESS; }
  Status run(coll::Team& team) { return coll::barrier(team); }
  Switched through(const coll::Team&) { return offload::barrier_call(); }
  void build(Schedule& schedule) {
    if (schedule.size() == 1) return;
    schedule.add_steps(nullptr, nullptr, nullptr, coll::write_barrier_steps);
  }
  void finish() {}
};

struct BcastCall {
  using Inter = InterBcast<BcastCall>;
  void* buffer;
  MPI_Count count;
  MPI_Datatype datatype;
  int root;
  bool is_root = false;
  Datatype* type = nullptr;
  PackedBuffer piece = {};

  template <class F>
  void each_type(F&& f) const {
    f(type);
  }
  int check(Comm& comm) {
    is_root = comm.rank == root;
    const int code = check_elements(count, datatype, type);
    return code != MPI_SUCCESS ? code : check_root(comm, root);
  }
  int prepare(Comm&) {
    const int code = piece.set(buffer, count, type);
    if (code == MPI_SUCCESS && is_root) piece.pack();
    return code;
  }
  Status run(coll::Team& team) { return coll::bcast(team, piece.data(), piece.bytes(), root); }
  Switched through(const coll::Team&) {
    return offload::bcast_call(piece.data(), piece.bytes(), is_root);
  }
  void build(Schedule& schedule) {
    if (schedule.size() == 1 || piece.bytes() == 0) return;
    schedule.add_steps(nullptr, piece.data(), nullptr,
                       [this](const coll::TeamShape& team, coll::Plan& plan) {
                         coll::write_bcast_steps(team, plan, piece.bytes(), root);
                       });
  }
  void finish() {
    if (!is_root) piece.unpack();
  }
};

// Gathers one block from every process, to the root or to all; blocks of one size.
struct GatherCall {
  using Inter = InterMove<GatherCall>;
  const void* send_buffer;
  MPI_Count send_count;
  MPI_Datatype send_datatype;
  void* receive_buffer;
  MPI_Count receive_count;
  MPI_Datatype receive_datatype;
  int root;  // -1: allgather
  bool receives = false;
  bool in_place = false;
  int rank = 0;
  Datatype* send_type = nullptr;
  Datatype* receive_type = nullptr;
  MPI_Count total = 0;
  PackedBuffer send = {};
  PackedBuffer receive = {};

  template <class F>
  void each_type(F&& f) const {
    f(send_type);
    f(receive_type);
  }
  int check(Comm& comm) {
    rank = comm.rank;
    if (root >= 0 || root < -1)
      if (const int code = check_root(comm, root); code != MPI_SUCCESS) return code;
    receives = root == -1 || rank == root;
    in_place = receives && send_buffer == MPI_IN_PLACE;
    if (!in_place) {
      if (send_buffer == MPI_IN_PLACE) return MPI_ERR_BUFFER;
      const int code = check_elements(send_count, send_datatype, send_type);
      if (code != MPI_SUCCESS) return code;
    }
    if (!receives) return MPI_SUCCESS;
    const int code = check_elements(receive_count, receive_datatype, receive_type);
    if (code != MPI_SUCCESS) return code;
    if (__builtin_mul_overflow(receive_count, static_cast<MPI_Count>(comm.size()), &total))
      return MPI_ERR_COUNT;
    if (in_place) return MPI_SUCCESS;
    for (const MPI_Count place : {MPI_Count{0}, rank * receive_count})
      if (same_memory(send_buffer, send_count, *send_type,
                      block_at(receive_buffer, place, *receive_type), receive_count, *receive_type))
        return MPI_ERR_BUFFER;
    return MPI_SUCCESS;
  }
  int prepare(Comm&) {
    if (!in_place) {
      if (const int code = send.set(send_buffer, send_count, send_type); code != MPI_SUCCESS)
        return code;
      send.pack();
    }
    if (!receives) return MPI_SUCCESS;
    const int code = receive.set(receive_buffer, total, receive_type);
    if (code == MPI_SUCCESS && in_place) receive.pack();
    return code;
  }
  std::size_t block() const {
    return in_place ? static_cast<std::size_t>(receive_count) * receive_type->size() : send.bytes();
  }
  Status run(coll::Team& team) {
    const void* from = in_place ? nullptr : not_null(send.data());
    if (root == -1) return coll::allgather(team, from, receive.data(), block());
    return coll::gather(team, from, receive.data(), block(), root);
  }
  Switched through(const coll::Team& team) {
    if (root != -1) return {};  // only what all get is an allreduce
    return offload::allgather_call(in_place ? nullptr : send.data(), receive.data(), block(), rank,
                                   team.size());
  }
  void build(Schedule& schedule) {
    const std::size_t bytes = block();
    char* all = static_cast<char*>(receive.data());
    char* own = all + static_cast<std::size_t>(rank) * bytes;
    if (bytes == 0) return;
    if (receives && !in_place) schedule.copy(own, send.data(), bytes);
    schedule.add_steps(send.data(), all, nullptr,
                       [&](const coll::TeamShape& team, coll::Plan& plan) {
                         if (root == -1)
                           coll::write_allgather_steps(team, plan, bytes);
                         else
                           coll::write_gather_steps(team, plan, bytes, root);
                       });
  }
  void finish() {
    if (receives) receive.unpack();
  }
  int plan(const Comm& comm, RemoteBlocks& out, RemoteBlocks& in) const {
    bool receives_here = false;
    if (const int code =
            plan_gathered(comm, root, send_buffer, send_count, send_datatype, out, receives_here);
        code != MPI_SUCCESS || !receives_here)
      return code;
    return in.equal(receive_buffer, receive_count, receive_datatype, comm);
  }
};

struct ScatterCall {
  using Inter = InterMove<ScatterCall>;
  const void* send_buffer;
  MPI_Count send_count;
  MPI_Datatype send_datatype;
  void* receive_buffer;
  MPI_Count receive_count;
  MPI_Datatype receive_datatype;
  int root;
  bool sends = false;
  bool in_place = false;
  int rank = 0;
  Datatype* send_type = nullptr;
  Datatype* receive_type = nullptr;
  MPI_Count total = 0;
  PackedBuffer send = {};
  PackedBuffer receive = {};

  template <class F>
  void each_type(F&& f) const {
    f(send_type);
    f(receive_type);
  }
  int check(Comm& comm) {
    rank = comm.rank;
    int code = check_root(comm, root);
    if (code != MPI_SUCCESS) return code;
    sends = rank == root;
    in_place = sends && receive_buffer == MPI_IN_PLACE;
    if (!in_place) {
      if (receive_buffer == MPI_IN_PLACE) return MPI_ERR_BUFFER;
      code = check_elements(receive_count, receive_datatype, receive_type);
      if (code != MPI_SUCCESS) return code;
    }
    if (!sends) return MPI_SUCCESS;
    code = check_elements(send_count, send_datatype, send_type);
    if (code != MPI_SUCCESS) return code;
    if (__builtin_mul_overflow(send_count, static_cast<MPI_Count>(comm.size()), &total))
      return MPI_ERR_COUNT;
    if (in_place) return MPI_SUCCESS;
    for (const MPI_Count place : {MPI_Count{0}, rank * send_count})
      if (same_memory(block_at(send_buffer, place, *send_type), send_count, *send_type,
                      receive_buffer, receive_count, *receive_type))
        return MPI_ERR_BUFFER;
    return MPI_SUCCESS;
  }
  int prepare(Comm&) {
    if (sends) {
      if (const int code = send.set(send_buffer, total, send_type); code != MPI_SUCCESS)
        return code;
      send.pack();
    }
    return in_place ? MPI_SUCCESS : receive.set(receive_buffer, receive_count, receive_type);
  }
  std::size_t block() const {
    return sends ? static_cast<std::size_t>(send_count) * send_type->size() : receive.bytes();
  }
  Status run(coll::Team& team) {
    void* to = in_place ? nullptr : const_cast<void*>(not_null(receive.data()));
    return coll::scatter(team, send.data(), to, block(), root);
  }
  void build(Schedule& schedule) {
    const std::size_t bytes = block();
    if (bytes == 0) return;
    if (sends && !in_place)
      schedule.copy(receive.data(),
                    static_cast<const char*>(send.data()) + static_cast<std::size_t>(rank) * bytes,
                    bytes);
    schedule.add_steps(send.data(), receive.data(), nullptr,
                       [&](const coll::TeamShape& team, coll::Plan& plan) {
                         coll::write_scatter_steps(team, plan, bytes, root);
                       });
  }
  void finish() {
    if (!in_place) receive.unpack();
  }
  int plan(const Comm& comm, RemoteBlocks& out, RemoteBlocks& in) const {
    if (const int code = check_inter_root(comm, root); code != MPI_SUCCESS) return code;
    if (root == MPI_PROC_NULL) return MPI_SUCCESS;
    if (root >= 0) return in.one(receive_buffer, receive_count, receive_datatype, root, 1);
    return out.equal(send_buffer, send_count, send_datatype, comm);
  }
};

template <class Count, class Place>
struct GathervCall {
  using Inter = InterMove<GathervCall>;
  const void* send_buffer;
  MPI_Count send_count;
  MPI_Datatype send_datatype;
  void* receive_buffer;
  const Count* receive_counts;
  const Place* places;
  MPI_Datatype receive_datatype;
  int root;  // -1: allgatherv
  bool receives = false;
  bool in_place = false;
  int rank = 0;
  Datatype* send_type = nullptr;
  Datatype* receive_type = nullptr;
  PackedBuffer send = {};
  Blocks receive = {};
  KeptArrays arrays = {};
  std::size_t size = 0;

  template <class F>
  void each_type(F&& f) const {
    f(send_type);
    f(receive_type);
  }
  void keep_arrays() {
    if (!receives) return;
    arrays.keep(receive_counts, size);
    arrays.keep(places, size);
  }
  int check(Comm& comm) {
    rank = comm.rank;
    size = static_cast<std::size_t>(comm.size());
    if (root != -1)
      if (const int code = check_root(comm, root); code != MPI_SUCCESS) return code;
    receives = root == -1 || rank == root;
    in_place = receives && send_buffer == MPI_IN_PLACE;
    if (!in_place) {
      if (send_buffer == MPI_IN_PLACE) return MPI_ERR_BUFFER;
      const int code = check_elements(send_count, send_datatype, send_type);
      if (code != MPI_SUCCESS) return code;
    }
    if (!receives) return MPI_SUCCESS;
    if (receive_counts == nullptr || places == nullptr) return MPI_ERR_ARG;
    if (const int code = check_elements(0, receive_datatype, receive_type); code != MPI_SUCCESS)
      return code;
    return !in_place && same_memory(send_buffer, send_count, *send_type,
                                    block_at(receive_buffer, places[rank], *receive_type),
                                    receive_counts[rank], *receive_type)
               ? MPI_ERR_BUFFER
               : MPI_SUCCESS;
  }
  int prepare(Comm& comm) {
    if (!in_place) {
      if (const int code = send.set(send_buffer, send_count, send_type); code != MPI_SUCCESS)
        return code;
      send.pack();
    }
    if (!receives) return MPI_SUCCESS;
    const std::ptrdiff_t extent = receive_type->extent();
    const int code = receive.set(
        receive_buffer, comm.size(),
        [this](std::size_t i) { return static_cast<MPI_Count>(receive_counts[i]); },
        [this, extent](std::size_t i) { return static_cast<std::ptrdiff_t>(places[i]) * extent; },
        [this](std::size_t) { return receive_type; });
    if (code == MPI_SUCCESS && in_place) receive.pack_one(static_cast<std::size_t>(rank));
    return code;
  }
  Status run(coll::Team& team) {
    const auto own = static_cast<std::size_t>(rank);
    const std::size_t bytes = in_place ? receive.bytes[own] : send.bytes();
    const void* from = in_place ? nullptr : not_null(send.data());
    if (root == -1)
      return coll::allgatherv(team, from, bytes, receive.data(), receive.bytes.data(),
                              receive.places.data());
    return coll::gatherv(team, from, bytes, receives ? receive.data() : nullptr,
                         receive.bytes.data(), receive.places.data(), root);
  }
  void build(Schedule& schedule) {
    const auto own = static_cast<std::size_t>(rank);
    if (receives && !in_place) schedule.copy(receive.block(own), send.data(), send.bytes());
    if (root == -1) {
      schedule.add_steps(
          nullptr, receive.data(), nullptr, [&](const coll::TeamShape& team, coll::Plan& plan) {
            coll::write_allgatherv_steps(team, plan, receive.bytes.data(), receive.places.data());
          });
      return;
    }
    schedule.comm().team->counts().add(coll::Collective::gather, coll::Algorithm::linear,
                                       in_place ? receive.bytes[own] : send.bytes());
    if (rank != root) {
      schedule.send(root, send.data(), send.bytes());
    } else {
      for (int i = 0; i < schedule.size(); ++i)
        if (i != rank)
          schedule.receive(i, receive.block(static_cast<std::size_t>(i)),
                           receive.bytes[static_cast<std::size_t>(i)]);
    }
    schedule.wait();
  }
  void finish() {
    if (receives) receive.unpack();
  }
  int plan(const Comm& comm, RemoteBlocks& out, RemoteBlocks& in) const {
    bool receives_here = false;
    if (const int code =
            plan_gathered(comm, root, send_buffer, send_count, send_datatype, out, receives_here);
        code != MPI_SUCCESS || !receives_here)
      return code;
    if (receive_counts == nullptr || places == nullptr) return MPI_ERR_ARG;
    return in.each(
        receive_buffer, comm, false,
        [this](std::size_t i) { return static_cast<MPI_Count>(receive_counts[i]); },
        [this](std::size_t i) { return places[i]; },
        [this](std::size_t) { return receive_datatype; });
  }
};

template <class Count, class Place>
struct ScattervCall {
  using Inter = InterMove<ScattervCall>;
  const void* send_buffer;
  const Count* send_counts;
  const Place* places;
  MPI_Datatype send_datatype;
  void* receive_buffer;
  MPI_Count receive_count;
  MPI_Datatype receive_datatype;
  int root;
  bool sends = false;
  bool in_place = false;
  int rank = 0;
  Datatype* send_type = nullptr;
  Datatype* receive_type = nullptr;
  Blocks send = {};
  PackedBuffer receive = {};
  KeptArrays arrays = {};
  std::size_t size = 0;

  template <class F>
  void each_type(F&& f) const {
    f(send_type);
    f(receive_type);
  }
  void keep_arrays() {
    if (!sends) return;
    arrays.keep(send_counts, size);
    arrays.keep(places, size);
  }
  int check(Comm& comm) {
    rank = comm.rank;
    size = static_cast<std::size_t>(comm.size());
    int code = check_root(comm, root);
    if (code != MPI_SUCCESS) return code;
    sends = rank == root;
    in_place = sends && receive_buffer == MPI_IN_PLACE;
    if (!in_place) {
      if (receive_buffer == MPI_IN_PLACE) return MPI_ERR_BUFFER;
      code = check_elements(receive_count, receive_datatype, receive_type);
      if (code != MPI_SUCCESS) return code;
    }
    if (!sends) return MPI_SUCCESS;
    if (send_counts == nullptr || places == nullptr) return MPI_ERR_ARG;
    code = check_elements(0, send_datatype, send_type);
    if (code != MPI_SUCCESS) return code;
    return !in_place &&
                   same_memory(block_at(send_buffer, places[rank], *send_type), send_counts[rank],
                               *send_type, receive_buffer, receive_count, *receive_type)
               ? MPI_ERR_BUFFER
               : MPI_SUCCESS;
  }
  int prepare(Comm& comm) {
    if (sends) {
      const std::ptrdiff_t extent = send_type->extent();
      const int code = send.set(
          const_cast<void*>(send_buffer), comm.size(),
          [this](std::size_t i) { return static_cast<MPI_Count>(send_counts[i]); },
          [this, extent](std::size_t i) { return static_cast<std::ptrdiff_t>(places[i]) * extent; },
          [this](std::size_t) { return send_type; });
      if (code != MPI_SUCCESS) return code;
      send.pack();
    }
    return in_place ? MPI_SUCCESS : receive.set(receive_buffer, receive_count, receive_type);
  }
  Status run(coll::Team& team) {
    void* to = in_place ? nullptr : const_cast<void*>(not_null(receive.data()));
    const std::size_t bytes =
        in_place ? send.bytes[static_cast<std::size_t>(rank)] : receive.bytes();
    return coll::scatterv(team, sends ? send.data() : nullptr, send.bytes.data(),
                          send.places.data(), to, bytes, root);
  }
  void build(Schedule& schedule) {
    schedule.comm().team->counts().add(
        coll::Collective::scatter, coll::Algorithm::linear,
        in_place ? send.bytes[static_cast<std::size_t>(rank)] : receive.bytes());
    if (sends) {
      for (int i = 0; i < schedule.size(); ++i)
        if (i != rank)
          schedule.send(i, send.block(static_cast<std::size_t>(i)),
                        send.bytes[static_cast<std::size_t>(i)]);
      const auto own = static_cast<std::size_t>(rank);
      if (!in_place) schedule.copy(receive.data(), send.block(own), send.bytes[own]);
    } else {
      schedule.receive(root, receive.data(), receive.bytes());
    }
    schedule.wait();
  }
  void finish() {
    if (!in_place) receive.unpack();
  }
  int plan(const Comm& comm, RemoteBlocks& out, RemoteBlocks& in) const {
    if (const int code = check_inter_root(comm, root); code != MPI_SUCCESS) return code;
    if (root == MPI_PROC_NULL) return MPI_SUCCESS;
    if (root >= 0) return in.one(receive_buffer, receive_count, receive_datatype, root, 1);
    if (send_counts == nullptr || places == nullptr) return MPI_ERR_ARG;
    return out.each(
        send_buffer, comm, false,
        [this](std::size_t i) { return static_cast<MPI_Count>(send_counts[i]); },
        [this](std::size_t i) { return places[i]; }, [this](std::size_t) { return send_datatype; });
  }
};

// Sends a block from every process to every process: direct messages, all at once.
inline void schedule_alltoall(Schedule& schedule, const Blocks* send, Blocks& receive) {
  const int rank = schedule.rank();
  std::vector<const char*> from(static_cast<std::size_t>(schedule.size()));
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (send != nullptr) {
      from[i] = send->block(i);
    } else {  // in place: the data to send must be copied out before any data arrive
      char* copy = schedule.allocate(receive.bytes[i]);
      if (copy == nullptr) return;
      schedule.copy(copy, receive.block(i), receive.bytes[i]);
      from[i] = copy;
    }
  }
  for (int i = 0; i < schedule.size(); ++i)
    if (i != rank)
      schedule.receive(i, receive.block(static_cast<std::size_t>(i)),
                       receive.bytes[static_cast<std::size_t>(i)]);
  const std::vector<std::size_t>& bytes = send == nullptr ? receive.bytes : send->bytes;
  std::size_t total = 0;
  for (const std::size_t one : bytes) total += one;
  schedule.comm().team->counts().add(coll::Collective::alltoall, coll::Algorithm::linear,
                                     total / bytes.size());
  for (int i = 0; i < schedule.size(); ++i)
    if (i != rank)
      schedule.send(i, from[static_cast<std::size_t>(i)], bytes[static_cast<std::size_t>(i)]);
  const auto own = static_cast<std::size_t>(rank);
  if (send != nullptr) schedule.copy(receive.block(own), from[own], bytes[own]);
  schedule.wait();
}

struct AlltoallCall {
  using Inter = InterMove<AlltoallCall>;
  const void* send_buffer;
  MPI_Count send_count;
  MPI_Datatype send_datatype;
  void* receive_buffer;
  MPI_Count receive_count;
  MPI_Datatype receive_datatype;
  bool in_place = false;
  int size = 0;
  Datatype* send_type = nullptr;
  Datatype* receive_type = nullptr;
  PackedBuffer send = {};
  PackedBuffer receive = {};

  template <class F>
  void each_type(F&& f) const {
    f(send_type);
    f(receive_type);
  }
  int check(Comm& comm) {
    size = comm.size();
    in_place = send_buffer == MPI_IN_PLACE;
    if (!in_place) {
      const int code = check_elements(send_count, send_datatype, send_type);
      if (code != MPI_SUCCESS) return code;
    }
    const int code = check_elements(receive_count, receive_datatype, receive_type);
    if (code != MPI_SUCCESS) return code;
    return !in_place && same_memory(send_buffer, send_count, *send_type, receive_buffer,
                                    receive_count, *receive_type)
               ? MPI_ERR_BUFFER
               : MPI_SUCCESS;
  }
  int prepare(Comm&) {
    MPI_Count total;
    if (!in_place) {
      if (__builtin_mul_overflow(send_count, static_cast<MPI_Count>(size), &total))
        return MPI_ERR_COUNT;
      if (const int code = send.set(send_buffer, total, send_type); code != MPI_SUCCESS)
        return code;
      send.pack();
    }
    if (__builtin_mul_overflow(receive_count, static_cast<MPI_Count>(size), &total))
      return MPI_ERR_COUNT;
    const int code = receive.set(receive_buffer, total, receive_type);
    if (code == MPI_SUCCESS && in_place) receive.pack();
    return code;
  }
  std::size_t block() const { return receive.bytes() / static_cast<std::size_t>(size); }
  Status run(coll::Team& team) {
    return coll::alltoall(team, in_place ? nullptr : not_null(send.data()), receive.data(),
                          block());
  }
  void build(Schedule& schedule) {
    const std::size_t bytes = block();
    if (bytes == 0) return;
    const void* from = send.data();
    if (in_place) {
      char* copy = schedule.allocate(receive.bytes());
      if (copy == nullptr) return;
      schedule.copy(copy, receive.data(), receive.bytes());
      from = copy;
    }
    schedule.add_steps(from, receive.data(), nullptr,
                       [&](const coll::TeamShape& team, coll::Plan& plan) {
                         coll::write_alltoall_steps(team, plan, bytes);
                       });
  }
  void finish() { receive.unpack(); }
  int plan(const Comm& comm, RemoteBlocks& out, RemoteBlocks& in) const {
    const int code = out.equal(send_buffer, send_count, send_datatype, comm);
    return code == MPI_SUCCESS ? in.equal(receive_buffer, receive_count, receive_datatype, comm)
                               : code;
  }
};

// alltoallv and, with a type for each process and displacements in bytes, alltoallw.
template <class Count, class Place>
struct AlltoallvCall {
  using Inter = InterMove<AlltoallvCall>;
  const void* send_buffer;
  const Count* send_counts;
  const Place* send_places;
  const MPI_Datatype* send_datatypes;  // one, or one for each process
  void* receive_buffer;
  const Count* receive_counts;
  const Place* receive_places;
  const MPI_Datatype* receive_datatypes;
  MPI_Datatype one_send = MPI_DATATYPE_NULL;  // alltoallv: the type itself
  MPI_Datatype one_receive = MPI_DATATYPE_NULL;
  bool in_place = false;
  int size = 0;
  std::vector<Datatype*> send_types = {};
  std::vector<Datatype*> receive_types = {};
  Blocks send = {};
  Blocks receive = {};
  KeptArrays arrays = {};

  bool is_w() const { return one_receive == MPI_DATATYPE_NULL; }

  static int find_types(int size, const MPI_Datatype* handles, MPI_Datatype one,
                        const Count* counts, std::vector<Datatype*>& types) {
    types.resize(static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < types.size(); ++i) {
      const int code = check_elements(static_cast<MPI_Count>(counts[i]),
                                      handles == nullptr ? one : handles[i], types[i]);
      if (code == MPI_SUCCESS) continue;
      // A process that gets nothing may have any type.
      if (code != MPI_ERR_TYPE || counts[i] != 0 || handles == nullptr) return code;
      types[i] = find_datatype(MPI_BYTE);
    }
    return MPI_SUCCESS;
  }
  template <class F>
  void each_type(F&& f) const {
    for (Datatype* type : send_types) f(type);
    for (Datatype* type : receive_types) f(type);
  }
  void keep_arrays() {
    const auto number = static_cast<std::size_t>(size);
    if (!in_place) {
      arrays.keep(send_counts, number);
      arrays.keep(send_places, number);
    }
    arrays.keep(receive_counts, number);
    arrays.keep(receive_places, number);
  }
  int check(Comm& comm) {
    size = comm.size();
    in_place = send_buffer == MPI_IN_PLACE;
    if (receive_counts == nullptr || receive_places == nullptr) return MPI_ERR_ARG;
    if (!in_place) {
      if (send_counts == nullptr || send_places == nullptr) return MPI_ERR_ARG;
      const int code = find_types(size, send_datatypes, one_send, send_counts, send_types);
      if (code != MPI_SUCCESS) return code;
    }
    const int code =
        find_types(size, receive_datatypes, one_receive, receive_counts, receive_types);
    if (code != MPI_SUCCESS || in_place) return code;
    const auto own = static_cast<std::size_t>(comm.rank);
    const auto begin = [this, own](const void* base, const Place* places, const Datatype& type) {
      return moved(base, displacement(places[own], type));
    };
    return same_memory(begin(send_buffer, send_places, *send_types[own]), send_counts[own],
                       *send_types[own], begin(receive_buffer, receive_places, *receive_types[own]),
                       receive_counts[own], *receive_types[own])
               ? MPI_ERR_BUFFER
               : MPI_SUCCESS;
  }
  // The displacement in bytes.
  std::ptrdiff_t displacement(Place place, const Datatype& type) const {
    const auto number = static_cast<std::ptrdiff_t>(place);
    return receive_datatypes != nullptr ? number : number * type.extent();
  }
  int set(Blocks& blocks, void* base, const Count* counts, const Place* places,
          const std::vector<Datatype*>& types) {
    return blocks.set(
        base, size, [counts](std::size_t i) { return static_cast<MPI_Count>(counts[i]); },
        [this, places, &types](std::size_t i) { return displacement(places[i], *types[i]); },
        [&types](std::size_t i) { return types[i]; });
  }
  int prepare(Comm&) {
    if (!in_place) {
      const int code =
          set(send, const_cast<void*>(send_buffer), send_counts, send_places, send_types);
      if (code != MPI_SUCCESS) return code;
      send.pack();
    }
    const int code = set(receive, receive_buffer, receive_counts, receive_places, receive_types);
    if (code == MPI_SUCCESS && in_place) receive.pack();
    return code;
  }
  Status run(coll::Team& team) {
    return coll::alltoallv(team, in_place ? nullptr : not_null(send.data()), send.bytes.data(),
                           send.places.data(), receive.data(), receive.bytes.data(),
                           receive.places.data());
  }
  void build(Schedule& schedule) {
    schedule_alltoall(schedule, in_place ? nullptr : &send, receive);
  }
  void finish() { receive.unpack(); }
  static int plan_side(const Comm& comm, RemoteBlocks& side, const void* buffer,
                       const Count* counts, const Place* places, const MPI_Datatype* handles,
                       MPI_Datatype one) {
    if (counts == nullptr || places == nullptr) return MPI_ERR_ARG;
    return side.each(
        buffer, comm, handles != nullptr,
        [counts](std::size_t i) { return static_cast<MPI_Count>(counts[i]); },
        [places](std::size_t i) { return places[i]; },
        [handles, one](std::size_t i) { return handles == nullptr ? one : handles[i]; });
  }
  int plan(const Comm& comm, RemoteBlocks& out, RemoteBlocks& in) const {
    const int code =
        plan_side(comm, out, send_buffer, send_counts, send_places, send_datatypes, one_send);
    return code == MPI_SUCCESS ? plan_side(comm, in, receive_buffer, receive_counts, receive_places,
                                           receive_datatypes, one_receive)
                               : code;
  }
};

}  // namespace weft::mpi
