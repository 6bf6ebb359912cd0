// Clients come and go: the socket, the hello, descriptors handed over, cleanup after a death.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "log.hpp"
#include "objstore/shared/clock.hpp"
#include "server.hpp"

namespace weft::objstore {
namespace {

constexpr std::uint64_t kListener = 0, kWake = std::uint64_t{1} << 32;
constexpr std::uint64_t kFirstExtentBytes = 1 << 20;

bool fill_address(const std::string& path, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  return true;
}

template <class T>
bool send_with(int socket, const T& message, std::span<const int> descriptors) {
  iovec part{const_cast<T*>(&message), sizeof message};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int) * kWelcomeDescriptors)] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = space;
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(control), descriptors.data(), descriptors.size_bytes());
  }
  return ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof message);
}

}  // namespace

Server::Server() : objects_(*this, *this) {}

Server::~Server() {
  objects_.stop_spill();  // it wakes the store
  if (owns_path_) ::unlink(settings_.socket_path.c_str());
}

Status Server::open(const ServerSettings& settings) {
  settings_ = settings;
  started_ns_ = monotonic_ns();
  // A client takes three descriptors.
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  settings_.objects.spill.on_done = [this] { wake(); };
  if (Status status = objects_.open(settings_.objects); !status) return status;
  epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_ || !wake_) return system_error("making the store's doorbell");
  watch(wake_.get(), kWake);
  return listen(settings.socket_path);
}

Status Server::listen(const std::string& path) {
  sockaddr_un address;
  if (!fill_address(path, address))
    return {Code::bad_argument, "socket path '" + path + "': 1 to 107 letters are possible"};
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  // A socket that nobody serves was left by a store that was killed.
  struct stat info;
  if (::lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode))
      return {Code::bad_argument, path + " is there and is no socket; choose another --socket"};
    const Descriptor probe(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (::connect(probe.get(), name, sizeof address) == 0 || errno != ECONNREFUSED)
      return {Code::bad_argument,
              "another store serves " + path + "; end it or choose another --socket"};
    ::unlink(path.c_str());
  }
  listener_ = Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_) return system_error("making the store's socket");
  // The mode before the name: at no time can others connect.
  ::fchmod(listener_.get(), 0600);
  const mode_t mask = ::umask(0177);
  const int bound = ::bind(listener_.get(), name, sizeof address);
  ::umask(mask);
  if (bound != 0) return system_error("making the socket " + path);
  owns_path_ = true;
  if (::listen(listener_.get(), SOMAXCONN) != 0) return system_error("listening at " + path);
  watch(listener_.get(), kListener);
  return Code::ok;
}

void Server::watch(int fd, std::uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void Server::accept_clients() {
  for (int i = 0; i < 64; ++i) {
    Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    ucred peer{};
    socklen_t length = sizeof peer;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
        (peer.uid != ::geteuid() && peer.uid != 0)) {
      ++num_refused_;
      write_log(LogSeverity::warning,
                "refused process " + std::to_string(peer.pid) + ", which is user " +
                    std::to_string(peer.uid) + "'s: this store serves user " +
                    std::to_string(::geteuid()),
                {{"event", "client_refused"},
                 {"pid", std::to_string(peer.pid)},
                 {"user", std::to_string(peer.uid)}});
      continue;
    }
    auto client = std::make_unique<Client>();
    client->serial = next_serial_++;
    if (next_serial_ == 0) next_serial_ = 1;
    client->pid = peer.pid;
    client->met_ns = monotonic_ns();
    client->socket = std::move(socket);
    watch(client->socket.get(), client->serial);
    // A process in another namespace has no pidfd; then its socket's end shows that it died.
    if (peer.pid > 0)
      client->process = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
    if (client->process) watch(client->process.get(), std::uint64_t{2} << 32 | client->serial);
    clients_.emplace(client->serial, std::move(client));
  }
}

