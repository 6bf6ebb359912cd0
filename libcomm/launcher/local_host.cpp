#include "launcher/local_host.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "base/os/descriptor.hpp"
#include "base/os/topology.hpp"
#include "launcher/processes/descendants.hpp"
#include "launcher/supervisor.hpp"

namespace weft::weftrun {

Status system_error(std::string_view what) {
  return {Code::no_memory, fmt::format("{}: {}", what, strerror(errno))};
}

namespace {

constexpr std::size_t kInputBytes = 64u << 10;  // kept for a rank 0 that reads slowly

// Before any rank starts, so that a mistyped name is one message and not one per rank.
Status check_program(const std::string& program) {
  if (program.find('/') != std::string::npos) {
    if (access(program.c_str(), X_OK) == 0) return {};
    return {Code::not_found, fmt::format("cannot start {}: {}", program, strerror(errno))};
  }
  const char* path = getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/bin:/usr/bin");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access(fmt::format("{}/{}", folder.empty() ? "." : folder, program).c_str(), X_OK) == 0)
      return {};
  const bool is_here = access(program.c_str(), X_OK) == 0;
  return {Code::not_found,
          fmt::format("cannot start {}: it is in no folder of PATH{}", program,
                      is_here ? fmt::format("; this folder has ./{}", program) : "")};
}

// A supervisor that ends with unread orders leaves this error before the reports that it has sent.
bool try_again(int error) { return error == EINTR || error == ECONNRESET; }

}  // namespace

LocalHost::~LocalHost() {
  if (supervisor_ >= 0) {
    shutdown(supervisor_, SHUT_WR);  // its order to end everything, and then itself
    Report report;
    for (ssize_t length = 1; length > 0 || (length < 0 && try_again(errno));)
      length = recv(supervisor_, &report, sizeof report, 0);
  }
  if (supervisor_parent_ > 0) waitpid(supervisor_parent_, nullptr, 0);
  for (int fd : {supervisor_, input_sink_})
    if (fd >= 0) close(fd);
  for (auto& [number, rank] : ranks_)
    for (int fd : {rank.out, rank.err})
      if (fd >= 0) close(fd);
}

Status LocalHost::start(const Assignment& assignment) {
  assignment_ = assignment;
  Status status;
  for (const int rank : assignment_.ranks)
    if (status)
      status = check_program(assignment_.programs[program_of(assignment_, rank)].command[0]);
  if (!status) return status;
  if (!can_see_descendants())
    events_.said("without /proc, what a rank starts in a process group of its own cannot be ended");
  status = bind_ranks();
  if (!status) return status;
  raise_descriptor_limit();  // every rank takes two pipes and one connection
  int input[2] = {-1, -1};
  if (assignment_.input == Input::inherited) input[0] = 0;
  if (assignment_.input == Input::given) {
    if (pipe2(input, O_CLOEXEC) != 0) return system_error("pipe");
    input_sink_ = input[1];
    fcntl(input_sink_, F_SETFL, O_NONBLOCK);
  }
  // An empty one, too: this process may be a rank of another job.
  assignment_.environment.emplace_back(crash::kSocketVariable, desk_.name());
  status = start_supervisor(input[0]);
  if (input[0] > 0) close(input[0]);
  for (std::size_t place = 0; place < assignment_.ranks.size() && status; ++place)
    status = start_rank(place);
  return status;
}

Status LocalHost::bind_ranks() {
  const Binding& binding = assignment_.binding;
  const int num_ranks = static_cast<int>(assignment_.ranks.size());
  // The cheap check first: with more ranks than processors there is nothing to share out.
  const bool is_automatic = binding.unit == Bind::automatic;
  Units units;
  if (!binding.cpus.empty() ||
      (binding.unit != Bind::none && !(is_automatic && num_ranks > num_usable_cpus()))) {
    Topology topology;
    Status status = Topology::read(topology);
    if (status) {
      units = Units::of(topology);
      status = choose_processors(binding, units, num_ranks, processors_);
    }
    if (status.code() == Code::bad_argument) return status;
    if (!status && !is_automatic && !binding.if_supported)
      events_.said(
          fmt::format("cannot bind processes to {}: {}", name_of(binding.unit), status.text()));
  }
  if (!binding.report) return {};
  for (std::size_t place = 0; place < assignment_.ranks.size(); ++place)
    events_.bound(assignment_.ranks[place],
                  describe(units, processors_.empty() ? Processors() : processors_[place]));
  return {};
}

Status LocalHost::start_supervisor(int input) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error("socketpair");
  supervisor_parent_ = fork();
  if (supervisor_parent_ == 0)
    run_supervisor_parent({assignment_, processors_, mask_, input, ends[1]});
  const Status status = supervisor_parent_ < 0 ? system_error("fork") : Status();
  close(ends[1]);
  supervisor_ = ends[0];
  return status;
}

