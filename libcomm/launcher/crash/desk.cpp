#include "launcher/crash/desk.hpp"

#include <errno.h>
#include <fmt/core.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

#include "launcher/crash/cause.hpp"
#include "launcher/crash/core_file.hpp"
#include "launcher/processes/process_entry.hpp"

namespace weft::weftrun {
namespace {

constexpr std::ptrdiff_t kMostRunning = 4;  // readers at a time
constexpr int kStackMs = 4000;
constexpr int kWaiting = 1024;  // connections not accepted yet

bool has_ended(int connection) {
  pollfd end{connection, 0, 0};
  return poll(&end, 1, 0) == 1;
}

}  // namespace

bool is_below(pid_t process, pid_t ancestor) {
  constexpr int kMostSteps = 100;
  for (int step = 0; step < kMostSteps && process > 1; ++step) {
    if (process == ancestor) return true;
    const auto entry = read_process_entry(process);
    process = entry ? entry->parent : 0;
  }
  return false;
}

// What its reader has inherited of the connection does not keep it open.
Desk::Visit::~Visit() {
  if (connection) shutdown(connection.get(), SHUT_RDWR);
}

Desk::Desk() : listener_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  // The kernel chooses a name.
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socklen_t length = sizeof(sa_family_t);
  if (!listener_ || bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listener_.get(), kWaiting) != 0)
    return;
  length = sizeof address;
  if (getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return;
  constexpr std::size_t kHead = offsetof(sockaddr_un, sun_path) + 1;
  if (length > kHead && length <= sizeof address)
    name_.assign(address.sun_path + 1, length - kHead);
}

void Desk::add_polls(std::vector<pollfd>& polls) const {
  if (listener_) polls.push_back({listener_.get(), POLLIN, 0});
  for (const Visit& visit : visits_) {
    if (visit.is_done) continue;
    // Of a connection that is heard, its end.
    polls.push_back({visit.connection.get(), static_cast<short>(visit.is_heard ? 0 : POLLIN), 0});
    if (visit.aside.is_running()) polls.push_back({visit.aside.fd(), POLLIN, 0});
  }
}

void Desk::accept() {
  while (listener_) {
    const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    ucred peer{};
    socklen_t length = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid())
      visits_.emplace_back(fd, peer.pid);
    else
      close(fd);
  }
}

// False: it has nothing to say.
bool Desk::hear(Visit& visit, const std::function<bool(int, pid_t)>& is_of) const {
  const ssize_t length =
      recv(visit.connection.get(), &visit.notice, sizeof visit.notice, MSG_TRUNC);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  const crash::Notice& notice = visit.notice;
  visit.is_heard = length == sizeof notice && notice.magic == crash::Notice::kMagic &&
                   notice.num_registers <= crash::Notice::kMostRegisters && notice.signal > 0 &&
                   is_of(notice.rank, visit.process);
  if (visit.is_heard) visit.core = core_file_of(visit.process);
  return visit.is_heard;
}

void Desk::look_at(Visit& visit) {
  if (visit.is_done || !visit.is_heard) return;
  if (has_ended(visit.connection.get())) {
    visit.aside.end();
    visit.stack.missing = "it ended before its stack was read";
    visit.is_done = true;
    return;
  }
  if (!visit.aside.is_running()) {
    if (std::ranges::count_if(
            visits_, [](const Visit& other) { return other.aside.is_running(); }) >= kMostRunning)
      return;
    const auto work = [&visit] { return encode(read_stack(visit.process, visit.notice)); };
    if (!visit.aside.start(work, kStackMs)) {
      visit.stack.missing = "its stack is not known: no process could be started to read it";
      visit.is_done = true;
      return;
    }
  }
  if (!visit.aside.read_some()) return;
  visit.aside.end();
  if (!decode(visit.aside.result(), visit.stack))
    visit.stack.missing =
        fmt::format("its stack is not known: it could not be read within {} s", kStackMs / 1000);
  visit.is_done = true;
}

std::vector<Crash> Desk::serve(const std::function<bool(int rank, pid_t process)>& is_of) {
  accept();
  std::erase_if(visits_, [&](Visit& visit) { return !visit.is_heard && !hear(visit, is_of); });
  for (Visit& visit : visits_) look_at(visit);
  std::vector<Crash> crashes;
  // One that has said nothing yet keeps nobody.
  if (!std::ranges::all_of(visits_,
                           [](const Visit& visit) { return visit.is_done || !visit.is_heard; }))
    return crashes;
  for (Visit& visit : visits_)
    if (visit.is_done)
      crashes.push_back({visit.notice.rank, visit.process, "", visit.notice.signal,
                         cause_of(visit.notice), visit.stack.call, visit.stack.places,
                         visit.stack.missing, visit.core});
  std::erase_if(visits_, [](const Visit& visit) { return visit.is_done; });
  return crashes;
}

}  // namespace weft::weftrun