void Server::read_socket(Client& client) {
  union {
    Hello hello;
    ExtentWish wish;
    char bytes[64];
  } message;
  const ssize_t got = ::recv(client.socket.get(), &message, sizeof message, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (!client.has_met && got == static_cast<ssize_t>(sizeof(Hello)) &&
      message.hello.magic == kHelloMagic)
    return meet(client, message.hello);
  if (client.has_met && got == static_cast<ssize_t>(sizeof(ExtentWish)) &&
      message.wish.magic == kHelloMagic)
    return give_extent(client, message.wish);
  // The end, or bytes that no client sends.
  if (got > 0) ++num_refused_;
  broken_.push_back(client.serial);
}

void Server::meet(Client& client, const Hello& hello) {
  Welcome welcome{};
  welcome.magic = kHelloMagic;
  welcome.layout_version = kLayoutVersion;
  welcome.segment_capacity = objects_.segment().capacity();
  welcome.generation = objects_.index().header().generation;
  const auto refuse = [&](Code code) {
    ++num_refused_;
    welcome.code = static_cast<std::uint32_t>(code);
    send_with(client.socket.get(), welcome, {});
    broken_.push_back(client.serial);
  };
  client.name = printable({hello.name, ::strnlen(hello.name, sizeof hello.name)});
  if (hello.layout_version != kLayoutVersion) {
    write_log(LogSeverity::warning,
              "refused client '" + client.name + "' (process " + std::to_string(client.pid) +
                  "): it speaks version " + std::to_string(hello.layout_version) +
                  " of the store's protocol, and this store version " +
                  std::to_string(kLayoutVersion),
              {{"event", "client_refused"},
               {"client", client.name},
               {"pid", std::to_string(client.pid)},
               {"version", std::to_string(hello.layout_version)}});
    return refuse(Code::unsupported);
  }
  Descriptor control, extent;
  std::uint32_t number;
  welcome.extent_bytes = std::clamp<std::uint64_t>(
      hello.extent_bytes != 0 ? hello.extent_bytes : kFirstExtentBytes, 64 << 10, 64 << 20);
  client.doorbell = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  client.bell = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!client.doorbell || !client.bell ||
      !make_sealed_memory("weft-control", sizeof(Control), control) ||
      !client.memory.map(control, sizeof(Control), true) ||
      !make_extent(client, welcome.extent_bytes, number, extent).ok())
    return refuse(Code::no_memory);
  const std::array<int, kWelcomeDescriptors> descriptors{objects_.segment().file().get(),
                                                         objects_.index().file().get(),
                                                         control.get(),
                                                         client.doorbell.get(),
                                                         client.bell.get(),
                                                         extent.get()};
  if (!send_with(client.socket.get(), welcome, descriptors)) {
    broken_.push_back(client.serial);
    return;
  }
  client.has_met = true;
  ++num_clients_met_;
  watch(client.doorbell.get(), std::uint64_t{1} << 32 | client.serial);
}

Outcome Server::make_extent(Client& client, std::uint64_t bytes, std::uint32_t& number,
                            Descriptor& file) {
  // An extent may be as large as the largest object, and no client has more of them than that.
  if (bytes == 0 || bytes > objects_.segment().capacity() + kFirstExtentBytes)
    return {Code::no_memory, Reason::too_large};
  if (settings_.quota_bytes != 0 && client.charged_bytes + bytes > settings_.quota_bytes)
    return {Code::no_memory, Reason::quota};
  std::uint64_t sum = bytes;
  for (const Extent& extent : client.extents)
    if (extent.memory != nullptr) sum += extent.memory->size();
  if (sum > 2 * objects_.segment().capacity() + kFirstExtentBytes)
    return {Code::no_memory, Reason::quota};
  const auto free = std::find_if(client.extents.begin(), client.extents.end(),
                                 [](const Extent& extent) { return extent.memory == nullptr; });
  if (free == client.extents.end()) return {Code::no_memory, Reason::no_extent};
  auto memory = std::make_shared<Mapping>();
  if (!make_sealed_memory("weft-extent", bytes, file) || !memory->map(file, bytes, true))
    return {Code::no_memory, Reason::no_room};
  free->memory = std::move(memory);
  number = static_cast<std::uint32_t>(free - client.extents.begin());
  client.charged_bytes += bytes;
  return {};
}

void Server::give_extent(Client& client, const ExtentWish& wish) {
  // What the client gave back before it asked is free for it.
  serve(client);
  ExtentAnswer answer{};
  Descriptor file;
  const Outcome outcome = make_extent(client, wish.bytes, answer.number, file);
  answer.code = static_cast<std::uint32_t>(outcome.code);
  answer.reason = outcome.reason;
  answer.bytes = wish.bytes;
  const int fd = file.get();
  if (!send_with(client.socket.get(), answer,
                 outcome.ok() ? std::span<const int>(&fd, 1) : std::span<const int>()))
    broken_.push_back(client.serial);
}

void Server::remove_broken() {
  while (!broken_.empty()) {
    const std::uint32_t serial = broken_.back();
    broken_.pop_back();
    remove(serial);
  }
}

// Removes a client however it ended: its unsealed objects are aborted, its waits dropped, and its
// references end, as they are in its own table.
void Server::remove(std::uint32_t serial) {
  const auto found = clients_.find(serial);
  if (found == clients_.end()) return;
  const std::unique_ptr<Client> client = std::move(found->second);
  clients_.erase(found);
  std::erase(active_, client.get());
  std::erase_if(copies_, [&](const Copy& copy) { return copy.client == serial; });
  std::erase_if(room_waits_, [&](const RoomWait& wait) { return wait.client == serial; });
  end_waits_of(serial);
  end_intos_of(serial);
  end_pushes_of(serial);
  for (const auto& [id, entry] : client->creating) objects_.abort(entry);
  room_may_have_come_ = true;
  objects_.sweep();
}

}  // namespace weft::objstore
