#include "job/members.hpp"

#include <fmt/core.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <utility>

#include "base/log.hpp"
#include "base/os/host_name.hpp"
#include "base/os/topology.hpp"
#include "base/stats.hpp"
#include "base/trace.hpp"
#include "job/boards.hpp"
#include "job/sharing.hpp"

namespace weft {

namespace {

Status no_names() {
  return {Code::unsupported,
          "no server of names is known here: start one with weftrun --serve-names, and the jobs "
          "with weftrun --name-server"};
}

}  // namespace

Status Board::publish(std::string_view, std::string_view) { return no_names(); }
Status Board::look_up(std::string_view, std::string&) { return no_names(); }
Status Board::unpublish(std::string_view) { return no_names(); }

// The view of a process, and the file that others of the same view try to open.
struct SharingOffer {
  std::string view;
  int fd = -1;
  std::uint64_t content = 0;
};

namespace {

constexpr std::string_view kMemberKey = "job.member";
constexpr std::string_view kIdKey = "job.id";

constexpr std::string_view kSharingKey = "job.sharing";
constexpr std::string_view kNone = "none";
constexpr std::string_view kCpusKey = "job.cpus";
constexpr std::string_view kDigits = "0123456789abcdef";
constexpr std::size_t kMaxCpus = 1 << 20;

std::string encode_member(const Member& member, const SharingOffer& offer) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", member.pid, offer.fd, offer.content, member.host,
                     member.machine, member.cache, offer.view);
}

// Up to the next end of line, or all of it.
std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

template <class Number>
bool parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

bool decode_member(std::string_view text, Member& member, SharingOffer& offer) {
  if (!parse(take_line(text), member.pid) || member.pid <= 0) return false;
  if (!parse(take_line(text), offer.fd) || !parse(take_line(text), offer.content)) return false;
  member.host = take_line(text);
  member.machine = take_line(text);
  member.cache = take_line(text);
  offer.view = take_line(text);
  return text.empty() && !member.host.empty() && !member.machine.empty() && !offer.view.empty();
}

// The processors that a process may use, as bits, four to a hexadecimal digit, from the first on.
std::string encode_cpus(const std::vector<int>& cpus) {
  std::string text;
  for (const int cpu : cpus) {
    const auto digit = static_cast<std::size_t>(cpu) / 4;
    if (text.size() <= digit) text.resize(digit + 1, '0');
    const std::size_t bits = kDigits.find(text[digit]) | std::size_t{1} << cpu % 4;
    text[digit] = kDigits[bits];
  }
  return text;
}

// Adds them to `cpus`. False: that is none of encode_cpus().
bool add_cpus(std::string_view text, std::vector<bool>& cpus) {
  if (text.empty() || text.size() > kMaxCpus / 4) return false;
  if (cpus.size() < text.size() * 4) cpus.resize(text.size() * 4);
  for (std::size_t i = 0; i < cpus.size() && i / 4 < text.size(); ++i) {
    const std::size_t bits = kDigits.find(text[i / 4]);
    if (bits == std::string_view::npos) return false;
    if ((bits >> i % 4 & 1) != 0) cpus[i] = true;
  }
  return true;
}

// A launcher that Weft has no protocol for has started several processes, which cannot find each
// other: a job of each is never what was meant.
struct ForeignLauncher {
  const char* size;  // the variable with the number of processes
  const char* name;
  const char* advice;
};

constexpr ForeignLauncher kForeignLaunchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun",
     "its PMIx variables are missing: start the program without a wrapper that removes them"},
    {"MV2_COMM_WORLD_SIZE", "MVAPICH's launcher", "use mpiexec.hydra or weftrun"},
    {"SLURM_STEP_NUM_TASKS", "Slurm's srun", "use srun --mpi=pmix or srun --mpi=pmi2"},
    {"FLUX_JOB_SIZE", "Flux", "use flux run -o pmi=pmix, or weftrun"},
    {"ALPS_APP_SIZE", "ALPS", "use weftrun"},
    {"PALS_NRANKS", "PALS", "use weftrun"},
    {"PMI_SIZE", "a PMI launcher", "use mpiexec.hydra, srun --mpi=pmi2 or weftrun"},
};

// Errors unless at most one process was started.
Status check_foreign_launchers() {
  for (const ForeignLauncher& launcher : kForeignLaunchers) {
    const char* size = getenv(launcher.size);
    int number = 0;
    if (size == nullptr || (parse(std::string_view(size), number) && number <= 1)) continue;
    return {Code::unsupported,
            fmt::format("{} started this program ({}={}) without a server that its processes "
                        "could find each other by; {}",
                        launcher.name, launcher.size, size, launcher.advice)};
  }
  return {};
}

