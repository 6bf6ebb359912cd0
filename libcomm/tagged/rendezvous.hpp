#pragma once
// Rendezvous: the part of a VCI for long messages. rendezvous.cpp describes the protocols.
#include <cstdint>
#include <vector>

#include "base/containers/pool.hpp"
#include "base/containers/slots.hpp"
#include "tagged/sending.hpp"

namespace weft::tagged {

// The copy of one long message, at either side.
struct RendezvousCopy {
  Request* request;
  SharedCopy* record;  // null: the receiver copies alone and sends kFin
  MemoryName remote;
  std::uint64_t length;
  std::uint64_t copied;  // without a record
  std::uint64_t send_id;
  std::uint32_t record_index;
  int peer;
  bool is_sender;
  bool claims;  // this side still claims chunks
  // Gets in flight from a remote peer, with `copied` the bytes started; not null from start to end.
  // Null for a copy by the processor.
  struct Gets* gets;
};

// The gets of one long message from a remote peer. Its address is fixed while they run.
struct Gets {
  static constexpr int kMax = 4;
  Completion chunks[kMax];
  bool busy[kMax] = {};
  Code code = Code::ok;
};

// Requests that a peer refers to by number.
using RequestTable = Slots<Request*, std::uint64_t>;

struct Rendezvous : Sending {
  using Sending::Sending;

  // The sender's side. send_rts returns false if the message stays queued, withdraw returns true if
  // the request is complete with cancelled.
  bool send_rts(Peer& peer, Request& request);
  bool withdraw(Request& request);
  // Ends the sends of a context that have not begun, and withdraws those whose RTS has left.
  void revoke_sends(std::uint32_t context);
  void on_cts(Peer& peer, const Entry& entry);
  void on_fin(Peer& peer, const Entry& entry) { complete_rts(peer, entry.immediate, Code::ok); }
  void on_withdrawn(Peer& peer, const Entry& entry) {
    complete_rts(peer, entry.immediate, Code::cancelled);
  }
  // After the receiver's last access to the data.
  void end_share(Request& request);

  // The receiver's side. on_rts returns false without memory: the entry stays in the ring.
  bool on_rts(Peer& peer, const Entry& entry);
  // Begins to receive the message of an RTS that has matched.
  void fetch(Request& request, int source, std::int32_t tag, const MemoryName& memory,
             std::uint64_t send_id);
  void on_stream(Peer& peer, const Entry& entry);
  void on_withdraw(Peer& peer, const Entry& entry);

  // Allocates all that handling an RTS, CTS or FIN may need, so that it cannot fail half-way.
  // False: no memory.
  bool make_room(Peer& peer) noexcept;
  void run_copies();
  // Returns true while this side moves some copy forward: then polling is progress, not waiting.
  bool has_copies() const noexcept;
  // Returns true while either side, or a network, moves some copy.
  bool is_copying() const noexcept { return !copies.empty(); }
  // Completes what a lost peer takes part in.
  void lose_rendezvous(Peer& peer);

  std::vector<RendezvousCopy> copies;
  RequestTable sends;     // with an RTS sent
  RequestTable receives;  // streamed
  std::vector<std::uint32_t> free_records;
  std::vector<std::uint32_t> closing_records;  // done here; the sender may still read them

 private:
  void complete_rts(Peer& peer, std::uint64_t send_id, Code code);
  void send_cts_to_stream(RendezvousCopy& copy);
  void send_cts_to_copy(Peer& peer, RendezvousCopy& copy);
  void send_fin(const RendezvousCopy& copy, Code code);
  std::uint32_t take_record();
  bool step(RendezvousCopy& copy, bool both_ways);  // true: finished, remove it
  bool end_if_complete(RendezvousCopy& copy);
  bool step_remote(RendezvousCopy& copy);
  void claim_chunk(RendezvousCopy& copy, bool is_alone);
  Code copy_bytes(const RendezvousCopy& copy, std::uint64_t offset, std::uint64_t bytes);
  void count_chunk(RendezvousCopy& copy, Code code, std::uint64_t bytes);
  void count_message(const RendezvousCopy& copy);
  void take_back(RendezvousCopy& copy);

  Pool<Gets> gets;
  Peer* found_lost = nullptr;  // by a copy
};

}  // namespace weft::tagged
