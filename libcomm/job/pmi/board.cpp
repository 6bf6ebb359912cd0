// The board of a process that a launcher with a PMI server started: MPICH's mpiexec.hydra, Slurm's
// srun --mpi=pmi2.
//
// The values that a process puts between two fences travel as one text, cut into pieces that the
// server takes as values; no key is put twice, which servers refuse. Pieces are read at the first
// request for a key of that rank.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <map>
#include <mutex>
#include <utility>

#include "base/log.hpp"
#include "job/boards.hpp"
#include "job/pmi/client.hpp"
#include "job/rendezvous_wire.hpp"

namespace weft {
namespace {

constexpr const char* kSocketVariable = "PMI_FD";
constexpr const char* kAddressVariable = "PMI_PORT";  // host:port, for a connection of one's own
constexpr int kMaxPieces = 1 << 16;

// A process has one connection to its server, which can neither begin again once it has ended nor
// be shared by separate libraries; each library of Weft keeps its own client over it until the
// process ends.
struct PmiProcess {
  std::mutex mutex;
  std::mutex asking;  // held from a question to the launcher to its answer
  std::shared_ptr<pmi::Client> client;
  bool is_closed = false;  // by all boards so far: the process may end
  std::array<int, kNumParties> num_opened{};
};

PmiProcess& pmi_process() {
  static PmiProcess& forever = *new PmiProcess;  // used while the process exits
  return forever;
}

void finalize_pmi_at_exit() {
  const std::lock_guard lock(pmi_process().mutex);
  if (pmi_process().client && pmi_process().is_closed) pmi_process().client->finalize();
}

bool parse_whole(std::string_view text, int least, int most, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && number >= least &&
         number <= most;
}

Status bad_variable(const char* name, const char* value) {
  return {Code::unsupported,
          fmt::format("the launcher has set {}={}, which leads to no PMI server; a program that "
                      "another process of the job starts cannot join it",
                      name, value != nullptr ? value : "")};
}

// The socket that the launcher left open for this process.
Status inherited_socket(int& fd, pmi::ProcessInfo& info) {
  const char* text = getenv(kSocketVariable);
  struct stat about {};
  if (!parse_whole(text, 0, 1 << 30, fd) || fstat(fd, &about) != 0 || !S_ISSOCK(about.st_mode))
    return bad_variable(kSocketVariable, text);
  // Processes that this one starts are no ranks of the job.
  if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return bad_variable(kSocketVariable, text);
  const char* size = getenv("PMI_SIZE");
  const char* rank = getenv("PMI_RANK");
  if (size == nullptr || !parse_whole(size, 1, rendezvous::kMaxRanks, info.size))
    return bad_variable("PMI_SIZE", size);
  if (rank == nullptr || !parse_whole(rank, 0, info.size - 1, info.rank))
    return bad_variable("PMI_RANK", rank);
  return {};
}

// Hydra with -pmi-port: the process connects and sends its number.
Status connected_socket(pmi::Deadline deadline, int& fd, pmi::ProcessInfo& info) {
  const char* text = getenv(kAddressVariable);
  const std::string_view address = text;
  const std::size_t colon = address.rfind(':');
  const char* id = getenv("PMI_ID");
  int number = 0;
  if (colon == std::string_view::npos || id == nullptr ||
      !parse_whole(id, 0, rendezvous::kMaxRanks, number))
    return bad_variable(kAddressVariable, text);
  const std::string host(address.substr(0, colon)), port(address.substr(colon + 1));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0)
    return {Code::not_found,
            fmt::format("the PMI server {} of the launcher: {}", text, gai_strerror(error))};
  int last_error = 0;
  fd = -1;
  for (const addrinfo* one = found; one != nullptr && fd < 0; one = one->ai_next) {
    fd = socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol);
    if (fd >= 0 && connect(fd, one->ai_addr, one->ai_addrlen) == 0) break;
    last_error = errno;
    if (fd >= 0) close(std::exchange(fd, -1));
  }
  freeaddrinfo(found);
  if (fd < 0)
    return {Code::peer_lost,
            fmt::format("the PMI server {} of the launcher: {}", text, strerror(last_error))};
  pmi::Connection connection(fd);
  pmi::Answer answer;
  Status status =
      connection.ask_line(fmt::format("cmd=initack pmiid={}", id), "initack", deadline, answer);
  for (const auto& [name, value] : {std::pair("size", &info.size), std::pair("rank", &info.rank),
                                    std::pair("debug", static_cast<int*>(nullptr))}) {
    if (status) status = connection.receive_line("set", deadline, answer);
    if (status && value != nullptr && !answer.number(name, 0, rendezvous::kMaxRanks, *value))
      status = {Code::corrupt, fmt::format("the launcher's PMI server gives no {}", name)};
  }
  if (status && info.rank >= info.size)
    status = {Code::corrupt, "the launcher's PMI server gives no valid rank and size"};
  if (!status) close(fd);
  return status;
}

