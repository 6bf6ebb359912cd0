#pragma once
// Core: the first part of a VCI (impl.hpp): its peers and settings, its lock, and the completion of
// requests.
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "base/short_lock.hpp"
#include "base/shortage.hpp"
#include "lanes/copy_policy.hpp"
#include "lanes/fabrics.hpp"
#include "tagged/shared.hpp"

namespace weft::tagged {

struct Core {
  Core(Engine::Shared& all, int its_number)
      : shared(all),
        number(its_number),
        job(all.job),
        fabrics(all.fabrics),
        has_remote(all.has_remote) {}

  // The whole VCI, for calls to later parts.
  Engine::Impl& vci() noexcept;
  const Engine::Impl& vci() const noexcept;

  Peer& peer(int rank) noexcept { return peers[static_cast<std::size_t>(rank)]; }
  // Foreign processes are peers of the first VCI alone.
  bool is_peer(int rank) const noexcept { return static_cast<std::size_t>(rank) < peers.size(); }
  std::uint32_t ring_min_of(const Lanes& lanes) const noexcept {
    return std::max(ring_min, lanes.limits().ring_min);
  }
  // again: a remote peer has not answered yet; queued sends leave once it has.
  Code connect(Peer& peer) {
    if (peer.lost) return Code::peer_lost;
    return peer.out.connected() ? Code::ok : connect_first(peer);
  }
  // Returns true while an operation without memory or descriptors is to be retried: until
  // Settings::patience_ns() has passed.
  bool is_before_deadline(Peer& peer, std::uint64_t& since_ns, std::string_view why);
  // Logs a line about a peer, whose description is the first argument of the format.
  template <class... Args>
  void log_peer(LogLevel level, int rank, fmt::format_string<std::string, Args...> format,
                Args&&... args) const noexcept {
    (void)or_no_memory([&] {
      log_line(level, job.rank(), format, job.describe(rank), std::forward<Args>(args)...);
    });
  }
  void complete(Request& request, Code code) noexcept;
  // Completes with `truncated` if the message was longer than the buffer.
  void complete_receive(Request& request, Code code) noexcept;

  Engine::Shared& shared;
  const int number;  // also that of its lanes' client
  Members& job;
  std::unique_ptr<Fabrics>& fabrics;
  std::atomic<bool>& has_remote;
  HostLanes* local = nullptr;  // with this process's doorbells
  // By world rank, then foreign processes. Never moves: its capacity is for all.
  std::vector<Peer> peers;
  Matcher matcher;
  std::uint64_t num_begun = 0, num_completed = 0;  // requests
  // Before the first receive.
  void set_threaded(bool is_threaded) noexcept {
    threaded = is_threaded;
    if (threaded) matcher.separate_tags();
  }
  std::atomic<int> num_waiting{0};  // threads that wait for this VCI, if more than one may call
  bool threaded = false;
  ShortLock mutex;

  CopyPolicy on_host;  // of peers of this host
  std::uint32_t ring_min = 0, ring_max = 0;
  bool crowded = false;  // more processes than cores on this host
  bool closed = false;

 private:
  Code connect_first(Peer& peer);
};

inline void Core::complete(Request& request, Code code) noexcept {
  ++num_completed;
  request.code = code;
  request.phase = kIdle;
  // release: results before the flag; pairs with is_complete(). The caller may free it from here
  // on.
  request.complete.store(Request::kOver, std::memory_order_release);
  // Another thread of this process may sleep until this request is complete. It has added itself to
  // num_waiting before it armed the doorbell, and so before that fence (base/wait.hpp).
  if (num_waiting.load(std::memory_order_relaxed) != 0) ring_doorbell(local->sleeping(0));
}

inline void Core::complete_receive(Request& request, Code code) noexcept {
  const bool is_cut = code == Code::ok && request.received > request.length;
  complete(request, is_cut ? Code::truncated : code);
}

}  // namespace weft::tagged
