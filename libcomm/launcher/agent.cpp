#include "launcher/agent.hpp"

#include <errno.h>
#include <fmt/core.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <memory>

#include "base/settings.hpp"
#include "base/wait.hpp"
#include "job/rendezvous_link.hpp"
#include "launcher/agent_wire.hpp"
#include "launcher/environment.hpp"
#include "launcher/local_host.hpp"

namespace weft::weftrun {
namespace {

using rendezvous::Deadline;

constexpr std::size_t kOutputBytes = 1u << 20;  // the most that may wait to be reported
// The addresses are tried one after another, each for kVisitOneMs, all of them for kVisitMs.
constexpr int kVisitMs = 10000, kVisitOneMs = 2000, kRetryMs = 50;
constexpr int kLeaveMs = 2000;

class Agent final : public HostEvents {
 public:
  explicit Agent(const sigset_t& mask) : host_(std::make_unique<LocalHost>(*this, mask)) {
    channel_.attach(0, 1);
    channel_.send(kGreeting);
  }

  int run(int signals);

 private:
  void bound(int rank, std::string_view processors) override {
    report(Message::bound, body(rank).text(processors));
  }
  void started(int rank, pid_t pid) override { report(Message::started, body(rank).word(pid)); }
  void wrote(int rank, Stream stream, std::string_view bytes) override {
    report(Message::output, body(rank).word(static_cast<std::size_t>(stream)).text(bytes));
  }
  void closed(int rank, Stream stream) override {
    report(Message::closed, body(rank).word(static_cast<std::size_t>(stream)));
  }
  void crashed(const Crash& crash) override {
    Body message;
    append(message, crash);
    report(Message::crashed, message);
  }
  void exited(int rank, int wait_status) override {
    report(Message::exited, body(rank).word(static_cast<std::size_t>(wait_status)));
  }
  void lost(int, const Status&) override {}  // the host is this one
  void inspected(int number, int rank, const Seen& seen) override {
    Body body;
    body.word(static_cast<std::size_t>(number)).word(static_cast<std::size_t>(rank));
    append(body, seen);
    report(Message::inspected, body);
  }
  void all_inspected(int number) override {
    report(Message::all_inspected, Body().word(static_cast<std::size_t>(number)));
  }
  void said(const std::string& text) override { report(Message::said, Body().text(text)); }
  bool has_room() override { return channel_.queued() < kOutputBytes; }

  static Body body(int rank) { return Body().word(static_cast<std::size_t>(rank)); }
  void report(Message type, const Body& body) { channel_.send(make_message(type, body)); }
  void handle(const Channel::Received& message);
  Status start(std::string_view body);
  Status visit(Assignment& assignment);
  void wait_for_something(int signals);
  void check_waiting();

