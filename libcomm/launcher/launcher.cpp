#include "launcher/launcher.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/os/descriptor.hpp"
#include "base/os/host_name.hpp"
#include "base/os/own_program.hpp"
#include "base/settings.hpp"
#include "base/wait.hpp"
#include "job/boards.hpp"
#include "job/rendezvous_link.hpp"
#include "launcher/environment.hpp"
#include "launcher/foreign_mpi.hpp"
#include "launcher/hosts.hpp"
#include "launcher/local_host.hpp"
#include "launcher/remote_host.hpp"

extern char** environ;

namespace weft::weftrun {
namespace {

using rendezvous::Server;

// Time between asking the ranks to end (SIGTERM) and ending them (SIGKILL).
constexpr std::uint64_t kGraceNs = 500'000'000;
// Time between the end of an agent's connection and taking its host for lost.
constexpr std::uint64_t kSilenceNs = 1'000'000'000;
// The longest wait for output after the last rank has ended.
constexpr std::uint64_t kDrainNs = 1'000'000'000;
// A rank's death is reported to the others with its cause, once weftrun has seen the cause itself.
constexpr int kLossGraceMs = 500;
constexpr std::uint64_t kDeathGraceNs = 100'000'000;
constexpr int kOutputStatus = 1;     // not all output could be written
constexpr int kTimeoutStatus = 124;  // as timeout(1)
constexpr int kLostStatus = 125;     // a host cannot be used any more, or this process not go on

// Its default action is nothing, so that a process that it should not have gone to lives on.
constexpr int kReportSignal = SIGURG;

constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

std::string random_key() {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return {};
  std::string key;
  for (unsigned char byte : bytes) key += fmt::format("{:02x}", byte);
  return key;
}

// Checks that so many can be opened. A server short of them for its ranks could not distinguish
// these from unidentified connections, which are dropped to make room.
Status check_descriptors(std::size_t number) {
  std::vector<int> fds;
  Status status;
  while (status && fds.size() < number) {
    const int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
      status = system_error("cannot take the processes' connections");
    else
      fds.push_back(fd);
  }
  for (int fd : fds) close(fd);
  return status;
}

std::string own_folder() {
  char path[PATH_MAX];
  return getcwd(path, sizeof path) != nullptr ? path : "";
}

}  // namespace

Launcher::Launcher(const Options& options, const sigset_t& mask)
    : options_(options), ranks_(static_cast<std::size_t>(options.num_ranks)), old_mask_(mask) {}

Launcher::~Launcher() {
  for (Child& child : children_)
    if (child.running)
      kill(child.pid, SIGKILL);  // its supervisor ends the processes that it has started
  for (Child& child : children_)
    if (child.running) waitpid(child.pid, nullptr, 0);
  for (auto& host : hosts_) host->finish();  // all at once, before the first is waited for
  hosts_.clear();
  if (signals_ >= 0) close(signals_);
}

Status Launcher::start() {
  // This process is there, and has the path, when it starts the job again.
  const bool is_first = !options_.is_restarted;
  if (is_first && !options_.folder.empty() && chdir(options_.folder.c_str()) != 0)
    return {Code::not_found,
            fmt::format("cannot go to the folder {}: {}", options_.folder, strerror(errno))};
  if (is_first && !options_.path.empty()) {
    const char* path = getenv("PATH");
    setenv("PATH",
           fmt::format("{}:{}", options_.path, path != nullptr ? path : "/bin:/usr/bin").c_str(),
           1);
  }
  Status status = take_signals_over();
  if (status) status = place();
  if (!status) return status;
  key_ = random_key();
  if (key_.empty()) return system_error("getrandom");
  status = listen();
  if (!status) return status;

  status = open_outputs();
  if (!status) return status;
  if (options_.display_map) display_map();
  // A wrong setting is the ranks' to report.
  int hang_report_ms = 0;
  if (Settings settings; Settings::from_environment(environ, settings))
    hang_report_ms = weftrun::hang_report_ms(settings, options_.environment, options_.programs);
  inspector_.begin(options_.num_ranks, hang_report_ms > 0);
  Assignment assignment;
  assignment.hang_report_ms = hang_report_ms;
  assignment.core = options_.core;
  assignment.job_size = options_.num_ranks;
  assignment.programs = options_.programs;
  assignment.binding = options_.binding;
  assignment.key = key_;
  for (std::size_t host = 0; host < entries_.size() && status; ++host)
    status = start_host(host, assignment);
  if (status) status = check_descriptors(static_cast<std::size_t>(options_.num_ranks));
  if (options_.timeout_s > 0)
    timeout_at_ns_ =
        now_ns() + static_cast<std::uint64_t>((options_.timeout_s - options_.spent_s) * 1e9);
  return status;
}

Status Launcher::take_signals_over() {
  sigset_t mask;
  sigemptyset(&mask);
  for (int number : kForwarded) sigaddset(&mask, number);
  for (int number : {SIGCHLD, SIGTSTP, SIGCONT, kReportSignal}) sigaddset(&mask, number);
  sigprocmask(SIG_BLOCK, &mask, nullptr);
  // A reader that is gone, and a limit of file sizes, are errors of the write.
  for (const int number : {SIGPIPE, SIGXFSZ}) ::signal(number, SIG_IGN);
  signals_ = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  return signals_ < 0 ? system_error("signalfd") : Status();
}

// Which ranks run where, without hosts that get none.
Status Launcher::place() {
  std::vector<HostEntry> hosts = options_.hosts;
  if (hosts.empty()) hosts.push_back({"localhost", 0});
  std::vector<std::vector<int>> placed;
  Status status = place_ranks(hosts, options_.num_ranks, options_.oversubscribe,
                              options_.hosts_in_turn, placed);
  if (!status) return status;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (placed[i].empty()) continue;
    for (int rank : placed[i]) rank_at(rank).host = static_cast<int>(entries_.size());
    entries_.push_back(hosts[i]);
    placed_.push_back(std::move(placed[i]));
  }
  return {};
}

