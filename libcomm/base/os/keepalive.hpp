#pragma once
// watch_for_death(): so that the end of a connection's other machine is noticed.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace weft {

// The kernel on both sides notices within about ten seconds that the other machine is gone, however
// quiet the connection is. A stopped process still counts as there.
inline void watch_for_death(int socket) {
  constexpr int kOn = 1, kIdleS = 2, kIntervalS = 1, kProbes = 8;
  constexpr unsigned kUnansweredMs = 10000;  // for data under way, which keepalive does not watch
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof kOn);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleS, sizeof kIdleS);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &kIntervalS, sizeof kIntervalS);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof kProbes);
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnansweredMs, sizeof kUnansweredMs);
}

}  // namespace weft
