#pragma once
// watch_for_death(): so that the end of a connection's other machine is noticed.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

namespace weft {

// The kernel notices within about `silence_ms` that the other machine is gone, however quiet the
// connection is, and within some seconds that the process there has ended meanwhile. A stopped
// process still counts as there.
inline void watch_for_death(int socket, int silence_ms) {
  constexpr int kOn = 1, kIdleS = 2, kIntervalS = 1, kMostProbes = 127;
  const int num_probes = std::clamp(silence_ms / 1000 - kIdleS, 1, kMostProbes);
  // For data under way, which keepalive does not watch; keepalive ends by it, too.
  const auto unanswered_ms = static_cast<unsigned>(std::max(silence_ms, 1000));
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof kOn);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleS, sizeof kIdleS);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &kIntervalS, sizeof kIntervalS);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &num_probes, sizeof num_probes);
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
}

}  // namespace weft
