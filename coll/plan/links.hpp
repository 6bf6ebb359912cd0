#pragma once
// Links: one collective call's messages between members of a team, by team rank. Blocking, and
// every wait ends: with peer_lost once a member is lost. One thread at a time per team.
#include <cstddef>
#include <cstring>
#include <memory>

#include "coll/plan/loss_deadline.hpp"
#include "weft/copy.hpp"

namespace weft::coll {

class Links {
 public:
  Links(Team& team, Collective collective) noexcept
      : team_(team), tag_(1 + static_cast<std::int32_t>(collective)) {}

  Status send(const void* data, std::size_t bytes, int to);
  Status receive(void* data, std::size_t bytes, int from);
  // Sends and receives at once.
  Status exchange(const void* data, std::size_t bytes, int to, void* into, std::size_t room,
                  int from);

  // Starts without waiting; finish() waits. A request that cannot complete any more (its peer gave
  // up) is left to the team.
  void start_send(std::unique_ptr<tagged::Request>& request, const void* data, std::size_t bytes,
                  int to);
  void start_receive(std::unique_ptr<tagged::Request>& request, void* data, std::size_t bytes,
                     int from);
  Status finish(std::unique_ptr<tagged::Request>& request);

 private:
  Team& team_;
  std::int32_t tag_;
  LossDeadline deadline_{team_};  // one for all messages of the call
};

// memcpy that allows null when there is nothing to copy, and equal addresses.
inline void copy_bytes(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes != 0 && to != from) weft::detail::copy(to, from, bytes);
}

inline std::byte* at(void* base, std::ptrdiff_t offset) noexcept {
  return static_cast<std::byte*>(base) + offset;
}
inline const std::byte* at(const void* base, std::ptrdiff_t offset) noexcept {
  return static_cast<const std::byte*>(base) + offset;
}
inline std::byte* at(void* base, std::size_t offset) noexcept {
  return at(base, static_cast<std::ptrdiff_t>(offset));
}
inline const std::byte* at(const void* base, std::size_t offset) noexcept {
  return at(base, static_cast<std::ptrdiff_t>(offset));
}

inline std::size_t index(int rank) noexcept { return static_cast<std::size_t>(rank); }

// Rounds up to full cache lines, so that several blocks fit into one scratch block of the team.
inline std::size_t round_up_line(std::size_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

// The first element of part `part` of `parts` when `count` elements are divided evenly, the first
// parts one element longer.
inline std::size_t part_begin(std::size_t count, int parts, int part) noexcept {
  const std::size_t n = index(parts), i = index(part);
  return count / n * i + (i < count % n ? i : count % n);
}

}  // namespace weft::coll

// Returns from the calling function with the status if it is not ok.
#define WEFT_COLL_TRY(expression)                                                 \
  do {                                                                            \
    if (::weft::Status try_status = (expression); !try_status) return try_status; \
  } while (false)
