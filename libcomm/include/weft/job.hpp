#pragma once
// Job: the processes that run together, the memory they lend to one another, and what they do all
// together. With exchange.hpp the threaded transport; docs/use/transport.md explains both.
//
// Threads. A process numbers the threads that communicate 0, 1, ... (below 256); calls that take a
// thread's number may run at the same time for different numbers, and never for the same. They
// assert that the number is below 256; with NDEBUG another number is undefined behaviour. Calls of
// all ranks together (marked "collective") are made by one thread of a rank at a time, in the same
// order everywhere. The other calls may be made by any thread.
//
// Errors come back as Code or Status: bad_argument (outside the memory, unaligned, freed, wrong
// key, no such rank), peer_lost (a process is gone), no_memory, not_permitted (the kernel refuses),
// unsupported. Only constructors throw, weft::Error. A process that dies is noticed within 100 ms
// on its host, and elsewhere within seconds; one that cannot be reached counts as lost
// after WEFT_PEER_TIMEOUT_MS, and nothing waits for it longer. The others go on: a
// collective call ends in the same way on all living ranks. The one during which a rank is lost
// ends with peer_lost and the rank's name, once for every loss, and those that follow are made by
// the others alone. So after an error, too, every rank makes the same collective calls.
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "weft/copy.hpp"
#include "weft/export.hpp"
#include "weft/status.hpp"

namespace weft::transport {

inline constexpr int kMaxThreads = 256;

// Names memory of a rank: plain bytes, good in every process of the job. The owner's side checks
// every access, so a forged or outdated name gives bad_argument, not other memory.
struct RemoteMemory {
  std::uint64_t address = 0;  // in the owner
  std::uint64_t bytes = 0;
  std::uint64_t start = 0;  // of all the memory that was allocated or shared, in the owner
  std::byte key[44] = {};   // opaque: the owner's name for it, on its host and over each fabric
  std::int32_t owner = -1;

  // Of the key: no other memory that its owner has now has the same. 0: no memory.
  std::uint64_t number() const noexcept {
    std::uint64_t first;
    std::memcpy(&first, key, sizeof first);
    return first;
  }

  // The part [offset, offset + length); empty, and unusable, if that lies outside.
  RemoteMemory part(std::uint64_t offset, std::uint64_t length) const noexcept {
    RemoteMemory inner = *this;
    const bool fits = offset <= bytes && length <= bytes - offset;
    inner.address += fits ? offset : 0;
    inner.bytes = fits ? length : 0;
    return inner;
  }
  // The 64-bit word with this index.
  RemoteMemory word(std::uint64_t index) const noexcept {
    return index < bytes / 8 ? part(index * 8, 8) : part(1, bytes);
  }
};
static_assert(sizeof(RemoteMemory) == 72 && std::is_trivially_copyable_v<RemoteMemory>);

// An asynchronous transfer of one thread.
struct Token {
  std::uint32_t slot = 0;
  std::uint32_t use = 0;  // of the slot; 0: no transfer
};

// The result of an atomic operation.
struct Fetched {
  Code code = Code::ok;
  std::uint64_t value = 0;  // the word before
};

namespace detail {

// The memory of a peer that a thread touched last, as it is mapped here.
struct alignas(64) Window {
  std::byte* data = nullptr;
  std::uint64_t address = 0;                            // in the owner
  std::uint64_t bytes = 0;                              // 0: none
  const std::atomic<std::uint64_t>* current = nullptr;  // the owner's; not `number`: released
  std::uint64_t number = 0;                             // RemoteMemory's
  std::int32_t owner = -1;
  std::uint32_t num_calls = 0;
};

}  // namespace detail

// Operations for all_reduce beside std::plus<> and the like.
struct Min {
  template <class T>
  T operator()(const T& a, const T& b) const {
    return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  T operator()(const T& a, const T& b) const {
    return a < b ? b : a;
  }
};

// Ranks that are threads of this process, for tests and for programs that want no launcher. Must
// outlive their jobs. Raises the soft limit of descriptors (ulimit -Sn) to the hard one, as links
// between many ranks take many. Throws Error (bad_argument: less than one; no_memory: even the hard
// limit has not enough for all links; bad_setting).
class WEFT_API LocalRanks {
 public:
  explicit LocalRanks(int num_ranks);
  ~LocalRanks();
  struct Impl;

