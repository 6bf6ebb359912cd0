#pragma once
// Engine: tagged messages between the processes of a job. Matching by source, tag and context, with
// wildcards, in the order of sending (MPI's matching rules, MPI 5.0 section 3.5). MPI and the
// collectives are its clients.
//
// Peers are world ranks. A context is a number that separates communicators; a message matches only
// within its context. Every call may make progress on everything pending. No call blocks unless its
// comment says so.
//
// Threads: any thread may call anything once set_threaded(true) was called; before that only one
// thread at a time may.
//
// Virtual communication interfaces (VCIs, as MPICH has them; R. Zambre et al., "How I Learned to
// Stop Worrying About User-Visible Endpoints and Love MPI", ICS 2020). Each has a lock, a matcher
// and lanes of its own, so that threads that use contexts of different ones do not wait for each
// other. Which one a context lies in is part of its number, so that both sides agree: most lie in
// the first; those with kThreadContext are spread over the others.
//
// Failure: when a peer is lost, requests that name it complete with peer_lost, receives from
// kAnySource in any context complete with peer_lost too (the sender may have been the lost one),
// and later operations with it complete with peer_lost at once. Other peers are not affected.
//
// Memory: what there is none for waits until there is, for as long as a silent peer may take; then
// the peer is lost. Only irecv itself waits for it, where it finds an announced message; then it
// completes with no_memory and leaves the message to the next.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/wait.hpp"
#include "job/members.hpp"
#include "tagged/request.hpp"
#include "weft/status.hpp"

namespace weft {
class Fabrics;
}

namespace weft::tagged {

// What an engine tells whoever observes it.
struct Notice {
  enum class Kind : std::uint8_t {
    lost,        // the peer, which had not left in good order
    over_bound,  // so many bytes of the peer wait unmatched that it is asked to announce
    shared       // memory here, so that the peer can get a long message from it
  };
  Kind kind;
  int peer;
  const void* address;
  std::uint64_t bytes;
};

// Contexts from this one on are of clients' groups that may have strangers.
inline constexpr std::uint32_t kAcrossJobs = std::uint32_t{1} << 31;
// For contexts that threads of whoever gives them may use at once.
inline constexpr std::uint32_t kThreadContext = std::uint32_t{1} << 30;

// Of waits for something that may happen in any of them.
inline constexpr std::uint32_t kAnyContext = ~std::uint32_t{0};

inline constexpr int kNumVcis = kNumEngineClients;
// Two contexts that differ in the lowest bit only lie in the same one.
constexpr int vci_of(std::uint32_t context) noexcept {
  return context >> 30 == 1 ? 1 + static_cast<int>((context >> 1) % (kNumVcis - 1)) : 0;
}

class Engine {
 public:
  struct Impl;    // one VCI; tagged/impl.hpp; for the engine's own files
  struct Shared;  // what they share; there, too

  // Sets up this process's memory and learns how to reach the others: collective over the job.
  static Status create(Members& job, std::unique_ptr<Engine>& engine);
  ~Engine();

  int rank() const noexcept;
  int size() const noexcept;
  Members& job() noexcept;

  void set_threaded(bool threaded) noexcept;
  bool is_threaded() const noexcept;
  bool has_vcis() const noexcept;  // more than one

  // Makes the VCI of this context. To be called before anything else names the context; with one
  // below kThreadContext or from kAcrossJobs on it does nothing. no_memory.
  Status open_context(std::uint32_t context);

  // The context is no longer in use; its number may be used again.
  void close_context(std::uint32_t context) noexcept;

  // Told of what happens to all messages together; null for none. Called with the engine's lock
  // held: it must not call the engine.
  void set_observer(void (*observer)(const Notice&) noexcept) noexcept;

  // Called in every step of every wait, with no lock held; null for none. For what a client does in
  // the background, such as nonblocking collectives: it may start messages but not wait for any.
  // before_sleep: the thread sleeps next unless its wait is over. What another thread is about to
  // find possible, it would not wake up for, so that it must be looked for then.
  void set_background(void (*work)(bool before_sleep)) noexcept;