Status join_server(pmi::Deadline deadline, std::shared_ptr<pmi::Client>& client) {
  int fd = -1;
  pmi::ProcessInfo info;
  Status status = getenv(kSocketVariable) != nullptr ? inherited_socket(fd, info)
                                                     : connected_socket(deadline, fd, info);
  if (!status) return status;
  std::unique_ptr<pmi::Client> joined;
  // Slurm's server has version 2 as its own, all others version 1.
  const bool second_first = getenv("SLURM_JOB_ID") != nullptr;
  for (const bool second : {second_first, !second_first}) {
    status = second ? pmi::join_version_2(fd, deadline, joined)
                    : pmi::join_version_1(fd, info, deadline, joined);
    if (status.code() != Code::unsupported) break;
  }
  if (status) client = std::move(joined);
  return status;
}

class PmiBoard final : public Board {
 public:
  PmiBoard(std::shared_ptr<pmi::Client> client, Party party, int number, int timeout_ms)
      : client_(std::move(client)),
        prefix_(fmt::format("weft.{}{}", party == Party::mpi ? "m" : "t", number)),
        timeout_ms_(timeout_ms),
        of_ranks_(static_cast<std::size_t>(client_->info().size)) {}

  int rank() const noexcept override { return client_->info().rank; }
  int size() const noexcept override { return client_->info().size; }
  int app_number() const noexcept override { return client_->info().app_number; }
  std::string_view launcher() const noexcept override {
    return client_->info().version == 1 ? "pmi1" : "pmi2";
  }

