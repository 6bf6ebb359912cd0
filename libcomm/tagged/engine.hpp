#pragma once
// Engine: tagged messages between the processes of a job. Matching by source, tag and context, with
// wildcards, in the order of sending (MPI's matching rules, MPI 5.0 section 3.5). MPI and the
// collectives are its clients.
//
// Peers are world ranks. A context is a number that separates communicators; a message matches only
// within its context. Every call may make progress on everything pending. No call blocks unless its
// comment says so.
//
// Threads: once set_threaded(true) was called, any thread may call anything; before that, one
// thread at a time.
//
// Virtual communication interfaces (VCIs, as MPICH has them; R. Zambre et al., "How I Learned to
// Stop Worrying About User-Visible Endpoints and Love MPI", ICS 2020). Each has a lock, a matcher
// and lanes of its own, so that threads that use contexts of different ones do not wait for each
// other. The number of a context selects its VCI, so that both sides agree: most are in the first;
// those with kThreadContext are spread over the others.
//
// Failure: when a peer is lost, requests that name it complete with peer_lost, receives from
// kAnySource in any context complete with peer_lost too (the sender may have been the lost one)
// until the loss is acknowledged there, and later operations with it complete with peer_lost at
// once. Other peers are not affected.
//
// Memory: an operation without memory is retried until Settings::patience_ns() has passed; then the
// peer is lost. Only irecv itself blocks for memory, when it matches an RTS; then it completes with
// no_memory and leaves the message to the next receive.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/blocked.hpp"
#include "base/wait.hpp"
#include "job/members.hpp"
#include "tagged/request.hpp"
#include "weft/status.hpp"

namespace weft {
class Fabrics;
}

namespace weft::tagged {

// An event that an engine reports to its observer.
struct Notice {
  enum class Kind : std::uint8_t {
    lost,        // the peer is lost, without having left in good order
    over_bound,  // more bytes of the peer are unmatched than allowed: it is asked to send RTS
    shared       // memory of this process is registered, so that the peer can get a long message
  };
  Kind kind;
  int peer;
  const void* address;
  std::uint64_t bytes;
};

// What a wait waits for, in words of the client: `what` is its own.
struct Awaited {
  std::uint32_t context;
  const void* what;
  std::uint64_t sleep_us;  // the longest time without a look at it
};
inline constexpr std::uint64_t kAnySleep = ~std::uint64_t{0};

// Runs in a wait that has lasted some 100 ms, and about every 200 ms while it lasts, by its thread
// and with no lock held; it must not wait. `slot`: of this wait, cleared at its end.
using WaitObserver = void (*)(const Awaited& awaited, std::uint64_t since_ns,
                              blocked::Slot& slot) noexcept;

// Contexts from this one on belong to groups that may include processes of other jobs.
inline constexpr std::uint32_t kAcrossJobs = std::uint32_t{1} << 31;
// Set in contexts that several threads may use at once.
inline constexpr std::uint32_t kThreadContext = std::uint32_t{1} << 30;

// For waits whose condition may depend on any context.
inline constexpr std::uint32_t kAnyContext = ~std::uint32_t{0};

inline constexpr int kNumVcis = kNumEngineClients;
// Two contexts that differ only in the lowest bit have the same VCI.
constexpr int vci_of(std::uint32_t context) noexcept {
  return context >> 30 == 1 ? 1 + static_cast<int>((context >> 1) % (kNumVcis - 1)) : 0;
}

class Engine {
 public:
  struct Impl;    // one VCI; tagged/impl.hpp; for the engine's own files
  struct Shared;  // state that the VCIs share; tagged/shared.hpp

  // Sets up this process's memory and finds routes to the others. Collective over the job.
  static Status create(Members& job, std::unique_ptr<Engine>& engine);
  ~Engine();

  int rank() const noexcept;
  int size() const noexcept;
  Members& job() noexcept;

