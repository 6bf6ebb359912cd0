#pragma once
// Transport: what a port speaks, and how links over it differ. Every difference is a fact here, and
// what follows from it is said where it is asked for; elsewhere no transport has a name.
//
// iWARP's are of RFC 5040 and 5044, and of the manual pages of librdmacm: its queue pairs are those
// of TCP connections.
#include <cstdint>

namespace weft::verbs {

enum class Transport : std::uint8_t { infiniband, roce, iwarp };

struct TransportFacts {
  const char* name;
  // The connection manager takes queue pairs from their start to where they send, at both ends.
  bool connects_queue_pairs;
  // The side that asked for the connection must send before the other may.
  bool asker_speaks_first;
  // A peer can be told of a write by 32 bits with it.
  bool has_immediate;
  // A completed send or write has arrived, and requests complete in their order. Otherwise it has
  // left, and only a completed read says that what was posted before it has arrived.
  bool sent_has_arrived;
  // Memory that a read lands in must be remotely writable.
  bool reads_write_remotely;
  // A device that refuses an access ends the connection, and gives no reason to who asked.
  bool refuses_by_breaks;
  // Ports are taken where WEFT_DEVICE names them, and not by themselves: no hardware of it is known
  // to work.
  bool needs_name;
};

constexpr TransportFacts facts_of(Transport transport) noexcept {
  switch (transport) {
    case Transport::infiniband:
      return {"InfiniBand", false, false, true, true, false, false, false};
    case Transport::roce:
      return {"RoCE", false, false, true, true, false, false, false};
    case Transport::iwarp:
      return {"iWARP", true, true, false, false, true, true, true};
  }
  return {};
}

}  // namespace weft::verbs
