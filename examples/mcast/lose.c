// lose: a preloaded library (LD_PRELOAD) by which a process loses LOSE_PERCENT of the datagrams of
// more than 1000 bytes that come to it, at random: data, as control messages are shorter. For
// comparisons where the kernel has no netem; TCP loses nothing.
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static double share(void) {
  static double value = -1;
  if (value < 0) {
    const char* text = getenv("LOSE_PERCENT");
    value = text != NULL ? atof(text) / 100 : 0;
    srand48(getpid());
  }
  return value;
}

static int loses(int fd, long bytes, int flags) {
  int type = 0;
  socklen_t length = sizeof type;
  return bytes > 1000 && (flags & MSG_PEEK) == 0 && share() > 0 &&
         getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_DGRAM &&
         drand48() < share();
}

// Without this several datagrams would come as one.
int setsockopt(int fd, int level, int name, const void* value, socklen_t length) {
  if (level == SOL_UDP && name == UDP_GRO && share() > 0) {
    errno = ENOPROTOOPT;
    return -1;
  }
  return (int)syscall(SYS_setsockopt, fd, level, name, value, length);
}

int recvmmsg(int fd, struct mmsghdr* messages, unsigned count, int flags, struct timespec* limit) {
  for (;;) {
    const int result = (int)syscall(SYS_recvmmsg, fd, messages, count, flags, limit);
    if (result <= 0) return result;
    int kept = 0;
    for (int i = 0; i < result; ++i) {
      if (loses(fd, messages[i].msg_len, flags)) continue;
      if (kept != i)
        memcpy(messages[kept].msg_hdr.msg_iov->iov_base, messages[i].msg_hdr.msg_iov->iov_base,
               messages[i].msg_len);
      messages[kept++].msg_len = messages[i].msg_len;
    }
    if (kept > 0) return kept;
  }
}

ssize_t recvmsg(int fd, struct msghdr* message, int flags) {
  for (;;) {
    struct msghdr copy = *message;
    const ssize_t result = syscall(SYS_recvmsg, fd, &copy, flags);
    if (loses(fd, result, flags)) continue;
    message->msg_namelen = copy.msg_namelen;
    message->msg_controllen = copy.msg_controllen;
    message->msg_flags = copy.msg_flags;
    return result;
  }
}

ssize_t recvfrom(int fd, void* buffer, size_t bytes, int flags, struct sockaddr* from,
                 socklen_t* length) {
  const socklen_t room = length != NULL ? *length : 0;
  for (;;) {
    const ssize_t result = syscall(SYS_recvfrom, fd, buffer, bytes, flags, from, length);
    if (!loses(fd, result, flags)) return result;
    if (length != NULL) *length = room;
  }
}

ssize_t recv(int fd, void* buffer, size_t bytes, int flags) {
  return recvfrom(fd, buffer, bytes, flags, NULL, NULL);
}
