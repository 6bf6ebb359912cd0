#pragma once
// Sending: the part of a VCI that moves queued messages and control entries into the rings.
#include <vector>

#include "tagged/core.hpp"

namespace weft::tagged {

struct Sending : Core {
  using Core::Core;

  void enqueue(Peer& peer, Request& request);
  void enqueue(Peer& peer, const Control& control);  // does not allocate after make_room
  // Sends as much of a message as there is room for. True: it has left the queue.
  bool send_some(Peer& peer, Request& request);
  void flush(Peer& peer);
  bool retry(Peer& peer);  // true: this peer has nothing queued any more
  // For a queued send: returns false, and the send stays queued.
  bool wait_for_memory(Peer& peer);

  std::vector<Peer*> blocked;  // with queued sends or controls

 private:
  void note_blocked(Peer& peer);
};

}  // namespace weft::tagged
