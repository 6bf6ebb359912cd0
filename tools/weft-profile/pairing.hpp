#pragma once
// Whom a process waited for in its calls that send and receive: the ends of messages here, paired
// with the other ends, which other processes have logged. Pure functions.
//
// A late sender: a receiving call waits from its begin until the matching send begins. A late
// receiver: a sending call waits from its begin until the matching receive is posted, if it has not
// returned by then. Messages of one sender, communicator and tag arrive in order, so the n-th send
// belongs to the n-th receive.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace weft::profile {

// The most ends that a process logs: 32 bytes each, and 24 for a call.
inline constexpr std::size_t kMostEnds = 1 << 18;
inline constexpr std::uint32_t kNone = ~std::uint32_t{0};

// One end of a message, in this process.
struct End {
  enum class Kind : std::uint8_t { send, receive, probe };
  std::uint64_t comm;      // the same number in all its processes
  std::uint64_t start_ns;  // when the call began that posted it
  std::int32_t peer;       // rank in MPI_COMM_WORLD; negative: there is no message
  std::int32_t tag;
  std::uint32_t call = kNone;  // that waited for it
  Kind kind;
};

// A call that waited for one or more messages to end.
struct Call {
  std::uint64_t begin_ns, end_ns;
  bool is_counted;
};

// An end of a message in another process.
struct FarEnd {
  std::uint64_t comm;
  std::uint64_t start_ns;  // by this process's clock
  std::int32_t tag;
  std::uint32_t is_send;
};

enum class Reason : std::uint8_t { late_sender, late_receiver };

struct Waited {
  // of these calls, until the other began its call
  std::uint64_t ns = 0, calls = 0;
  // in calls for messages of that peer, late or not
  std::uint64_t blocked_ns = 0;
};

struct Waits {
  std::map<std::pair<int, Reason>, Waited> by_peer;
  std::uint64_t num_paired = 0, num_unpaired = 0;
};

// far: by peer, each in the order of its ends there. least_ns: by peer; shorter waits may be the
// error of the clocks, and count as none. A call that waited for several messages waited for the
// peer that came last; one that waited for receives and sends, for the receives.
Waits find_waits(std::vector<End> ends, std::span<const Call> calls,
                 const std::vector<std::vector<FarEnd>>& far,
                 std::span<const std::uint64_t> least_ns);

}  // namespace weft::profile