Status LocalHost::start_rank(std::size_t place) {
  const int rank = assignment_.ranks[place];
  const Order order{Order::Kind::start, static_cast<int>(place)};
  send(supervisor_, &order, sizeof order, MSG_NOSIGNAL);
  Report report;
  iovec bytes{&report, sizeof report};
  msghdr message{};
  int fds[2] = {-1, -1};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof fds)] = {};
  ssize_t length = 0;
  for (;;) {
    message = {};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    length = recvmsg(supervisor_, &message, MSG_CMSG_CLOEXEC);
    if (length < 0 && try_again(errno)) continue;
    if (length != sizeof report || report.kind != Report::Kind::exited) break;
    end(report.rank, report.value);  // a rank that was started before
  }
  if (length != sizeof report) return {Code::internal, "the process that starts ranks is gone"};
  if (report.kind == Report::Kind::failed) {
    errno = report.value;
    return system_error(fmt::format("cannot start rank {}", rank));
  }
  Rank& entry = ranks_[rank];
  entry.pid = report.value;
  entry.running = true;
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  if (head != nullptr && head->cmsg_type == SCM_RIGHTS)
    memcpy(fds, CMSG_DATA(head), std::min(sizeof fds, head->cmsg_len - CMSG_LEN(0)));
  entry.out = fds[0];
  entry.err = fds[1];
  if (entry.err < 0) {  // not all of them found room here
    errno = EMFILE;
    return system_error(fmt::format("cannot start rank {}", rank));
  }
  for (int fd : fds) fcntl(fd, F_SETFL, O_NONBLOCK);  // this end's alone
  watch_.add(rank, entry.pid);
  events_.started(rank, entry.pid);
  return {};
}

void LocalHost::add_polls(std::vector<pollfd>& polls) {
  if (events_.has_room()) {
    for (auto& [number, rank] : ranks_)
      for (int fd : {rank.out, rank.err})
        if (fd >= 0) polls.push_back({fd, POLLIN, 0});
  }
  if (!input_.empty()) polls.push_back({input_sink_, POLLOUT, 0});
  if (supervisor_ >= 0) polls.push_back({supervisor_, POLLIN, 0});
  desk_.add_polls(polls);
}

void LocalHost::serve() {
  for (auto& [number, rank] : ranks_) {
    read_output(number, Stream::out, rank.out);
    read_output(number, Stream::err, rank.err);
  }
  write_input();
  take_crashes();
  take_reports();
}

void LocalHost::take_crashes() {
  const auto is_of = [this](int number, pid_t process) {
    const auto rank = ranks_.find(number);
    return rank != ranks_.end() && rank->second.running && is_below(process, rank->second.pid);
  };
  for (const Crash& crash : desk_.serve(is_of)) events_.crashed(crash);
}

