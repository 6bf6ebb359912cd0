// The connection to the store: the socket, the hello, and what the store hands over.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "impl.hpp"
#include "weft/job.hpp"

namespace weft {

using namespace objstore;

namespace {

constexpr int kMeetMs = 5000;

// A message with its descriptors; false: nothing of that kind came in time.
template <class T>
bool receive(int socket, T& message, std::span<Descriptor> descriptors, int& num) {
  pollfd wait{socket, POLLIN, 0};
  int ready;
  do ready = ::poll(&wait, 1, kMeetMs);
  while (ready < 0 && errno == EINTR);
  if (ready <= 0) return false;
  iovec part{&message, sizeof message};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int) * kWelcomeDescriptors)];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = space;
  header.msg_controllen = sizeof space;
  const ssize_t got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  num = 0;
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); got >= 0 && control != nullptr;
       control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(control) + i * sizeof fd, sizeof fd);
      Descriptor descriptor(fd);
      if (num < static_cast<int>(descriptors.size()))
        descriptors[static_cast<std::size_t>(num++)] = std::move(descriptor);
    }
  }
  return got == static_cast<ssize_t>(sizeof message);
}

// True if the process that listened there has ended. A store closes connections of other users,
// too.
bool is_over(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
      (peer.uid != ::geteuid() && ::geteuid() != 0))
    return false;
  char byte;
  const ssize_t got = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN);
}

}  // namespace

std::string default_object_store_socket() {
  if (const char* folder = std::getenv("XDG_RUNTIME_DIR"); folder != nullptr && *folder == '/')
    return std::string(folder) + "/weft-store.sock";
  return "/tmp/weft-store-" + std::to_string(::geteuid()) + ".sock";
}

ObjectStoreImpl::ObjectStoreImpl(const ObjectStoreSettings& settings)
    : socket_path_(settings.socket.empty() ? default_object_store_socket() : settings.socket),
      name_(settings.name) {
  if (Status status = fork_mark_.make(); !status) throw Error(std::move(status));
  meet();
}

ObjectStoreImpl::~ObjectStoreImpl() = default;

void ObjectStoreImpl::meet() {
  const std::string what = "the object store at " + socket_path_;
  const auto check = [](Status status) {
    if (!status) throw Error(std::move(status));
  };
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path_.size() >= sizeof address.sun_path)
    check({Code::bad_argument, what + ": the path is longer than 107 letters"});
  std::memcpy(address.sun_path, socket_path_.data(), socket_path_.size());
  socket_ = Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket_) check(system_error("making a socket"));
  if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    Status status = system_error(what);
    if (status.code() == Code::not_found)
      status = {Code::not_found, what + " is not there; start one with weft-store"};
    check(status);
  }
  Hello hello{};
  hello.magic = kHelloMagic;
  hello.layout_version = kLayoutVersion;
  std::memcpy(hello.name, name_.data(), std::min(name_.size(), sizeof hello.name - 1));
  Welcome welcome{};
  std::array<Descriptor, kWelcomeDescriptors> files;
  int num = 0;
  if (::send(socket_.get(), &hello, sizeof hello, MSG_NOSIGNAL) !=
          static_cast<ssize_t>(sizeof hello) ||
      !receive(socket_.get(), welcome, files, num) || welcome.magic != kHelloMagic) {
    if (is_over(socket_.get())) check({Code::peer_lost, what + " has ended meanwhile"});
    check({Code::not_permitted, what + " does not answer; is it another user's, or no store?"});
  }
  if (welcome.layout_version != kLayoutVersion)
    check({Code::unsupported, what + " speaks version " + std::to_string(welcome.layout_version) +
                                  " of its protocol, and this library version " +
                                  std::to_string(kLayoutVersion) +
                                  "; use a weft-store and a libweft_objstore of one release"});
  const auto code = static_cast<Code>(welcome.code);
  if (code != Code::ok || num != kWelcomeDescriptors)
    check({code == Code::ok ? Code::corrupt : code,
           what + " refuses: " + std::string(code_name(code))});
  check(segment_.map(files[0], welcome.segment_capacity, false));
  check(index_.map(files[1]));
  check(control_.map(files[2], sizeof(Control), true));
  doorbell_ = std::move(files[3]);
  bell_ = std::move(files[4]);
  check(extents_[0].memory.map(files[5], welcome.extent_bytes, true));
  extents_[0].is_there = true;
  extents_[0].space.add(0, welcome.extent_bytes);
  // Private, though it has a descriptor for a moment.
  Descriptor file;
  check(make_sealed_memory("weft-slots", std::size_t{kMaxEntries} * 4, file));
  check(slot_of_.map(file, std::size_t{kMaxEntries} * 4, true));
}

Status ObjectStoreImpl::more_extent(std::uint64_t bytes, Room& room) {
  constexpr std::uint64_t kLeast = 8 << 20;
  ExtentWish wish{kHelloMagic, (Allocator::rounded(bytes) + 4095) / 4096 * 4096};
  if (wish.bytes < kLeast) wish.bytes = std::min(kLeast, std::max(wish.bytes, segment_.size()));
  ExtentAnswer answer{};
  std::array<Descriptor, 1> file;
  int num = 0;
  if (::send(socket_.get(), &wish, sizeof wish, MSG_NOSIGNAL) !=
          static_cast<ssize_t>(sizeof wish) ||
      !receive(socket_.get(), answer, file, num))
    return has_ended();
  if (answer.code != 0) return error_of(Op::create, {}, answer.code, answer.reason);
  const std::lock_guard lock(mutex_);
  if (num != 1 || answer.number >= kMaxExtents || extents_[answer.number].is_there)
    return {Code::corrupt, "the object store at " + socket_path_ + " answers nonsense"};
  Extent& extent = extents_[answer.number];
  if (Status status = extent.memory.map(file[0], answer.bytes, true); !status) return status;
  extent.is_there = true;
  extent.space = {};
  extent.space.add(0, answer.bytes);
  const auto offset = extent.space.allocate(bytes);
  if (!offset)
    return {Code::corrupt, "the object store at " + socket_path_ + " gives " +
                               std::to_string(answer.bytes) + " bytes of " +
                               std::to_string(wish.bytes) + " that were asked for"};
  room = {answer.number, *offset, bytes, extent.memory.data() + *offset};
  return Code::ok;
}

}  // namespace weft