Status Launcher::open_outputs() {
  for (int rank = 0; rank < options_.num_ranks; ++rank) {
    const std::string prefix = options_.tag_output ? fmt::format("[{}] ", rank) : std::string();
    const bool whole_lines = options_.num_ranks > 1;
    Sink& errors = options_.merge_errors ? stdout_ : errors_;
    rank_at(rank).out = std::make_unique<Lines>(&stdout_, prefix, whole_lines);
    rank_at(rank).err = std::make_unique<Lines>(&errors, prefix, whole_lines);
  }
  if (options_.output_files.empty()) return {};
  raise_descriptor_limit();  // two files for every rank
  files_.emplace();
  return files_->open(options_.output_files + (options_.output_has_job_folder ? "/1" : ""),
                      options_.num_ranks, options_.is_restarted);
}

void Launcher::display_map() {
  for (std::size_t host = 0; host < entries_.size(); ++host)
    say(fmt::format("host {}: rank{} {}", name_of_host(host), placed_[host].size() == 1 ? "" : "s",
                    ranges_of(placed_[host])));
  write_output();
}

std::string Launcher::name_of_host(std::size_t host) const {
  return rendezvous::is_loopback(entries_[host].name) ? host_name() : entries_[host].name;
}

bool Launcher::is_local(std::size_t host) const { return is_this_machine(entries_[host].name); }

Status Launcher::listen() {
  Server::Options server;
  server.size = options_.num_ranks;
  server.key = key_;
  server.loss_grace_ms = kLossGraceMs;
  server.port = static_cast<std::uint16_t>(options_.port);
  server.spawner = this;
  bool all_local = true;
  for (std::size_t host = 0; host < entries_.size(); ++host)
    all_local = all_local && is_local(host);
  if (!all_local) {
    // Read only now: the settings of a job on this machine are its own matter.
    Settings settings;
    Status status = Settings::from_environment(environ, settings);
    if (!status) return status;
    launch_ = options_.launch.empty() ? settings.text(Setting::launch) : options_.launch;
    answer_at_ns_ = now_ns() + settings.ns(Setting::start_timeout_ms);
    // What the ranks are told counts for the connections between the hosts, too.
    server.silence_ms = silence_ms(settings, options_.environment, options_.programs);
    if (!options_.address.empty()) {
      address_ = address_of(options_.address);
      if (address_.empty())
        return {
            Code::bad_argument,
            fmt::format("--address {}: no address or interface of this machine", options_.address)};
    }
    server.host = address_;
  }
  return Server::listen(server, server_);
}

