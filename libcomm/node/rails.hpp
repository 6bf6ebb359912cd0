#pragma once
// Rails: links of a session beside its main one, for puts, gets and atomics alone, which have no
// order. Messages, and what is done by them, stay on the main link.
//
// A Node with several devices for a fabric has a rail over each that the main link is not on.
// Transfers from kStripeMin on are handed out to them in pieces, to each a next one as it ends one,
// so that a slow device does less and one whose link is down does nothing: its pieces go to the
// others. The main link itself, once it breaks, is opened over the next device.
//
// Where the fabric allows a peer several links (Limits::links), the second thread that posts gets a
// rail, and so on: it holds the session's lock while it lists what it posts, and the rail's alone
// while it posts.
//
// Rails are made when they are first wanted, by either side; both use them. rails.cpp.
#include <array>
#include <cstdint>

#include "base/spin_lock.hpp"
#include "fabric/endpoint.hpp"
#include "node/work.hpp"

namespace weft::transport {

inline constexpr std::size_t kMaxDevices = 8;       // of a Node, for one fabric
inline constexpr std::size_t kMaxThreadRails = 15;  // of a session
inline constexpr std::size_t kStripeMin = 1 << 20;  // shorter transfers go over one link
inline constexpr std::size_t kPieceBytes = 512 << 10;

// Of a transfer that is striped.
struct Piece {
  Work* work = nullptr;
  std::size_t from = 0, bytes = 0;
};

// Under the lock of its session. Number 0 is the main link, whose endpoint and link are the
// session's; 1 and up have a device of the side that opens them each; those above are of threads.
struct Rail {
  struct Stripe : fabric::Request {
    Rail* rail = nullptr;
    Piece piece;  // no work: free
  };

  Rail(Session& of, std::uint16_t called) : session(of), number(called) {
    for (Stripe& stripe : stripes) stripe.rail = this;
  }

  Session& session;
  const std::uint16_t number;
  // Changed under this lock too, which those hold who post without the session's:
  SpinLock lock;
  fabric::Endpoint* endpoint = nullptr;
  fabric::Link* link = nullptr;
  std::uint32_t theirs = 0;  // the peer's device

  bool is_up = false;
  bool is_taken = false;   // the peer opened it; up from the next poll on
  bool is_wanted = false;  // to be opened as soon as its time has come
  std::size_t num_attempts = 0;
  std::uint64_t open_at_ns = 0, backoff_ns = 0;
  std::uint32_t num_posted = 0, num_ended = 0, seen_ended = 0;
  std::uint64_t still_since_ns = 0;
  std::array<Stripe, 2> stripes;  // so that the next is there when one ends
};

}  // namespace weft::transport