  // Starts a send of `length` bytes. The data may be reused once the request is complete. Standard
  // sends may complete before they are matched, synchronous ones only after.
  void isend(Request& request, int peer, std::uint32_t context, std::int32_t tag, const void* data,
             std::size_t length, bool synchronous = false);

  // Sends without a request if that is possible right now (message small, room in the ring).
  // True: the message is on its way and `data` may be reused. False: nothing happened.
  // later: it may wait for others that follow, until anything here makes progress, push() is called
  // or about 100 us have passed.
  bool try_send(int peer, std::uint32_t context, std::int32_t tag, const void* data,
                std::size_t length, bool later = false);
  // What waits so is on its way afterwards.
  void push() noexcept {
    if (has_remote_.load(std::memory_order_relaxed)) [[unlikely]]
      push_remote();
  }

  // Receives without a request if the message is the next one from its source, or will be within
  // the time of some looks (small message; source and context exact). True: it is in `buffer`, and
  // `info` tells what it was. False: nothing happened, and irecv is to be called.
  bool try_receive(int source, std::uint32_t context, std::int32_t tag, void* buffer,
                   std::size_t room, MessageInfo& info);

  // Posts a receive. `source` may be kAnySource, `tag` kAnyTag (which matches tags >= 0 only:
  // negative tags are for internal use and match exactly).
  void irecv(Request& request, int source, std::uint32_t context, std::int32_t tag, void* buffer,
             std::size_t room);

  // Takes back a receive that has not matched yet, or a send that has not left: true, and the
  // request is complete with cancelled. False for all others, which complete as usual, but for
  // announced sends: these are asked back, and complete with cancelled if the receiver had not
  // matched.
  bool cancel(Request& request);

  // Looks for a message that an irecv with these arguments would match. Makes progress once. `code`
  // of the return: ok, again (none yet) or peer_lost (and none can come).
  Code iprobe(int source, std::uint32_t context, std::int32_t tag, MessageInfo& info);
  // The same, and takes the message out of matching; it must be received by irecv_matched.
  Code improbe(int source, std::uint32_t context, std::int32_t tag, MessageInfo& info,
               Unexpected*& message);
  // False: there is no memory, and nothing happened.
  [[nodiscard]] bool irecv_matched(Request& request, Unexpected* message, void* buffer,
                                   std::size_t room);

  // Losses. A peer is lost once it has died, is silent for PEER_TIMEOUT_MS, has left, or has sent
  // what no peer sends. What it had sent before is still received. Then everything that needs it
  // ends with peer_lost, whenever it was begun:
  //   - sends to it, and receives and probes from it, always;
  //   - a receive or probe from any source for which no message is there, if the peer may send in
  //     its context: every receive that is posted when the peer is lost, or else the first receive
  //     or probe after that. So each loss is reported to each context, as its owner may have
  //     waited for that very peer; what begins later waits for those that are left, and ends with
  //     peer_lost at once where nobody is.
  // A probe from any source for a negative tag, which is the library's own, reports no loss.
  // request.peer, or info.source, names the peer. A loss is reported once for all earlier ones.
  //
  // Who may send in a context; empty: not known, so all ranks may. The numbers last as long as the
  // context. Called off the hot path, with the engine's lock held: it must not call the engine.
  void set_senders(std::span<const int> (*senders)(std::uint32_t context) noexcept) noexcept;

  // Strangers: processes of other jobs (job.hpp), which have numbers from size() on; their numbers
  // go wherever ranks do. What this process tells strangers, so that they can admit it. unsupported
  // if there is no fabric for them.
  Status card(std::string& card);
  // Gives the process with this card a number, the one that it has if it is known already (its rank
  // in this job, if it is of it), and counts a use of it. It must not send to this process before
  // that. corrupt: that is no card; unsupported: no fabric in common; peer_lost: it has ended.
  Status admit(std::string_view card, int& number);
  // One more use, or one less, of a stranger's number. One that is lost and of no use gives its
  // number back one day, and what is kept for it.
  void use_stranger(int number) noexcept;
  void unuse_stranger(int number) noexcept;

