#include "coll/offload/link.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"
#include "base/os/thread.hpp"
#include "base/wait.hpp"
#include "coll/switch/socket_address.hpp"

namespace weft::offload {

using namespace innet;

namespace {

// The most packets read before the state is checked.
constexpr int kMostReads = 64;
// The period at which the thread wakes without a packet, to renew leases, which are longer.
constexpr int kThreadMs = 5'000;
// The period while the switch is sought, and between the questions to it.
constexpr int kSeekMs = 100;
constexpr std::uint64_t kSeekEveryNs = 500'000'000;
// The period while an operation is left to the thread, whose packets may have to be repeated.
constexpr int kAloneMs = 1;

}  // namespace

Link::~Link() {
  if (thread_.joinable()) {
    stopping_.store(true, std::memory_order_release);
    wake_thread();
    thread_.join();
  }
  for (const int fd : {control_fd_, wake_fd_})
    if (fd >= 0) ::close(fd);
}

Status Link::open(const Address& tor) {
  Status opened;
  port_ = open_port(tor, opened);
  if (port_ == nullptr) return opened;
  log_line(LogLevel::info, -1, "offload: {} leads to the switch {}", port_->kind(), text(tor));
  const Address own = port_->own();
  family_ = family_of(own);
  control_fd_ = socket(family_, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (control_fd_ < 0 || wake_fd_ < 0)
    return {Code::no_memory, fmt::format("no UDP socket to be had: {}", std::strerror(errno))};
  // Other leaders are reached by the interface that leads to the switch.
  const SocketAddress raw = to_socket(own, family_);
  if (bind(control_fd_, &raw.any, raw.bytes) != 0)
    return {Code::no_memory, fmt::format("cannot bind a UDP socket: {}", std::strerror(errno))};
  own_ = own_address(control_fd_);
  stats_.open("offload", "switch " + text(tor));
  return start_thread(thread_, [this] { serve(); });
}

void Link::set_leaders(std::vector<Address> leaders) {
  const std::lock_guard lock(mutex_);
  leaders_ = std::move(leaders);
}

template <class Take>
void Link::read_switch(Take&& take) {
  std::byte packet[kMaxPacketBytes + 1];
  for (int i = 0; i < kMostReads; ++i) {
    const long bytes = port_->receive(packet);
    if (bytes < 0) return;
    if (bytes > 0) take(std::span<const std::byte>(packet, static_cast<std::size_t>(bytes)));
  }
}

void Link::advance_enrolment() {
  read_switch([this](auto bytes) { enrolment_.on_switch(bytes); });
  enrolment_.on_time(now_ns());
}

void Link::start(const LeaderOptions& options, std::uint64_t lease_ns) {
  const std::lock_guard lock(mutex_);
  leader_.open(options);
  lease_ns_ = lease_ns;
  renewed_ns_ = now_ns();
}

void Link::stop() {
  take_back();
  bool was_open = false, answers = false;
  Header header;
  {
    const std::lock_guard lock(mutex_);
    was_open = lease_ns_ != 0;
    answers = was_open && !leader_.is_frozen();
    lease_ns_ = 0;
    header = leader_.header(Kind::kill);
    leader_.close();
  }
  if (!was_open) return;
  std::byte packet[kMaxPacketBytes];
  const std::size_t bytes = write_packet(packet, header, {});
  // A lost kill only leaves the group to the switch until its lease ends.
  for (int attempt = 0; attempt < (answers ? 3 : 1); ++attempt) {
    to_switch({packet, bytes});
    bool is_confirmed = false;
    if (answers) sleep(10);
    read_switch([&](std::span<const std::byte> received) {
      const auto reply = read_packet(received);
      is_confirmed = is_confirmed || (reply && reply->header.kind == Kind::kill_reply &&
                                      reply->header.group == header.group);
    });
    if (is_confirmed) return;
  }
}

void Link::number_from(std::uint32_t operations) {
  const std::lock_guard lock(mutex_);
  leader_.number_from(operations);
}

void Link::begin(Element element, Operation operation, std::span<const std::byte> contribution) {
  const std::lock_guard lock(mutex_);
  leader_.begin(element, operation, contribution, now_ns());
}

Leader::State Link::advance() {
  const std::lock_guard lock(mutex_);
  return advance_locked();
}

Leader::State Link::advance_locked() {
  // Read the packets that have arrived first: a process that did not run for long must not take
  // that for silence.
  read_switch([this](auto bytes) { on_switch(bytes); });
  leader_.on_time(now_ns());
  const Leader::State state = leader_.state();
  if (state == Leader::State::done || state == Leader::State::host) count();
  return state;
}

void Link::on_switch(std::span<const std::byte> bytes) {
  if (seeking_ != Seeking::yes) return leader_.on_switch(bytes, now_ns());
  const auto packet = read_packet(bytes);
  if (!packet || packet->header.kind != Kind::query_reply || packet->header.key != seek_key_)
    return;
  const auto can = decode_capabilities(packet->payload);
  const auto answers = [this](const auto& spine) {
    return spine.answers && (num_levels_ < 3 || spine.below != 0);
  };
  if (can && (num_levels_ == 1 || std::any_of(can->spines.begin(), can->spines.end(), answers)))
    seeking_ = Seeking::found;
}

void Link::seek(std::size_t num_levels) {
  {
    const std::lock_guard lock(mutex_);
    if (seeking_ != Seeking::no) return;
    seeking_ = Seeking::yes;
    num_levels_ = num_levels;
    sought_ns_ = 0;
  }
  wake_thread();
}

bool Link::is_found() {
  const std::lock_guard lock(mutex_);
  return seeking_ == Seeking::found;
}

void Link::end_seeking() {
  const std::lock_guard lock(mutex_);
  seeking_ = Seeking::no;
}

void Link::ask_whether_there() {
  if (now_ns() - sought_ns_ < kSeekEveryNs) return;
  sought_ns_ = seek_key_ = now_ns();
  Header header;
  header.kind = Kind::query;
  header.key = seek_key_;
  std::byte packet[kMaxPacketBytes];
  to_switch({packet, write_packet(packet, header, encode(port_->host_port()))});
}

// Adds the change of the leader's counters since the last call to the statistics.
void Link::count() {
  const LeaderCounters now = leader_.counters();
  stats::Row& row = stats_.row();
  const auto add = [&](stats::Counter counter, std::uint64_t LeaderCounters::*field) {
    if (now.*field != counted_.*field) row.add(counter, now.*field - counted_.*field);
  };
  add(stats::Counter::sent, &LeaderCounters::contributions);
  add(stats::Counter::sent_bytes, &LeaderCounters::sent_bytes);
  add(stats::Counter::received, &LeaderCounters::results);
  add(stats::Counter::received_bytes, &LeaderCounters::received_bytes);
  add(stats::Counter::resent, &LeaderCounters::repeated);
  add(stats::Counter::offloaded, &LeaderCounters::operations);
  add(stats::Counter::offloaded, &LeaderCounters::fetched);
  add(stats::Counter::fallbacks, &LeaderCounters::by_hosts);
  counted_ = now;
}

Leader::State Link::state() {
  const std::lock_guard lock(mutex_);
  return leader_.state();
}

void Link::wake_thread() noexcept {
  const std::uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof one);
}

void Link::leave_alone(void (*wake)(void*) noexcept, void* argument) {
  {
    const std::lock_guard lock(mutex_);
    wake_ = wake;
    wake_argument_ = argument;
    alone_.store(true, std::memory_order_release);
  }
  wake_thread();
}

void Link::take_back() {
  const std::lock_guard lock(mutex_);
  alone_.store(false, std::memory_order_release);
}

// Returns true once the operation left to this thread is complete.
bool Link::advance_alone() {
  if (!is_alone()) return false;
  if (!enrolment_.is_over()) {
    advance_enrolment();
    return enrolment_.is_over();
  }
  const Leader::State state = advance_locked();
  return state != Leader::State::working && state != Leader::State::recovering;
}

void Link::sleep(int timeout_ms) {
  pollfd readable{port_->descriptor(), POLLIN, 0};
  (void)poll(&readable, 1, timeout_ms);
}

void Link::finish(std::span<const std::byte> result) {
  const std::lock_guard lock(mutex_);
  leader_.finish(result);
  count();
}

bool Link::is_frozen() {
  const std::lock_guard lock(mutex_);
  return leader_.is_frozen();
}
Answer Link::last_refusal() {
  const std::lock_guard lock(mutex_);
  return leader_.last_refusal();
}
std::vector<int> Link::silent_leaders() {
  const std::lock_guard lock(mutex_);
  return leader_.silent_leaders();
}
LeaderCounters Link::counters() {
  const std::lock_guard lock(mutex_);
  return leader_.counters();
}

void Link::to_switch(std::span<const std::byte> packet) {
  // A packet that cannot be sent is repeated like one lost in the network.
  port_->send(packet);
}

void Link::to_leader(int leader, std::span<const std::byte> packet) {
  const SocketAddress to = to_socket(leaders_[static_cast<std::size_t>(leader)], family_);
  (void)!sendto(control_fd_, packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL, &to.any,
                to.bytes);
}

void Link::serve() {
  for (;;) {
    const bool alone = is_alone();
    bool seeks = false;
    {
      const std::lock_guard lock(mutex_);
      seeks = seeking_ == Seeking::yes;
    }
    pollfd readable[3] = {
        {control_fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}, {port_->descriptor(), POLLIN, 0}};
    (void)poll(readable, alone || seeks ? 3 : 2, alone ? kAloneMs : seeks ? kSeekMs : kThreadMs);
    if (stopping_.load(std::memory_order_acquire)) return;
    if (std::uint64_t count = 0; readable[1].revents != 0)
      (void)!read(wake_fd_, &count, sizeof count);
    read_control();
    std::unique_lock lock(mutex_);
    if (advance_alone()) {
      auto* const wake = wake_;
      void* const argument = wake_argument_;
      alone_.store(false, std::memory_order_release);
      lock.unlock();
      wake(argument);
      lock.lock();
    }
    if (seeking_ == Seeking::yes) {
      read_switch([this](auto bytes) { on_switch(bytes); });
      if (seeking_ == Seeking::yes) ask_whether_there();
    }
    if (lease_ns_ == 0 || leader_.is_frozen() || now_ns() - renewed_ns_ < lease_ns_ / 4) continue;
    renewed_ns_ = now_ns();
    std::byte packet[kMaxPacketBytes];
    to_switch({packet, write_packet(packet, leader_.header(Kind::renew), {})});
  }
}

void Link::read_control() {
  std::byte packet[kMaxPacketBytes + 1];
  for (int i = 0; i < kMostReads; ++i) {
    SocketAddress from;
    const ssize_t bytes =
        recvfrom(control_fd_, packet, sizeof packet, MSG_DONTWAIT, &from.any, &from.bytes);
    if (bytes < 0) return;
    const Address sender = from_socket(from);
    const std::lock_guard lock(mutex_);
    const auto leader = std::find(leaders_.begin(), leaders_.end(), sender);
    if (leader == leaders_.end()) continue;
    leader_.on_leader(static_cast<int>(leader - leaders_.begin()),
                      {packet, static_cast<std::size_t>(bytes)}, now_ns());
  }
}

}  // namespace weft::offload