std::vector<std::string> Launcher::rendezvous_for(std::size_t host) const {
  std::vector<std::string> addresses;
  if (!address_.empty())
    addresses = {address_};
  else if (is_local(host))
    addresses = {"127.0.0.1"};
  else
    addresses = addresses_towards(entries_[host].name);
  for (std::string& address : addresses)
    address = rendezvous::join_address(address, server_->port());
  return addresses;
}

Status Launcher::start_host(std::size_t host, Assignment assignment) {
  const HostEntry& entry = entries_[host];
  const bool has_rank_0 = rank_at(0).host == static_cast<int>(host);
  assignment.ranks = placed_[host];
  assignment.rendezvous = rendezvous_for(host);
  assignment.visitor = static_cast<int>(host);
  if (is_local(host)) {
    input_is_terminal_ = isatty(0);
    if (has_rank_0) assignment.input = input_is_terminal_ ? Input::given : Input::inherited;
    assignment.environment = options_.environment;
    if (!options_.name_server.empty())
      assignment.environment.emplace_back(kNameServerVariable, options_.name_server);
    hosts_.push_back(std::make_unique<LocalHost>(*this, old_mask_));
  } else {
    if (assignment.rendezvous.empty())
      return {Code::not_found, "this machine has no address that other hosts could reach"};
    input_is_terminal_ = isatty(0);
    if (has_rank_0) assignment.input = Input::given;
    assignment.environment = portable_environment(environ);
    assignment.environment.insert(assignment.environment.end(), options_.environment.begin(),
                                  options_.environment.end());
    if (!options_.name_server.empty())
      assignment.environment.emplace_back(kNameServerVariable, options_.name_server);
    assignment.folder = own_folder();
    std::vector<std::string> command;
    Status status = agent_command(entry.name, command);
    if (!status) return status;
    hosts_.push_back(std::make_unique<RemoteHost>(*this, static_cast<int>(host), entry.name,
                                                  std::move(command), old_mask_));
  }
  if (assignment.input == Input::given) input_host_ = hosts_.back().get();
  return hosts_.back()->start(assignment);
}

// The words of the launch command, with {host} replaced (or the host added), and the agent's.
Status Launcher::agent_command(const std::string& host, std::vector<std::string>& command) const {
  constexpr std::string_view kHost = "{host}";
  bool named = false;
  std::string_view rest = launch_;
  for (;;) {
    const std::size_t begin = rest.find_first_not_of(' ');
    if (begin == std::string_view::npos) break;
    rest.remove_prefix(begin);
    std::string word(rest.substr(0, rest.find(' ')));
    rest.remove_prefix(word.size());
    // Not again in the inserted name: a host may have any name.
    for (std::size_t at = 0; (at = word.find(kHost, at)) != std::string::npos; at += host.size()) {
      word.replace(at, kHost.size(), host);
      named = true;
    }
    command.push_back(std::move(word));
  }
  if (command.empty()) return {Code::bad_setting, "WEFT_LAUNCH names no command"};
  if (!named) command.push_back(host);
  const std::string agent = options_.agent.empty() ? own_program() : options_.agent;
  // ssh hands the words to a shell, other commands do not: no quoting would suit both.
  const auto plain = [](unsigned char c) {
    return isalnum(c) || strchr("/._-+,=@:", static_cast<char>(c)) != nullptr;
  };
  if (agent.empty() || !std::ranges::all_of(agent, plain))
    return {
        Code::bad_argument,
        fmt::format("weftrun's path \"{}\" has characters that a shell could take for something "
                    "else; --agent names another",
                    agent)};
  command.push_back(agent);
  command.push_back("--serve-host");
  return {};
}

