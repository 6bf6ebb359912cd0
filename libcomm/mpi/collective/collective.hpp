#pragma once
// The common part of the collective functions. Each is one class, a Call, with
//   int check(Comm&)               checks the arguments, finds types; MPI_SUCCESS or the error
//   class int prepare(Comm&)             turns typed memory into bytes (packs if it must);
//   MPI_SUCCESS or
//                                  the error class
//   Status run(coll::Team&)        runs the blocking form
//   void build(Schedule&)          adds the steps of the form that runs in the background
//   void finish()                  turns bytes into typed memory again
//   void each_type(f)              calls f(Datatype*) for the types found, some may be null
//   Switched through(coll::Team&)  optional, if switches may do the background form: describes the
//                                  call to them
//   void outlive()                 optional: keeps what a background form needs besides its types
//                                  and the program may free
//   void keep_arrays()             optional: copies the arrays that prepare() reads, for persistent
//                                  forms
//   using Inter                    the Call for intercommunicators, made from this one
//                                  (intercomm_calls.hpp); void: there is none
// so that blocking, nonblocking and persistent functions differ in a template only. A Call without
// `run` blocks by waiting for its background form.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "coll/coll.hpp"
#include "mpi/collective/schedule.hpp"
#include "mpi/collective/switched.hpp"
#include "mpi/comm/comm.hpp"
#include "mpi/core/request.hpp"
#include "mpi/datatype/datatype.hpp"
#include "mpi/p2p/transfer.hpp"

namespace weft::mpi {

// A program's null buffer of no bytes is not MPI_IN_PLACE.
using coll::not_null;

// True if elements are sent from the address where elements are received, which the standard
// forbids: the error of a program that means MPI_IN_PLACE. Other overlaps are not checked.
inline bool same_memory(const void* from, MPI_Count num_from, const Datatype& from_type,
                        const void* to, MPI_Count num_to, const Datatype& to_type) noexcept {
  return num_from > 0 && num_to > 0 && from_type.size() != 0 && to_type.size() != 0 &&
         first_byte(from, from_type) == first_byte(to, to_type) &&
         first_byte(from, from_type) != nullptr;
}
// An address so many bytes further; works on a null one too, where displacements are addresses.
inline const void* moved(const void* base, std::ptrdiff_t bytes) noexcept {
  return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(base) +
                                       static_cast<std::uintptr_t>(bytes));
}
// The address of a block that lies `place` extents behind `base`.
inline const void* block_at(const void* base, MPI_Count place, const Datatype& type) noexcept {
  return moved(base, static_cast<std::ptrdiff_t>(place) * type.extent());
}

// Typed memory as contiguous bytes: the memory itself if it is contiguous, else a packed copy.
class PackedBuffer {
 public:
  int set(const void* buffer, MPI_Count count, Datatype* type) noexcept {
    buffer_ = const_cast<void*>(buffer);
    count_ = count;
    type_ = type;
    if (!bytes_of(count, *type, bytes_)) return MPI_ERR_COUNT;
    if (type->is_contiguous()) {
      data_ = first_byte(buffer_, *type);
      return data_ == nullptr && bytes_ != 0 ? MPI_ERR_BUFFER : MPI_SUCCESS;
    }
    if (staging_ == nullptr) staging_.reset(new (std::nothrow) char[bytes_ + 1]);
    data_ = staging_.get();
    return data_ == nullptr ? MPI_ERR_NO_MEM : MPI_SUCCESS;
  }
  void pack() noexcept {
    if (staging_ != nullptr) type_->pack(staging_.get(), buffer_, count_);
  }
  void unpack() noexcept {
    if (staging_ != nullptr) type_->unpack(buffer_, staging_.get(), count_, bytes_);
  }
  void* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  void* buffer_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  MPI_Count count_ = 0;
  Datatype* type_ = nullptr;
  std::unique_ptr<char[]> staging_;
};