void LocalHost::read_output(int rank, Stream stream, int& fd) {
  if (fd < 0 || !events_.has_room()) return;
  const ssize_t length = read(fd, buffer_.data(), buffer_.size());
  if (length > 0) {
    events_.wrote(rank, stream, {buffer_.data(), static_cast<std::size_t>(length)});
  } else if (length == 0 || (errno != EINTR && errno != EAGAIN)) {
    close_output(rank, stream, fd);
  }
}

void LocalHost::close_output(int rank, Stream stream, int& fd) {
  close(fd);
  fd = -1;
  events_.closed(rank, stream);
}

std::size_t LocalHost::input_room() const { return input_.empty() ? kInputBytes : 0; }

void LocalHost::give_input(std::string_view bytes) {
  if (input_sink_ < 0) return;  // the reader is gone
  input_ += bytes;
  write_input();
}

void LocalHost::end_input() {
  input_ended_ = true;
  write_input();
}

void LocalHost::write_input() {
  while (!input_.empty()) {
    const ssize_t length = write(input_sink_, input_.data(), input_.size());
    if (length >= 0) {
      input_.erase(0, static_cast<std::size_t>(length));
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      input_.clear();
      input_ended_ = true;
    }
  }
  if (input_ended_ && input_sink_ >= 0) {
    close(input_sink_);
    input_sink_ = -1;
  }
}

void LocalHost::stop_reading(Stream stream) {
  for (auto& [number, rank] : ranks_) {
    int& fd = stream == Stream::out ? rank.out : rank.err;
    if (fd >= 0) close_output(number, stream, fd);
  }
}

void LocalHost::take_reports() {
  while (supervisor_ >= 0) {
    Report report;
    const ssize_t length = recv(supervisor_, &report, sizeof report, MSG_DONTWAIT);
    if (length < 0 && try_again(errno)) continue;
    if (length < 0 && errno == EAGAIN) return;
    if (length != sizeof report) return take_supervisor_end();
    if (report.kind == Report::Kind::failed) {
      events_.said(
          fmt::format("the process that watches over the ranks fails: {}", strerror(report.value)));
      continue;
    }
    if (report.kind == Report::Kind::kept)
      events_.said(fmt::format("cannot end rank {} (pid {}): {}", report.rank, report.value,
                               strerror(EPERM)));
    end(report.rank, report.kind == Report::Kind::exited ? report.value : SIGKILL);
  }
}

// It was killed, and the kernel kills the ranks for it.
void LocalHost::take_supervisor_end() {
  close(supervisor_);
  supervisor_ = -1;
  events_.said("the process that watches over the ranks is gone, and they with it");
  for (auto& [number, rank] : ranks_)
    if (rank.running) end(number, SIGKILL);
  // What ranks have left behind, and nobody ends now, would hold their outputs open.
  for (auto& [number, rank] : ranks_) {
    drain(number, Stream::out, rank.out);
    drain(number, Stream::err, rank.err);
  }
}

void LocalHost::drain(int rank, Stream stream, int& fd) {
  while (fd >= 0 && events_.has_room()) {
    pollfd waiting{fd, POLLIN, 0};
    if (::poll(&waiting, 1, 0) <= 0) return close_output(rank, stream, fd);
    read_output(rank, stream, fd);
  }
}

void LocalHost::end(int rank, int wait_status) {
  ranks_[rank].running = false;
  watch_.remove(rank);
  events_.exited(rank, wait_status);
}

void LocalHost::signal(int number) {
  const Order order{Order::Kind::signal, number};
  if (number == SIGKILL) desk_.stop();
  if (supervisor_ >= 0) send(supervisor_, &order, sizeof order, MSG_NOSIGNAL);
}

void LocalHost::inspect(int number, bool with_places) {
  for (const auto& [rank, entry] : ranks_)
    if (entry.running) events_.inspected(number, rank, watch_.look(rank, with_places));
  events_.all_inspected(number);
}

bool LocalHost::is_waiting() {
  return watch_.all_wait(static_cast<std::uint64_t>(assignment_.hang_report_ms) * 1'000'000);
}

}  // namespace weft::weftrun