int Launcher::run() {
  while (num_running() > 0 || has_children() ||
         ((outputs_open() || !stdout_.empty() || !stderr_.empty()) && now_ns() < drain_until_ns_)) {
    wait_for_something();
    take_signals();
    for (auto& host : hosts_) host->serve();
    report_crashes();
    write_output();
    judge_exits();
    reap_children();
    serve_ranks();
    take_lost_visitors();
    take_abort_request();
    check_deadlines();
    if (const auto findings = inspector_.step(!ending_ && num_running() > 0)) tell(*findings);
    if (num_running() == 0 && !killed_) {
      // Ends the processes that the ranks have started and left behind; jobs that they have spawned
      // go on.
      signal_hosts(SIGKILL);
      killed_ = true;
    }
    // A reader that has stopped reading is not waited for once there is no job any more and the
    // user asks for the end.
    if (num_running() == 0 && (num_stop_signals_ > 0 || ending_) && drain_until_ns_ == UINT64_MAX)
      drain_until_ns_ = now_ns() + kDrainNs;
  }
  if (!exit_status_ && !ending_) check_joined();
  for (Rank& rank : ranks_) {
    rank.out->finish();
    rank.err->finish();
  }
  write_output();
  for (const Child& child : children_)
    if (child.exit_status != 0 && !child.is_known) fail(child.exit_status);
  return exit_status_.value_or(0);
}

// Programs of another MPI know nothing of this job: each process was a job of one, which ends well.
void Launcher::check_joined() {
  for (const Rank& rank : ranks_)
    if (server_->state(static_cast<int>(&rank - ranks_.data())) != Server::RankState::absent)
      return;
  for (const Program& program : options_.programs) {
    const std::string& name = program.command[0];
    const std::string library = foreign_mpi_of(name, options_.path);
    if (library.empty()) continue;
    say(
        fmt::format("no process of {} joined the job: it is linked to {}, which is another MPI "
                    "library, so each was a job of one; compile it with weftcc, or start it with "
                    "that library's own mpirun",
                    name, library));
    fail(1);
  }
}

// On the hosts of this job, beginning with the next one each time; without any, here.
Status Launcher::spawn(std::vector<std::string> environment, std::vector<std::string> words,
                       int& id) {
  if (ending_) return {Code::cancelled, "the job is ending"};
  std::vector<std::string> command = {own_program()};
  const auto add = [&command](const char* option, const std::string& value) {
    if (!value.empty()) command.insert(command.end(), {option, value});
  };
  if (std::ranges::find(words, "--hosts") == words.end()) {
    std::string hosts;
    for (std::size_t i = 0; i < options_.hosts.size(); ++i) {
      const HostEntry& host = options_.hosts[(i + children_.size()) % options_.hosts.size()];
      const bool has_colon = host.name.find(':') != std::string::npos;
      hosts += fmt::format("{}{}", hosts.empty() ? "" : ",",
                           has_colon ? fmt::format("[{}]", host.name) : host.name);
      if (host.slots > 0) hosts += fmt::format(":{}", host.slots);
    }
    add("--hosts", hosts);
  }
  add("--launch", options_.launch);
  add("--agent", options_.agent);
  add("--address", options_.address);
  // Not on the command line, which others can see.
  environment.push_back(fmt::format("{}={}", kNameServerVariable, name_server()));
  if (options_.tag_output) command.push_back("--tag-output");
  if (options_.on_death == OnDeath::go_on) add("--on-death", "continue");
  command.insert(command.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  children_.reserve(children_.size() + 1);
  const pid_t own = getpid();
  const pid_t pid = fork();
  if (pid < 0) return system_error("fork");
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != own) _exit(kLostStatus);
    setpgid(0, 0);  // a terminal's signals come to it by this process
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, 0);
    for (const int number : {SIGPIPE, SIGXFSZ}) ::signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
    for (std::string& entry : environment) putenv(entry.data());
    execv(arguments[0], arguments.data());
    _exit(kMissingStatus);
  }
  id = static_cast<int>(children_.size());
  children_.push_back({pid});
  return {};
}

