#pragma once
// Sends, receives and matched probes.
#include "tools/weft-check/hooks/arguments.hpp"
#include "tools/weft-check/program/variables.hpp"
#include "tools/weft-check/ranks/messages.hpp"
#include "tools/weft-check/state/requests.hpp"

namespace weft::check {

constexpr bool is_send(std::string_view name) {
  return is_one_of(name, "Send", "Bsend", "Ssend", "Rsend");
}
constexpr bool is_isend(std::string_view name) {
  return is_one_of(name, "Isend", "Ibsend", "Issend", "Irsend");
}
constexpr bool is_send_init(std::string_view name) {
  return is_one_of(name, "Send_init", "Bsend_init", "Ssend_init", "Rsend_init");
}
constexpr bool is_sendrecv(std::string_view name) {
  return is_one_of(name, "Sendrecv", "Isendrecv", "Sendrecv_replace", "Isendrecv_replace");
}
constexpr bool is_receive(std::string_view name) {
  return is_one_of(name, "Recv", "Irecv", "Recv_init");
}
constexpr bool is_probe(std::string_view name) { return is_one_of(name, "Mprobe", "Improbe"); }
constexpr bool is_matched_receive(std::string_view name) {
  return is_one_of(name, "Mrecv", "Imrecv");
}
constexpr bool is_partitioned(std::string_view name) {
  return is_one_of(name, "Psend_init", "Precv_init");
}

// A side of a message.
struct Side {
  Comm* comm = nullptr;
  const Layout* layout = nullptr;
  std::uint64_t count = 0;
  int peer = MPI_PROC_NULL, tag = 0;
  // Wrong arguments are the library's business.
  bool is_valid = false;
};

inline Side side_of(MPI_Count count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                    bool is_sender) {
  Side side;
  side.comm = comm_of(comm);
  side.layout = layout_of(type);
  side.count = count > 0 ? static_cast<std::uint64_t>(count) : 0;
  side.peer = peer;
  side.tag = tag;
  side.is_valid = side.comm != nullptr && side.layout != nullptr && count >= 0 &&
                  (tag >= 0 || (!is_sender && tag == MPI_ANY_TAG)) &&
                  (side.comm->world_of(peer) >= 0 || (!is_sender && peer == MPI_ANY_SOURCE));
  return side;
}

inline void check_buffer(const void* buffer, const Side& side, Access access) {
  if (!side.is_valid) return;
  check_use(buffer, side.count, *side.layout, access);
  check_variable(memory_of(buffer, side.count, *side.layout, access),
                 access == Access::reads ? "its send buffer" : "its receive buffer");
}

inline bool is_truncated(int code) {
  int error_class = MPI_SUCCESS;
  return code != MPI_SUCCESS && PMPI_Error_class(code, &error_class) == MPI_SUCCESS &&
         error_class == MPI_ERR_TRUNCATE;
}

inline void end_blocking_receive(Receive* receive, int code, const MPI_Status& status) {
  if ((code == MPI_SUCCESS || is_truncated(code)) && status.MPI_SOURCE >= 0)
    end_receive(receive, status.MPI_SOURCE, status.MPI_TAG, code != MPI_SUCCESS);
  else
    drop_receive(receive);
}

template <std::size_t function, class... A>
int call_send(Own<A...> own, A... a) {
  constexpr std::string_view kName = kPlain<function>;
  const void* buffer = argument<0>(a...);
  const Side side = side_of(argument<1>(a...), argument<2>(a...), argument<3>(a...),
                            argument<4>(a...), argument<5>(a...), true);
  check_buffer(buffer, side, Access::reads);
  constexpr bool kIsBlocking = is_one_of(kName, "Send", "Ssend");
  const auto tell = [&] {
    return note_send(*side.comm, side.peer, side.tag, *side.layout, side.count, kIsBlocking);
  };
  // Before the call, if it may wait for a receiver that wants to know what comes.
  std::uint32_t note = kIsBlocking && side.is_valid ? tell() : 0;
  const int code = own(a...);
  if (code != MPI_SUCCESS) {
    if (note != 0) note_cancelled_send(*side.comm, side.peer, side.tag, note);
    return code;
  }
  if (!kIsBlocking && !is_send_init(kName) && side.is_valid) note = tell();
  if constexpr (!is_send(kName)) {
    Operation operation;
    constexpr bool kIsPersistent = is_send_init(kName);
    constexpr bool kIsBuffered = is_one_of(kName, "Ibsend", "Bsend_init");
    operation.is_persistent = kIsPersistent;
    operation.is_active = !operation.is_persistent;
    if (side.is_valid) {
      // A buffered send has copied its data.
      if (!kIsBuffered)
        operation.memory = {lasting_memory(buffer, side.count, argument<2>(a...), Access::reads)};
      operation.message = Operation::Message::send;
      operation.comm = side.comm->shared_from_this();
      operation.peer = side.peer;
      operation.tag = side.tag;
      operation.layout = keep_layout(argument<2>(a...));
      operation.count = side.count;
      operation.note = note;
    }
    add_request(argument<6>(a...), std::move(operation));
  }
  return code;
}

template <std::size_t function, class... A>
int call_receive(Own<A...> own, A... a) {
  constexpr std::string_view kName = kPlain<function>;
  void* buffer = argument<0>(a...);
  const Side side = side_of(argument<1>(a...), argument<2>(a...), argument<3>(a...),
                            argument<4>(a...), argument<5>(a...), false);
  check_buffer(buffer, side, Access::writes);
  constexpr bool kIsBlocking = kName == "Recv";
  constexpr bool kIsPersistent = kName == "Recv_init";
  Receive* receive = nullptr;
  if constexpr (!kIsPersistent)
    if (side.is_valid)
      receive = post_receive(side.comm, side.peer, side.tag, side.layout,
                             side.layout->is_derived ? keep_layout(argument<2>(a...)) : nullptr,
                             side.count, kIsBlocking);
  if constexpr (kName == "Recv") {
    MPI_Status own_status;
    if (argument<6>(a...) == MPI_STATUS_IGNORE) argument<6>(a...) = &own_status;
    const int code = own(a...);
    end_blocking_receive(receive, code, *argument<6>(a...));
    return code;
  } else {
    const int code = own(a...);
    if (code != MPI_SUCCESS) {
      drop_receive(receive);
      return code;
    }
    Operation operation;
    operation.is_persistent = kIsPersistent;
    operation.is_active = !operation.is_persistent;
    if (side.is_valid) {
      operation.memory = {lasting_memory(buffer, side.count, argument<2>(a...), Access::writes)};
      operation.message = Operation::Message::receive;
      operation.comm = side.comm->shared_from_this();
      operation.peer = side.peer;
      operation.tag = side.tag;
      operation.layout = keep_layout(argument<2>(a...));
      operation.count = side.count;
      operation.receive = receive;
    }
    add_request(argument<6>(a...), std::move(operation));
    return code;
  }
}

template <std::size_t function, class... A>
int call_sendrecv(Own<A...> own, A... a) {
  constexpr std::string_view kName = kPlain<function>;
  constexpr bool kReplaces = kName.ends_with("_replace");
  constexpr bool kWaits = kName.starts_with("Send");
  Side out, in;
  const void* send_buffer = argument<0>(a...);
  void* receive_buffer;
  MPI_Datatype out_type = argument<2>(a...), in_type;
  if constexpr (kReplaces) {
    out = side_of(argument<1>(a...), argument<2>(a...), argument<3>(a...), argument<4>(a...),
                  argument<7>(a...), true);
    in = side_of(argument<1>(a...), argument<2>(a...), argument<5>(a...), argument<6>(a...),
                 argument<7>(a...), false);
    receive_buffer = argument<0>(a...);
    in_type = out_type;
  } else {
    out = side_of(argument<1>(a...), argument<2>(a...), argument<3>(a...), argument<4>(a...),
                  argument<10>(a...), true);
    in = side_of(argument<6>(a...), argument<7>(a...), argument<8>(a...), argument<9>(a...),
                 argument<10>(a...), false);
    receive_buffer = argument<5>(a...);
    in_type = argument<7>(a...);
    if (out.is_valid && in.is_valid)
      check_disjoint(memory_of(send_buffer, out.count, *out.layout, Access::reads),
                     memory_of(receive_buffer, in.count, *in.layout, Access::writes),
                     "send and receive buffers");
  }
  check_buffer(send_buffer, out, Access::reads);
  check_buffer(receive_buffer, in, Access::writes);
  std::uint32_t note = 0;
  if (out.is_valid) note = note_send(*out.comm, out.peer, out.tag, *out.layout, out.count, false);
  Receive* receive = nullptr;
  if (in.is_valid)
    receive =
        post_receive(in.comm, in.peer, in.tag, in.layout, keep_layout(in_type), in.count, false);
  if constexpr (kWaits) {
    MPI_Status own_status;
    MPI_Status*& status = std::get<sizeof...(A) - 1>(std::tie(a...));
    if (status == MPI_STATUS_IGNORE) status = &own_status;
    const int code = own(a...);
    if (code != MPI_SUCCESS && !is_truncated(code) && note != 0)
      note_cancelled_send(*out.comm, out.peer, out.tag, note);
    end_blocking_receive(receive, code, *status);
    return code;
  } else {
    const int code = own(a...);
    if (code != MPI_SUCCESS) {
      drop_receive(receive);
      if (note != 0) note_cancelled_send(*out.comm, out.peer, out.tag, note);
      return code;
    }
    Operation operation;
    if (in.is_valid) {
      operation.memory.push_back(lasting_memory(receive_buffer, in.count, in_type, Access::writes));
      operation.message = Operation::Message::receive;
      operation.comm = in.comm->shared_from_this();
      operation.peer = in.peer;
      operation.tag = in.tag;
      operation.layout = keep_layout(in_type);
      operation.count = in.count;
      operation.receive = receive;
    }
    if (out.is_valid && !kReplaces)
      operation.memory.push_back(lasting_memory(send_buffer, out.count, out_type, Access::reads));
    add_request(std::get<sizeof...(A) - 1>(std::tie(a...)), std::move(operation));
    return code;
  }
}

// A matched probe takes the message out of the order of receives; types are not compared.
template <std::size_t function, class... A>
int call_probe(Own<A...> own, A... a) {
  constexpr bool kWaits = kPlain<function> == "Mprobe";
  Comm* const comm = comm_of(argument<2>(a...));
  Receive* receive = nullptr;
  if (kWaits && comm != nullptr)
    receive = post_receive(comm, argument<0>(a...), argument<1>(a...), nullptr, nullptr, 0, false);
  MPI_Status own_status;
  MPI_Status*& status = std::get<sizeof...(A) - 1>(std::tie(a...));
  if (status == MPI_STATUS_IGNORE) status = &own_status;
  const int code = own(a...);
  if constexpr (!kWaits) {
    if (code == MPI_SUCCESS && *argument<3>(a...) != 0 && comm != nullptr)
      receive =
          post_receive(comm, argument<0>(a...), argument<1>(a...), nullptr, nullptr, 0, false);
  }
  end_blocking_receive(receive, code, *status);
  return code;
}

template <std::size_t function, class... A>
int call_matched_receive(Own<A...> own, A... a) {
  void* buffer = argument<0>(a...);
  const MPI_Count count = argument<1>(a...);
  const MPI_Datatype type = argument<2>(a...);
  const Layout* layout = layout_of(type);
  if (layout != nullptr && count > 0)
    check_variable(memory_of(buffer, static_cast<std::uint64_t>(count), *layout, Access::writes),
                   "its receive buffer");
  const int code = own(a...);
  if constexpr (kPlain<function> == "Imrecv")
    if (code == MPI_SUCCESS) {
      Operation operation;
      if (layout != nullptr && count > 0)
        operation.memory = {
            lasting_memory(buffer, static_cast<std::uint64_t>(count), type, Access::writes)};
      add_request(argument<4>(a...), std::move(operation));
    }
  return code;
}

template <std::size_t function, class... A>
int call_partitioned(Own<A...> own, A... a) {
  const int code = own(a...);
  if (code != MPI_SUCCESS) return code;
  Operation operation;
  operation.is_persistent = true;
  operation.is_active = false;
  operation.is_partitioned = true;
  add_request(std::get<sizeof...(A) - 1>(std::tie(a...)), std::move(operation));
  return code;
}

}  // namespace weft::check
