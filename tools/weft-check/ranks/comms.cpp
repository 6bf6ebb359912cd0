#include "tools/weft-check/ranks/comms.hpp"

#include <fmt/core.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "tools/weft-check/lock.hpp"

namespace weft::check {
namespace {

constexpr std::size_t kMostEnded = 4096;

struct Comms {
  std::mutex mutex;
  std::unordered_map<MPI_Comm, std::shared_ptr<Comm>> all;
  std::deque<std::shared_ptr<Comm>> ended;  // of late, as other threads may be in calls with them
  std::atomic<std::uint64_t> num_changes{0};
};
Comms& comms() {
  static Comms& all = *new Comms;
  return all;
}

std::vector<int> world_ranks(MPI_Group group) {
  int size = 0;
  MPI_Group world = MPI_GROUP_NULL;
  std::vector<int> result;
  if (PMPI_Group_size(group, &size) != MPI_SUCCESS ||
      PMPI_Comm_group(MPI_COMM_WORLD, &world) != MPI_SUCCESS)
    return result;
  std::vector<int> ranks(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i) ranks[static_cast<std::size_t>(i)] = i;
  result.resize(ranks.size());
  PMPI_Group_translate_ranks(group, size, ranks.data(), world, result.data());
  for (int& rank : result)
    if (rank < 0) rank = -1;  // MPI_UNDEFINED: of another job
  PMPI_Group_free(&world);
  return result;
}

void read_name(MPI_Comm handle, Comm& comm) {
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  PMPI_Comm_get_name(handle, name, &length);
  comm.name.assign(name, static_cast<std::size_t>(length));
}

std::shared_ptr<Comm> describe(MPI_Comm handle) {
  auto comm = std::make_shared<Comm>();
  int is_inter = 0;
  MPI_Group group = MPI_GROUP_NULL;
  PMPI_Comm_test_inter(handle, &is_inter);
  PMPI_Comm_rank(handle, &comm->rank);
  comm->is_inter = is_inter != 0;
  PMPI_Comm_group(handle, &group);
  comm->locals = world_ranks(group);
  PMPI_Group_free(&group);
  if (comm->is_inter) {
    PMPI_Comm_remote_group(handle, &group);
    comm->world = world_ranks(group);
    PMPI_Group_free(&group);
  } else {
    comm->world = comm->locals;
  }
  read_name(handle, *comm);
  if (handle == MPI_COMM_WORLD) comm->number = 1;
  if (handle == MPI_COMM_SELF) comm->number = 2;
  return comm;
}

// An error of these calls would go to the program's error handler; a handle that is not valid is
// the business of the call that the program makes with it.
bool is_valid(MPI_Comm handle) {
  int is_running = 0, is_over = 0;
  PMPI_Initialized(&is_running);
  PMPI_Finalized(&is_over);
  return handle != MPI_COMM_NULL && is_running != 0 && is_over == 0;
}

}  // namespace

Comm* comm_of(MPI_Comm handle) {
  struct Last {
    MPI_Comm handle = MPI_COMM_NULL;
    std::uint64_t num_changes = 0;
    Comm* comm = nullptr;
  };
  static thread_local Last last;
  Comms& all = comms();
  const std::uint64_t now = all.num_changes.load(std::memory_order_relaxed);
  if (last.handle == handle && last.num_changes == now) return last.comm;
  {
    const Lock lock(all.mutex);
    const auto at = all.all.find(handle);
    if (at != all.all.end()) {
      last = {handle, now, at->second.get()};
      return at->second.get();
    }
  }
  // All others have been added when they were made.
  if ((handle != MPI_COMM_WORLD && handle != MPI_COMM_SELF) || !is_valid(handle)) return nullptr;
  auto comm = describe(handle);
  const Lock lock(all.mutex);
  return all.all.emplace(handle, std::move(comm)).first->second.get();
}

void forget_comm(MPI_Comm handle) {
  Comms& all = comms();
  const Lock lock(all.mutex);
  const auto at = all.all.find(handle);
  if (at == all.all.end()) return;
  all.ended.push_back(std::move(at->second));
  if (all.ended.size() > kMostEnded) all.ended.pop_front();
  all.all.erase(at);
  ++all.num_changes;
}

std::uint32_t mixed(std::uint32_t first, std::uint32_t second) {
  std::uint64_t both = (std::uint64_t{first} << 32 | second) + 0x9e3779b97f4a7c15ull;
  both = (both ^ both >> 30) * 0xbf58476d1ce4e5b9ull;
  both = (both ^ both >> 27) * 0x94d049bb133111ebull;
  const auto result = static_cast<std::uint32_t>(both ^ both >> 31);
  return result < 16 ? result + 16 : result;
}

std::uint32_t next_number(MPI_Comm parent, std::uint32_t how) {
  Comm* const comm = comm_of(parent);
  if (comm == nullptr || comm->number == 0) return 0;
  const Lock lock(comms().mutex);
  return mixed(comm->number, how != 0 ? how : ++comm->num_made);
}

void add_comm_with(std::uint32_t number, MPI_Comm made) {
  if (made == MPI_COMM_NULL) return;
  auto comm = describe(made);
  comm->number = number;
  const Lock lock(comms().mutex);
  comms().all[made] = std::move(comm);
  ++comms().num_changes;
}

void add_comm(MPI_Comm parent, MPI_Comm made, std::uint32_t how) {
  add_comm_with(next_number(parent, how), made);
}

std::uint32_t times_made(std::uint32_t how) {
  static std::unordered_map<std::uint32_t, std::uint32_t>& all =
      *new std::unordered_map<std::uint32_t, std::uint32_t>;
  const Lock lock(comms().mutex);
  return ++all[how];
}

void rename_comm(MPI_Comm handle) {
  if (Comm* const comm = comm_of(handle)) {
    const Lock lock(comms().mutex);
    read_name(handle, *comm);
  }
}

std::string text_of(const Comm& comm) {
  if (comm.name.empty()) return "a communicator without name";
  if (comm.number == 1 || comm.number == 2) return comm.name;
  return fmt::format("communicator \"{}\"", comm.name);
}

}  // namespace weft::check
