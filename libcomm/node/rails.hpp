#pragma once
// Rails: links of a session beside its main one, for puts, gets and atomics alone, which have no
// order. Messages, and target-side emulation, stay on the main link.
//
// A Node with several devices for a fabric has a rail over each that the main link is not on.
// Transfers from kStripeMin on are striped over them in segments. Each rail gets its next segment
// when one ends, so that a slow device does less and one whose link is down does nothing: its
// segments go to the others. The main link itself, once it breaks, is opened over the next device.
//
// If the fabric allows a peer several links (Limits::links), the second thread that posts gets a
// rail, and so on: it holds the session's lock while it lists the request, and the rail's alone
// while it posts.
//
// Either side creates a rail at its first use; both use it. Where a main link has no room, rails go
// first (peer/turns.hpp): who gives one up posts nothing more on it, and tells the peer once
// nothing of its own is under way; the peer does the same, and closes it. rails.cpp.
#include <array>
#include <cstdint>

#include "base/spin_lock.hpp"
#include "fabric/endpoint.hpp"
#include "node/request.hpp"

namespace weft::transport {

inline constexpr std::size_t kMaxDevices = 8;       // of a Node, for one fabric
inline constexpr std::size_t kMaxThreadRails = 15;  // of a session
inline constexpr std::size_t kStripeMin = 1 << 20;  // shorter transfers go over one link
inline constexpr std::size_t kSegmentBytes = 512 << 10;

// A part of a striped transfer.
struct Segment {
  NodeRequest* request = nullptr;
  std::size_t from = 0, bytes = 0;
};

// Under the lock of its session. Number 0 is the main link, whose endpoint and link are the
// session's; 1 to kMaxDevices have one device each of the side that opens them; those above belong
// to threads.
struct Rail {
  struct Stripe : fabric::WorkRequest {
    Rail* rail = nullptr;
    Segment segment;  // without a request: free
  };

  Rail(Session& of, std::uint16_t called) : session(of), number(called) {
    for (Stripe& stripe : stripes) stripe.rail = this;
  }

  Session& session;
  const std::uint16_t number;
  // Changed under this lock, too, which a thread holds that posts without the session's lock:
  SpinLock lock;
  fabric::Endpoint* endpoint = nullptr;
  fabric::Link* link = nullptr;
  std::uint32_t theirs = 0;  // the peer's device

  bool is_up = false;
  bool is_taken = false;          // the peer opened it; up from the next poll on
  bool is_theirs = false;         // the peer opened it
  std::uint32_t opening = 0;      // the opener's number of the link
  bool is_wanted = false;         // to be opened from open_at_ns on
  std::uint32_t last_taken = 0;   // the peer's number of the last link that was taken
  std::uint64_t up_since_ns = 0;  // of a link that was opened here
  // Given up, if not no: this side is to tell, has told, or has been told.
  enum class Rest : std::uint8_t { no, to_tell, told, asked } rest = Rest::no;
  std::size_t num_attempts = 0;
  std::uint64_t open_at_ns = 0, backoff_ns = 0;
  std::uint32_t num_posted = 0, num_ended = 0, seen_ended = 0;
  std::uint64_t still_since_ns = 0;
  std::array<Stripe, 2> stripes;  // two, so that the device never idles
};

}  // namespace weft::transport