  Channel channel_;
  std::unique_ptr<LocalHost> host_;
  rendezvous::Link link_;
  bool ending_ = false;
  bool looks_for_hangs_ = false;
  bool is_waiting_ = false;  // as was reported
  std::uint64_t look_at_ns_ = 0;
  std::size_t input_given_ = 0;
};

int Agent::run(int signals) {
  while (!ending_) {
    wait_for_something(signals);
    signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == sizeof info) continue;  // only wakes
    channel_.write_some();
    channel_.read_some();
    while (auto message = channel_.next()) handle(*message);
    host_->serve();
    check_waiting();
    if (const std::size_t taken = input_given_ - host_->input_left(); taken > 0) {
      input_given_ -= taken;
      report(Message::input_taken, Body().word(taken));
    }
    if (channel_.state() != Channel::State::open) ending_ = true;
    if (link_.is_open()) {
      // No message is sent on it: the only event is its end.
      pollfd end{link_.fd(), POLLIN, 0};
      if (poll(&end, 1, 0) == 1) ending_ = true;
    }
  }
  host_.reset();
  for (const Deadline deadline(kLeaveMs); channel_.queued() > 0 && deadline.left_ms() > 0 &&
                                          channel_.state() == Channel::State::open;) {
    pollfd room{1, POLLOUT, 0};
    if (poll(&room, 1, deadline.left_ms()) == 1 && (room.revents & POLLOUT) == 0) break;
    channel_.write_some();
  }
  return 0;
}

void Agent::wait_for_something(int signals) {
  std::vector<pollfd> polls{{signals, POLLIN, 0}};
  channel_.add_polls(polls);
  host_->add_polls(polls);
  if (link_.is_open()) polls.push_back({link_.fd(), POLLIN, 0});
  poll(polls.data(), polls.size(), looks_for_hangs_ ? kLookMs : -1);
}

// Reports when all ranks here begin to wait for long, and when they go on.
void Agent::check_waiting() {
  if (!looks_for_hangs_ || now_ns() < look_at_ns_) return;
  look_at_ns_ = now_ns() + kLookMs * 1'000'000ull;
  const bool is_waiting = host_->is_waiting();
  if (is_waiting == is_waiting_) return;
  is_waiting_ = is_waiting;
  report(Message::waiting, Body().word(is_waiting ? 1 : 0));
}

void Agent::handle(const Channel::Received& message) {
  rendezvous::BodyReader reader(message.body);
  switch (message.type) {
    case Message::start:
      if (Status status = start(message.body); !status) {
        report(Message::failed,
               Body().word(static_cast<std::size_t>(status.code())).text(status.text()));
        ending_ = true;
      }
      return;
    case Message::signal:
      return host_->signal(static_cast<int>(reader.word()));
    case Message::inspect: {
      const int number = static_cast<int>(reader.word());
      return host_->inspect(number, reader.word() != 0);
    }
    case Message::input: {
      const std::string_view bytes = reader.text();
      input_given_ += bytes.size();
      return host_->give_input(bytes);
    }
    case Message::end_input:
      return host_->end_input();
    case Message::stop_reading:
      return host_->stop_reading(reader.word() == 2 ? Stream::err : Stream::out);
    default:
      ending_ = true;
  }
}

Status Agent::start(std::string_view body) {
  Assignment assignment;
  if (link_.is_open() || !decode(body, assignment))
    return {Code::corrupt, "the launcher says what it should not"};
  // PATH and the like count from here on, for the ranks as for finding their program.
  for (const auto& [name, value] : assignment.environment) setenv(name.c_str(), value.c_str(), 1);
  if (!assignment.folder.empty() && chdir(assignment.folder.c_str()) != 0)
    return {Code::not_found,
            fmt::format("cannot go to the folder {}: {}", assignment.folder, strerror(errno))};
  // Where a setting is wrong the ranks say so.
  if (Settings settings; Settings::from_environment(environ, settings))
    link_.set_silence(silence_ms(settings, assignment.environment, assignment.programs));
  looks_for_hangs_ = assignment.hang_report_ms > 0;
  Status status = visit(assignment);
  if (!status) return status;
  return host_->start(assignment);
}

// Finds out at which address the rendezvous server is reached from this host, and stays connected.
Status Agent::visit(Assignment& assignment) {
  Body body;
  body.word(rendezvous::kVersion).word(static_cast<std::size_t>(assignment.visitor));
  body.text(assignment.key);
  const std::string frame = rendezvous::make_frame(rendezvous::Type::visit, body.bytes());
  const Deadline deadline(kVisitMs);
  std::string tried;
  for (const std::string& address : assignment.rendezvous)
    tried += (tried.empty() ? "" : ", ") + address;
  Status last;
  for (;;) {
    for (const std::string& address : assignment.rendezvous) {
      last = link_.greet(address, frame, deadline.at_most(kVisitOneMs));
      if (last) {
        assignment.rendezvous = {address};
        return {};
      }
      if (last.code() == Code::not_permitted) return last;
      channel_.read_some();
      if (channel_.state() != Channel::State::open)
        return {Code::peer_lost, "the launcher is gone"};
      if (deadline.left_ms() == 0)
        return {Code::timed_out,
                fmt::format("weftrun cannot be reached from there at {}; does a firewall stand "
                            "between, or is another address needed (--address)?",
                            tried)};
    }
    poll(nullptr, 0, kRetryMs);
  }
}

}  // namespace

int run_agent() {
  sigset_t mask, old_mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  sigprocmask(SIG_BLOCK, &mask, &old_mask);
  // A reader that is gone, and a limit of file sizes, are errors of the write.
  for (const int number : {SIGPIPE, SIGXFSZ}) ::signal(number, SIG_IGN);
  const int signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) return 1;
  return Agent(old_mask).run(signals);
}

}  // namespace weft::weftrun
