// Connecting with processes of other jobs: ports, accept and connect, join, and names (MPI 5.0
// sections 11.9 and 11.10).
#include "mpi/dynamic/dynamic.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>

#include "base/wait.hpp"
#include "job/boards.hpp"
#include "mpi/comm/members.hpp"
#include "mpi/core/request.hpp"
#include "mpi/dynamic/name_server.hpp"
#include "mpi/dynamic/port.hpp"
#include "mpi/p2p/transfer.hpp"

namespace weft::mpi {
namespace {

std::mutex ports_mutex;
Immortal<std::map<std::string, std::shared_ptr<Port>, std::less<>>> ports;
MPI_Comm parent = MPI_COMM_NULL;  // the processes that spawned this job

std::shared_ptr<Port> find_port(std::string_view name) {
  const std::lock_guard lock(ports_mutex);
  const auto found = ports->find(name);
  return found == ports->end() ? nullptr : found->second;
}

// The error class of connecting with others, where it differs from the code's usual one.
int meeting_error(const Status& status) {
  switch (status.code()) {
    case Code::bad_argument:
    case Code::not_found:
    case Code::timed_out:
      return MPI_ERR_PORT;
    default:
      return error_class(status.code());
  }
}

// Reads the seconds of an info's key "timeout". False: it is no number of seconds.
bool read_timeout(const Info* info, int& timeout_ms) {
  const std::string* text = info == nullptr ? nullptr : info->find("timeout");
  if (text == nullptr) return true;
  int seconds = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), seconds);
  if (error != std::errc{} || end != text->data() + text->size() || seconds < 0 ||
      seconds > 1'000'000)
    return false;
  timeout_ms = seconds * 1000;
  return true;
}

// The common part of accept and connect: the root gets a pipe, and both sides are introduced.
template <class Meet>
int meet(MPI_Comm handle, int root, const char* port_name, MPI_Info info, MPI_Comm* newcomm,
         const char* function, Meet&& meet_root) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) return raise(nullptr, MPI_ERR_COMM, function);
  if (comm->is_inter()) return raise(comm, MPI_ERR_COMM, function, "an intercommunicator");
  if (newcomm == nullptr) return raise(comm, MPI_ERR_ARG, function, "newcomm is null");
  *newcomm = MPI_COMM_NULL;
  if (is_revoked(*comm)) return raise(comm, MPIX_ERR_REVOKED, function);
  if (root < 0 || root >= comm->size()) return raise(comm, MPI_ERR_ROOT, function);
  std::unique_ptr<Pipe> pipe;
  Status met;
  if (comm->rank == root) {
    const Info* hints = find_info(info);
    int timeout_ms = -1;
    MembersWatch watch(*comm);
    if (port_name == nullptr)
      met = {Code::bad_argument, "the port's name is null"};
    else if (hints == nullptr && info != MPI_INFO_NULL)
      met = {Code::bad_argument, "info is no info"};
    else if (!read_timeout(hints, timeout_ms))
      met = {Code::bad_argument, "the info's timeout is no number of seconds"};
    else
      met = meet_root(watch, timeout_ms, pipe);
  }
  Comm* made = nullptr;
  const Status status = introduce(*comm, root, pipe.get(), made, met);
  if (!status) return raise(comm, meeting_error(status), function, status.text());
  *newcomm = made->handle;
  return MPI_SUCCESS;
}

// Swaps bytes over a socket of the program's, both directions at once; whether it blocks is up to
// the program. Makes progress meanwhile.
Status swap_over(int fd, const void* send_bytes, void* receive, std::size_t bytes) {
  const std::uint64_t limit = now_ns() + engine->job().settings().ns(Setting::start_timeout_ms);
  std::size_t sent = 0, received = 0;
  while (sent < bytes || received < bytes) {
    const auto events =
        static_cast<short>((sent < bytes ? POLLOUT : 0) | (received < bytes ? POLLIN : 0));
    pollfd ready{fd, events, 0};
    ::poll(&ready, 1, 1);
    if ((ready.revents & POLLNVAL) != 0) return {Code::bad_argument, "that is no open descriptor"};
    ssize_t length = 0;
    if ((ready.revents & POLLOUT) != 0)
      length = ::send(fd, static_cast<const char*>(send_bytes) + sent, bytes - sent,
                      MSG_NOSIGNAL | MSG_DONTWAIT);
    if (length > 0) sent += static_cast<std::size_t>(length);
    if (length < 0 && errno != EAGAIN && errno != EINTR)
      return {Code::bad_argument, fmt::format("the socket fails: {}", strerror(errno))};
    if ((ready.revents & (POLLIN | POLLHUP | POLLERR)) != 0 && received < bytes) {
      length = ::recv(fd, static_cast<char*>(receive) + received, bytes - received, MSG_DONTWAIT);
      if (length > 0) received += static_cast<std::size_t>(length);
      if (length == 0) return {Code::peer_lost, "the other end of the socket is closed"};
      if (length < 0 && errno != EAGAIN && errno != EINTR)
        return {Code::bad_argument, fmt::format("the socket fails: {}", strerror(errno))};
    }
    if (now_ns() > limit) return {Code::timed_out, "the other end of the socket does not answer"};
    progress_once();
  }
  return {};
}