  Status put(std::string_view key, std::string_view value) override {
    pending_.insert_or_assign(std::string(key), std::string(value));
    return {};
  }
  Status fence(int timeout_ms) override;
  Status get(int rank, std::string_view key, std::string& value) override;
  void abort(int exit_code, std::string_view message) override {
    if (exit_code == kPeerLostCode) usleep(200'000);  // the launcher must learn of that one first
    client_->abort(exit_code, message);
  }
  Status close() override;

 private:
  struct OfRank {
    int num_read = 0;  // fences whose pieces have been read
    std::map<std::string, std::string, std::less<>> values;
  };

  static pmi::Deadline in(int timeout_ms) {
    return std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  }
  std::string piece_key(int fence, int rank, std::size_t piece) const {
    return fmt::format("{}.{}.{}.{}", prefix_, fence, rank, piece);
  }
  Status read(int fence, int rank, OfRank& of_rank);

  const std::shared_ptr<pmi::Client> client_;
  const std::string prefix_;
  const int timeout_ms_;
  int num_fences_ = 0;
  std::map<std::string, std::string, std::less<>> pending_;
  std::vector<OfRank> of_ranks_;
};

Status PmiBoard::fence(int timeout_ms) {
  const std::lock_guard lock(pmi_process().asking);
  const pmi::Deadline deadline = in(timeout_ms);
  std::string body;
  for (const auto& [key, value] : pending_) {
    rendezvous::append_text(body, key);
    rendezvous::append_text(body, value);
  }
  pending_.clear();
  const std::string text = pmi::to_text(body);
  // The first piece begins with the number of all.
  const std::size_t room = client_->info().max_value_bytes - 8;
  const std::size_t num_pieces = std::max<std::size_t>(1, (text.size() + room - 1) / room);
  if (num_pieces > kMaxPieces)
    return {Code::bad_argument, fmt::format("{} bytes are too many for the launcher", body.size())};
  const int number = num_fences_++;
  for (std::size_t i = 0; i < num_pieces; ++i) {
    std::string value = text.substr(std::min(text.size(), i * room), room);
    if (i == 0) value = fmt::format("{}.{}", num_pieces, value);
    Status status = client_->put(piece_key(number, rank(), i), value, deadline);
    if (!status) return status;
  }
  Status status = client_->fence(deadline);
  if (status == Code::timed_out)
    return {Code::timed_out,
            fmt::format("after {} ms some ranks have not come to the fence; PMI servers do not "
                        "report which",
                        timeout_ms)};
  return status;
}

Status PmiBoard::read(int fence, int rank, OfRank& of_rank) {
  const pmi::Deadline deadline = in(timeout_ms_);
  const auto corrupt = [&] {
    return Status(
        Code::corrupt,
        fmt::format("what rank {} has published through the launcher is no text of Weft", rank));
  };
  std::string text;
  Status status = client_->get(piece_key(fence, rank, 0), text, deadline);
  if (!status) return status;
  const std::size_t point = text.find('.');
  int num_pieces = 0;
  if (point == std::string::npos ||
      !parse_whole(std::string_view(text).substr(0, point), 1, kMaxPieces, num_pieces))
    return corrupt();
  text.erase(0, point + 1);
  for (int i = 1; i < num_pieces; ++i) {
    std::string piece;
    status = client_->get(piece_key(fence, rank, static_cast<std::size_t>(i)), piece, deadline);
    if (!status) return status;
    text += piece;
  }
  std::string body;
  if (!pmi::from_text(text, body)) return corrupt();
  rendezvous::BodyReader reader(body);
  while (reader.ok() && !reader.complete()) {
    const std::string key(reader.text());
    const std::string_view value = reader.text();
    if (reader.ok()) of_rank.values.insert_or_assign(key, std::string(value));
  }
  return reader.ok() ? Status() : corrupt();
}

Status PmiBoard::get(int rank, std::string_view key, std::string& value) {
  if (rank < 0 || rank >= size())
    return {Code::not_found, fmt::format("there is no rank {}", rank)};
  const std::lock_guard lock(pmi_process().asking);
  OfRank& of_rank = of_ranks_[static_cast<std::size_t>(rank)];
  for (; of_rank.num_read < num_fences_; ++of_rank.num_read)
    if (Status status = read(of_rank.num_read, rank, of_rank); !status) return status;
  const auto found = of_rank.values.find(key);
  if (found == of_rank.values.end())
    return {Code::not_found, fmt::format("rank {} has published no \"{}\"", rank, key)};
  value = found->second;
  return {};
}

Status PmiBoard::close() {
  const std::lock_guard lock(pmi_process().mutex);
  static const bool is_registered = std::atexit(finalize_pmi_at_exit) == 0;
  pmi_process().is_closed = true;
  if (!is_registered) return {Code::no_memory, "cannot end PMI with the process"};
  return {};
}

}  // namespace

bool pmi_is_there() noexcept {
  return getenv(kSocketVariable) != nullptr || getenv(kAddressVariable) != nullptr;
}

Status make_pmi_board(Party party, int timeout_ms, std::unique_ptr<Board>& board) {
  PmiProcess& all = pmi_process();
  const std::lock_guard lock(all.mutex);
  if (!all.client) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    if (Status status = join_server(deadline, all.client); !status) return status;
  }
  all.is_closed = false;
  const int number = all.num_opened[static_cast<std::size_t>(party)]++;
  board = std::make_unique<PmiBoard>(all.client, party, number, timeout_ms);
  return {};
}

}  // namespace weft
