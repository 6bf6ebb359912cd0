// Creation of VCIs and connections of peers: everything off the hot path.
#include <fmt/core.h>

#include <algorithm>

#include "base/log.hpp"
#include "base/shortage.hpp"
#include "lanes/linked/remote_lanes.hpp"
#include "tagged/impl.hpp"

namespace weft::tagged {

namespace {

// Polls of a ring in try_receive: about the round trip of a short message.
constexpr unsigned kReceivePolls = 256;
// SharedCopy records of each VCI but the first.
constexpr std::uint32_t kCopiesOfOthers = 8;

}  // namespace

Engine::Shared::Shared(Members& the_job)
    : job(the_job), fates(static_cast<std::size_t>(the_job.size())) {
  lost.reserve(fates.size());
}
Engine::Shared::~Shared() = default;

Status Engine::Shared::make(int number) {
  const auto i = static_cast<std::size_t>(number);
  const std::lock_guard lock(making);
  if (owned[i] != nullptr) return {};
  auto vci = std::make_unique<Impl>(*this, number);
  if (Status status = vci->start(); !status) return status;
  owned[i] = std::move(vci);
  owned[i]->set_threaded(first().threaded);
  {
    const std::lock_guard losing(losses);
    num_vcis.fetch_add(1, std::memory_order_relaxed);
  }
  // Before the first receive here, to which earlier losses must not be reported.
  if (number != 0) owned[i]->check_liveness();
  vcis[i].store(owned[i].get(), std::memory_order_release);
  return {};
}

Status Engine::Impl::start() {
  const Settings& settings = job.settings();
  ring_min = static_cast<std::uint32_t>(settings.bytes(Setting::ring_min_bytes));
  ring_max = static_cast<std::uint32_t>(settings.bytes(Setting::ring_max_bytes));
  if (ring_min < 4096 || ring_max < ring_min || ring_max > (1u << 30) || ring_min % 4096 != 0 ||
      ring_max % 4096 != 0)
    return {
        Code::bad_setting,
        fmt::format("WEFT_RING_MIN_BYTES={} and WEFT_RING_MAX_BYTES={} must be multiples of 4096, "
                    "from 4096 to 1G, in this order",
                    ring_min, ring_max)};
  on_host = CopyPolicy::read(settings, RingWriter::max_length(ring_min));
  on_host.eager_max_bytes = std::min<std::size_t>(on_host.eager_max_bytes, ring_max);
  plain_below = std::min(kShortBytes + 1, on_host.piece_bytes);
  unexpected_max = settings.bytes(Setting::unexpected_max_bytes);
  spin_ns = settings.ns(Setting::spin_us);
  yield_ns = settings.ns(Setting::yield_us);

  crowded = job.is_crowded();
  fence_works = heavy_fence_register();
  receive_polls = crowded ? 0 : kReceivePolls;

  if (number == 0) {
    if (Status status = Fabrics::open(job, fabrics); !status) return status;
    has_remote = !fabrics->remote().empty();
    shared.note_fabrics();
  }
  local = &fabrics->local();
  connections = &local->connections();
  // Peers may have connected before.
  known_connections = connections->load(std::memory_order_relaxed) - 1;
  known_remote_connections.assign(kMaxRemoteFabrics, number == 0 ? 0 : ~std::uint32_t{0});
  // Pages for foreign processes, which the first VCI has, are not touched before the first of them.
  peers.reserve(static_cast<std::size_t>(job.size()) + (number == 0 ? kMaxForeignProcesses : 0));
  peers.resize(static_cast<std::size_t>(job.size()));
  for (int rank = 0; rank < job.size(); ++rank) {
    set_up(peer(rank), rank, fabrics->to(rank));
    some_apart |= peer(rank).lanes == nullptr;
    is_exceptional = some_apart;
  }
  // Each list has a peer once at most, so it never allocates later.
  for (auto* list : {&incoming, &arriving, &blocked}) list->reserve(peers.size());
  arrivals.reserve(kMaxRemoteFabrics);
  const std::uint32_t firsts = kNumSharedCopies - (kNumVcis - 1) * kCopiesOfOthers;
  const std::uint32_t begin =
      number == 0 ? 0 : firsts + static_cast<std::uint32_t>(number - 1) * kCopiesOfOthers;
  const std::uint32_t end = number == 0 ? firsts : begin + kCopiesOfOthers;
  for (std::uint32_t i = begin; i < end; ++i) free_records.push_back(i);
  closing_records.reserve(end - begin);
  return {};
}

Code Core::connect_first(Peer& peer) {
  if (peer.lanes == nullptr) {
    (void)or_no_memory(
        [&] { log_line(LogLevel::error, job.rank(), "{}", fabrics->explain(peer.rank)); });
    vci().lose(peer);
    return Code::peer_lost;
  }
  SendMemory& memory = peer.send_memory;
  const int channel = channel_number({static_cast<std::uint16_t>(number), 0, 0});
  Status status;
  if (memory.ring == nullptr) status = peer.lanes->connect(peer.rank, channel, memory);
  if (!status) {
    memory = {};
    if (status == Code::again || (status == Code::no_memory &&
                                  is_before_deadline(peer, peer.no_send_memory_ns, status.text())))
      return Code::again;
    // If the peer has died, the error of the operation reports it.
    log_peer(status == Code::peer_lost ? LogLevel::info : LogLevel::error, peer.rank,
             "cannot connect to {}: {}", status.text());
    vci().lose(peer);
    return Code::peer_lost;
  }
  const std::uint32_t maximum = memory.ring_bytes != 0 ? memory.ring_bytes : ring_max;
  const std::uint32_t least = ring_min_of(*peer.lanes);
  const Code opened = or_no_memory([&] {
    peer.out.open(*peer.lanes, memory, std::min(least, maximum), maximum,
                  {peer.rank, job.member(peer.rank).host});
  });
  if (opened != Code::ok) return Code::again;
  peer.no_send_memory_ns = 0;
  if (peer.remote) {
    const std::size_t eager_max = peer.lanes->limits().eager_max;
    peer.copy_policy = CopyPolicy::plain(RingWriter::max_length(std::min(least, maximum)),
                                         eager_max != 0 ? eager_max : on_host.eager_max_bytes);
    return Code::ok;
  }
  peer.out.ring.populate();
  peer.copy_policy = on_host;
  ring_doorbell(*peer.out.sleeping);
  return Code::ok;
}

bool Core::is_before_deadline(Peer& peer, std::uint64_t& since_ns, std::string_view why) {
  const std::uint64_t now = now_ns();
  if (since_ns == 0) {
    since_ns = now;
    log_peer(LogLevel::warn, peer.rank, "messages with {} are delayed: {}", why);
  }
  return now - since_ns < job.settings().patience_ns();
}

}  // namespace weft::tagged
