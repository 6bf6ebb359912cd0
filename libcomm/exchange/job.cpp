// Job: joining and leaving, memory, collective calls.
#include "weft/job.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>

#include "base/log.hpp"
#include "base/os/descriptor.hpp"
#include "base/shortage.hpp"
#include "base/trace.hpp"
#include "exchange/job_impl.hpp"
#include "fabric/registry.hpp"
#include "job/boards.hpp"
#include "lanes/linked/remote_lanes.hpp"

extern char** environ;

namespace weft::transport {
namespace {

void run_background(bool /*before_sleep*/) {
  if (const Background* work = background) work->work(work->argument);
}

Settings read_settings() {
  Settings settings;
  if (Status status = Settings::from_environment(environ, settings); !status) throw Error(status);
  return settings;
}

std::unique_ptr<weft::Members> open_members(const Settings& settings) {
  std::unique_ptr<weft::Members> members;
  if (Status status = weft::Members::open(settings, members, Party::transport); !status)
    throw Error(status);
  return members;
}

std::unique_ptr<weft::Members> open_members(const Settings& settings,
                                            std::unique_ptr<Board> board) {
  std::unique_ptr<weft::Members> members;
  if (Status status = weft::Members::open(settings, std::move(board), members); !status)
    throw Error(status);
  return members;
}

// Descriptors of a rank without its peers: for the waits of its fabrics, and for its memory.
constexpr std::size_t kRankDescriptors = 12;

// Ranks without descriptors for their links would wait for each other forever.
Status find_descriptors(const Settings& settings, std::size_t num_ranks) {
  const std::size_t limit = raise_descriptor_limit(), used = num_open_descriptors();
  std::size_t of_peer = 0;
  if (!fabric::is_allowed(settings, "shm"))
    for (const fabric::Row& row : fabric::rows())
      if (row.make != nullptr && fabric::is_allowed(settings, row.name))
        of_peer = std::max(of_peer, row.peer_descriptors);
  const std::size_t needed = num_ranks * (kRankDescriptors + (num_ranks - 1) * of_peer);
  if (limit == 0 || used + needed <= limit) return {};
  return {Code::no_memory,
          fmt::format("{} ranks in one process may need {} descriptors, and this one may open {}, "
                      "of which {} are in use: raise the hard limit (ulimit -Hn), or start fewer "
                      "ranks",
                      num_ranks, needed, limit, used)};
}

// The process that has a Job of its own; a forked child has none. 0: no process.
std::atomic<pid_t> process_with_job{0};
}  // namespace

OnlyJob::OnlyJob() {
  const pid_t self = getpid();
  if (process_with_job.exchange(self) == self)
    throw Error({Code::bad_argument,
                 "this process has a Job already: a process joins its job by one Job, which its "
                 "threads share (ranks that are threads of one process: weft::LocalRanks)"});
}
OnlyJob::~OnlyJob() { process_with_job.store(0); }

LocalRanks::LocalRanks(int num_ranks) : impl_(std::make_unique<Impl>()) {
  if (num_ranks < 1) throw Error({Code::bad_argument, "a job has at least one rank"});
  if (Status status = find_descriptors(read_settings(), static_cast<std::size_t>(num_ranks));
      !status)
    throw Error(status);
  impl_->boards = make_thread_boards(num_ranks);
}
LocalRanks::~LocalRanks() = default;

Job::Impl::Impl(std::unique_ptr<weft::Members> opened) : members(std::move(opened)) {
  if (Status status = tagged::Engine::create(*members, engine); !status) throw Error(status);
  fabrics = &engine->fabrics();
  local = &fabrics->local();
  for (int rank = 0; rank < members->size(); ++rank) {
    Lanes* lanes = fabrics->to(rank);
    routes.push_back({lanes, lanes == nullptr ? 0 : lanes->limits().number});
  }
  engine->set_threaded(true);
  engine->set_background(run_background);
  agreement = std::make_unique<Agreement>(*engine);
}

Job::Impl::~Impl() {
  // A rank does not leave while live ranks may still need its memory.
  Status status = barrier();
  while (status == Code::peer_lost) status = barrier();
  if (!status) log_line(LogLevel::info, members->rank(), "leaving the job: {}", status.text());
  for (auto& thread : threads) thread.reset();
  if (status = engine->close(); !status)
    log_line(LogLevel::warn, members->rank(), "leaving the job: {}", status.text());
  agreement.reset();
  engine.reset();
  if (status = members->board().close(); !status)
    log_line(LogLevel::warn, members->rank(), "leaving the job: {}", status.text());
}

Job::Job() try {
  auto only = std::make_unique<OnlyJob>();
  const Settings settings = read_settings();
  impl_ = std::make_unique<Impl>(open_members(settings));
  impl_->only = std::move(only);
  windows_ = impl_->windows.data();
  num_lost_ = &impl_->engine->lost_counter();
} catch (const std::bad_alloc&) {
  throw Error(Code::no_memory);
}

Job::Job(LocalRanks& ranks, int rank) try {
  const Settings settings = read_settings();
  auto& boards = ranks.impl_->boards;
  if (rank < 0 || rank >= static_cast<int>(boards.size()) ||
      !boards[static_cast<std::size_t>(rank)])
    throw Error({Code::bad_argument, fmt::format("there is no rank {}, or it is taken", rank)});
  impl_ = std::make_unique<Impl>(
      open_members(settings, std::move(boards[static_cast<std::size_t>(rank)])));
  windows_ = impl_->windows.data();
  num_lost_ = &impl_->engine->lost_counter();
} catch (const std::bad_alloc&) {
  throw Error(Code::no_memory);
}

Job::~Job() {
  if (!impl_->is_own_process()) (void)impl_.release();
}

int Job::rank() const noexcept { return impl_->members->rank(); }
int Job::size() const noexcept { return impl_->members->size(); }
const std::string& Job::host(int rank) const { return impl_->members->member(rank).host; }
bool Job::same_host(int a, int b) const { return impl_->members->same_host(a, b); }
std::string Job::describe(int rank) const { return impl_->members->describe(rank); }
bool Job::is_alive(int rank) const {
  if (!impl_->has_rank(rank)) return false;
  // From now on the rank is checked, too.
  if (rank != impl_->members->rank()) impl_->engine->watch(rank);
  impl_->engine->check_for_lost();
  return impl_->engine->is_alive(rank);
}

Status Job::Impl::name(void* address, std::size_t bytes, MemoryName made, RemoteMemory& memory) {
  memory = {made.address, bytes, made.address, {}, members->rank()};
  MemoryKey key;
  key.names[0] = {made.region, made.extra};
  set_key(memory, key);
  for (auto* lanes : fabrics->remote()) {
    if (Status status = lanes->share(address, bytes, made); !status) {
      (void)unshare(memory);
      return status;
    }
    const std::size_t index = lanes->limits().number;
    key.names[index] = {made.region, made.extra};
    // Either the owner's address or 0, as the device requires.
    if (made.address != memory.address) key.counted |= 1u << index;
    set_key(memory, key);
  }
  return {};
}

Status Job::Impl::allocate(std::size_t bytes, void*& address, RemoteMemory& memory) {
  MemoryName made{};
  Status status = local->allocate(bytes, address, made);
  if (!status) return status;
  if (status = name(address, bytes, made, memory); !status) {
    (void)local->release(address);
    return status;
  }
  if (fabrics->remote().empty()) return {};
  const std::lock_guard lock(allocated_mutex);
  allocated[address] = memory;
  return {};
}

Status Job::Impl::release(void* address) {
  decltype(allocated)::node_type taken;
  if (!fabrics->remote().empty()) {
    const std::lock_guard lock(allocated_mutex);
    taken = allocated.extract(address);
  }
  // Without the lock, as this may wait for peers, and allocations need not.
  if (taken) (void)unshare(taken.mapped());
  return local->release(address);
}

Status Job::Impl::unshare(const RemoteMemory& memory) {
  const MemoryKey key = key_of(memory);
  Status first = local->unshare(key.memory(memory, 0));
  for (auto* lanes : fabrics->remote()) {
    const MemoryName name = key.memory(memory, lanes->limits().number);
    if (number_of(name) == 0) continue;
    Status status = lanes->unshare(name);
    if (first.ok()) first = status;
  }
  return first;
}

void Job::Impl::poll_remote() noexcept {
  if (fabrics->remote().empty()) return;
  fabrics->watcher()->note_poll();
  for (auto* lanes : fabrics->remote()) lanes->poll();
}

Status Job::allocate(std::size_t bytes, void*& address, RemoteMemory& memory) {
  return or_no_memory([&] { return impl_->allocate(bytes, address, memory); });
}

Status Job::release(void* address) {
  return or_no_memory([&] { return impl_->release(address); });
}

Status Job::share(void* address, std::size_t bytes, RemoteMemory& memory) {
  if (address == nullptr || bytes == 0 || bytes > ~reinterpret_cast<std::uintptr_t>(address))
    return {Code::bad_argument, fmt::format("there are no {} bytes to share", bytes)};
  return or_no_memory([&] {
    MemoryName made{};
    Status status = impl_->local->share(address, bytes, made);
    return status ? impl_->name(address, bytes, made, memory) : status;
  });
}

Status Job::unshare(const RemoteMemory& memory) {
  if (memory.owner != rank()) return {Code::bad_argument, "the memory is another rank's"};
  return or_no_memory([&] { return impl_->unshare(memory); });
}

Status Job::Impl::all_reduce(void* values, std::size_t count, const coll::Reduction& op) {
  const trace::Span span("all_reduce");
  const std::size_t bytes = count * op.element_bytes;
  if (bytes == 0) return {};
  return agreement->run({static_cast<std::byte*>(values), bytes}, [&](coll::Team& team) {
    return coll::allreduce(team, nullptr, values, count, op);
  });
}

template <class BytesOf>
Status Job::Impl::gather(coll::Team& team, const void* mine, void* all, BytesOf&& bytes_of) {
  std::vector<std::size_t> lengths;
  std::vector<std::ptrdiff_t> displacements;
  std::size_t total = 0;
  for (int rank = 0; rank < members->size(); ++rank) {
    if (agreement->has(rank)) {
      lengths.push_back(bytes_of(rank));
      displacements.push_back(static_cast<std::ptrdiff_t>(total));
    }
    total += bytes_of(rank);
  }
  return coll::allgatherv(team, mine, bytes_of(members->rank()), all, lengths.data(),
                          displacements.data());
}

Status Job::Impl::all_gather(const void* mine, void* all, std::size_t bytes) {
  const trace::Span span("all_gather");
  if (bytes == 0) return {};
  const auto size = static_cast<std::size_t>(members->size());
  const std::span result(static_cast<std::byte*>(all), size * bytes);
  return agreement->run(result, [&](coll::Team& team) {
    if (team.size() == members->size()) return coll::allgather(team, mine, all, bytes);
    std::ranges::fill(result, std::byte{});
    return gather(team, mine, all, [bytes](int) { return bytes; });
  });
}

Status Job::barrier() { return impl_->barrier(); }

Status Job::all_reduce_bytes(void* values, std::size_t count, std::size_t element_bytes,
                             void (*apply)(const void*, void*, std::size_t, void*),
                             void* argument) {
  coll::Reduction reduction;
  reduction.apply = apply;
  reduction.argument = argument;
  reduction.element_bytes = element_bytes;
  reduction.commutative = false;
  return impl_->all_reduce(values, count, reduction);
}

Status Job::all_gather_bytes(const void* mine, void* all, std::size_t bytes) {
  return impl_->all_gather(mine, all, bytes);
}

Status Job::all_gather_spans(const void* mine, void* all, const std::vector<std::size_t>& counts,
                             std::size_t element_bytes) {
  // Null would mean "in place".
  static const std::byte nothing{};
  if (mine == nullptr) mine = &nothing;
  const auto bytes_of = [&](int rank) {
    return counts[static_cast<std::size_t>(rank)] * element_bytes;
  };
  // Not run(): a rank without data to wait for may end before another has begun.
  return impl_->agreement->run_loose(
      [&](coll::Team& team) { return impl_->gather(team, mine, all, bytes_of); });
}

}  // namespace weft::transport