  // Only while nothing is pending.
  void set_threaded(bool threaded) noexcept;
  bool is_threaded() const noexcept;
  bool has_vcis() const noexcept;  // more than one

  // Creates the VCI of this context, before any other call with the context. Does nothing for
  // contexts below kThreadContext or from kAcrossJobs on. Errors: no_memory.
  Status open_context(std::uint32_t context);

  // Ends the use of a context; its number may be used again.
  void close_context(std::uint32_t context) noexcept;

  // Ends what is pending in a context with peer_lost, and later receives and probes at once; the
  // caller begins no sends there any more. What is half-way completes as usual, and so does a send
  // whose RTS has left: the peer is asked to drop it. Unmatched messages are dropped.
  void revoke(std::uint32_t context);

  // Runs in waits, and in calls that test in vain, when a message has arrived unexpectedly in this
  // context since the last time; with no lock held. It must not wait, and returns true to be called
  // again although no message comes. null: none.
  void set_control(std::uint32_t context, bool (*work)()) noexcept;

  // Takes memory that the engine may still use after its owner's end, and frees it once the engine
  // is done with it, at some later call, or at its own end.
  void keep(std::unique_ptr<Kept> memory) noexcept;

  // Receives all notices; null: none. Runs with the engine's lock held: it must not call the
  // engine.
  void set_observer(void (*observer)(const Notice&) noexcept) noexcept;

  // For observers of waits: a request's other side as it is now, and whether its data are being
  // transferred.
  struct View {
    int peer;
    std::int32_t tag;
    std::size_t bytes;
    bool is_send;
    bool is_moving;
  };
  View view(const Request& request);
  // Returns true if messages of this process may be under way in a network, or are being copied.
  bool has_under_way() const noexcept;
  // null: none.
  void set_wait_observer(WaitObserver observer) noexcept;
  // Calls f(message, context) for the first `most` unmatched messages, with a lock held: it must
  // not call the engine.
  template <class F>
  void each_unexpected(std::size_t most, F&& f) {
    const auto call = [](void* object, const MessageInfo& message, std::uint32_t context) {
      (*static_cast<std::remove_reference_t<F>*>(object))(message, context);
    };
    visit_unexpected(most, &f, call);
  }

  // Runs in every step of every wait, with no lock held; null: none. For background progress of
  // a client, such as nonblocking collectives: it may start messages but not wait for any.
  // before_sleep: the thread sleeps next unless its wait is over. Progress that another thread is
  // about to make possible does not wake this one, so that the callback must poll for it then.
  void set_background(void (*work)(bool before_sleep)) noexcept;

  // Starts a send of `length` bytes. The data may be reused once the request is complete. Standard
  // sends may complete before they are matched, synchronous ones only after.
  void isend(Request& request, int peer, std::uint32_t context, std::int32_t tag, const void* data,
             std::size_t length, bool synchronous = false);

  // Sends without a request if that is possible right now (message small, room in the ring).
  // True: the message is sent and `data` may be reused. False: nothing happened.
  // later: it may be batched with messages that follow, until anything here makes progress, push()
  // is called or about 100 us have passed.
  bool try_send(int peer, std::uint32_t context, std::int32_t tag, const void* data,
                std::size_t length, bool later = false);
  // Sends what try_send has batched.
  void push() noexcept {
    if (has_remote_.load(std::memory_order_relaxed)) [[unlikely]]
      push_remote();
  }

  // Receives without a request if the message is the next one from its source, or becomes it within
  // some polls (small message; source and context exact). True: it is in `buffer`, and `info`
  // describes it. False: nothing happened, and the caller uses irecv.
  bool try_receive(int source, std::uint32_t context, std::int32_t tag, void* buffer,
                   std::size_t room, MessageInfo& info);

  // Posts a receive. `source` may be kAnySource, `tag` kAnyTag (which matches tags >= 0 only:
  // negative tags are for internal use and match exactly).
  void irecv(Request& request, int source, std::uint32_t context, std::int32_t tag, void* buffer,
             std::size_t room);

