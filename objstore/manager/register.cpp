// The memory of the segment that other hosts can read. Either each piece of it, registered once for
// good: then the key of a piece opens everything in it. Or each object for as long as it is
// offered, by a key that only the host that asked can use.
#include <algorithm>

#include "register.hpp"

namespace weft::objstore {

// The segment only grows, and each piece of it is registered once.
Status ReadableMemory::register_pieces() {
  std::uint64_t bytes;
  std::byte* data;
  {
    const auto lock = core_.server.lock();
    bytes = core_.server.objects().segment().bytes();
    data = core_.server.objects().segment().data();
  }
  const std::uint64_t begin = pieces_.empty() ? 0 : pieces_.back().begin + pieces_.back().bytes;
  if (begin == bytes) return Code::ok;
  RegisteredPiece piece{begin, bytes - begin, {}};
  if (Status status = core_.node->register_memory(data + begin, bytes - begin); !status)
    return status;
  if (Status status = core_.node->key(data + begin, kRead, piece.key); !status) return status;
  pieces_.push_back(piece);
  return Code::ok;
}

// Appends the registered ranges where a peer can read an object that is held for it.
Status ReadableMemory::offer_parts(std::uint64_t to, std::uint32_t entry, const std::byte* segment,
                                   std::byte* place, std::uint64_t bytes,
                                   std::vector<OfferPart>& parts) {
  if (!core_.settings.registers_objects) {
    if (Status status = register_pieces(); !status) return status;
    const auto offset = static_cast<std::uint64_t>(place - segment);
    for (const RegisteredPiece& piece : pieces_) {
      const std::uint64_t begin = std::max(offset, piece.begin);
      const std::uint64_t end = std::min(offset + bytes, piece.begin + piece.bytes);
      if (begin < end) parts.push_back({piece.key, begin - piece.begin, end - begin});
    }
    return Code::ok;
  }
  if (bytes == 0) return Code::ok;
  const Peer* peer = members_.link(to);
  if (peer == nullptr) return Code::peer_lost;
  const auto [found, is_new] = registered_.emplace(entry, Registered{place, 0});
  if (is_new) {
    if (Status status = core_.node->register_memory(place, bytes); !status) {
      registered_.erase(found);
      return status;
    }
    // The registration's own reference, until it is deregistered.
    const auto lock = core_.server.lock();
    core_.server.objects().hold(entry);
  }
  OfferPart part{{}, 0, bytes};
  Status status = core_.node->key(place, kRead, part.key, *peer);
  if (status) parts.push_back(part);
  return status;
}

// Counts one lease more or less on an object.
void ReadableMemory::count_lease(std::uint32_t entry, int more) {
  const auto found = registered_.find(entry);
  if (found != registered_.end()) found->second.num_leases += more;
}

// Deregisters objects without a lease. Waits until the reader's Node has let go of them too, and
// meanwhile serves others: an object may be registered anew before this one has ended.
void ReadableMemory::end_registrations() {
  std::vector<std::pair<std::uint32_t, std::byte*>> over;
  std::erase_if(registered_, [&](const auto& one) {
    if (one.second.num_leases > 0) return false;
    over.emplace_back(one.first, one.second.place);
    return true;
  });
  for (const auto& [entry, place] : over) {
    [[maybe_unused]] const Status status = core_.node->deregister_memory(place);
    const auto lock = core_.server.lock();
    core_.server.objects().drop(entry);
  }
}

void ReadableMemory::drop_all() {
  for (const auto& [entry, registered] : registered_) core_.server.objects().drop(entry);
}

}  // namespace weft::objstore