// One block of typed memory for each process. Contiguous types stay in place, others are packed one
// after the other.
//
// Types may hold absolute addresses, and the buffer be MPI_BOTTOM, which is null. Collectives take
// a null buffer for MPI_IN_PLACE, so offsets are counted from the first block then.
class Blocks {
 public:
  // place(i) is the block's displacement in bytes; type(i) and count(i) are its contents.
  template <class CountOf, class PlaceOf, class TypeOf>
  int set(void* base, int num_blocks, CountOf&& count, PlaceOf&& place, TypeOf&& type) {
    base_ = base;
    const auto n = static_cast<std::size_t>(num_blocks);
    bytes.resize(n);
    places.resize(n);
    entries_.resize(n);
    packed_ = false;
    std::size_t total = 0;
    for (std::size_t i = 0; i < n; ++i) {
      Entry& entry = entries_[i];
      entry = {static_cast<char*>(base) + place(i), count(i), type(i)};
      if (entry.count < 0) return MPI_ERR_COUNT;
      if (!bytes_of(entry.count, *entry.type, bytes[i])) return MPI_ERR_COUNT;
      if (bytes[i] != 0 && base == nullptr && place(i) + entry.type->true_lb() == 0)
        return MPI_ERR_BUFFER;
      total += bytes[i];
      packed_ = packed_ || !entry.type->is_contiguous();
    }
    if (packed_ && (staging_ == nullptr || room_ < total)) {
      staging_.reset(new (std::nothrow) char[total + 1]);
      room_ = total;
      if (staging_ == nullptr) return MPI_ERR_NO_MEM;
    }
    std::ptrdiff_t next = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (packed_) {
        places[i] = next;
        next += static_cast<std::ptrdiff_t>(bytes[i]);
      } else {
        char* data = first_byte(entries_[i].memory, *entries_[i].type);
        if (base_ == nullptr && bytes[i] != 0) base_ = data;
        places[i] = bytes[i] == 0 ? 0 : data - static_cast<char*>(base_);
      }
    }
    return MPI_SUCCESS;
  }
  void pack() {
    if (!packed_) return;
    for (std::size_t i = 0; i < entries_.size(); ++i) pack_one(i);
  }
  void pack_one(std::size_t i) {
    if (packed_ && bytes[i] != 0)
      entries_[i].type->pack(staging_.get() + places[i], entries_[i].memory, entries_[i].count);
  }
  void unpack() {
    if (!packed_) return;
    for (std::size_t i = 0; i < entries_.size(); ++i)
      if (bytes[i] != 0)
        entries_[i].type->unpack(entries_[i].memory, staging_.get() + places[i], entries_[i].count,
                                 bytes[i]);
  }
  // True if a block begins at the same address as the same block of the other, and neither is
  // empty.
  bool shares_memory(const Blocks& other) const noexcept {
    for (std::size_t i = 0; i < std::min(entries_.size(), other.entries_.size()); ++i) {
      const Entry& a = entries_[i];
      const Entry& b = other.entries_[i];
      if (same_memory(a.memory, a.count, *a.type, b.memory, b.count, *b.type)) return true;
    }
    return false;
  }
  void* data() const noexcept { return packed_ ? staging_.get() : base_; }
  char* block(std::size_t i) const noexcept { return static_cast<char*>(data()) + places[i]; }

  std::vector<std::size_t> bytes;
  std::vector<std::ptrdiff_t> places;

 private:
  struct Entry {
    char* memory;
    MPI_Count count;
    Datatype* type;
  };
  void* base_ = nullptr;
  std::vector<Entry> entries_;
  bool packed_ = false;
  std::unique_ptr<char[]> staging_;
  std::size_t room_ = 0;
};

inline int check_root(const Comm& comm, int root) noexcept {
  return root < 0 || root >= comm.size() ? MPI_ERR_ROOT : MPI_SUCCESS;
}

// Copies of the arrays of a persistent call. The standard lets a program keep them unchanged until
// the request is freed (MPI 5.0, 6.13), but bindings as mpi4py give them back at once.
class KeptArrays {
 public:
  template <class Element>
  void keep(const Element*& array, std::size_t number) {
    if (array == nullptr) return;
    auto copy = std::make_shared<std::vector<Element>>(array, array + number);
    array = copy->data();
    copies_.push_back(std::move(copy));
  }

 private:
  std::vector<std::shared_ptr<const void>> copies_;
};

