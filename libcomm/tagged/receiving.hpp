#pragma once
// Receiving: the part of a VCI that polls the lanes and delivers messages.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tagged/rendezvous.hpp"

namespace weft::tagged {

struct Receiving : Rendezvous {
  using Rendezvous::Rendezvous;

  // Polls all lanes, retries blocked peers and advances copies.
  void progress();
  void accept_peers(Lanes& lanes);
  void drain(Peer& peer);
  // False: there is no memory, and the message is unchanged.
  bool receive_unexpected(Request& request, Unexpected& message);
  // Allocates a message of so many bytes. Null: no memory; past the deadline the peer is lost.
  Unexpected* allocate_for(Peer& peer, std::size_t bytes);
  // Copies bytes of a message from `offset` on, which the buffer has room for.
  static void store(const Request& request, std::size_t offset, const std::byte* from,
                    std::size_t bytes) noexcept;
  // For a peer that has sent invalid data.
  void broken(Peer& peer, const char* what);
  // Completes the message of a lost peer that has arrived in part.
  void lose_incoming(Peer& peer);
  // Frees a message that is out of the matcher.
  void release_unexpected(Peer& peer, Unexpected& message);

  std::vector<Peer*> incoming;                              // of this host, connected
  const std::atomic<std::uint32_t>* connections = nullptr;  // of `local`
  std::uint32_t known_connections = 0;
  bool left_entries = false;  // by the last call of progress, in a ring
  std::size_t unexpected_max = 0;

  // State of remote peers, apart from that of the host's, so that these do not pay for it.
  std::vector<std::uint32_t> known_remote_connections;  // as fabrics->remote()
  std::vector<Arrivals*> arrivals;                      // of their lanes to this process
  std::vector<Peer*> arriving;                          // with entries in their lane
  std::uint32_t remote_polls = 0;

 private:
  void progress_remote();
  // Handle an entry of kEager, and any other. may_leave: an unexpected message may be left in the
  // ring for the next call; then they return false.
  bool on_eager(Peer& peer, const Entry& entry, std::size_t bytes, const std::byte* data,
                std::size_t length, bool may_leave);
  bool on_other(Peer& peer, const Entry& entry, bool may_leave);
  void on_eager_more(Peer& peer, const Entry& entry);
  bool keep_unexpected(Peer& peer, std::uint32_t context, std::int32_t tag, std::size_t bytes,
                       const std::byte* data, std::size_t length);
  void deliver(Request& request, Unexpected& message);
};

}  // namespace weft::tagged
