#include "lanes/mapped/host_lanes.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>
#include <vector>

#include "base/log.hpp"
#include "base/os/mapped.hpp"
#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "lanes/mapped/arena.hpp"
#include "lanes/mapped/atomics.hpp"
#include "lanes/mapped/region.hpp"
#include "weft/copy.hpp"

namespace weft {
namespace {

using shm::Arena;
using shm::ArenaLayout;

class ArenaLanes final : public HostLanes {
 public:
  explicit ArenaLanes(Members& job) : HostLanes({.fabric = "shm"}, nullptr), job_(job) {}
  ~ArenaLanes() override {
    server_.reset();  // it uses the members below
    for (const Lane& lane : lanes_) lane.arena->unmap_lane(lane.ring);
  }

  Status start() {
    const auto& ranks = job_.local_ranks();
    layout_ = {static_cast<std::uint32_t>(ranks.size()),
               static_cast<std::uint32_t>(job_.settings().bytes(Setting::ring_max_bytes))};
    direct_copy_ = job_.settings().flag(Setting::direct_copy);
    // Yama may restrict process_vm_readv to declared tracers: declare all processes of this user.
    if (direct_copy_ && ranks.size() > 1) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (Status status =
            Arena::create(layout_, job_.settings().bytes(Setting::lane_memory_bytes), own_);
        !status)
      return status;
    // The address lets peers try whether they may copy from this process.
    if (Status status = job_.board().put(
            "shm.arena", fmt::format("{} {}", own_->fd(),
                                     reinterpret_cast<std::uintptr_t>(&own_->header().magic)));
        !status)
      return status;
    if (Status status = job_.board().fence(job_.settings().ms(Setting::start_timeout_ms)); !status)
      return status;
    local_of_.assign(static_cast<std::size_t>(job_.size()), -1);
    locals_ = std::vector<Local>(ranks.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      local_of_[static_cast<std::size_t>(ranks[i])] = static_cast<int>(i);
      locals_[i].rank = ranks[i];
      locals_[i].pid = job_.member(ranks[i]).pid;
      if (ranks[i] == job_.rank()) me_ = i;
      // A process id could be used again after its process died; a pidfd cannot.
      if (locals_[i].pid != getpid())
        locals_[i].pidfd = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, locals_[i].pid, 0)));
    }
    // All map the first one's before it may leave. With other hosts Fabrics::start() waits for all.
    if (Status status = map(locals_.front()); !status) return status;
    host_ = locals_.front().mapped;
    if (static_cast<int>(ranks.size()) < job_.size()) return {};
    return job_.board().fence(job_.settings().ms(Setting::start_timeout_ms));
  }

  Status connect(int peer, int channel, SendMemory& memory) override {
    const std::lock_guard lock(setup_);
    Local& local = local_at(peer);
    if (Status status = map(local); !status) return status;
    Arena& theirs = *local.arena.load();
    if (channel == 0) {
      auto& mine = own_->control(index_of(local));
      memory = {theirs.ring(me_), &mine.consumed, &bell(local, 0), layout_.ring_bytes};
      // release: the ring is ready; pairs with the acquire in accept().
      theirs.control(me_).connected.store(1, std::memory_order_release);
    } else {
      if (memory.ring_bytes == 0) memory.ring_bytes = layout_.ring_bytes;
      shm::LaneEntry* entry = nullptr;
      make_room(lanes_);
      if (Status status =
              theirs.take_lane(memory.ring_bytes, !is_engine_channel(channel), entry, memory.ring);
          !status)
        return status;
      lanes_.push_back({&theirs, memory.ring, channel_of(channel).client, nullptr});
      memory.consumed = &entry->consumed;
      memory.sleeping = &bell(local, reader_doorbell(channel));
      entry->writer = static_cast<std::uint32_t>(me_);
      entry->channel = static_cast<std::uint32_t>(channel);
      // release: pairs with the acquire in accept().
      entry->state.store(shm::LaneEntry::kConnected, std::memory_order_release);
    }
    theirs.header().num_connected.fetch_add(1, std::memory_order_release);
    return {};
  }

  Status accept(int client, int& peer, int& channel, ReceiveMemory& memory) override {
    const std::lock_guard lock(setup_);
    peer = -1;
    channel = 0;
    return client == 0 ? accept_engine(peer, memory) : accept_lane(client, peer, channel, memory);
  }

  void close_client(int client) noexcept override {
    const std::lock_guard lock(setup_);
    std::erase_if(lanes_, [&](const Lane& lane) {
      if (lane.client != client) return false;
      lane.arena->unmap_lane(lane.ring);
      if (lane.entry != nullptr) {
        accepted_[static_cast<std::size_t>(lane.entry - &own_->entry(0))] = false;
        own_->free_lane(*lane.entry);
      }
      return true;
    });
    // Frees lanes that were connected and never accepted.
    const std::uint32_t num_entries =
        std::min(shm::kMaxLanes, own_->header().num_entries.load(std::memory_order_acquire));
    std::uint32_t number = 0;
    for (std::uint32_t i = 0; i < num_entries; ++i)
      if (shm::LaneEntry& entry = own_->entry(i); is_waiting(i, client, number))
        own_->free_lane(entry);
  }

  const std::atomic<std::uint32_t>& connections() const noexcept override {
    return own_->header().num_connected;
  }

  Status allocate(std::size_t bytes, void*& address, MemoryName& memory) override {
    return regions_.allocate(bytes, address, memory);
  }
  Status release(void* address) override { return regions_.release(address); }
  Status leave_to_others(void* address) override { return regions_.release(address, true); }
  Status share(void* address, std::size_t bytes, MemoryName& memory) override {
    memory = regions_.describe(address, bytes);
    if (memory.region != 0) return {};
    bool is_writable = false;
    if (Status status = find_writable(address, bytes, is_writable); !status) return status;
    std::uint64_t secret = 0;
    if (Status status = shm::make_secret(secret); !status) return status;
    const std::lock_guard lock(setup_);
    if (!server_ &&
        std::ranges::any_of(locals_, [this](const Local& local) { return local.pid != getpid_; })) {
      if (Status status = shm::AtomicServer::start(
              own_, layout_.num_local,
              [this](std::uint32_t index, shm::AtomicOperation& operation) {
                return serve(locals_[index], operation);
              },
              server_);
          !status)
        return status;
    }
    for (std::uint32_t i = 0; i < shm::kMaxShared; ++i) {
      shm::SharedMemory& slot = own_->shared(i);
      if (slot.number.load(std::memory_order_relaxed) != 0) continue;
      slot.address = memory.address;
      slot.bytes = bytes;
      slot.is_writable = is_writable;
      // 51 secret bits: a process that has the key of one cannot make that of another from it.
      const std::uint64_t number = (secret & ~std::uint64_t{shm::kMaxShared - 1}) |
                                   std::uint64_t{shm::kSharedBit} | std::uint64_t{i};
      memory = named(memory.address, bytes, number);
      // release: pairs with the acquire in is_shared().
      slot.number.store(number_of(memory), std::memory_order_release);
      return {};
    }
    return {Code::no_memory, fmt::format("more than {} shared memories", shm::kMaxShared)};
  }
  Status unshare(const MemoryName& memory) override {
    if ((memory.region & shm::kSharedBit) == 0) return {};  // allocated: release() ends it
    {
      const std::lock_guard lock(setup_);
      auto& number = own_->shared(memory.region % shm::kMaxShared).number;
      if (number.load(std::memory_order_relaxed) != number_of(memory))
        return {Code::bad_argument, "this memory is not shared"};
      number.store(0, std::memory_order_seq_cst);
    }
    return end_copies();
  }
  MemoryName describe(const void* address, std::size_t bytes) const noexcept override {
    if (regions_.empty()) return {reinterpret_cast<std::uintptr_t>(address), bytes, 0, 0};
    return regions_.describe(address, bytes);
  }

  void begin(int peer, const RemoteAccess& a, Completion& completion) noexcept override {
    if (a.access == Access::get)
      return completion.set(move<false>(peer, a.there, a.offset, a.here, a.bytes));
    if (a.access <= Access::put_once)
      return completion.set(move<true>(peer, a.there, a.offset, a.here, a.bytes));
    shm::AtomicOperation operation =
        a.access == Access::cas
            ? shm::AtomicOperation{shm::AtomicRequest::kCas, {}, a.compare, a.operand, 0}
            : shm::AtomicOperation{shm::AtomicRequest::kFetchAdd, {}, a.operand, 0, 0};
    const Code code = on_word(peer, a.there, a.offset, operation);
    *a.previous = operation.previous;
    completion.set(code);
  }

  Code map(int peer, const MemoryName& memory, MappedMemory& mapped) noexcept override {
    if (memory.region == 0 || (memory.region & shm::kSharedBit) != 0) return Code::unsupported;
    Local& local = local_at(peer);
    Code code = Code::ok;
    std::byte* data = nullptr;
    auto* region = local.regions.use(local.pid, memory, 0, memory.bytes, data, code);
    if (region == nullptr) return code;
    mapped.data = region->data();
    mapped.address = region->address;
    mapped.bytes = region->room;
    mapped.current = &region->number();
    mapped.number = number_of(memory);
    mapped.peer = peer;
    mapped.mapping = region;
    return Code::ok;
  }
  void unmap(MappedMemory& mapped, bool drops) noexcept override {
    if (mapped.data != nullptr)
      local_at(mapped.peer).regions.done(static_cast<shm::PeerRegion*>(mapped.mapping), drops);
    mapped = {};
  }

  bool can_copy(int peer) noexcept override {
    Local& local = local_at(peer);
    if (local.can_copy == Local::unknown) {
      std::uint64_t magic = 0;
      const MemoryName there{local.magic_address, sizeof magic, 0, 0};
      const bool can =
          local.pid == getpid_ || (direct_copy_ && local.magic_address != 0 &&
                                   move<false>(peer, there, 0, &magic, sizeof magic) == Code::ok &&
                                   magic == shm::kArenaMagic);
      local.can_copy = can ? Local::yes : Local::no;
    }
    return local.can_copy == Local::yes;
  }

  SharedCopy* own_copy(std::uint32_t index) noexcept override { return &own_->copy(index); }
  SharedCopy* peer_copy(int peer, std::uint32_t index) noexcept override {
    Arena* arena = local_at(peer).arena;
    return arena != nullptr && index < kNumSharedCopies ? &arena->copy(index) : nullptr;
  }

  std::atomic<std::uint32_t>& sleeping(int doorbell) noexcept override {
    return host_->doorbell(me_, doorbell).sleeping;
  }
  std::atomic<std::uint32_t>* peer_sleeping(int peer) noexcept override {
    return reaches(peer) ? &bell(local_at(peer), 0) : nullptr;
  }

  PeerState state(int peer) noexcept override {
    if (!reaches(peer)) return PeerState::alive;
    Local& local = local_at(peer);
    if (local.pidfd) {
      pollfd poll{local.pidfd.get(), POLLIN, 0};
      if (::poll(&poll, 1, 0) <= 0) return PeerState::alive;
    } else if (kill(local.pid, 0) == 0 || errno != ESRCH) {
      // Ourselves, or no pidfd is to be had. A peer that died before its pidfd was opened is seen.
      return PeerState::alive;
    }
    // acquire: the peer's writes before it left are visible; pairs with the release in leave().
    return host_->left(index_of(local)).load(std::memory_order_acquire) != 0 ? PeerState::left
                                                                             : PeerState::dead;
  }

  void leave() noexcept override { host_->left(me_).store(1, std::memory_order_release); }

 private:
  struct Local {
    int rank = 0;
    int pid = 0;
    Descriptor pidfd;
    bool accepted = false;
    std::uint64_t magic_address = 0;
    enum CanCopy { unknown, yes, no };
    std::atomic<CanCopy> can_copy{unknown};  // the first thread that asks finds out
    std::shared_ptr<Arena> mapped;           // the peer's, or our own
    std::atomic<Arena*> arena{nullptr};      // the same; set once, under setup_
    shm::PeerRegions regions;
    std::mutex asking;  // our request in the peer's arena
  };

  bool reaches(int peer) const noexcept { return local_of_[static_cast<std::size_t>(peer)] >= 0; }

  // A mapped ring of a client other than the engine.
  struct Lane {
    Arena* arena;
    std::byte* ring;
    int client;
    shm::LaneEntry* entry;  // of our arena, which we read; null where we write
  };

  Status accept_engine(int& peer, ReceiveMemory& memory) {
    for (std::size_t i = 0; i < locals_.size(); ++i) {
      Local& local = locals_[i];
      // acquire: pairs with the release in connect().
      if (local.accepted || own_->control(i).connected.load(std::memory_order_acquire) == 0)
        continue;
      peer = local.rank;
      Status status = map(local);
      local.accepted = status.code() != Code::no_memory;
      if (!status) return status;
      auto& theirs = local.arena.load()->control(me_);
      memory = {own_->ring(i), &theirs.consumed, &bell(local, 0), layout_.ring_bytes};
      return {};
    }
    return {};
  }

  // Returns true if an entry of this process's directory is a lane to this client that has not been
  // accepted, and its channel.
  bool is_waiting(std::uint32_t index, int client, std::uint32_t& number) noexcept {
    shm::LaneEntry& entry = own_->entry(index);
    // acquire: pairs with the release in connect().
    if (accepted_[index] ||
        entry.state.load(std::memory_order_acquire) != shm::LaneEntry::kConnected)
      return false;
    number = std::atomic_ref(entry.channel).load(std::memory_order_relaxed);
    return channel_of(static_cast<int>(number)).client == client;
  }

  Status accept_lane(int client, int& peer, int& channel, ReceiveMemory& memory) {
    const std::uint32_t num_entries =
        std::min(shm::kMaxLanes, own_->header().num_entries.load(std::memory_order_acquire));
    for (std::uint32_t i = 0; i < num_entries; ++i) {
      shm::LaneEntry& entry = own_->entry(i);
      // Each is read once: a hostile peer could change it after a check.
      std::uint32_t number = 0;
      if (!is_waiting(i, client, number)) continue;
      const std::uint32_t writer = std::atomic_ref(entry.writer).load(std::memory_order_relaxed);
      // Ours from here on, until close_client(), whatever a hostile peer makes of the state.
      make_room(lanes_);
      accepted_[i] = true;
      entry.state.store(shm::LaneEntry::kTaken, std::memory_order_relaxed);
      if (writer >= locals_.size())
        return {Code::corrupt, fmt::format("a process that is not there ({}) connected", writer)};
      Local& local = locals_[writer];
      peer = local.rank;
      channel = static_cast<int>(number);
      // What the writer sent is received even if it has ended since.
      Status status = own_->map_lane(entry, memory.ring_bytes, memory.ring);
      if (status.code() == Code::no_memory) {
        accepted_[i] = false;
        entry.state.store(shm::LaneEntry::kConnected, std::memory_order_relaxed);
      }
      if (!status) return status;
      lanes_.push_back({own_.get(), memory.ring, client, &entry});
      memory.consumed = &entry.consumed;
      memory.sleeping = &bell(local, writer_doorbell(channel));
      return {};
    }
    return {};
  }

  Local& local_at(int peer) noexcept {
    return locals_[static_cast<std::size_t>(local_of_[static_cast<std::size_t>(peer)])];
  }
  std::atomic<std::uint32_t>& bell(const Local& local, int number) noexcept {
    return host_->doorbell(index_of(local), number).sleeping;
  }
  std::size_t index_of(const Local& local) const noexcept {
    return static_cast<std::size_t>(&local - locals_.data());
  }

  Status map(Local& local) {
    if (local.arena != nullptr) return {};
    if (index_of(local) == me_) {
      local.mapped = own_;
      local.arena = own_.get();
      return {};
    }
    std::string text;
    if (Status status = job_.board().get(local.rank, "shm.arena", text); !status) return status;
    int fd = -1;
    const char* end = text.data() + text.size();
    auto parsed = std::from_chars(text.data(), end, fd);
    if (parsed.ec == std::errc() && parsed.ptr != end)
      parsed = std::from_chars(parsed.ptr + 1, end, local.magic_address);
    if (parsed.ec != std::errc() || fd < 0)
      return {Code::corrupt, fmt::format("{} published no usable shared memory ('{}')",
                                         job_.describe(local.rank), text)};
    if (Status status = Arena::open(local.pid, fd, layout_, local.mapped); !status) return status;
    local.arena = local.mapped.get();
    return {};
  }

  // Calls use(data) with allocated memory of the peer, which stays mapped meanwhile.
  template <class Use>
  static Code with_region(Local& local, const MemoryName& memory, std::size_t offset,
                          std::size_t bytes, Use&& use) noexcept {
    Code code = Code::ok;
    std::byte* data = nullptr;
    auto* region = local.regions.use(local.pid, memory, offset, bytes, data, code);
    if (region == nullptr) return code;
    use(data);
    local.regions.done(region);
    return Code::ok;
  }

  template <bool kWrite>
  Code move(int peer, const MemoryName& remote, std::size_t offset, void* here,
            std::size_t bytes) noexcept {
    if (offset > remote.bytes || bytes > remote.bytes - offset) return Code::bad_argument;
    Local& local = local_at(peer);
    std::optional<Copying> copying;
    if ((remote.region & shm::kSharedBit) != 0) {
      if (const Code code = find_arena(local); code != Code::ok) return code;
      Arena& arena = *local.arena.load();
      copying.emplace(arena.control(me_));
      if (const Code code = is_shared(arena, remote, kWrite); code != Code::ok) return code;
    } else if (remote.region != 0) {
      return with_region(local, remote, offset, bytes, [&](std::byte* there) {
        weft::detail::copy(kWrite ? there : here, kWrite ? here : there, bytes);
      });
    }
    if (local.pid == getpid_) {
      auto* there = reinterpret_cast<void*>(remote.address + offset);
      std::memmove(kWrite ? there : here, kWrite ? here : there, bytes);
      return Code::ok;
    }
    const bool is_shared = copying.has_value();
    if (!direct_copy_ || (is_shared && refused_.load(std::memory_order_relaxed)))
      return is_shared ? move_by_owner<kWrite>(local, remote, offset, here, bytes)
                       : Code::not_permitted;
    std::size_t done = 0;
    while (done < bytes) {
      iovec mine{static_cast<char*>(here) + done, bytes - done};
      iovec theirs{reinterpret_cast<void*>(remote.address + offset + done), bytes - done};
      const ssize_t n = kWrite ? process_vm_writev(local.pid, &mine, 1, &theirs, 1, 0)
                               : process_vm_readv(local.pid, &mine, 1, &theirs, 1, 0);
      if (n > 0) {
        done += static_cast<std::size_t>(n);
        continue;
      }
      const Code code = refused(errno);
      if (code != Code::not_permitted || !is_shared) return code;
      refused_.store(true, std::memory_order_relaxed);
      return move_by_owner<kWrite>(local, remote, offset, here, bytes);
    }
    return Code::ok;
  }

  // Without permission of the kernel to copy, through memory of this process that the owner maps.
  template <bool kWrite>
  Code move_by_owner(Local& local, const MemoryName& remote, std::size_t offset, void* here,
                     std::size_t bytes) noexcept {
    const std::lock_guard bounce_lock(bouncing_);
    if (bounce_ == nullptr)
      if (const Code code = or_no_memory(
              [&] { return regions_.allocate(kBounceBytes, bounce_, bounce_memory_).code(); });
          code != Code::ok)
        return code;
    Arena& arena = *local.arena.load();
    for (std::size_t done = 0; done < bytes;) {
      const std::size_t part = std::min(bytes - done, kBounceBytes);
      auto* place = static_cast<std::byte*>(here) + done;
      shm::AtomicOperation operation{
          kWrite ? shm::AtomicRequest::kWrite : shm::AtomicRequest::kRead,
          {remote.address + offset + done, part, remote.region, remote.extra},
          bounce_memory_.address,
          number_of(bounce_memory_),
          0};
      if constexpr (kWrite) std::memcpy(bounce_, place, part);
      const std::lock_guard lock(local.asking);
      const Code code = shm::ask(arena, arena.request(me_), operation,
                                 [this, &local] { return state(local.rank) == PeerState::alive; });
      if (code != Code::ok) return code;
      if constexpr (!kWrite) std::memcpy(place, bounce_, part);
      done += part;
    }
    return Code::ok;
  }

  // The owner's part of an atomic, or of a copy. The thread that ends the sharing holds the lock as
  // well.
  Code serve(Local& local, shm::AtomicOperation& operation) noexcept {
    const bool copies =
        operation.kind == shm::AtomicRequest::kRead || operation.kind == shm::AtomicRequest::kWrite;
    if (!copies) operation.word.bytes = 8;
    const std::lock_guard lock(setup_);
    if ((!copies && operation.word.address % 8 != 0) ||
        (operation.word.region & shm::kSharedBit) == 0 ||
        is_shared(*own_, operation.word, operation.kind != shm::AtomicRequest::kRead) != Code::ok)
      return Code::bad_argument;
    if (copies) return copy_for(local, operation);
    shm::apply(reinterpret_cast<void*>(operation.word.address), operation);
    return Code::ok;
  }

  Code copy_for(Local& local, const shm::AtomicOperation& operation) noexcept {
    const MemoryName bounce = named(operation.operand, operation.word.bytes, operation.swap);
    auto* ours = reinterpret_cast<std::byte*>(operation.word.address);
    const bool writes = operation.kind == shm::AtomicRequest::kWrite;
    return with_region(local, bounce, 0, bounce.bytes, [&](std::byte* theirs) {
      std::memcpy(writes ? ours : theirs, writes ? theirs : ours, bounce.bytes);
    });
  }

  Code refused(int error) noexcept {
    switch (error) {
      case EPERM:
      case ENOSYS:
        if (!is_reported_.exchange(true)) {
          log_line(
              LogLevel::info, job_.rank(),
              "copying straight between processes is refused ({}; Yama or a seccomp profile?): "
              "large messages go through the rings instead",
              std::strerror(error));
        }
        return Code::not_permitted;
      case ESRCH:
        return Code::peer_lost;
      case ENOMEM:
        return Code::no_memory;
      default:
        return Code::bad_argument;  // EFAULT: the address is not the owner's
    }
  }

  Code find_arena(Local& local) noexcept {
    if (local.arena.load() != nullptr) return Code::ok;
    const std::lock_guard lock(setup_);
    return map(local).code();
  }

  // A copy between this process and memory that a peer shares, from before that is looked up until
  // after the last byte.
  class Copying {
   public:
    explicit Copying(shm::LaneControl& control) noexcept {
      for (;;) {
        const std::uint32_t era = control.era.load(std::memory_order_seq_cst);
        count_ = &control.copying[era % 2];
        // seq_cst: either the owner sees it, or we see that the owner shares no more, or is on to
        // the next era; pairs with unshare() and end_copies().
        count_->fetch_add(1, std::memory_order_seq_cst);
        if (control.era.load(std::memory_order_seq_cst) == era) return;
        count_->fetch_sub(1, std::memory_order_relaxed);
      }
    }
    // release: the copied bytes.
    ~Copying() { count_->fetch_sub(1, std::memory_order_release); }
    Copying(const Copying&) = delete;
    Copying& operator=(const Copying&) = delete;

   private:
    std::atomic<std::uint32_t>* count_;
  };

  // Waits until no living peer is in a copy that began before. timed_out: one stands still in it.
  Status end_copies() noexcept {
    const std::lock_guard lock(ending_);
    const std::uint64_t limit = now_ns() + job_.settings().patience_ns();
    int late = -1;
    for (Local& local : locals_) {
      shm::LaneControl& control = own_->control(index_of(local));
      const std::uint32_t era = control.era.fetch_add(1, std::memory_order_seq_cst);
      const auto& copying = control.copying[era % 2];
      // seq_cst: includes the acquire that pairs with the release in ~Copying().
      for (unsigned i = 1; copying.load(std::memory_order_seq_cst) != 0; ++i) {
        if (i % 64 == 0) {
          if (state(local.rank) != PeerState::alive) break;
          if (now_ns() > limit) {
            late = local.rank;
            break;
          }
        }
        sched_yield();
      }
    }
    if (late < 0) return {};
    return or_no_memory([&] {
      return Status(Code::timed_out, fmt::format("{} stands still in a copy from or to this memory",
                                                 job_.describe(late)));
    });
  }

  static Code is_shared(Arena& arena, const MemoryName& memory, bool to_write) noexcept {
    const shm::SharedMemory& slot = arena.shared(memory.region % shm::kMaxShared);
    // seq_cst: includes the acquire that pairs with the release in share(); see Copying.
    if (slot.number.load(std::memory_order_seq_cst) != number_of(memory)) return Code::bad_argument;
    if (to_write && slot.is_writable == 0) return Code::bad_argument;
    return is_within(memory.address, memory.bytes, slot.address, slot.bytes) ? Code::ok
                                                                             : Code::bad_argument;
  }

  Code on_word(int peer, const MemoryName& word, std::size_t offset,
               shm::AtomicOperation& operation) noexcept {
    if (word.region == 0 || (word.address + offset) % 8 != 0) return Code::bad_argument;
    Local& local = local_at(peer);
    if ((word.region & shm::kSharedBit) != 0) {
      if (const Code code = find_arena(local); code != Code::ok) return code;
      if (const Code code = is_shared(*local.arena.load(), word, true); code != Code::ok)
        return code;
      if (offset > word.bytes || word.bytes - offset < 8) return Code::bad_argument;
      if (local.pid != getpid_) {
        operation.word = {word.address + offset, 8, word.region, word.extra};
        Arena& arena = *local.arena.load();
        const std::lock_guard lock(local.asking);
        return shm::ask(arena, arena.request(me_), operation,
                        [this, peer] { return state(peer) == PeerState::alive; });
      }
      shm::apply(reinterpret_cast<void*>(word.address + offset), operation);
      return Code::ok;
    }
    return with_region(local, word, offset, 8,
                       [&](std::byte* data) { shm::apply(data, operation); });
  }

  Members& job_;
  ArenaLayout layout_{};
  std::shared_ptr<Arena> own_, host_;  // host_: of the host's first process
  std::vector<int> local_of_;          // by world rank; -1: another host
  std::vector<Local> locals_;
  std::mutex setup_;   // guards connecting and the list of connected lanes
  std::mutex ending_;  // one thread at a time waits for the copies before an era; no other lock is
                       // taken with it
  std::vector<Lane> lanes_;
  std::vector<bool> accepted_ = std::vector<bool>(shm::kMaxLanes);  // by entry of our directory
  std::size_t me_ = 0;
  const int getpid_ = getpid();
  bool direct_copy_ = true;
  std::atomic<bool> is_reported_{false};
  std::atomic<bool> refused_{false};  // the kernel has refused a copy
  static constexpr std::size_t kBounceBytes = 256 * 1024;
  std::mutex bouncing_;  // guards the buffer of copies by owners
  void* bounce_ = nullptr;
  MemoryName bounce_memory_{};
  shm::OwnRegions regions_;
  std::unique_ptr<shm::AtomicServer> server_;  // once memory is shared; made under setup_
};

}  // namespace

std::string host_lanes_text() {
  // Trying it on this process itself shows whether a seccomp profile refuses the call; the setting
  // of Yama shows the rest.
  std::uint64_t from = shm::kArenaMagic, to = 0;
  iovec mine{&to, sizeof to}, theirs{&from, sizeof from};
  std::string copies = process_vm_readv(getpid(), &mine, 1, &theirs, 1, 0) == sizeof to
                           ? "allowed"
                           : fmt::format("refused ({})", std::strerror(errno));
  if (std::ifstream yama("/proc/sys/kernel/yama/ptrace_scope"); yama) {
    int scope = 0;
    yama >> scope;
    copies +=
        fmt::format(", Yama's ptrace_scope is {}{}", scope,
                    scope >= 2 ? ": needs 0 or 1, or large messages go through the rings" : "");
  }
  return fmt::format("  shm: processes of this host; direct copies between them: {}\n", copies);
}

Status make_host_lanes(Members& job, std::unique_ptr<HostLanes>& lanes) {
  auto made = std::make_unique<ArenaLanes>(job);
  if (Status status = made->start(); !status) return status;
  lanes = std::move(made);
  return {};
}

}  // namespace weft
