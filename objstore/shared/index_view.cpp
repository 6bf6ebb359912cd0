// The index as clients see it: read without locks while the store changes it.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "index.hpp"

namespace weft::objstore {

Status IndexView::map(const Descriptor& file) {
  if (Status status = memory_.map(file, kIndexBytes, false); !status) return status;
  if (header().magic != kIndexMagic || header().layout_version != kLayoutVersion)
    return {Code::corrupt, "the store's index is of another version; use the store's own library"};
  return Code::ok;
}

bool is_of(const Entry& entry, const IdTail& tail, const ObjectId& id) {
  if (entry.id_bytes != id.size) return false;
  const std::size_t head = std::min<std::size_t>(id.size, kIdHeadBytes);
  return std::memcmp(entry.id_head, id.bytes.data(), head) == 0 &&
         (head == id.size || std::memcmp(tail.bytes, id.bytes.data() + head, id.size - head) == 0);
}

bool IndexView::find(const ObjectId& id, Found& found) const {
  const std::uint32_t fingerprint = fingerprint_of(id);
  // acquire: the table's contents; pairs with grow_table.
  const int bits =
      std::clamp<int>(static_cast<int>(header().table_bits.load(std::memory_order_acquire)),
                      kMinTableBits, kMaxTableBits);
  const auto* buckets = reinterpret_cast<const Bucket*>(memory_.data() + table_offset(bits));
  const std::uint32_t mask = (1u << bits) - 1;
  for (std::uint32_t probe = 0; probe <= mask; ++probe) {
    // acquire: the entry it names; pairs with insert.
    const std::uint64_t bucket =
        buckets[(fingerprint + probe) & mask].load(std::memory_order_acquire);
    if (bucket == 0) return false;
    if (bucket >> 32 != fingerprint) continue;
    const std::uint32_t number = static_cast<std::uint32_t>(bucket) - 1;
    const Entry& entry = this->entry(number);
    // acquire: the fields that were written before it; pairs with Objects::publish.
    const std::uint32_t version = entry.version.load(std::memory_order_acquire);
    if (version % 2 != 0 || !is_of(entry, tail(number), id)) continue;
    found = {number,           version,          entry.offset,
             entry.data_bytes, entry.expires_ns, entry.metadata_bytes};
    // acquire: the reads above come before the second read of the version.
    std::atomic_thread_fence(std::memory_order_acquire);
    return entry.version.load(std::memory_order_relaxed) == version;
  }
  return false;
}

}  // namespace weft::objstore