// A Call that runs in the background.
template <class Call>
class Background final : public Operation {
 public:
  Background(Comm& comm, Call&& call, bool persistent)
      : comm_(comm),
        call_(std::move(call)),
        schedule_(comm),
        persistent_(persistent),
        takes_turns_(!persistent || comm.starts_in_order()) {
    // The program may free its types before this ends.
    call_.each_type([](Datatype* type) {
      if (type != nullptr) retain(type);
    });
    if constexpr (requires { call_.outlive(); }) call_.outlive();
    if constexpr (requires { call_.keep_arrays(); })
      if (persistent) call_.keep_arrays();
  }
  void open() noexcept { schedule_.open(); }
  ~Background() override {
    if (schedule_.is_abandoned()) {
      // The engine still uses the call's memory, and its types unpack it.
      if (auto* kept = new (std::nothrow) KeptCall(std::move(call_), std::move(switched_)))
        engine->keep(std::unique_ptr<tagged::Kept>(kept));
      else
        (void)switched_.release();
      return;
    }
    call_.each_type([](Datatype* type) {
      if (type != nullptr) release(type);
    });
  }
  Code start() override {
    schedule_.clear();
    refusal_ = call_.prepare(comm_);
    if (refusal_ != MPI_SUCCESS)
      return refusal_ == MPI_ERR_NO_MEM ? Code::no_memory : Code::bad_argument;
    if constexpr (requires { call_.through(*comm_.team); })
      if (takes_turns_)
        switched_ =
            make_switched(*comm_.team, call_.through(*comm_.team),
                          persistent_ ? coll::Team::Calls::persistent : coll::Team::Calls::usual);
    if (switched_ == nullptr) call_.build(schedule_);
    return schedule_.start();
  }
  bool advance(Code& code) override {
    do
      if (!schedule_.advance(code)) return false;
    while (code == Code::ok && switched_ != nullptr && advance_switched(code));
    // again: the switches still execute the call.
    if (code == Code::again) return false;
    if (code == Code::ok) call_.finish();
    if (!schedule_.is_abandoned()) {  // else its memory is still in use
      switched_.reset();
      schedule_.clear();  // an inactive persistent request holds none
    }
    return true;
  }
  int refusal() const noexcept override { return refusal_; }

 private:
  // Kept until the engine's end.
  struct KeptCall final : tagged::Kept {
    KeptCall(Call&& its_call, SwitchedPtr its_switched)
        : call(std::move(its_call)), switched(std::move(its_switched)) {}
    bool is_over() const noexcept override { return false; }
    Call call;
    SwitchedPtr switched;
  };
  // True: the schedule has further steps. False: the call has ended with `code`, or again.
  bool advance_switched(Code& code) {
    switch (advance_switches(*switched_, schedule_, code)) {
      case offload::Background::Next::steps:
        return code == Code::ok;
      case offload::Background::Next::hosts:
        switched_.reset();
        schedule_.clear();
        call_.build(schedule_);
        code = schedule_.start();
        return code == Code::ok;
      case offload::Background::Next::wait:
        if (!schedule_.is_given_up(code)) code = Code::again;
        return false;
      case offload::Background::Next::over:
        return false;
    }
    return false;
  }

  Comm& comm_;  // counted by the request
  Call call_;
  Schedule schedule_;
  SwitchedPtr switched_;  // null: the schedule does it all
  const bool persistent_;
  // Persistent calls may be started in any order, which members need not share (MPI 5.0, 6.13):
  // they take no turn among the switches' operations, unless the user declares one order.
  const bool takes_turns_;
  int refusal_ = MPI_SUCCESS;
};

// Raises what check() or prepare() has refused, with the wrong value.
template <class Call>
[[gnu::cold]] int raise_wrong_call(Comm& comm, const Call& call, int code, const char* function) {
  if constexpr (requires { call.root; })
    if (code == MPI_ERR_ROOT) return raise_wrong(&comm, code, 0, call.root, 0, function);
  if constexpr (requires { MPI_Count{call.count}; })
    if (code == MPI_ERR_COUNT) return raise_wrong(&comm, code, call.count, 0, 0, function);
  if constexpr (requires { MPI_Count{call.send_count}; })
    if (code == MPI_ERR_COUNT && call.send_count < 0)
      return raise_wrong(&comm, code, call.send_count, 0, 0, function);
  if constexpr (requires { MPI_Count{call.receive_count}; })
    if (code == MPI_ERR_COUNT && call.receive_count < 0)
      return raise_wrong(&comm, code, call.receive_count, 0, 0, function);
  return raise(&comm, code, function);
}