 private:
  friend class Job;
  std::unique_ptr<Impl> impl_;
};

class WEFT_API Job {
 public:
  // Joins the job that this process was started in: by weftrun, by a PMIx launcher, or alone.
  // Collective; blocks until all have started, at most WEFT_START_TIMEOUT_MS. MPI may run in the
  // same process. At most one such Job a process. Throws Error (bad_argument: this
  // process has one already; bad_setting; timed_out: not all have started; peer_lost; corrupt: what
  // calls itself a rank of the job is none; or what this machine lacks: no_memory, not_permitted,
  // unsupported).
  Job();
  // Joins as one of the ranks that are threads of this process; to be called by its thread. Throws
  // as above, and bad_argument: no such rank, or it is taken.
  Job(LocalRanks& ranks, int rank);
  // Collective. Blocks until all other living ranks have come. Exchanges must be gone before;
  // allocated memory goes with it. In a child that the process has forked it does nothing.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int rank() const noexcept;
  int size() const noexcept;
  // `rank` must be one of the job's in all three.
  const std::string& host(int rank) const;
  bool same_host(int a, int b) const;
  // "rank 3 (pid 4711 on node7)", for messages.
  std::string describe(int rank) const;
  // False once the rank is known to be gone, and for numbers that are no rank's. The rank is
  // watched from the first call on.
  bool is_alive(int rank) const;

  // --- Memory. `memory` may be sent to any rank and used there until release or unshare. These
  // make system calls, so they are not for inner loops. Over an RDMA device the first access to
  // memory asks its owner about it, and release and unshare wait until ranks on other hosts that
  // use it have ended that, at most WEFT_PEER_TIMEOUT_MS; unshare also waits so for a rank of this
  // host that is copying there, and gives timed_out with its name if it stands still: it could
  // finish that copy when it is continued. Otherwise none waits for another rank.
  // ok; bad_argument: 0 bytes, or an address that was not allocated or shared; no_memory: the
  // kernel has none, or no file descriptors are left (one for each allocation). Page-aligned,
  // zeroed memory that all ranks can reach fastest.
  Status allocate(std::size_t bytes, void*& address, RemoteMemory& memory);
  // Ends memory of allocate. Accesses afterwards get bad_argument.
  Status release(void* address);
  // Makes memory of the program's own reachable; its owner must keep it until unshare. Others can
  // only read memory that the program cannot write itself, such as constants. On the owner's host,
  // cas and fetch_add on it take some microseconds: a sleeping thread of the owner does them.
  Status share(void* address, std::size_t bytes, RemoteMemory& memory);
  Status unshare(const RemoteMemory& memory);

  // --- One-sided access to the memory of any rank, this one included; the owner does nothing.
  // `bytes` at the memory's start are copied. Blocking calls block until the data are there. ok;
  // bad_argument: more than the memory has, or it is not the owner's to lend, or no longer;
  // peer_lost; unsupported: no fabric leads to the owner. Shared memory of this host is slow where
  // the kernel refuses copies between processes (see weft-info). A write through an RDMA device
  // whose link breaks before it has ended may be done twice, so a word that several ranks write,
  // such as a lock's, belongs to cas and fetch_add, which are done once.
  Code rdma_read(int thread, const RemoteMemory& from, void* to, std::size_t bytes) noexcept {
    const std::byte* here = find_here(thread, from, bytes);
    if (here == nullptr || bytes > kShortCopy) [[unlikely]]
      return read_there(thread, from, to, bytes);
    weft::detail::copy_line(to, here, bytes);
    return Code::ok;
  }
  Code rdma_write(int thread, const RemoteMemory& to, const void* from,
                  std::size_t bytes) noexcept {
    std::byte* here = find_here(thread, to, bytes);
    if (here == nullptr || bytes > kShortCopy) [[unlikely]]
      return write_there(thread, to, from, bytes);
    weft::detail::copy_line(here, from, bytes);
    return Code::ok;
  }
  // The same without waiting. Any number may be under way, over libfabric 131072 of a process (more
  // end with no_memory); each must be finished by test or wait, by the same thread. Until then the
  // local memory belongs to the transfer. Errors of the call itself are reported by test or wait as
  // well.
  [[nodiscard]] Token rdma_read_async(int thread, const RemoteMemory& from, void* to,
                                      std::size_t bytes);
  [[nodiscard]] Token rdma_write_async(int thread, const RemoteMemory& to, const void* from,
                                       std::size_t bytes);
  // again while it is under way; otherwise its result, and the token is used up: bad_argument from
  // then on. wait blocks.
  Code test(int thread, Token token) noexcept;
  Code wait(int thread, Token token) noexcept;
  // On the 64-bit word at the start of `word`, aligned to 8: cas stores `swap` if it equals
  // `compare`. Atomic against each other and against std::atomic of the owner, with sequential
  // consistency. Block until the old value is there.
  Fetched cas(int thread, const RemoteMemory& word, std::uint64_t compare,
              std::uint64_t swap) noexcept {
    std::byte* here = find_here(thread, word, 8);
    if (here == nullptr || word.address % 8 != 0) [[unlikely]]
      return cas_there(thread, word, compare, swap);
    Fetched fetched{Code::ok, compare};
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(here))
        .compare_exchange_strong(fetched.value, swap, std::memory_order_seq_cst);
    return fetched;
  }
  Fetched fetch_add(int thread, const RemoteMemory& word, std::uint64_t value) noexcept {
    std::byte* here = find_here(thread, word, 8);
    if (here == nullptr || word.address % 8 != 0) [[unlikely]]
      return fetch_add_there(thread, word, value);
    const std::atomic_ref there(*reinterpret_cast<std::uint64_t*>(here));
    return {Code::ok, there.fetch_add(value, std::memory_order_seq_cst)};
  }

