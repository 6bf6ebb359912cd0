#pragma once
// SocketTransfer: how objects moved before RDMA (the paper's section 2.3), kept to compare with,
// as `--protocol socket`. The asker sends TRANSFER with an id over a TCP connection, the holder
// answers DATA with the sizes, and then the bytes go in pieces of 4 KiB, one send and one recv
// each. Managers that asked each other once keep their connection.
//
// Whoever reaches the port may read any object: it is for measurements, between hosts that may.
//
// Threads. All calls by one, the manager's, whom SocketUser is called by from progress().
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

// What a SocketTransfer needs of its manager.
class SocketUser {
 public:
  virtual ~SocketUser() = default;
  // The holder's side: keeps the object until drop(). False: it is not here.
  virtual bool hold(const ObjectId& id, HeldObject& object) = 0;
  virtual void drop(const HeldObject& object) = 0;
  // The asker's side: where the bytes of this ask go; nullptr: they are not wanted.
  virtual std::byte* make_room(std::uint64_t number, std::uint64_t data_bytes,
                               std::uint32_t metadata_bytes) = 0;
  // One of the two ends each ask that was not cancelled. is_absent: the holder has it no longer.
  virtual void arrived(std::uint64_t number) = 0;
  virtual void failed(std::uint64_t number, bool is_absent) = 0;
};

class SocketTransfer {
 public:
  // idle_ms: how long a transfer may stand still before its connection is closed.
  SocketTransfer(SocketUser& user, std::uint32_t idle_ms) : user_(user), idle_ms_(idle_ms) {}
  ~SocketTransfer();
  SocketTransfer(const SocketTransfer&) = delete;
  SocketTransfer& operator=(const SocketTransfer&) = delete;

  // "host:port": at that host, on a port that the kernel chooses. bad_argument: another kind of
  // address, or one that others can't connect to.
  Status listen(const std::string& address);
  // What to give others, for ask(); host and port in figures.
  const std::string& address() const { return address_; }

  void ask(const std::string& address, const ObjectId& id, std::uint64_t number);
  // No byte is written on behalf of this ask any more, and nothing is said of it.
  void cancel(std::uint64_t number);

  // True if anything moved.
  bool progress(std::uint64_t now_ns);
  void await(std::vector<pollfd>& descriptors) const;

 private:
  struct Request {
    std::uint32_t magic;
    std::uint32_t reserved;
    std::uint64_t number;
    ObjectId id;
  };
  static_assert(sizeof(Request) == 272);
  struct Answer {
    std::uint32_t magic;
    std::uint32_t is_here;
    std::uint64_t number;
    std::uint64_t data_bytes;
    std::uint32_t metadata_bytes;
    std::uint32_t padding;
  };
  static_assert(sizeof(Answer) == 32);

  // One that this side asks through.
  struct Asking {
    std::string address;
    Descriptor socket;
    bool is_connected = false;
    std::string unsent;               // requests
    std::deque<std::uint64_t> asked;  // in the order of the answers; 0: cancelled
    Answer answer{};
    std::size_t answer_bytes = 0;  // of it, so far
    std::byte* to = nullptr;       // nullptr: what comes is thrown away
    std::uint64_t left = 0;        // of the object under way
    std::uint64_t moved_ns = 0;
  };
  // One that another side asks through.
  struct Giving {
    Descriptor socket;
    Request request{};
    std::size_t request_bytes = 0;  // of it, so far
    bool has_asked = false;
    std::string unsent;  // an answer
    bool is_holding = false;
    HeldObject object;
    std::uint64_t sent = 0, total = 0;
    std::uint64_t moved_ns = 0;
  };
  enum class Moved { nothing, something, broken };

  Asking& connection_to(const std::string& address);
  Moved advance(Asking& asking, std::uint64_t now_ns);
  Moved advance(Giving& giving, std::uint64_t now_ns);
  void take_answer(Asking& asking);
  void end_object(Asking& asking);
  void fail_all(Asking& asking);
  void accept_all(std::uint64_t now_ns);

  SocketUser& user_;
  const std::uint32_t idle_ms_;
  std::string address_;
  Descriptor listener_;
  std::list<Asking> asking_;
  std::list<Giving> giving_;
};

}  // namespace weft::objstore
