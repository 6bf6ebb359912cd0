// Making a team's segment: the first member creates it without a name, the others open it through
// /proc/PID/fd/FD, so that nothing is left behind however a process ends.
#include <fcntl.h>
#include <sched.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>

#include "base/log.hpp"
#include "base/os/shared_memory.hpp"
#include "coll/plan/loss_deadline.hpp"
#include "coll/plan/plan_run.hpp"
#include "coll/shm/segment.hpp"
#include "coll/shm/team.hpp"

namespace weft::coll {
namespace {

// With more members the pieces of a bank would get too small.
constexpr int kMaxShmMembers = 1024;
// Long data are passed on in pieces of this size, so that one side writes while the other reads.
constexpr std::size_t kPieceBytes = 32 * 1024;
static_assert(kPieceBytes % kLine == 0 && kPieceBytes <= kBankBytes);

// The first member's message to the others.
struct Offer {
  std::int32_t pid;
  std::int32_t fd;  // -1: none
  std::uint64_t bytes;
  std::uint64_t probe;  // address of a word with the value kProbe, for a trial read
  std::uint64_t crowded;
};
constexpr std::uint64_t kProbe = 0x5765'6674'636f'6c6cu;

void smaller(const void* in, void* inout, std::size_t count, void*) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t value = static_cast<const std::int32_t*>(in)[i];
    std::int32_t& least = static_cast<std::int32_t*>(inout)[i];
    if (value < least) least = value;
  }
}

bool wait_outside(void* object, const WaitCondition& condition) {
  Team& team = *static_cast<Team*>(object);
  tagged::Engine& engine = team.engine();
  if (team.shm()->is_crowded()) {
    // The awaited member is probably not running: yield the core to it, and poll for messages now
    // and then.
    constexpr int kYields = 200;
    for (int i = 1; i <= kYields; ++i) {
      sched_yield();
      if (condition()) return true;
      if (i % 8 != 0) continue;
      engine.progress(team.context());
      if (team.is_interrupted()) return false;
    }
  }
  LossDeadline deadline(team);
  engine.wait_until([&] { return condition() || deadline.has_passed(); }, team.context());
  return condition();
}

void ring_outside(void* object, int member) {
  Team& team = *static_cast<Team*>(object);
  team.engine().ring(team.world(member));
}

// Calls the kernel until all is copied, as it may copy only a part.
template <class Call>
bool copy_all(std::byte* local, std::uint64_t remote, std::size_t bytes, Call&& call) noexcept {
  while (bytes > 0) {
    iovec here{local, bytes};
    iovec there{reinterpret_cast<void*>(static_cast<std::uintptr_t>(remote)), bytes};
    const ssize_t copied = call(&here, &there);
    if (copied <= 0) return false;
    local += copied;
    remote += static_cast<std::uint64_t>(copied);
    bytes -= static_cast<std::size_t>(copied);
  }
  return true;
}

bool read_process(int pid, void* to, std::uint64_t from, std::size_t bytes) noexcept {
  return copy_all(static_cast<std::byte*>(to), from, bytes, [pid](iovec* here, iovec* there) {
    return process_vm_readv(pid, here, 1, there, 1, 0);
  });
}

int pid_of(void* object, int member) {
  Team& team = *static_cast<Team*>(object);
  return team.engine().job().member(team.world(member)).pid;
}

bool read_outside(void* object, int member, void* to, std::uint64_t from, std::size_t bytes) {
  return read_process(pid_of(object, member), to, from, bytes);
}

bool write_outside(void* object, int member, const void* from, std::uint64_t to,
                   std::size_t bytes) {
  const int pid = pid_of(object, member);
  // The kernel only reads from `from`, which iovec cannot express.
  return copy_all(
      static_cast<std::byte*>(const_cast<void*>(from)), to, bytes,
      [pid](iovec* here, iovec* there) { return process_vm_writev(pid, here, 1, there, 1, 0); });
}

bool lives_outside(void* object, int member) {
  Team& team = *static_cast<Team*>(object);
  team.engine().check_for_lost();
  return team.engine().is_alive(team.world(member));
}

}  // namespace

ShmTeam* Team::make_shm() {
  // Allocate everything first: a failure here leaves shm_tried_ unset, and after it all members
  // take part in the agreement.
  auto segment = std::make_unique<ShmSegment>();
  Members& job = engine_.job();
  if (is_local_ && size() <= kMaxShmMembers)
    segment->tree =
        ShmTree::make(size(), [&](int a, int b) { return job.share_cache(world(a), world(b)); });
  if (scratch(kLine) == nullptr) throw std::bad_alloc();
  shm_tried_ = true;
  if (!is_local_ || size() > kMaxShmMembers) return nullptr;
  const std::size_t bytes = ShmTeam::segment_bytes(size());
  Mapping& memory = segment->memory;

  Offer offer{};
  Descriptor file;
  if (rank_ == 0) {
    Status made = make_shared_file("weft-coll", bytes, file);
    if (made) made = memory.map_file(file.get(), bytes);
    if (!made)
      log_line(LogLevel::info, engine_.rank(),
               "no shared memory for a team of {}, collectives use messages: {}", size(),
               made.text());
    const std::string& crowded_setting = job.settings().text(Setting::coll_crowded);
    const bool crowded = crowded_setting == "auto" ? job.is_crowded() : crowded_setting == "yes";
    offer = {job.member(engine_.rank()).pid, memory ? file.get() : -1, bytes,
             reinterpret_cast<std::uintptr_t>(&kProbe), crowded};
  }
  Status status = run_steps(*this, Collective::bcast, {nullptr, &offer}, nullptr,
                            [&](Plan& plan, const Group& group) {
                              bcast_binomial(plan, group, kOutput, sizeof offer, 0);
                            });
  if (status && rank_ != 0 && offer.fd >= 0 && offer.bytes == bytes) {
    const Descriptor theirs(open_of(offer.pid, offer.fd));
    if (!theirs || fixed_bytes(theirs.get()) < bytes || !memory.map_file(theirs.get(), bytes))
      log_line(LogLevel::info, engine_.rank(),
               "cannot map /proc/{}/fd/{}, collectives use messages: {}", offer.pid, offer.fd,
               std::strerror(errno));
  }
  std::uint64_t probe = 0;
  const bool direct = job.settings().flag(Setting::direct_copy) && status &&
                      (rank_ == 0 || (read_process(offer.pid, &probe, offer.probe, sizeof probe) &&
                                      probe == kProbe));
  // All members use the segment, or none.
  std::int32_t have[2] = {static_cast<bool>(memory), direct};
  const Reduction least{smaller, nullptr, sizeof have[0], true};
  if (status)
    status = run_steps(*this, Collective::allreduce, {nullptr, have}, &least,
                       [&](Plan& plan, const Group& group) {
                         allreduce_recursive_doubling(plan, group, kOutput, {2, sizeof have[0]});
                       });
  if (!status || have[0] == 0) return nullptr;
  shm_ = &segment->team.emplace(
      memory.data(), rank_, size(), offer.crowded != 0, segment->tree,
      ShmTeam::Outside{
          this, wait_outside, ring_outside, read_outside, write_outside, lives_outside,
          have[1] != 0 ? job.settings().bytes(Setting::coll_direct_min_bytes) : ~std::size_t{0},
          kPieceBytes});
  segment_ = std::move(segment);
  return shm_;
}

}  // namespace weft::coll