  // --- Collective. All block until every living rank has come, and return ok or peer_lost, with
  // the names of the lost ranks, on all of them alike; their outputs are undefined then.
  Status barrier();
  // value = op(value of rank 0, value of rank 1, ...) of the ranks that live, everywhere; op must
  // be associative.
  template <class T, class Op>
  Status all_reduce(T& value, Op op) {
    return all_reduce(std::span<T>(&value, 1), op);
  }
  // The same for each element; every rank must have as many.
  template <class T, std::size_t kExtent, class Op>
  Status all_reduce(std::span<T, kExtent> values, Op op) {
    static_assert(std::is_trivially_copyable_v<T>);
    return all_reduce_bytes(
        values.data(), values.size(), sizeof(T),
        [](const void* in, void* inout, std::size_t count, void* argument) {
          const auto* from = static_cast<const T*>(in);
          auto* to = static_cast<T*>(inout);
          Op& apply = *static_cast<Op*>(argument);
          for (std::size_t i = 0; i < count; ++i) to[i] = apply(from[i], to[i]);
        },
        &op);
  }
  // all[r] becomes the value of rank r; zero bytes for one that is lost.
  template <class T>
  Status all_gather(const T& value, std::vector<T>& all) {
    static_assert(std::is_trivially_copyable_v<T>);
    all.resize(static_cast<std::size_t>(size()));
    return all_gather_bytes(&value, all.data(), sizeof(T));
  }
  // The elements of all ranks in their order; counts[r] becomes their number at rank r, 0 for one
  // that is lost.
  template <class T, std::size_t kExtent>
  Status all_gather(std::span<T, kExtent> mine, std::vector<std::remove_const_t<T>>& all,
                    std::vector<std::size_t>& counts) {
    static_assert(std::is_trivially_copyable_v<T>);
    Status status = all_gather(mine.size(), counts);
    if (!status) return status;
    std::size_t total = 0;
    for (const std::size_t count : counts) total += count;
    all.resize(total);
    return all_gather_spans(mine.data(), all.data(), counts, sizeof(T));
  }

  struct Impl;
  Impl& impl() noexcept { return *impl_; }

 private:
  // For longer copies the cost of the slow path does not matter.
  static constexpr std::size_t kShortCopy = 1024;

  // The memory, if it has `bytes` (0: never) and the thread's window shows it: checked as by its
  // owner, in a few instructions.
  std::byte* find_here(int thread, const RemoteMemory& memory, std::size_t bytes) noexcept {
    assert(static_cast<unsigned>(thread) < kMaxThreads);
    detail::Window& window = windows_[thread];
    const std::uint64_t offset = memory.address - window.address;
    // Every 256th call takes the slow path, which checks whether the owner is alive.
    if (window.owner != memory.owner || window.number != memory.number() || offset > window.bytes ||
        memory.bytes > window.bytes - offset || bytes - 1 >= memory.bytes ||
        ++window.num_calls % 256 == 0 || num_lost_->load(std::memory_order_relaxed) != 0 ||
        window.current->load(std::memory_order_acquire) != window.number)
      return nullptr;
    return window.data + offset;
  }
  Code read_there(int thread, const RemoteMemory& from, void* to, std::size_t bytes) noexcept;
  Code write_there(int thread, const RemoteMemory& to, const void* from,
                   std::size_t bytes) noexcept;
  Fetched cas_there(int thread, const RemoteMemory& word, std::uint64_t compare,
                    std::uint64_t swap) noexcept;
  Fetched fetch_add_there(int thread, const RemoteMemory& word, std::uint64_t value) noexcept;

  Status all_reduce_bytes(void* values, std::size_t count, std::size_t element_bytes,
                          void (*apply)(const void*, void*, std::size_t, void*), void* argument);
  Status all_gather_bytes(const void* mine, void* all, std::size_t bytes);
  Status all_gather_spans(const void* mine, void* all, const std::vector<std::size_t>& counts,
                          std::size_t element_bytes);

  std::unique_ptr<Impl> impl_;
  detail::Window* windows_ = nullptr;  // by thread
  const std::atomic<std::uint32_t>* num_lost_ = nullptr;
};

}  // namespace weft::transport
