// Starting processes (MPI 5.0 section 11.8): the root opens a port and has the programs started as
// a job of their own, whose MPI_Init connects to it.
#include "job/spawn.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <charconv>
#include <climits>
#include <fstream>

#include "job/boards.hpp"
#include "mpi/comm/members.hpp"
#include "mpi/dynamic/name_server.hpp"
#include "mpi/dynamic/port.hpp"

namespace weft::mpi {
namespace {

// For the wait for the spawned processes: ends it when they have ended.
class SpawnWatch final : public MembersWatch {
 public:
  SpawnWatch(const Comm& comm, Spawned& spawned) : MembersWatch(comm), spawned_(spawned) {}
  Status check() override {
    if (Status status = MembersWatch::check(); !status) return status;
    const std::unique_lock lock(board_mutex, std::try_to_lock);
    return lock.owns_lock() ? spawned_.check() : Status();
  }

 private:
  Spawned& spawned_;
};

std::string_view next_part(std::string_view& rest, char letter) {
  const std::string_view part = rest.substr(0, rest.find(letter));
  rest.remove_prefix(std::min(rest.size(), part.size() + 1));
  return part;
}

bool read_number(std::string_view text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

// Returns the largest number of a soft specification, "a,b:c,d:e:f", that is at most `most`; -1: it
// is no such specification, 0: there is no such number.
int largest_of(std::string_view soft, int most) {
  int best = 0;
  while (!soft.empty()) {
    std::string_view triple = next_part(soft, ',');
    int first = 0, last = 0, step = 1;
    if (!read_number(next_part(triple, ':'), first)) return -1;
    last = first;
    if (!triple.empty() && !read_number(next_part(triple, ':'), last)) return -1;
    if (!triple.empty() && (!read_number(triple, step) || step == 0)) return -1;
    for (long n = first; step > 0 ? n <= std::min(last, most) : n >= last; n += step)
      if (n <= most) best = std::max(best, static_cast<int>(n));
  }
  return best;
}

// Reads lines "key = value" of a file, for keys that the program has not set itself.
Status read_file(const std::string& path, Info& info) {
  std::ifstream file(path);
  if (!file) return {Code::not_found, fmt::format("the info's file {} cannot be read", path)};
  const auto trim = [](std::string text) {
    const std::size_t begin = text.find_first_not_of(" \t");
    if (begin == std::string::npos) return std::string();
    return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
  };
  for (std::string line; std::getline(file, line);) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos || trim(line).starts_with('#')) continue;
    const std::string key = trim(line.substr(0, equals));
    if (info.find(key) == nullptr) info.set(key, trim(line.substr(equals + 1)));
  }
  return {};
}

// One command, as the arguments of MPI_Comm_spawn.
struct Command {
  const char* program;
  char** arguments;
  int most;
  MPI_Info info;
};

// Adds a command. The folder, path and hosts of the first command's info hold for all: a job has
// one of each.
Status add_command(const Command& command, SpawnRequest& request) {
  if (command.program == nullptr || command.program[0] == '\0')
    return {Code::bad_argument, "the command is null or empty"};
  if (command.most < 1) return {Code::bad_argument, "maxprocs is not positive"};
  const Info* given = find_info(command.info);
  if (given == nullptr && command.info != MPI_INFO_NULL)
    return {Code::bad_argument, "info is no info"};
  Info info;
  if (given != nullptr) info.pairs = given->pairs;
  if (const std::string* file = info.find("file"); file != nullptr)
    if (Status status = read_file(std::string(*file), info); !status) return status;
  const auto value = [&info](const char* key) {
    const std::string* found = info.find(key);
    return found == nullptr ? std::string() : *found;
  };
  SpawnRequest::Program program;
  program.num = command.most;
  if (const std::string soft = value("soft"); !soft.empty()) {
    program.num = largest_of(soft, command.most);
    if (program.num < 0)
      return {Code::bad_argument, fmt::format("the info's soft '{}' is no list of numbers", soft)};
    if (program.num == 0)
      return {Code::not_found,
              fmt::format("the info's soft '{}' allows no number up to {}", soft, command.most)};
  }
  program.command.emplace_back(command.program);
  for (char** word = command.arguments; word != MPI_ARGV_NULL && *word != nullptr; ++word)
    program.command.emplace_back(*word);
  if (request.programs.empty()) {
    request.folder = value("wdir");
    request.path = value("path");
    request.hosts = value("host");
    if (request.hosts.empty()) request.hosts = value("hosts");
  }
  if (const std::string handler = value("mpi_initial_errhandler"); !handler.empty()) {
    if (!find_errhandler(handler))
      return {Code::bad_argument,
              fmt::format("the info's mpi_initial_errhandler '{}' is none of mpi_errors_abort, "
                          "mpi_errors_are_fatal and mpi_errors_return",
                          handler)};
    request.environment.emplace_back("WEFT_INITIAL_ERRHANDLER", handler);
  }
  const std::string lines = value("weft_env");
  for (std::string_view rest = lines; !rest.empty();) {
    const std::string_view line = next_part(rest, '\n');
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || equals == 0)
      return {Code::bad_argument,
              fmt::format("the info's weft_env has '{}', which is no NAME=VALUE", line)};
    request.environment.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  request.programs.push_back(std::move(program));
  return {};
}

// On the root: starts the processes, with a port for this call alone, so that processes that
// connect to it are known to be the spawned ones.
Status start(std::span<const Command> commands, const Comm& comm, std::unique_ptr<Port>& port,
             std::unique_ptr<Pipe>& pipe) {
  SpawnRequest request;
  for (const Command& command : commands)
    if (Status status = add_command(command, request); !status) return status;
  char folder[PATH_MAX];
  if (request.folder.empty() && getcwd(folder, sizeof folder) != nullptr) request.folder = folder;
  if (Status status = Port::open(port); !status) return status;
  request.environment.emplace_back(kParentVariable, port->name());
  std::unique_ptr<Spawned> spawned;
  {
    const std::lock_guard lock(board_mutex);
    if (Status status = engine->job().board().spawn(request, spawned); !status) return status;
  }
  SpawnWatch watch(comm, *spawned);
  const auto timeout_ms = engine->job().settings().ms(Setting::start_timeout_ms);
  Status status = port->accept(watch, timeout_ms, pipe);
  if (status == Code::timed_out)
    status = {Code::timed_out,
              fmt::format("the processes have not all called MPI_Init within {} ms", timeout_ms)};
  if (status) return {};
  const std::lock_guard lock(board_mutex);
  spawned->give_up();
  return status;
}

int spawn(std::span<const Command> commands, int root, MPI_Comm handle, MPI_Comm* intercomm,
          int* codes, const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) return raise(nullptr, MPI_ERR_COMM, function);
  if (comm->is_inter()) return raise(comm, MPI_ERR_COMM, function, "an intercommunicator");
  if (intercomm == nullptr) return raise(comm, MPI_ERR_ARG, function, "intercomm is null");
  *intercomm = MPI_COMM_NULL;
  if (is_revoked(*comm)) return raise(comm, MPIX_ERR_REVOKED, function);
  if (root < 0 || root >= comm->size()) return raise(comm, MPI_ERR_ROOT, function);
  std::unique_ptr<Port> port;
  std::unique_ptr<Pipe> pipe;
  Status started;
  // There are as many error codes as processes in all commands; only the root knows their number.
  int num = 0;
  if (comm->rank == root)
    for (const Command& command : commands) num += std::max(command.most, 0);
  if (Status sent = coll::bcast(*comm->team, &num, sizeof num, root); !sent)
    return raise_status(comm, sent, function);
  if (comm->rank == root) started = start(commands, *comm, port, pipe);
  Comm* made = nullptr;
  const Status status = introduce(*comm, root, pipe.get(), made, started);
  if (codes != MPI_ERRCODES_IGNORE)
    for (int i = 0; i < num; ++i)
      codes[i] = status.ok() && i < made->remote->size() ? MPI_SUCCESS : MPI_ERR_SPAWN;
  if (!status) {
    const bool is_own = status == Code::peer_lost || status == Code::no_memory;
    return raise(comm, is_own ? error_class(status.code()) : MPI_ERR_SPAWN, function,
                 status.text());
  }
  *intercomm = made->handle;
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Comm_spawn)
(const char* command, char* argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm,
 MPI_Comm* intercomm, int array_of_errcodes[]) {
  const Command one{command, argv, maxprocs, info};
  return spawn({&one, 1}, root, comm, intercomm, array_of_errcodes, __func__);
}

MPI_FUNCTION(Comm_spawn_multiple)
(int count, char* array_of_commands[], char** array_of_argv[], const int array_of_maxprocs[],
 const MPI_Info array_of_info[], int root, MPI_Comm comm, MPI_Comm* intercomm,
 int array_of_errcodes[]) {
  std::vector<Command> commands;
  Comm* object = find_comm(comm);
  if (object != nullptr && object->rank == root) {
    if (count < 1 || array_of_commands == nullptr || array_of_maxprocs == nullptr ||
        array_of_info == nullptr)
      return raise(object, MPI_ERR_ARG, __func__, "count is not positive, or an array is null");
    for (int i = 0; i < count; ++i)
      commands.push_back({array_of_commands[i],
                          array_of_argv == MPI_ARGVS_NULL ? MPI_ARGV_NULL : array_of_argv[i],
                          array_of_maxprocs[i], array_of_info[i]});
  }
  return spawn(commands, root, comm, intercomm, array_of_errcodes, __func__);
}
