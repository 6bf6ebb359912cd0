#pragma once
// SocketTransfer: the transfer of objects before RDMA (the paper's section 2.3), as a baseline:
// `--protocol socket`. The requester sends TRANSFER with an id over a TCP connection, the holder
// answers DATA with the sizes, and then the bytes go in pieces of 4 KiB, one send and one recv
// each. Managers that asked each other once keep their connection.
//
// Any process that reaches the port may read any object: it is for measurements, between hosts that
// may.
//
// Threads. All calls by one, the manager's; SocketUser is called on it, from progress().
#include <poll.h>

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "objstore/shared/memory.hpp"
#include "weft/object_id.hpp"

namespace weft::objstore {

struct HeldObject {
  std::uint32_t entry = 0;
  const std::byte* bytes = nullptr;
  std::uint64_t data_bytes = 0;
  std::uint32_t metadata_bytes = 0;
};

// The interface of a SocketTransfer to its manager.
class SocketUser {
 public:
  virtual ~SocketUser() = default;
  // The holder's side: keeps the object until drop(). False: it is not here.
  virtual bool hold(const ObjectId& id, HeldObject& object) = 0;
  virtual void drop(const HeldObject& object) = 0;
  // The requester's side: the address for the bytes of this ask; nullptr: they are not wanted.
  virtual std::byte* make_room(std::uint64_t number, std::uint64_t data_bytes,
                               std::uint32_t metadata_bytes) = 0;
  // One of the two ends each ask that was not cancelled. is_absent: the holder has it no longer.
  virtual void arrived(std::uint64_t number) = 0;
  virtual void failed(std::uint64_t number, bool is_absent) = 0;
};

class SocketTransfer {
 public:
  // idle_ms: a transfer without progress for so long closes its connection.
  SocketTransfer(SocketUser& user, std::uint32_t idle_ms) : user_(user), idle_ms_(idle_ms) {}
  ~SocketTransfer();
  SocketTransfer(const SocketTransfer&) = delete;
  SocketTransfer& operator=(const SocketTransfer&) = delete;

  // "host:port": at that host, on a port that the kernel chooses. bad_argument: another kind of
  // address, or one that others can't connect to.
  Status listen(const std::string& address);
  // The address for others' ask(); host and port in figures.
  const std::string& address() const { return address_; }

  void ask(const std::string& address, const ObjectId& id, std::uint64_t number);
  // No byte is written for this ask any more, and no call of SocketUser follows.
  void cancel(std::uint64_t number);

  // True if anything moved.
  bool progress(std::uint64_t now_ns);
  void await(std::vector<pollfd>& descriptors) const;

 private:
  struct ObjectRequest {
    std::uint32_t magic;
    std::uint32_t reserved;
    std::uint64_t number;
    ObjectId id;
  };
  static_assert(sizeof(ObjectRequest) == 272);
  struct ObjectAnswer {
    std::uint32_t magic;
    std::uint32_t is_here;
    std::uint64_t number;
    std::uint64_t data_bytes;
    std::uint32_t metadata_bytes;
    std::uint32_t padding;
  };
  static_assert(sizeof(ObjectAnswer) == 32);

  // A connection over which this side requests objects.
  struct RequestConnection {
    std::string address;
    Descriptor socket;
    bool is_connected = false;
    std::string unsent;               // requests
    std::deque<std::uint64_t> asked;  // in the order of the answers; 0: cancelled
    ObjectAnswer answer{};
    std::size_t answer_bytes = 0;  // of it, so far
    std::byte* to = nullptr;       // nullptr: bytes are thrown away
    std::uint64_t left = 0;        // of the object under way
    std::uint64_t moved_ns = 0;
  };
  // A connection over which another host requests objects.
  struct ServingConnection {
    Descriptor socket;
    ObjectRequest request{};
    std::size_t request_bytes = 0;  // of it, so far
    bool has_asked = false;
    std::string unsent;  // an answer
    bool is_holding = false;
    HeldObject object;
    std::uint64_t sent = 0, total = 0;
    std::uint64_t moved_ns = 0;
  };
  enum class Moved { nothing, something, broken };

  RequestConnection& connection_to(const std::string& address);
  Moved advance(RequestConnection& asking, std::uint64_t now_ns);
  Moved advance(ServingConnection& giving, std::uint64_t now_ns);
  void take_answer(RequestConnection& asking);
  void end_object(RequestConnection& asking);
  void fail_all(RequestConnection& asking);
  void accept_all(std::uint64_t now_ns);

  SocketUser& user_;
  const std::uint32_t idle_ms_;
  std::string address_;
  Descriptor listener_;
  std::list<RequestConnection> asking_;
  std::list<ServingConnection> giving_;
};

}  // namespace weft::objstore
