#pragma once
// SocketRoute: objects over SocketTransfer instead of over the Node, with --protocol socket; unused
// otherwise.
//
// Locks. Manager's turn_mutex_; the server's lock for the objects, ManagerCore::mutex for the
// counters.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core.hpp"
#include "members.hpp"
#include "socket_transfer.hpp"

namespace weft::objstore {

class Fetches;

class SocketRoute final : private SocketUser {
 public:
  SocketRoute(ManagerCore& core, Members& members, Fetches& fetches)
      : core_(core), members_(members), fetches_(fetches) {}

  // bad_argument: no address of --listen is fit for it.
  Status open();
  bool is_used() const { return transfer_ != nullptr; }
  // True if the peer has sent the address for ask().
  bool can_ask(std::uint64_t holder) const { return addresses_.contains(holder); }
  void ask(std::uint64_t holder, const ObjectId& id, std::uint64_t number);
  // These do nothing when it is not used.
  void cancel(std::uint64_t number);
  void send_address(std::uint64_t to);
  void received_address(std::uint64_t from, const PeerMessage& message);
  void forget_peer(std::uint64_t generation) { addresses_.erase(generation); }
  bool progress(std::uint64_t now_ns);
  void await(std::vector<pollfd>& descriptors) const;
  void close() { transfer_.reset(); }

 private:
  // SocketUser
  bool hold(const ObjectId& id, HeldObject& object) override;
  void drop(const HeldObject& object) override;
  std::byte* make_room(std::uint64_t number, std::uint64_t data_bytes,
                       std::uint32_t metadata_bytes) override;
  void arrived(std::uint64_t number) override;
  void failed(std::uint64_t number, bool is_absent) override;

  ManagerCore& core_;
  Members& members_;
  Fetches& fetches_;
  std::unique_ptr<SocketTransfer> transfer_;
  std::map<std::uint64_t, std::string> addresses_;  // of peers
};

}  // namespace weft::objstore
