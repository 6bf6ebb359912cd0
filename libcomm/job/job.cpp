#include "job/job.hpp"

#include <fmt/core.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <utility>

#include "base/log.hpp"
#include "job/boards.hpp"

namespace weft {
namespace {

constexpr std::string_view kMemberKey = "job.member";

constexpr char kApart = '#';

std::string_view machine_of(std::string_view host_id) {
  return host_id.substr(0, host_id.find(kApart));
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

std::string link_target(const char* path) {
  char target[128];
  const ssize_t length = readlink(path, target, sizeof target);
  return length < 0 ? "?" : std::string(target, static_cast<std::size_t>(length));
}

// Memory is shared by opening /proc/PID/fd of the other process. That needs the same running
// kernel, the same numbering of processes, the same user, and rights in the same user namespace.
std::string host_identity() {
  std::string boot = "?";
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return fmt::format("{}/{}/{}/{}", boot, link_target("/proc/self/ns/pid"),
                     link_target("/proc/self/ns/user"), geteuid());
}

std::string encode_member(const Member& member) {
  return fmt::format("{}\n{}\n{}", member.pid, member.host, member.host_id);
}

bool decode_member(std::string_view text, Member& member) {
  const std::size_t first = text.find('\n');
  if (first == std::string_view::npos) return false;
  const std::size_t second = text.find('\n', first + 1);
  if (second == std::string_view::npos) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + first, member.pid);
  if (error != std::errc{} || end != text.data() + first || member.pid <= 0) return false;
  member.host = text.substr(first + 1, second - first - 1);
  member.host_id = text.substr(second + 1);
  return !member.host.empty() && !member.host_id.empty();
}

// A launcher that speaks no PMIx has started several processes, which cannot find each other: a job
// of each is seldom what was meant. The first process says so.
void warn_of_unknown_launcher() {
  for (const auto& [size, rank] :
       {std::pair("PMI_SIZE", "PMI_RANK"), std::pair("SLURM_STEP_NUM_TASKS", "SLURM_PROCID")}) {
    const char* size_text = getenv(size);
    const char* rank_text = getenv(rank);
    if (size_text == nullptr || rank_text == nullptr || atoi(size_text) <= 1) continue;
    if (atoi(rank_text) == 0)
      log_line(
          LogLevel::warn, -1,
          "the launcher (which set {}={}) speaks no PMIx, so each of its processes is a job of "
          "one; start them with weftrun, Open MPI's mpirun or srun --mpi=pmix",
          size, size_text);
    return;
  }
}

Status make_board(const Settings& settings, Party party, std::unique_ptr<Board>& board) {
  // WEFT_RENDEZVOUS first: weftrun may run inside another launcher's process.
  RendezvousPlace place;
  Status status = read_rendezvous_place(place);
  if (status) {
    place.party = party;
    place.close_timeout_ms = static_cast<int>(settings.number(Setting::peer_timeout_ms));
    return make_rendezvous_board(
        place, static_cast<int>(settings.number(Setting::start_timeout_ms)), board);
  }
  if (status.code() != Code::not_found) return status;
  if (pmix_is_there()) return make_pmix_board(party, board);
  warn_of_unknown_launcher();
  board = make_alone_board();
  return {};
}

}  // namespace

Status Job::open(const Settings& settings, std::unique_ptr<Job>& job, Party party) {
  log::set_level(static_cast<LogLevel>(settings.number(Setting::log)));
  std::unique_ptr<Board> board;
  Status status = make_board(settings, party, board);
  if (!status) return status;
  return open(settings, std::move(board), job);
}

Status Job::open(const Settings& settings, std::unique_ptr<Board> board,
                 std::unique_ptr<Job>& job) {
  std::unique_ptr<Job> opened(new Job(settings, std::move(board)));
  Status status = opened->exchange_members();
  if (!status) return status;
  job = std::move(opened);
  return {};
}

Status Job::exchange_members() {
  Member self;
  self.host = host_name();
  self.host_id = host_identity();
  // Told not to share memory, a process is a host of its own, to the layers above too.
  if (!list_has(settings_.text(Setting::fabric), "shm"))
    self.host_id += fmt::format("{}{}", kApart, rank());
  self.pid = getpid();
  Status status = board_->put(kMemberKey, encode_member(self));
  if (!status) return status;
  status = board_->fence(static_cast<int>(settings_.number(Setting::start_timeout_ms)));
  if (!status) return status;

  members_.resize(static_cast<std::size_t>(size()));
  for (int i = 0; i < size(); ++i) {
    Member& member = members_[static_cast<std::size_t>(i)];
    std::string text;
    status = board_->get(i, kMemberKey, text);
    if (!status) return status;
    if (!decode_member(text, member))
      return {Code::corrupt, fmt::format("rank {} describes itself with \"{}\"", i, text)};
    // Quadratic at worst, but in practice a walk to the previous process of the same host.
    for (int j = i - 1; j >= 0; --j) {
      if (!same_host(i, j)) continue;
      member.local_rank = this->member(j).local_rank + 1;
      break;
    }
  }
  for (int i = 0; i < size(); ++i)
    if (same_host(i, rank())) local_ranks_.push_back(i);
  num_on_host_ = 0;
  for (const Member& other : members_)
    num_on_host_ += machine_of(other.host_id) == machine_of(member(rank()).host_id);
  return {};
}

std::string Job::describe(int rank) const {
  if (rank < 0 || rank >= size()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} (pid {} on {})", rank, member(rank).pid, member(rank).host);
}

}  // namespace weft