Status make_board(const Settings& settings, Party party, std::unique_ptr<Board>& board) {
  // WEFT_RENDEZVOUS first: weftrun may run inside another launcher's process.
  RendezvousParameters parameters;
  Status status = read_rendezvous_parameters(parameters);
  if (status) {
    parameters.party = party;
    parameters.close_timeout_ms = static_cast<int>(settings.patience_ns() / 1'000'000);
    parameters.silence_ms = silence_beyond(settings.ms(Setting::peer_timeout_ms));
    return make_rendezvous_board(parameters, settings.ms(Setting::start_timeout_ms), board);
  }
  if (status.code() != Code::not_found) return status;
  if (pmix_is_there()) return make_pmix_board(party, board);
  if (pmi_is_there()) return make_pmi_board(party, settings.ms(Setting::start_timeout_ms), board);
  status = check_foreign_launchers();
  if (!status) return status;
  board = make_alone_board();
  return {};
}

}  // namespace

Status Members::open(const Settings& settings, std::unique_ptr<Members>& job, Party party) {
  log::set_level(static_cast<LogLevel>(settings.number(Setting::log)));
  std::unique_ptr<Board> board;
  Status status = make_board(settings, party, board);
  if (!status) return status;
  return open(settings, std::move(board), job);
}

Status Members::open(const Settings& settings, std::unique_ptr<Board> board,
                     std::unique_ptr<Members>& job) {
  std::unique_ptr<Members> opened(new Members(settings, std::move(board)));
  Status status = opened->exchange_members();
  if (!status) return status;
  stats::set_name(fmt::format("rank {} of {} on {}", opened->rank(), opened->size(),
                              opened->member(opened->rank()).host));
  if (settings.flag(Setting::stats)) stats::print_at_exit();
  if (const std::string& path = settings.text(Setting::trace); !path.empty()) {
    status = trace::open(
        path, opened->rank(),
        fmt::format("rank {} on {}", opened->rank(), opened->member(opened->rank()).host));
    if (!status) return status;
  }
  job = std::move(opened);
  return {};
}

Status Members::exchange_members() {
  const SharingProbe probe;  // until all have tried
  Member self;
  self.host = host_name();
  self.machine = machine_identity();
  self.pid = getpid();
  SharingOffer offer{sharing_view(), probe.fd(), probe.content()};
  // Without "shm" in WEFT_FABRIC a process is a host of its own, for the layers above too.
  if (!list_has(settings_.text(Setting::fabric), "shm"))
    offer.view = fmt::format("apart {}", rank());
  self.cache = common_cache();
  Status status = board_->put(kMemberKey, encode_member(self, offer));
  if (status && rank() == 0) {
    if (getrandom(&id_, sizeof id_, 0) != sizeof id_)
      return {Code::unsupported, fmt::format("no random numbers: {}", std::strerror(errno))};
    id_ = std::max<std::uint64_t>(id_, 1);
    status = board_->put(kIdKey, fmt::format("{}", id_));
  }
  if (status) status = board_->put(kCpusKey, encode_cpus(usable_cpus()));
  if (!status) return status;
  status = board_->fence(settings_.ms(Setting::start_timeout_ms));
  if (!status) return status;

  if (std::string text; rank() != 0) {
    status = board_->get(0, kIdKey, text);
    if (!status) return status;
    if (!parse(text, id_) || id_ == 0)
      return {Code::corrupt, fmt::format("rank 0 calls the job \"{}\"", text)};
  }
  // The pages for foreign processes are not touched before there are some.
  members_.reserve(static_cast<std::size_t>(size()) + kMaxForeignProcesses);
  members_.resize(static_cast<std::size_t>(size()));
  std::vector<SharingOffer> offers(members_.size());
  for (int i = 0; i < size(); ++i) {
    std::string text;
    status = board_->get(i, kMemberKey, text);
    if (!status) return status;
    const auto index = static_cast<std::size_t>(i);
    if (!decode_member(text, members_[index], offers[index]))
      return {Code::corrupt, fmt::format("rank {} describes itself with \"{}\"", i, text)};
  }
  status = find_hosts(offers);
  if (!status) return status;
  std::map<int, int> num_of_host;
  num_on_host_ = 0;
  for (int i = 0; i < size(); ++i) {
    Member& other = members_[static_cast<std::size_t>(i)];
    other.local_rank = num_of_host[other.first_on_host]++;
    if (same_host(i, rank())) local_ranks_.push_back(i);
  }
  num_hosts_ = static_cast<int>(num_of_host.size());
  std::vector<bool> cpus;
  for (int i = 0; i < size(); ++i) {
    if (!on_host(i)) continue;
    ++num_on_host_;
    std::string text;
    status = board_->get(i, kCpusKey, text);
    if (!status) return status;
    if (!add_cpus(text, cpus))
      return {Code::corrupt, fmt::format("rank {} runs on processors \"{}\"", i, text)};
  }
  num_cpus_on_host_ = static_cast<int>(std::ranges::count(cpus, true));
  return {};
}