Status Launcher::check(int id, bool give_up) {
  if (id < 0 || static_cast<std::size_t>(id) >= children_.size())
    return {Code::bad_argument, "nothing was started under this number"};
  Child& child = children_[static_cast<std::size_t>(id)];
  if (child.running && give_up) kill(child.pid, SIGTERM);
  if (child.running && !give_up) return {};
  child.is_known = true;
  return {Code::not_found, fmt::format("weftrun has ended with exit status {}", child.exit_status)};
}

void Launcher::reap_children() {
  for (Child& child : children_) {
    int wait_status = 0;
    if (!child.running || waitpid(child.pid, &wait_status, WNOHANG) != child.pid) continue;
    child.running = false;
    child.exit_status =
        WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
  }
}

// For jobs that ranks spawn: the name server that these use.
std::string Launcher::name_server() const {
  if (!options_.name_server.empty()) return options_.name_server;
  if (const char* given = getenv(kNameServerVariable)) return given;
  const std::vector<std::string> addresses = rendezvous_for(0);
  return addresses.empty() ? std::string() : fmt::format("{}/{}", addresses[0], key_);
}

void Launcher::serve_ranks() {
  server_->serve();
  // A slow reader of errors must not hold the job up because of unidentified connections.
  for (const std::string& notice : server_->take_notices())
    if (errors_.empty()) say(notice);
  if (server_->failure() || ending_) return;
  say(server_->failure().text());
  fail(kLostStatus);
  end_job();
}