  // Cancels a receive that has not matched yet, or a send that has not left: true, and the request
  // is complete with cancelled. False for all others, which complete as usual, except for sends
  // whose RTS has left: the peer is asked to drop it, and they complete with cancelled if it had
  // not matched.
  bool cancel(Request& request);

  // Finds a message that an irecv with these arguments would match. Makes progress once. Returns
  // ok, again (none yet) or peer_lost (and none can come).
  Code iprobe(int source, std::uint32_t context, std::int32_t tag, MessageInfo& info);
  // The same, and takes the message out of matching; it must be received by irecv_matched.
  Code improbe(int source, std::uint32_t context, std::int32_t tag, MessageInfo& info,
               Unexpected*& message);
  // False: there is no memory, and nothing happened.
  [[nodiscard]] bool irecv_matched(Request& request, Unexpected* message, void* buffer,
                                   std::size_t room);

  // Losses. A peer is lost once it has died, is unreachable for PEER_TIMEOUT_MS, has left, or has
  // sent invalid data. Messages that it had sent before are still received. Then everything that
  // needs it ends with peer_lost, whenever it was begun:
  //   - sends to it, and receives and probes from it, always;
  //   - a receive or probe from any source for which no message is there, if the peer may send in
  //     its context, until the loss is acknowledged there: its owner may have waited for that very
  //     peer. Later ones wait for the peers that are left, and end with peer_lost at once if there
  //     are none. Receives that stay posted (Request::stays_posted) only pause.
  // A probe from any source for a negative tag, which is the library's own, reports no loss.
  // request.peer, or info.source, names the peer: the first that is not acknowledged.
  //
  // Acknowledges the loss of these peers in a context, besides those before.
  void acknowledge(std::uint32_t context, std::span<const int> peers);
  //
  // Sets the function that returns the possible senders of a context; empty: unknown, so all ranks.
  // The span stays valid as long as the context. The engine calls it off the hot path, with its
  // lock held: it must not call the engine.
  void set_senders(std::span<const int> (*senders)(std::uint32_t context) noexcept) noexcept;

  // Foreign processes: processes of other jobs (job.hpp), with numbers from size() on, which are
  // valid wherever ranks are. endpoint_address returns the address that this process gives them so
  // that they can admit it. unsupported: there is no fabric for foreign processes.
  Status endpoint_address(std::string& address);
  // Gives the process with this endpoint address a number (the present one if it is known already,
  // its rank if it belongs to this job), and counts a use of it. It must not send to this process
  // before that. corrupt: not an endpoint address; unsupported: no fabric in common; peer_lost: it
  // has ended.
  Status admit(std::string_view address, int& number);
  // One more use, or one less, of a foreign process's number. The number and memory of a lost one
  // without uses are freed later.
  void use_foreign(int number) noexcept;
  void release_foreign(int number) noexcept;

  // Makes progress once, for a call that tests; calls idle() if that completed nothing. Polls the
  // VCI of this context, and the others every few calls; kAnyContext: all.
  void progress(std::uint32_t context = kAnyContext);
  // For a call that has tested without success, as programs do in loops: yields the core if there
  // are more processes than cores, and checks for lost peers, as waits do.
  void idle();

  // Blocks until the request is complete, making progress; returns its code.
  Code wait(Request& request) {
    wait_until([&request] { return request.is_complete(); }, request.context);
    return request.code;
  }

  // Blocks until `done()` is true, making progress, polling first, then yielding, then asleep until
  // the doorbell rings. `done` reads memory that this process's progress or a peer writes; a peer
  // that writes it must call ring(this rank) afterwards. context: the only one whose requests it
  // waits for. what: for the observer of waits, valid as long as the wait. sleep_us: the longest
  // time between two calls of `done`, for one that depends on something else, too.
  template <class Done>
  void wait_until(Done&& done, std::uint32_t context = kAnyContext, const void* what = nullptr,
                  std::uint64_t sleep_us = kAnySleep) {
    if (done()) return;
    wait_slow(WaitCondition(done), {context, what, sleep_us});
  }