bool Members::on_host(int rank) const noexcept {
  return member(rank).machine == member(this->rank()).machine;
}

// All ranks come to the same result: it follows from the published offers.
Status Members::find_hosts(const std::vector<SharingOffer>& offers) {
  std::map<std::string_view, int> first_of_view;
  std::vector<int> blind;
  bool any_to_try = false;
  for (int i = 0; i < size(); ++i) {
    Member& other = members_[static_cast<std::size_t>(i)];
    const std::string& view = offers[static_cast<std::size_t>(i)].view;
    other.first_on_host = first_of_view.emplace(view, i).first->second;
    any_to_try = any_to_try || member(other.first_on_host).pid != other.pid;
    if (is_blind(view)) blind.push_back(i);
  }
  if (!blind.empty() && size() > 1 && blind[0] == rank())
    log_line(LogLevel::warn, rank(),
             "{} {} no /proc of the own process-id namespace, and so can share no memory with "
             "other processes",
             name_ranks(blind), blind.size() == 1 ? "has" : "have");
  if (!any_to_try) return {};
  const auto first_of = [&](int i) {
    return first_of_view.at(offers[static_cast<std::size_t>(i)].view);
  };

  // Publishes the processes with which it failed.
  const auto can = [&](int other) {
    const SharingOffer& offer = offers[static_cast<std::size_t>(other)];
    const int pid = member(other).pid;
    const bool shares = pid == getpid() || can_share(pid, offer.fd, offer.content);
    if (!shares)
      log_line(LogLevel::info, rank(), "cannot open memory of {}, which should be possible",
               describe(other));
    return shares;
  };
  const int first = member(rank()).first_on_host;
  std::string failed;
  for (int i = 0; i < size(); ++i)
    if (i != rank() && member(i).first_on_host == first && (i == first || rank() == first) &&
        !can(i))
      failed += fmt::format("{}\n", i);
  Status status = board_->put(kSharingKey, failed.empty() ? kNone : failed);
  if (status) status = board_->fence(settings_.ms(Setting::start_timeout_ms));
  for (int i = 0; i < size() && status; ++i) {
    std::string text;
    status = board_->get(i, kSharingKey, text);
    if (text == kNone) continue;
    for (std::string_view rest = text; status && !rest.empty();) {
      int other = -1;
      if (!parse(take_line(rest), other) || other < 0 || other >= size())
        return {Code::corrupt, fmt::format("rank {} shares no memory with \"{}\"", i, text)};
      // One of the two is the first of their view; the other one is apart.
      const int apart = first_of(i) == other ? i : other;
      members_[static_cast<std::size_t>(apart)].first_on_host = apart;
    }
  }
  return status;
}

Status Members::add_foreign(const ForeignProcess& process, int& number) {
  const std::lock_guard lock(foreign_mutex_);
  const auto free = std::ranges::find(foreign_, std::uint64_t{0},
                                      [](const ForeignProcess& other) { return other.name.job; });
  const auto index = static_cast<std::size_t>(free - foreign_.begin());
  if (index >= kMaxForeignProcesses)
    return {Code::no_memory,
            fmt::format("this process knows {} processes of other jobs already, which is the most",
                        kMaxForeignProcesses)};
  number = size() + static_cast<int>(index);
  Member member;
  member.host = process.host;
  member.machine = fmt::format("of another job, {}", number);
  member.pid = process.pid;
  member.first_on_host = number;
  if (index == foreign_.size()) {
    foreign_.push_back(process);
    members_.push_back(std::move(member));
  } else {
    foreign_[index] = process;
    members_[static_cast<std::size_t>(number)] = std::move(member);
  }
  return {};
}

void Members::remove_foreign(int number) {
  const std::lock_guard lock(foreign_mutex_);
  foreign_[index_of(number)].name.job = 0;
}

int Members::find_foreign(std::uint64_t job, int rank) const noexcept {
  const std::lock_guard lock(foreign_mutex_);
  for (std::size_t i = 0; i < foreign_.size(); ++i)
    if (foreign_[i].name == ProcessName{job, rank}) return size() + static_cast<int>(i);
  return -1;
}

ProcessName Members::name_of(int number) const noexcept {
  if (number < size()) return {id_, number};
  const std::lock_guard lock(foreign_mutex_);
  return foreign_[index_of(number)].name;
}

std::string Members::describe(int rank) const {
  if (rank >= size()) {
    const std::lock_guard lock(foreign_mutex_);
    if (index_of(rank) < foreign_.size()) {
      const ForeignProcess& other = foreign_[index_of(rank)];
      return fmt::format("rank {} of another job (pid {} on {})", other.name.rank, other.pid,
                         other.host);
    }
  }
  if (rank < 0 || rank >= size()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} (pid {} on {})", rank, member(rank).pid, member(rank).host);
}

}  // namespace weft