template <class Call>
int check_call(Comm& comm, Call& call, const char* function) {
  const int code = call.check(comm);
  return code == MPI_SUCCESS ? code : raise_wrong_call(comm, call, code, function);
}

template <class Call>
int start_background(Comm& comm, Call&& call, bool persistent, MPI_Request* out,
                     const char* function) {
  const int code = check_call(comm, call, function);
  if (code != MPI_SUCCESS) return code;
  if (out == nullptr) return raise(&comm, MPI_ERR_ARG, function, "request is null");
  RequestPtr request(new_request(&comm, RequestObject::Kind::operation));
  if (request == nullptr) return raise(&comm, MPI_ERR_NO_MEM, function);
  using Held = std::remove_cvref_t<Call>;
  auto made = std::make_unique<Background<Held>>(comm, std::move(call), persistent);
  auto& operation = *made;
  request->operation = std::move(made);
  request->persistent = persistent;
  request->active = !persistent;
  if (const Code started = persistent ? Code::ok : operation.start(); started != Code::ok) {
    const int refusal = operation.refusal();
    request.reset();
    *out = MPI_REQUEST_NULL;
    return refusal != MPI_SUCCESS ? raise(&comm, refusal, function)
                                  : raise_status(&comm, started, function);
  }
  operation.open();
  *out = request->handle;
  if (persistent)
    static_cast<void>(request.release());
  else
    add_operation(request.release());
  return MPI_SUCCESS;
}

// The blocking form of a Call that has no `run`.
template <class Call>
int run_waiting(Comm& comm, Call&& call, const char* function) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = start_background(comm, std::move(call), false, &request, function);
  if (code != MPI_SUCCESS) return code;
  RequestObject* object = find_request(request);
  const WaitsFor what{.handles = &request, .count = 1};
  wait_progressing([object] { return object->is_complete(); }, context_of(*object), &what);
  Comm* site = object->comm;
  retain(site);
  const int result = finish_request(object, &request, MPI_STATUS_IGNORE);
  const int raised = result == MPI_SUCCESS ? result : raise(site, result, function);
  release(site);
  return raised;
}

// On a revoked communicator, or between two groups.
template <class Call, class Run>
[[gnu::noinline]] int run_special(Comm* comm, Call&& call, const char* function, Run&& run) {
  if (comm->is_revoked.load(std::memory_order_relaxed))
    return raise(comm, MPIX_ERR_REVOKED, function);
  using Inter = typename std::remove_cvref_t<Call>::Inter;
  if constexpr (std::is_void_v<Inter>)
    return raise(comm, MPI_ERR_COMM, function, "an intercommunicator");
  else
    return run(Inter(std::move(call)));
}

template <class Call>
int run_blocking(MPI_Comm handle, Call&& call, const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) [[unlikely]]
    return raise(nullptr, MPI_ERR_COMM, function);
  if (comm->is_special.load(std::memory_order_relaxed)) [[unlikely]]
    return run_special(comm, std::move(call), function, [comm, function](auto&& inter) {
      return run_waiting(*comm, std::move(inter), function);
    });
  int code = check_call(*comm, call, function);
  if (code != MPI_SUCCESS) [[unlikely]]
    return code;
  code = call.prepare(*comm);
  if (code != MPI_SUCCESS) [[unlikely]]
    return raise_wrong_call(*comm, call, code, function);
  if constexpr (requires { call.root; })
    comm->last_root.store(call.root, std::memory_order_relaxed);
  const Status status = call.run(*comm->team);
  if (!status) [[unlikely]]
    return raise_status(comm, status, function);
  call.finish();
  return MPI_SUCCESS;
}

template <class Call>
int run_background(MPI_Comm handle, Call&& call, bool persistent, MPI_Request* out,
                   const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) return raise(nullptr, MPI_ERR_COMM, function);
  if (comm->is_special.load(std::memory_order_relaxed))
    return run_special(comm, std::move(call), function, [&](auto&& inter) {
      return start_background(*comm, std::move(inter), persistent, out, function);
    });
  return start_background(*comm, std::move(call), persistent, out, function);
}

}  // namespace weft::mpi
