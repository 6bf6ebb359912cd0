#pragma once
// An access: one get, put or atomic on memory of a peer. The fabric does it, or target-side
// emulation (target_side.hpp).
#include <cstddef>
#include <cstdint>

#include "fabric/endpoint.hpp"
#include "rma/memory.hpp"

namespace weft {

// put_once: a put that is not done again where its link breaks, but ends as atomics do then.
enum class Access : std::uint8_t { get, put, put_once, cas, fetch_add };

constexpr bool is_atomic(Access access) noexcept { return access >= Access::cas; }
constexpr fabric::Atomic atomic_of(Access access) noexcept {
  return access == Access::cas ? fabric::Atomic::compare_swap : fabric::Atomic::fetch_add;
}

// What an access does, in terms of a job's ranks.
struct RemoteAccess {
  Access access;
  MemoryName there;
  std::size_t offset = 0;  // in it
  void* here = nullptr;    // of a get or put
  std::size_t bytes = 0;   // 8 of an atomic
  std::uint64_t operand = 0;
  std::uint64_t compare = 0;          // cas stores `operand` if the word equals this
  std::uint64_t* previous = nullptr;  // to be the word's value before an atomic
};

}  // namespace weft

namespace weft::transport {

struct AccessRequest : fabric::WorkRequest {
  Access access = Access::put;
  bool is_asked = false;    // target-side emulation has all of it
  Code refused = Code::ok;  // by the target, before all pieces of it were sent
  std::uint32_t id = 0;     // at the target side; 0: never asked
  std::byte* local = nullptr;
  std::size_t bytes = 0;
  std::size_t moved = 0;  // by target-side emulation: bytes of a get received, of a put sent
  std::uint64_t operand = 0, compare = 0;
  std::uint64_t previous = 0;   // the word's value before an atomic
  std::uint8_t num_breaks = 0;  // of links, while the fabric had it

  // Counts a link that broke under it. True: so many have that the request itself is the reason.
  bool count_break() noexcept {
    constexpr std::uint8_t kMostBreaks = 16;
    return num_breaks == kMostBreaks || ++num_breaks == kMostBreaks;
  }
  // Returns true if target-side emulation is to have it, though the fabric can do it: links broke
  // under it where the device may have refused it so, and the owner says why.
  bool is_for_owner(const fabric::Limits& limits) const noexcept {
    constexpr std::uint8_t kMostBreaksByFabric = 2;
    return limits.refuses_by_breaks && num_breaks >= kMostBreaksByFabric;
  }
  // Returns true if it must not be done again after a break, when it may have been done.
  bool is_once() const noexcept { return is_atomic(access) || access == Access::put_once; }
};

// Returns true if the fabric can do the request; target-side emulation does the others.
inline bool can_do(const fabric::Limits& limits, const AccessRequest& request) noexcept {
  if (request.bytes > std::size_t{1} << 30) return false;
  return request.access == Access::get ? limits.gets
         : is_atomic(request.access)   ? limits.atomics
                                       : limits.puts;
}

// Has the fabric do a request that can_do() accepts; returns the result of the endpoint's call.
inline Code post_access(fabric::Endpoint& endpoint, fabric::Link& link, AccessRequest& request,
                        const fabric::Key& key, std::uint64_t offset) {
  switch (request.access) {
    case Access::get:
      return endpoint.get(link, request.local, request.bytes, key, offset, request);
    case Access::put:
    case Access::put_once:
      return endpoint.put(link, request.local, request.bytes, key, offset, request);
    default:
      return endpoint.atomic(link, atomic_of(request.access), key, offset, request.operand,
                             request.compare, request.previous, request);
  }
}

}  // namespace weft::transport
