#pragma once
// An access: one get, put or atomic on memory of a peer. The fabric does it, or target-side
// emulation (target_side.hpp).
#include <cstddef>
#include <cstdint>

#include "fabric/endpoint.hpp"

namespace weft {

// put_once: a put that is not done again where its link breaks, but ends as atomics do then.
enum class Access : std::uint8_t { get, put, put_once, cas, fetch_add };

constexpr bool is_atomic(Access access) noexcept { return access >= Access::cas; }
constexpr fabric::Atomic atomic_of(Access access) noexcept {
  return access == Access::cas ? fabric::Atomic::compare_swap : fabric::Atomic::fetch_add;
}

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
  std::uint64_t previous = 0;  // the word's value before an atomic
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