// The first message of both ends of a joined socket.
struct JoinHello {
  static constexpr std::uint64_t kMagic = 0x314e494f4a544657;  // "WFTJOIN1"
  std::uint64_t magic = kMagic;
  std::uint64_t random = peer::random_word();
  char port[MPI_MAX_PORT_NAME] = {};
};

}  // namespace

Status MembersWatch::check() {
  const std::uint32_t lost = engine->num_lost();
  if (lost == seen_) return {};
  for (const int member : comm_.group->members())
    if (member != engine->rank() && !engine->is_alive(member))
      return {Code::peer_lost, fmt::format("{} is lost", engine->job().describe(member))};
  seen_ = lost;
  return {};
}

Status meet_parent() {
  const char* port = getenv(kParentVariable);
  if (port == nullptr) return {};
  std::unique_ptr<Pipe> pipe;
  Status met;
  MembersWatch watch(*job_comm);
  if (job_comm->rank == 0)
    met = Port::connect(port, engine->job().settings().ms(Setting::start_timeout_ms), watch, pipe);
  Comm* made = nullptr;
  Status status = introduce(*job_comm, 0, pipe.get(), made, met);
  if (!status) return status;
  made->name = "MPI_COMM_PARENT";
  parent = made->handle;
  return {};
}

void destroy_ports() {
  parent = MPI_COMM_NULL;
  const std::lock_guard lock(ports_mutex);
  ports->clear();
}

}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Open_port)(MPI_Info info, char* port_name) {
  MPI_MUST_RUN();
  if (port_name == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "port_name is null");
  if (find_info(info) == nullptr && info != MPI_INFO_NULL)
    return raise(nullptr, MPI_ERR_INFO, __func__);
  std::unique_ptr<Port> port;
  if (Status status = Port::open(port); !status)
    return raise(nullptr, MPI_ERR_OTHER, __func__, status.text());
  const std::string name = port->name();
  if (name.size() >= MPI_MAX_PORT_NAME)
    return raise(nullptr, MPI_ERR_INTERN, __func__, "the port's name is too long");
  {
    const std::lock_guard lock(ports_mutex);
    ports->emplace(name, std::move(port));
  }
  std::memcpy(port_name, name.c_str(), name.size() + 1);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Close_port)(const char* port_name) {
  MPI_MUST_RUN();
  if (port_name == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "port_name is null");
  std::shared_ptr<Port> closed;
  const std::lock_guard lock(ports_mutex);
  const auto found = ports->find(std::string_view(port_name));
  if (found == ports->end())
    return raise(nullptr, MPI_ERR_PORT, __func__, "this process has opened no such port");
  closed = std::move(found->second);
  ports->erase(found);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Comm_accept)
(const char* port_name, MPI_Info info, int root, MPI_Comm comm, MPI_Comm* newcomm) {
  // Kept as long as a pipe of the port exists, even if the port is closed meanwhile.
  std::shared_ptr<Port> port;
  return meet(comm, root, port_name, info, newcomm, __func__,
              [&](Port::Watch& watch, int timeout_ms, std::unique_ptr<Pipe>& pipe) -> Status {
                port = find_port(port_name);
                if (port == nullptr)
                  return {Code::bad_argument, "this process has opened no such port"};
                return port->accept(watch, timeout_ms, pipe);
              });
}