void Launcher::wait_for_something() {
  std::vector<pollfd> polls;
  for (auto& host : hosts_) host->add_polls(polls);
  for (Sink* sink : {&stdout_, &stderr_})
    if (!sink->empty()) polls.push_back({sink->fd(), POLLOUT, 0});
  polls.push_back({signals_, POLLIN, 0});
  polls.push_back({server_->poll_fd(), POLLIN, 0});
  const bool reads_input = input_host_ != nullptr && input_host_->input_room() > 0 &&
                           (!input_is_terminal_ || tcgetpgrp(0) == getpgrp());
  if (reads_input) polls.push_back({0, POLLIN, 0});

  int timeout_ms = server_->timeout_ms();
  std::uint64_t silent_at_ns = UINT64_MAX;
  for (const auto& [host, at_ns] : silent_at_ns_) silent_at_ns = std::min(silent_at_ns, at_ns);
  for (std::uint64_t at_ns :
       {kill_at_ns_, timeout_at_ns_, answer_at_ns_, abort_at_ns_, judge_at_ns_, silent_at_ns,
        drain_until_ns_, inspector_.due_at_ns()}) {
    if (at_ns == UINT64_MAX) continue;
    const std::uint64_t now = now_ns();
    const int left_ms = at_ns <= now ? 0
                                     : static_cast<int>(std::min<std::uint64_t>(
                                           (at_ns - now) / 1'000'000 + 1, 1'000'000'000));
    if (timeout_ms < 0 || left_ms < timeout_ms) timeout_ms = left_ms;
  }
  poll(polls.data(), polls.size(), timeout_ms);
  if (reads_input && polls.back().revents != 0) forward_input();
}

void Launcher::write_output() {
  for (Sink* sink : {&stdout_, &stderr_}) {
    const int error = sink->write_some();
    if (error == 0) continue;
    if (error == EPIPE) {
      // The writers get SIGPIPE as if they had written there themselves.
      reader_is_gone_ = true;
      fail(128 + SIGPIPE);
      for (Stream stream : {Stream::out, Stream::err})
        if ((stream == Stream::out ? &stdout_ : &errors_) == sink)
          for (auto& host : hosts_) host->stop_reading(stream);
    } else {
      fail(kOutputStatus);
      if (sink != &errors_)
        say(fmt::format("cannot write standard output, the rest of it is lost: {}",
                        strerror(error)));
    }
  }
}

void Launcher::forward_input() {
  char buffer[4096];
  const ssize_t length = read(0, buffer, std::min(sizeof buffer, input_host_->input_room()));
  if (length > 0) {
    input_host_->give_input({buffer, static_cast<std::size_t>(length)});
  } else if (length == 0 || errno != EINTR) {
    input_host_->end_input();
    input_host_ = nullptr;
  }
}

void Launcher::take_signals() {
  signalfd_siginfo info;
  while (read(signals_, &info, sizeof info) == sizeof info) {
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGCHLD) continue;
    if (number == kReportSignal) {
      inspector_.ask(Inspector::Why::user);
      continue;
    }
    if (number == SIGTSTP) {
      stop_with_terminal();
    } else if (number == SIGCONT) {
      signal_all(SIGCONT);
    } else {
      const bool stops = number == SIGINT || number == SIGTERM || number == SIGQUIT;
      if (stops && ++num_stop_signals_ > 1) {
        fail(128 + number);
        ending_ = true;
        signal_all(SIGKILL);
      } else {
        signal_all(number);
      }
    }
  }
}

void Launcher::stop_with_terminal() {
  signal_all(SIGTSTP);
  raise(SIGSTOP);
  signal_all(SIGCONT);
}

void Launcher::bound(int rank, std::string_view processors) {
  if (valid(rank))
    say(fmt::format("rank {} on host {}: {}", rank,
                    name_of_host(static_cast<std::size_t>(rank_at(rank).host)), processors));
}

void Launcher::started(int rank, pid_t pid) {
  if (valid(rank)) rank_at(rank).pid = pid;
}

void Launcher::wrote(int rank, Stream stream, std::string_view bytes) {
  if (!valid(rank)) return;
  if (files_) write_file(rank, stream, bytes);
  if (!files_ || options_.output_is_copied)
    (stream == Stream::out ? rank_at(rank).out : rank_at(rank).err)->take(bytes);
}

void Launcher::write_file(int rank, Stream stream, std::string_view bytes) {
  const bool is_out = stream == Stream::out || options_.merge_errors;
  const int error = files_->write(rank, is_out, bytes);
  if (error == 0) return;
  fail(kOutputStatus);
  say(fmt::format("cannot write {}, the rest of it is lost: {}", files_->path(rank, is_out),
                  strerror(error)));
}

void Launcher::closed(int rank, Stream stream) {
  if (!valid(rank)) return;
  Rank& entry = rank_at(rank);
  (stream == Stream::out ? entry.out : entry.err)->finish();
  (stream == Stream::out ? entry.out_open : entry.err_open) = false;
}

void Launcher::crashed(const Crash& crash) {
  if (!valid(crash.rank)) return;
  crashes_.push_back(crash);
  crashes_.back().host = name_of_host(static_cast<std::size_t>(rank_at(crash.rank).host));
  rank_at(crash.rank).core_file = crash.core;
}

// What the ranks wrote before comes first.
void Launcher::report_crashes() {
  for (const std::string& line : crash_reports_.lines_of(std::exchange(crashes_, {}))) say(line);
}

void Launcher::exited(int rank, int wait_status) {
  if (!valid(rank) || !rank_at(rank).running) return;
  rank_at(rank).running = false;
  exits_.push_back({rank, wait_status});
}

void Launcher::lost(int host, const Status& why) {
  const auto& name = entries_[static_cast<std::size_t>(host)].name;
  std::vector<int> dead;
  for (int rank : placed_[static_cast<std::size_t>(host)]) {
    Rank& entry = rank_at(rank);
    if (entry.running) dead.push_back(rank);
    entry.running = entry.out_open = entry.err_open = false;
    server_->mark_gone(rank, fmt::format("was on {}, of which nothing is known any more", name));
  }
  if (input_host_ == hosts_[static_cast<std::size_t>(host)].get()) input_host_ = nullptr;
  if (dead.empty()) return;  // it has done its part
  if (!ending_) {
    say(fmt::format("host {} ({}): {}", name, name_ranks(dead), why.text()));
    lost_ranks_ = lost_ranks_ || why.code() != Code::not_found;
  }
  fail(why.code() == Code::not_found ? kMissingStatus : kLostStatus);
  if (!ending_ && options_.on_death == OnDeath::kill) end_job();
}

// Before the launch command itself notices, which may take minutes. If the agent has only ended,
// the launch command ends soon, too, and knows more about it.
void Launcher::take_lost_visitors() {
  for (int host : server_->take_lost_visitors())
    if (host < static_cast<int>(entries_.size()) && !is_local(static_cast<std::size_t>(host)))
      silent_at_ns_.emplace(host, now_ns() + kSilenceNs);
}

void Launcher::judge_exits() {
  // The kernel reports an end only when all memory is given back: a rank that ended because another
  // one was killed may be seen before that one.
  const auto ended_early = [this](const Exit& exit) {
    const auto state = server_->state(exit.rank);
    return state != Server::RankState::left && state != Server::RankState::absent;
  };
  const auto was_killed = [](const Exit& exit) { return WIFSIGNALED(exit.wait_status); };
  if (!ending_ && num_running() > 0 && std::ranges::any_of(exits_, ended_early) &&
      std::ranges::none_of(exits_, was_killed)) {
    if (judge_at_ns_ == UINT64_MAX) judge_at_ns_ = now_ns() + kDeathGraceNs;
    if (now_ns() < judge_at_ns_) return;
  }
  judge_at_ns_ = UINT64_MAX;
  // Of several ends seen at once a signal's is the likely cause of the others.
  std::ranges::stable_sort(exits_, std::ranges::greater{}, was_killed);
  for (const Exit& exit : std::exchange(exits_, {}))
    if (!holds_abort_of(exit.rank)) judge(exit);
}

bool Launcher::holds_abort_of(int rank) const {
  const auto& request = server_->abort_request();
  return !ending_ && request && request->rank == rank && request->exit_code == kPeerLostCode;
}

void Launcher::judge(const Exit& exit) {
  const int code = WEXITSTATUS(exit.wait_status);
  const auto state = server_->state(exit.rank);
  std::string how;
  int status = code;
  bool dead = true, is_lost = true;
  if (WIFSIGNALED(exit.wait_status)) {
    const int number = WTERMSIG(exit.wait_status);
    how = fmt::format("was killed by signal {} ({}){}", number, strsignal(number),
                      number == SIGXFSZ   ? ": see ulimit -f"
                      : number == SIGXCPU ? ": see ulimit -t"
                                          : "");
    status = 128 + number;
  } else if (state == Server::RankState::left) {
    how = fmt::format("exited with code {} after it had left the job in good order", code);
    dead = is_lost = false;
  } else if (state == Server::RankState::absent) {
    how = code == 0 ? "exited without joining the job" : fmt::format("exited with code {}", code);
    dead = code != 0;
    is_lost = false;
  } else {
    how = fmt::format("exited with code {} without finalizing", code);
    if (status == 0) status = 1;
  }
  server_->mark_gone(exit.rank, how);
  if (status == 0 || ending_) return;
  lost_ranks_ = lost_ranks_ || is_lost;
  const Rank& rank = rank_at(exit.rank);
  const auto host = static_cast<std::size_t>(rank.host);
  const std::string where = is_local(host) ? "" : fmt::format(" on {}", entries_[host].name);
  say(fmt::format("rank {} (pid {}{}) {}", exit.rank, rank.pid, where, how));
  if (options_.core && WIFSIGNALED(exit.wait_status))
    say(core_line(rank.core_file, WCOREDUMP(exit.wait_status)));
  fail(status);
  if (dead && options_.on_death == OnDeath::kill) end_job();
}

void Launcher::take_abort_request() {
  const auto& request = server_->abort_request();
  if (!request || ending_) return;
  if (request->exit_code == kPeerLostCode && num_running() > 0) {
    if (abort_at_ns_ == UINT64_MAX) abort_at_ns_ = now_ns() + kLossGraceMs * 1'000'000ull;
    if (now_ns() < abort_at_ns_) return;
  }
  abort_at_ns_ = UINT64_MAX;
  const int status = request->exit_code & 0xff;
  say(fmt::format("rank {} ended the job with code {}{}{}", request->rank, request->exit_code,
                  request->message.empty() ? "" : ": ", request->message));
  fail(status != 0 ? status : 1);
  lost_ranks_ = lost_ranks_ || request->exit_code == kPeerLostCode;
  end_job();
}

void Launcher::check_deadlines() {
  const std::uint64_t now = now_ns();
  if (now >= timeout_at_ns_ && (num_running() > 0 || has_children())) {
    timeout_at_ns_ = UINT64_MAX;
    fail(kTimeoutStatus);
    inspector_.ask(Inspector::Why::timeout);
  }
  if (now >= answer_at_ns_) {
    answer_at_ns_ = UINT64_MAX;
    for (auto& host : hosts_)
      if (!host->answered()) host->silent();
  }
  std::erase_if(silent_at_ns_, [&](const auto& entry) {
    if (now < entry.second) return false;
    hosts_[static_cast<std::size_t>(entry.first)]->silent();
    return true;
  });
  if (now >= kill_at_ns_) {
    kill_at_ns_ = UINT64_MAX;
    signal_all(SIGKILL);
  }
}

RankView::State Launcher::state_of(int rank) const {
  if (server_->state(rank) == Server::RankState::left) return RankView::State::left;
  return ranks_[static_cast<std::size_t>(rank)].running ? RankView::State::unknown
                                                        : RankView::State::ended;
}

void Launcher::tell(const Inspector::Findings& findings) {
  if (findings.why == Inspector::Why::timeout) return end_by_timeout(findings.ranks);
  say(findings.why == Inspector::Why::user ? "what the ranks do:"
                                           : "all ranks wait, and none can go on:");
  for (const std::string& line : explain(findings.ranks)) say(line);
}

void Launcher::end_by_timeout(const std::vector<RankView>& views) {
  say(num_running() == 0
          ? fmt::format("the jobs that this one has spawned did not end within {:g} s",
                        options_.timeout_s)
          : fmt::format("the job did not end within {:g} s; {} still {}", options_.timeout_s,
                        name_ranks(running_ranks()), num_running() == 1 ? "runs" : "run"));
  // Not what the user has just read.
  const bool any_waits =
      !inspector_.has_reported(views) && std::ranges::any_of(views, [](const RankView& view) {
        return view.state == RankView::State::blocked;
      });
  if (any_waits)
    for (const std::string& line : explain(views)) say(line);
  if (!ending_) end_job();
}

void Launcher::end_job() {
  ending_ = true;
  if (const int num = num_running(); num > 0)
    say(fmt::format("ending {}", name_ranks(running_ranks())));
  signal_all(SIGTERM);
  signal_all(SIGCONT);  // a stopped process could not end
  kill_at_ns_ = now_ns() + kGraceNs;
}

void Launcher::signal_all(int number) {
  signal_hosts(number);
  for (const Child& child : children_)
    if (child.running) kill(child.pid, number);
}

void Launcher::signal_hosts(int number) {
  for (auto& host : hosts_) host->signal(number);
}

bool Launcher::has_children() const { return std::ranges::any_of(children_, &Child::running); }

void Launcher::say(const std::string& text) { errors_.append("weftrun: " + text + "\n", this); }

void Launcher::fail(int exit_status) {
  if (!exit_status_) exit_status_ = exit_status;
}

int Launcher::num_running() const {
  return static_cast<int>(std::ranges::count_if(ranks_, &Rank::running));
}

std::vector<int> Launcher::running_ranks() const {
  std::vector<int> running;
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    if (ranks_[i].running) running.push_back(static_cast<int>(i));
  return running;
}

bool Launcher::outputs_open() const {
  return std::ranges::any_of(ranks_,
                             [](const Rank& rank) { return rank.out_open || rank.err_open; });
}

}  // namespace weft::weftrun