  // Moves everything pending forward once, for a call that tests; rests if that completed nothing.
  // Of the VCIs that of this context, and the others at times; of kAnyContext all.
  void progress(std::uint32_t context = kAnyContext);
  // For a call that has tested in vain, as programs do until it succeeds: with more processes than
  // cores the others get this one's, and lost peers are looked for, as in waits.
  void rest();

  // Blocks until the request is complete, making progress; returns its code.
  Code wait(Request& request) {
    wait_until([&request] { return request.is_complete(); }, request.context);
    return request.code;
  }

  // Blocks until `done()` is true, making progress, polling first, then yielding, then asleep until
  // the doorbell rings. `done` reads memory that this process's progress or a peer writes; a peer
  // that writes it must call ring(this rank) afterwards. context: if it waits for nothing but
  // requests of this one.
  template <class Done>
  void wait_until(Done&& done, std::uint32_t context = kAnyContext) {
    if (done()) return;
    wait_slow(WaitCondition(done), context);
  }

  // For a thread of the client's own that makes progress while nobody else does: the same, asleep
  // from the start; whether others wait; and whether there are requests that are not complete.
  void wait_asleep(const WaitCondition& condition);
  bool has_callers() const noexcept;
  bool has_requests() noexcept;

  // Makes ring(peer) reach a process of this host that no message has been exchanged with. To be
  // called once before ring(), off the datapath.
  Status open_doorbell(int peer);

  // Wakes `peer` (a process of this host, or this one) if it sleeps in wait_until. Costs one load
  // when it does not. Call after the stores it waits for.
  void ring(int peer) noexcept;

  // What moves the bytes; for the transport's exchanges, which have lanes of their own.
  Fabrics& fabrics() noexcept;
  // Looks for dead peers now, as waits do; costs a system call a peer at most every 20 ms. Peers on
  // other hosts are looked after once messages or a receive of this engine need them, or watch()
  // was called.
  void look_for_lost();
  // Looks after this peer from now on: a client has lanes of its own to it.
  void watch(int peer) noexcept;
  // For whoever has heard from a fabric that the peer is gone, which may be before it is noticed
  // here: from now on it is lost for all.
  void lose(int peer);

  // False once the peer is known to be dead. A dead peer is noticed within 100 ms of any wait.
  bool is_alive(int peer) const noexcept;
  // Whether a lost peer left in good order: it had come to the end of all that it took part in.
  bool has_left(int peer) const noexcept;
  // Lost peers so far; when it changes, waits on shared flags should look at is_alive.
  std::uint32_t num_lost() const noexcept;
  const std::atomic<std::uint32_t>& lost_counter() const noexcept;
  // Who is lost, in the order in which it was noticed.
  std::vector<int> lost() const;
  // For messages about errors: a peer that others have said is lost; -1: none.
  void note_told(int peer) noexcept;
  int last_told() const noexcept;
  // The messages of this context that have come before they were asked for, so far: what a client
  // that waits for something else should look at. Of one context; to be set before any of it comes.
  void count_unexpected_of(std::uint32_t context) noexcept;
  std::uint32_t num_unexpected() const noexcept;

  // Messages of all contexts that wait unmatched now, and the most there have been since the last
  // call of restart_peak(). For any thread, and without the lock: a moment's value.
  std::size_t unexpected_level() const noexcept;
  std::size_t unexpected_peak() const noexcept;
  void restart_peak() const noexcept;

  // "rank 3 (pid 4711 on node7) is lost", for a request that ended with an error.
  std::string describe(const Request& request) const;

  // Everything sent has left this process's buffers. Blocks, bounded by PEER_TIMEOUT_MS.
  Status flush();
  // The same, and peers are told that this one leaves in good order. Nothing may be called
  // afterwards.
  Status close();

 private:
  explicit Engine(std::unique_ptr<Shared> shared);
  Impl& of(std::uint32_t context) const noexcept;
  void wait_slow(const WaitCondition& condition, std::uint32_t context);
  void push_remote() noexcept;
  std::unique_ptr<Shared> shared_;
  Impl* const impl_;              // the first VCI
  std::atomic<bool> has_remote_;  // relaxed: as Impl::has_remote
};

}  // namespace weft::tagged
