#include "counts.hpp"

#include <time.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace weft::profile {
namespace {

// The counts of one thread, kept when it ends.
struct Counts {
  std::array<std::atomic<Row*>, kNumFunctions> rows{};
};

constexpr std::size_t kMostJoined = 4096;

using JoinedKey = std::tuple<std::size_t, std::uint64_t, int>;  // function, group, root
struct JoinedSum {
  std::size_t label = 0;
  std::uint64_t calls = 0, ns = 0;
};

// A persistent send. Its communicator may be freed before it starts.
struct Persistent {
  int world;  // rank in MPI_COMM_WORLD
  std::uint64_t bytes;
};

struct Shared {
  std::mutex mutex;
  std::deque<std::unique_ptr<Counts>> threads;
  std::unordered_map<MPI_Comm, std::shared_ptr<Communicator>> communicators;
  std::unordered_map<std::uint64_t, std::uint64_t> num_made;  // communicators, by family
  std::map<JoinedKey, JoinedSum> joined;
  std::map<std::string, std::size_t> labels;
  std::vector<std::string> label_names{"", "others"};  // 0: calls without a communicator
  std::unordered_map<MPI_Request, Persistent> persistent;
  std::atomic<std::uint64_t> num_forgotten{0};
  bool has_world = false;
  // By rank of MPI_COMM_WORLD; shared by all threads.
  std::vector<std::atomic<std::uint64_t>> messages, bytes;
};

// Never destroyed: threads of the program may outlive the end of main.
Shared& shared() {
  static Shared* const all = new Shared;
  return *all;
}

thread_local Counts* own = nullptr;

Counts& own_counts() {
  if (own == nullptr) {
    const std::lock_guard lock(shared().mutex);
    own = shared().threads.emplace_back(std::make_unique<Counts>()).get();
  }
  return *own;
}

// Returns the label, with the mutex held. Communicators with equal names and numbers of members
// share one line of the report: programs make and free the same communicator again and again.
std::size_t label_of(MPI_Comm comm, int size) {
  char name[MPI_MAX_OBJECT_NAME + 1] = "";
  int length = 0;
  if (PMPI_Comm_get_name(comm, name, &length) != MPI_SUCCESS) name[0] = '\0';
  std::string text = name[0] != '\0' ? name : "unnamed";
  if (comm != MPI_COMM_WORLD && comm != MPI_COMM_SELF) text += " of " + std::to_string(size);
  auto& names = shared().label_names;
  const auto [at, is_new] = shared().labels.try_emplace(text, names.size());
  if (is_new) {
    if (names.size() == kNumLabels)
      at->second = 1;
    else
      names.push_back(std::move(text));
  }
  return at->second;
}

// Mixes a number into a hash (splitmix64).
std::uint64_t mixed(std::uint64_t hash, std::uint64_t number) {
  std::uint64_t x = hash + number * 0x9e3779b97f4a7c15 + 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Returns the members' ranks in MPI_COMM_WORLD; MPI_UNDEFINED for those outside it.
std::vector<int> world_ranks(MPI_Group group) {
  int size = 0;
  PMPI_Group_size(group, &size);
  std::vector<int> ranks(static_cast<std::size_t>(size)), found(ranks.size());
  for (int i = 0; i < size; ++i) ranks[static_cast<std::size_t>(i)] = i;
  MPI_Group world = MPI_GROUP_NULL;
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  PMPI_Group_translate_ranks(group, size, ranks.data(), world, found.data());
  PMPI_Group_free(&world);
  return found;
}

std::uint64_t hash_of(const std::vector<int>& ranks) {
  std::uint64_t hash = ranks.size();
  for (const int rank : ranks) hash = mixed(hash, static_cast<std::uint64_t>(rank));
  return hash;
}

// Returns what is known of the communicator, with the mutex held.
std::shared_ptr<Communicator> inspect(MPI_Comm comm) {
  auto made = std::make_shared<Communicator>();
  int is_inter = 0;
  MPI_Group group = MPI_GROUP_NULL;
  PMPI_Comm_test_inter(comm, &is_inter);
  (is_inter ? PMPI_Comm_remote_group : PMPI_Comm_group)(comm, &group);
  PMPI_Group_size(group, &made->size);
  if (shared().has_world) {
    made->world = world_ranks(group);
    made->group = hash_of(made->world);
    made->is_inter = is_inter != 0;
    if (made->is_inter) {  // the same on both sides
      MPI_Group own = MPI_GROUP_NULL;
      PMPI_Comm_group(comm, &own);
      made->group += hash_of(world_ranks(own));
      PMPI_Group_free(&own);
    }
  }
  PMPI_Group_free(&group);
  return made;
}

// With the mutex held.
const std::shared_ptr<Communicator>& known(MPI_Comm comm) {
  std::shared_ptr<Communicator>& at = shared().communicators[comm];
  if (at == nullptr) at = inspect(comm);
  return at;
}

}  // namespace

int world_rank(const Communicator& comm, int rank) noexcept {
  if (rank < 0 || static_cast<std::size_t>(rank) >= comm.world.size()) return MPI_UNDEFINED;
  return comm.world[static_cast<std::size_t>(rank)];
}

const Communicator* find(MPI_Comm comm) {
  struct Last {
    MPI_Comm comm = MPI_COMM_NULL;
    const Communicator* found = nullptr;
    std::uint64_t num_forgotten = 0;
  };
  thread_local Last last;
  Shared& all = shared();
  const std::uint64_t num_forgotten = all.num_forgotten.load(std::memory_order_acquire);
  if (last.comm == comm && last.num_forgotten == num_forgotten) return last.found;
  const std::lock_guard lock(all.mutex);
  last = {comm, known(comm).get(), num_forgotten};
  return last.found;
}

static std::size_t label_for(MPI_Comm comm) {
  const Communicator& of = *find(comm);
  const std::size_t known = of.label.load(std::memory_order_relaxed);
  if (known != kNumLabels) return known;
  const std::lock_guard lock(shared().mutex);
  const std::size_t label = label_of(comm, of.size);
  of.label.store(label, std::memory_order_relaxed);
  return label;
}

std::shared_ptr<const Communicator> find_shared(MPI_Comm comm) {
  const std::lock_guard lock(shared().mutex);
  return known(comm);
}

void note_made(MPI_Comm comm, MPI_Comm parent) noexcept try {
  const std::lock_guard lock(shared().mutex);
  if (comm == MPI_COMM_NULL || !shared().has_world) return;
  Communicator& made = *known(comm);
  if (made.key != 0) return;
  // All members make the communicators of one group from one other in the same order; both sides of
  // an intercommunicator have made it from different ones.
  std::uint64_t family = made.group;
  if (parent != MPI_COMM_NULL)
    if (const Communicator& from = *known(parent); from.is_inter || !made.is_inter)
      family = mixed(family, from.key);
  made.key = mixed(family, ++shared().num_made[family]) | 1;
} catch (const std::bad_alloc&) {
  // Its messages are not paired.
}

void note_joined(std::size_t function, MPI_Comm comm, int root, std::uint64_t ns) noexcept try {
  const Communicator& among = *find(comm);
  // The root of an intercommunicator is no member of the group that waits for it.
  if (among.is_inter ? root != kNoRoot : among.size == 1) return;
  if (root != kNoRoot) root = world_rank(among, root);
  const std::size_t label = label_for(comm);
  const std::lock_guard lock(shared().mutex);
  auto& joined = shared().joined;
  const JoinedKey key(function, among.group, root);
  auto at = joined.find(key);
  if (at == joined.end()) {
    if (joined.size() == kMostJoined) return;
    at = joined.emplace(key, JoinedSum{label}).first;
  }
  at->second.calls += 1;
  at->second.ns += ns;
} catch (const std::bad_alloc&) {
  // Not counted either.
}

std::uint64_t now_ns() noexcept {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

void note_call(std::size_t function, MPI_Comm comm, std::uint64_t ns, std::uint64_t bytes) noexcept
    try {
  std::atomic<Row*>& row = own_counts().rows[function];
  if (row.load(std::memory_order_relaxed) == nullptr)
    row.store(new Row[1], std::memory_order_release);
  const std::size_t label = comm == MPI_COMM_NULL ? 0 : label_for(comm);
  Cell& cell = (*row.load(std::memory_order_relaxed))[label];
  cell.calls.add(1);
  cell.ns.add(ns);
  cell.longest_ns.raise_to(ns);
  cell.bytes.add(bytes);
} catch (const std::bad_alloc&) {
  // Not counted: the program itself is about to get the error.
}

static void note_to_world(int world, std::uint64_t bytes) noexcept {
  if (world == MPI_UNDEFINED) return;
  shared().messages[static_cast<std::size_t>(world)].fetch_add(1, std::memory_order_relaxed);
  shared().bytes[static_cast<std::size_t>(world)].fetch_add(bytes, std::memory_order_relaxed);
}

void note_message(MPI_Comm comm, int rank, std::uint64_t bytes) noexcept try {
  note_to_world(world_rank(*find(comm), rank), bytes);
} catch (const std::bad_alloc&) {
  // Not counted either.
}

void note_persistent(MPI_Request request, MPI_Comm comm, int rank, std::uint64_t bytes) noexcept
    try {
  const int world = world_rank(*find(comm), rank);
  const std::lock_guard lock(shared().mutex);
  shared().persistent[request] = {world, bytes};
} catch (const std::bad_alloc&) {
  // Not counted either.
}

void note_start(MPI_Request request) noexcept {
  Persistent found{};
  {
    const std::lock_guard lock(shared().mutex);
    const auto at = shared().persistent.find(request);
    if (at == shared().persistent.end()) return;
    found = at->second;
  }
  note_to_world(found.world, found.bytes);
}

void forget_persistent(MPI_Request request) noexcept {
  const std::lock_guard lock(shared().mutex);
  shared().persistent.erase(request);
}

void forget(MPI_Comm comm) noexcept {
  const std::lock_guard lock(shared().mutex);
  shared().communicators.erase(comm);
  // release: pairs with the acquire in find.
  shared().num_forgotten.fetch_add(1, std::memory_order_release);
}

void rename(MPI_Comm comm) noexcept try {
  const std::lock_guard lock(shared().mutex);
  const auto at = shared().communicators.find(comm);
  if (at == shared().communicators.end() || at->second->label == kNumLabels) return;
  at->second->label.store(label_of(comm, at->second->size), std::memory_order_relaxed);
} catch (const std::bad_alloc&) {
  // The communicator keeps its old label.
}

void begin_world(int size) {
  {
    const std::lock_guard lock(shared().mutex);
    shared().messages = std::vector<std::atomic<std::uint64_t>>(static_cast<std::size_t>(size));
    shared().bytes = std::vector<std::atomic<std::uint64_t>>(static_cast<std::size_t>(size));
    shared().has_world = true;
  }
  note_made(MPI_COMM_WORLD, MPI_COMM_NULL);
  note_made(MPI_COMM_SELF, MPI_COMM_NULL);
}

void end_world() noexcept {
  const std::lock_guard lock(shared().mutex);
  shared().has_world = false;
}

std::vector<Line> lines() {
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  std::vector<Line> made;
  for (std::size_t function = 0; function < kNumFunctions; ++function)
    for (std::size_t label = 0; label < all.label_names.size(); ++label) {
      Line line{kFunctionNames[function], all.label_names[label]};
      for (const auto& thread : all.threads) {
        const Row* row = thread->rows[function].load(std::memory_order_acquire);
        if (row == nullptr) continue;
        const Cell& cell = (*row)[label];
        line.calls += cell.calls.get();
        line.ns += cell.ns.get();
        line.longest_ns = std::max(line.longest_ns, cell.longest_ns.get());
        line.bytes += cell.bytes.get();
      }
      if (line.calls != 0) made.push_back(std::move(line));
    }
  return made;
}

std::vector<Sent> sent() {
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  std::vector<Sent> made(all.messages.size());
  for (std::size_t i = 0; i < made.size(); ++i)
    made[i] = {all.messages[i].load(std::memory_order_relaxed),
               all.bytes[i].load(std::memory_order_relaxed)};
  return made;
}

std::vector<Joined> joined() {
  const std::lock_guard lock(shared().mutex);
  std::vector<Joined> made;
  for (const auto& [key, sum] : shared().joined)
    made.push_back({kFunctionNames[std::get<0>(key)], shared().label_names[sum.label],
                    std::get<1>(key), std::get<2>(key), sum.calls, sum.ns});
  return made;
}

}  // namespace weft::profile