  // For a progress thread of the client: a wait that sleeps from the start; true while other
  // threads wait; true while some request is not complete.
  void wait_asleep(const WaitCondition& condition);
  bool has_callers() const noexcept;
  bool has_requests() noexcept;

  // Wakes `peer` (a process of this host, or this one) if it sleeps in wait_until. Costs one load
  // when it does not. Call after the stores it waits for.
  void ring(int peer) noexcept;

  // The fabrics of this process, for the transport's exchanges, which have lanes of their own.
  Fabrics& fabrics() noexcept;
  // Checks for dead peers now, as waits do; costs a system call a peer at most every 20 ms. Peers
  // on other hosts are checked once messages or a receive of this engine need them, or watch() was
  // called.
  void check_for_lost();
  // Checks this peer from now on, for a client that has lanes of its own to it.
  void watch(int peer) noexcept;
  // Makes the peer lost for all VCIs. For clients that a fabric notifies of its end before this
  // engine detects it.
  void lose(int peer);

  // False once the peer is known to be dead. A dead peer is noticed within 100 ms of any wait.
  bool is_alive(int peer) const noexcept;
  // Returns true if a lost peer left in good order, after the end of all that it took part in.
  bool has_left(int peer) const noexcept;
  // Lost peers so far; when it changes, waits on shared flags should check is_alive.
  std::uint32_t num_lost() const noexcept;
  const std::atomic<std::uint32_t>& lost_counter() const noexcept;
  // The lost peers, in the order of detection.
  std::vector<int> lost() const;
  // For error messages: the last peer that another process has reported lost; -1: none.
  void note_reported_lost(int peer) noexcept;
  int last_reported_lost() const noexcept;
  // The number of unexpected messages of this context so far, which a client that waits for
  // something else should poll. For one context; set before its first message arrives.
  void count_unexpected_of(std::uint32_t context) noexcept;
  std::uint32_t num_unexpected() const noexcept;

  // Unmatched messages of all contexts now, and their maximum since the last call of
  // restart_peak(). Callable from any thread, without the lock: a snapshot.
  std::size_t unexpected_level() const noexcept;
  std::size_t unexpected_peak() const noexcept;
  void restart_peak() const noexcept;

  // Why a lost rank counts as lost.
  Loss loss_of(int rank) const noexcept;
  // "rank 3 (pid 4711 on node7) has ended, rank 5 (pid 12 on node9) has been unreachable for 60 s",
  // for messages about errors; the rest of a long list as a number. The world ranks may be those
  // that others report, and this process among them: where it is the one that is cut off it says
  // that instead.
  std::string describe_lost(std::span<const int> ranks) const;
  // "rank 3 (pid 4711 on node7) is lost", for a request that ended with an error.
  std::string describe(const Request& request) const;

  // Waits until everything sent has left this process's buffers, at most PEER_TIMEOUT_MS.
  Status flush();
  // The same, and notifies the peers that this process leaves in good order. Nothing may be called
  // afterwards.
  Status close();

 private:
  explicit Engine(std::unique_ptr<Shared> shared);
  Impl& of(std::uint32_t context) const noexcept;
  void wait_slow(const WaitCondition& condition, const Awaited& awaited);
  void visit_unexpected(std::size_t most, void* object,
                        void (*f)(void*, const MessageInfo&, std::uint32_t));
  void push_remote() noexcept;
  std::unique_ptr<Shared> shared_;
  Impl* const impl_;              // the first VCI
  std::atomic<bool> has_remote_;  // relaxed: as Impl::has_remote
};

}  // namespace weft::tagged
