#pragma once
// TargetSide: gets, puts and atomics by messages, which the memory's owner answers: for fabrics
// that have none, and for memory that a fabric cannot reach. Both ends of it, towards one peer.
// Shared by a Node's sessions and a job's lanes, which call all this under the lock of the link.
//
// Puts and atomics are numbered messages, so they are done once, whatever happens to the link. A
// get is asked for again over the next link, from where its data ended.
//
// Tests: tests/rma/target_side_test.cpp.
#include <cstdint>
#include <vector>

#include "base/containers/slots.hpp"
#include "peer/reliable_link.hpp"
#include "rma/access.hpp"

namespace weft::transport {

class TargetSide {
 public:
  class Memory : public ReliableLink::Owner {
   public:
    // The memory that the peer may access with these rights (fabric::Rights); null: `code` has the
    // reason.
    virtual std::byte* find_shared(const RemoteRange& range, std::uint32_t rights, Code& code) = 0;
    // For bytes of an answer that the fabric takes from where they are, at a place that was found:
    // done once it has. Null: they are copied.
    virtual fabric::WorkRequest* pin(const RemoteRange&, std::size_t) { return nullptr; }

   protected:
    ~Memory() = default;
  };

  TargetSide(ReliableLink& link, Memory& memory) : link_(link), memory_(memory) {}

  // Asks the target side for it. ok: it is under way, and on_message() reports its end. again: it
  // is to be posted again once there is room. Any other code: it has ended with that.
  Code post(AccessRequest& request, const RemoteRange& range);
  // Drops a request that ends otherwise: the peer is lost, or it is given up.
  void drop(AccessRequest& request);
  // The link is gone. The requesting side posts its gets again.
  void on_link_end() { answers_.clear(); }

  // Takes a message of the peer: put, get, atomic, data or done. False: it is not valid. ended: the
  // request that it completes, if any, and the result.
  bool on_message(Kind kind, fabric::Bytes bytes, AccessRequest*& ended, Code& code);

  // Sends data of gets, the eldest first. False: more is left.
  bool pump();

 private:
  // A bound, so that two that ask each other for much do not fill the link in both directions.
  static constexpr std::size_t kMaxAsked = 256;

  struct Answer {  // a get
    std::uint32_t id;
    RemoteRange rest;
  };

  bool on_put(const AccessMessage& message, fabric::Bytes data);
  bool on_get(const AccessMessage& message);
  bool on_atomic(const AtomicMessage& message);
  bool on_data(const Head& message, fabric::Bytes data, AccessRequest*& ended);
  bool on_done(const DoneMessage& message, AccessRequest*& ended, Code& code);
  AccessRequest* find(std::uint32_t id);
  bool send(Answer& answer);
  void send_done(std::uint32_t id, Code code, std::uint64_t previous = 0);

  ReliableLink& link_;
  Memory& memory_;
  Slots<AccessRequest*> asked_;  // by id
  std::vector<Answer> answers_;  // that the link has not taken
};

}  // namespace weft::transport
