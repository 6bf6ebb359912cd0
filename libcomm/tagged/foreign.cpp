// Foreign processes: those of other jobs, admitted one by one.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/shortage.hpp"
#include "lanes/linked/remote_lanes.hpp"
#include "tagged/impl.hpp"

namespace weft::tagged {
namespace {

// An endpoint address begins with the process's name among all jobs and its host; the addresses of
// its fabrics follow.
struct AddressHead {
  static constexpr std::uint32_t kMagic = 0x43544657;  // "WFTC"
  std::uint32_t magic;
  std::int32_t rank, pid;
  std::uint32_t host_bytes;
  std::uint64_t job;
};
constexpr std::size_t kMaxHostBytes = 256;

}  // namespace

void Engine::Impl::set_up(Peer& peer, int rank, Lanes* lanes) noexcept {
  peer.rank = rank;
  peer.lanes = lanes;
  peer.remote = lanes != nullptr && !lanes->is_mapped();
}

bool Engine::Impl::has_met(const Peer& peer) noexcept {
  return peer.out.connected() || peer.accepted || peer.listed ||
         (peer.remote && peer.lanes->remote()->has_met(peer.rank));
}

// For a lost foreign process without uses.
void Engine::Impl::forget(Peer& peer) {
  peer.lanes->remote()->forget(peer.rank);
  // Arrivals point at peers: taken before the Peer is used again.
  for (Arrivals* list : arrivals)
    for (Arrival* next = list->take(); next != nullptr; next = next->next) {
      auto* other = static_cast<Peer*>(next->reader);
      if (other != &peer && !other->lost) arriving.push_back(other);
    }
  matcher.forget(peer.rank);
  if (peer.listed) std::erase(blocked, &peer);
  {
    const std::lock_guard lock(shared.losses);
    std::erase(shared.lost, peer.rank);
  }
  const int rank = peer.rank;
  std::destroy_at(&peer);
  set_up(*std::construct_at(&peer), rank, nullptr);
  peer.lost = true;  // until the number is used again
  job.remove_foreign(rank);
}

Status Engine::endpoint_address(std::string& address) {
  const Guard guard(*impl_);
  Impl& impl = *impl_;
  return or_no_memory([&]() -> Status {
    Fabrics& fabrics = *impl.fabrics;
    if (Status status = fabrics.open_to_foreign(); !status) return status;
    impl.shared.note_fabrics();
    // release: the fabrics and their watcher; pairs with the acquire of a thread that sleeps.
    impl.has_remote.store(true, std::memory_order_release);
    has_remote_.store(true, std::memory_order_relaxed);
    const Member& self = impl.job.member(impl.job.rank());
    const std::string host = self.host.substr(0, kMaxHostBytes);
    const AddressHead head{AddressHead::kMagic, impl.job.rank(), self.pid,
                           static_cast<std::uint32_t>(host.size()), impl.job.id()};
    address.assign(reinterpret_cast<const char*>(&head), sizeof head);
    address += host;
    address += fabrics.endpoint_addresses();
    return {};
  });
}

Status Engine::admit(std::string_view address, int& number) {
  Impl& impl = *impl_;
  AddressHead head{};
  if (address.size() >= sizeof head) std::memcpy(&head, address.data(), sizeof head);
  if (head.magic != AddressHead::kMagic || head.rank < 0 || head.pid <= 0 || head.job == 0 ||
      head.host_bytes > kMaxHostBytes || head.host_bytes > address.size() - sizeof head)
    return {Code::corrupt, "not the endpoint address of a process"};
  const Guard guard(impl);
  Members& job = impl.job;
  if (head.job == job.id()) {
    number = head.rank;
    return number < job.size() ? Status() : Status(Code::corrupt, "there is no such rank");
  }
  number = job.find_foreign(head.job, head.rank);
  if (number >= 0) {
    const Peer& peer = impl.peer(number);
    if (peer.lost) return {Code::peer_lost, fmt::format("{} is lost", job.describe(number))};
    ++impl.uses_of(peer);
    return {};
  }
  // Numbers of processes that have ended, or that never exchanged a message, are freed first.
  impl.check_liveness();
  for (Peer& peer : impl.peers)
    if (impl.is_foreign(peer) && peer.lanes != nullptr && impl.uses_of(peer) == 0 &&
        (peer.lost || !Impl::has_met(peer)))
      impl.forget(peer);
  return or_no_memory([&]() -> Status {
    ForeignProcess process;
    process.name = {head.job, head.rank};
    process.pid = head.pid;
    process.host = address.substr(sizeof head, head.host_bytes);
    impl.uses_of_foreign.reserve(impl.peers.size() + 1);
    for (auto* list : {&impl.incoming, &impl.arriving, &impl.blocked})
      list->reserve(impl.peers.size() + 1);
    {
      const std::lock_guard lock(shared_->losses);
      shared_->lost.reserve(impl.peers.size() + 1);
    }
    if (Status status = job.add_foreign(process, number); !status) return status;
    Lanes* lanes = nullptr;
    Status status = or_no_memory([&] {
      return impl.fabrics->admit(number, process.name,
                                 address.substr(sizeof head + head.host_bytes), lanes);
    });
    if (!status) {
      job.remove_foreign(number);
      return status;
    }
    if (static_cast<std::size_t>(number) == impl.peers.size()) {
      impl.peers.emplace_back();
      impl.uses_of_foreign.push_back(0);
    }
    Peer& peer = impl.peer(number);
    if (std::exchange(peer.lost, false)) --impl.num_lost_peers;
    impl.set_up(peer, number, lanes);
    impl.uses_of(peer) = 1;
    return {};
  });
}

void Engine::use_foreign(int number) noexcept {
  const Guard guard(*impl_);
  ++impl_->uses_of(impl_->peer(number));
}

void Engine::release_foreign(int number) noexcept {
  const Guard guard(*impl_);
  Peer& peer = impl_->peer(number);
  // Its end must be detected so that the number is free again.
  if (--impl_->uses_of(peer) == 0 && Impl::has_met(peer)) peer.watched = true;
}

}  // namespace weft::tagged