MPI_FUNCTION(Comm_connect)
(const char* port_name, MPI_Info info, int root, MPI_Comm comm, MPI_Comm* newcomm) {
  return meet(comm, root, port_name, info, newcomm, __func__,
              [&](Port::Watch& watch, int timeout_ms, std::unique_ptr<Pipe>& pipe) {
                if (timeout_ms < 0)
                  timeout_ms = engine->job().settings().ms(Setting::start_timeout_ms);
                return Port::connect(port_name, timeout_ms, watch, pipe);
              });
}

// The process with the lower number accepts at its port; the other one connects to it, by the name
// sent over the socket.
MPI_FUNCTION(Comm_join)(int fd, MPI_Comm* intercomm) {
  MPI_MUST_RUN();
  if (intercomm == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "intercomm is null");
  *intercomm = MPI_COMM_NULL;
  std::unique_ptr<Port> port;
  if (Status status = Port::open(port); !status)
    return raise(nullptr, MPI_ERR_OTHER, __func__, status.text());
  JoinHello own, other;
  port->name().copy(own.port, sizeof own.port - 1);
  if (Status status = swap_over(fd, &own, &other, sizeof own); !status)
    return raise(nullptr, status == Code::bad_argument ? MPI_ERR_ARG : error_class(status.code()),
                 __func__, status.text());
  if (other.magic != JoinHello::kMagic ||
      std::memchr(other.port, '\0', sizeof other.port) == nullptr || other.random == own.random)
    return raise(nullptr, MPI_ERR_OTHER, __func__,
                 "the process at the socket's other end does not call MPI_Comm_join of Weft");
  std::unique_ptr<Pipe> pipe;
  MembersWatch watch(*own_comm);
  const int timeout_ms = engine->job().settings().ms(Setting::start_timeout_ms);
  const Status met = own.random < other.random ? port->accept(watch, timeout_ms, pipe)
                                               : Port::connect(other.port, timeout_ms, watch, pipe);
  Comm* made = nullptr;
  const Status status = introduce(*own_comm, 0, pipe.get(), made, met);
  // Where the two cannot communicate by MPI, the standard wants no error.
  if (status == Code::unsupported) return MPI_SUCCESS;
  if (!status) return raise(nullptr, meeting_error(status), __func__, status.text());
  *intercomm = made->handle;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Comm_get_parent)(MPI_Comm* parent) {
  MPI_MUST_RUN();
  if (parent == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "parent is null");
  // A freed or disconnected communicator is no parent.
  *parent = comms->find(weft::mpi::parent) != nullptr ? weft::mpi::parent : MPI_COMM_NULL;
  return MPI_SUCCESS;
}

namespace {

// Checks the name of a service, calls `ask` to publish, look up or withdraw it, and raises its
// error.
template <class Ask>
int ask_names(const char* service, MPI_Info info, const char* port, const char* function,
              Ask&& ask) {
  MPI_MUST_RUN_IN(function);
  if (service == nullptr || port == nullptr)
    return raise(nullptr, MPI_ERR_ARG, function, "the service's name or the port's is null");
  if (find_info(info) == nullptr && info != MPI_INFO_NULL)
    return raise(nullptr, MPI_ERR_INFO, function);
  const Status status = ask();
  if (status.ok()) return MPI_SUCCESS;
  const int code = status == Code::not_found ? MPI_ERR_NAME
                   : status == Code::exists  ? MPI_ERR_SERVICE
                                             : error_class(status.code());
  return raise(nullptr, code, function, status.text());
}

}  // namespace

MPI_FUNCTION(Publish_name)(const char* service_name, MPI_Info info, const char* port_name) {
  return ask_names(service_name, info, port_name, __func__,
                   [&] { return publish_name(service_name, port_name); });
}

MPI_FUNCTION(Lookup_name)(const char* service_name, MPI_Info info, char* port_name) {
  return ask_names(service_name, info, port_name, __func__, [&]() -> Status {
    std::string port;
    Status status = look_up_name(service_name, port);
    if (!status) return status;
    if (port.size() >= MPI_MAX_PORT_NAME)
      return {Code::corrupt, "the published port's name is too long"};
    std::memcpy(port_name, port.c_str(), port.size() + 1);
    return {};
  });
}

MPI_FUNCTION(Unpublish_name)(const char* service_name, MPI_Info info, const char* port_name) {
  const int code = ask_names(service_name, info, port_name, __func__,
                             [&] { return unpublish_name(service_name); });
  return code == MPI_ERR_NAME ? MPI_ERR_SERVICE : code;
}
