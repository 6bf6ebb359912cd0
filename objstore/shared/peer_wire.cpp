#include "peer_wire.hpp"

#include <cstring>
#include <type_traits>

namespace weft::objstore {
namespace {

template <class T>
void append(std::string& bytes, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_members(std::string& bytes, const std::vector<Member>& members) {
  append(bytes, static_cast<std::uint32_t>(members.size()));
  for (const Member& member : members) {
    append(bytes, member.generation);
    append(bytes, static_cast<std::uint32_t>(member.address.size()));
    bytes += member.address;
  }
}

struct Reader {
  std::span<const std::byte> rest;
  bool is_ok = true;

  template <class T>
  void read(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (rest.size() < sizeof value) {
      is_ok = false;
      return;
    }
    std::memcpy(&value, rest.data(), sizeof value);
    rest = rest.subspan(sizeof value);
  }
  void read(ObjectId& id) {
    read(id.size);
    if (!is_ok || rest.size() < id.size) {
      is_ok = false;
      id.size = 0;
      return;
    }
    std::memcpy(id.bytes.data(), rest.data(), id.size);
    rest = rest.subspan(id.size);
  }
  // Reads the count of items that take at least `each` bytes.
  std::size_t count(std::size_t most, std::size_t each) {
    std::uint32_t num = 0;
    read(num);
    if (num > most || num > rest.size() / each) is_ok = false;
    return is_ok ? num : 0;
  }
  void read(std::vector<Member>& members) {
    const std::size_t num = count(kMaxMembers, 12);
    for (std::size_t i = 0; i < num && is_ok; ++i) {
      Member member;
      read(member.generation);
      const std::size_t length = count(kMaxAddressBytes, 1);
      if (!is_ok) return;
      member.address.assign(reinterpret_cast<const char*>(rest.data()), length);
      rest = rest.subspan(length);
      members.push_back(std::move(member));
    }
  }
};

// True for kinds that make the receiver store something under the id.
bool needs_id(PeerKind kind) {
  return kind == PeerKind::announce || kind == PeerKind::watch || kind == PeerKind::ask ||
         kind == PeerKind::keep || kind == PeerKind::push;
}

}  // namespace

std::uint8_t version_of(std::span<const std::byte> bytes) {
  // The shortest head: version, kind, an empty id, number.
  return bytes.size() < 11 ? 0 : static_cast<std::uint8_t>(bytes.front());
}

std::string encode(const PeerMessage& message) {
  std::string bytes;
  append(bytes, kPeerVersion);
  append(bytes, message.kind);
  append(bytes, message.id.size);
  bytes += message.id.view();
  append(bytes, message.number);
  switch (message.kind) {
    case PeerKind::members:
    case PeerKind::socket:
      append_members(bytes, message.members);
      break;
    case PeerKind::push:
      append(bytes, message.data_bytes);
      append(bytes, message.metadata_bytes);
      append(bytes, message.stamp);
      break;
    case PeerKind::push_answer:
      append(bytes, message.code);
      append(bytes, message.reason);
      append(bytes, message.wants_checksum);
      append_members(bytes, message.members);
      break;
    case PeerKind::push_group:
      append(bytes, message.group);
      append(bytes, message.block_bytes);
      append(bytes, message.checksum);
      append_members(bytes, message.members);
      break;
    case PeerKind::push_end:
      append(bytes, message.code);
      append(bytes, message.reason);
      break;
    case PeerKind::holders:
      append(bytes, message.is_deleted);
      append(bytes, static_cast<std::uint32_t>(message.holders.size()));
      for (const std::uint64_t holder : message.holders) append(bytes, holder);
      break;
    case PeerKind::watch:
    case PeerKind::ask:
      append(bytes, message.threshold);
      append(bytes, message.wants_checksum);
      break;
    case PeerKind::data:
      append(bytes, message.data_bytes);
      append(bytes, message.metadata_bytes);
      append(bytes, message.stamp);
      append(bytes, message.checksum);
      bytes.append(reinterpret_cast<const char*>(message.contents.data()), message.contents.size());
      break;
    case PeerKind::offer:
      append(bytes, message.data_bytes);
      append(bytes, message.metadata_bytes);
      append(bytes, message.stamp);
      append(bytes, message.checksum);
      append(bytes, message.lease_ms);
      append(bytes, static_cast<std::uint32_t>(message.parts.size()));
      for (const OfferPart& part : message.parts) {
        append(bytes, part.key);
        append(bytes, part.offset);
        append(bytes, part.bytes);
      }
      break;
    default:
      break;
  }
  return bytes;
}

bool decode(std::span<const std::byte> bytes, PeerMessage& message) {
  message = {};
  Reader reader{bytes};
  std::uint8_t version = 0, kind = 0;
  reader.read(version);
  reader.read(kind);
  reader.read(message.id);
  if (needs_id(static_cast<PeerKind>(kind)) && message.id.size == 0) return false;
  reader.read(message.number);
  if (!reader.is_ok || version != kPeerVersion || kind < 1 ||
      (kind > static_cast<std::uint8_t>(PeerKind::confirmed) &&
       kind != static_cast<std::uint8_t>(PeerKind::socket)))
    return false;
  message.kind = static_cast<PeerKind>(kind);
  switch (message.kind) {
    case PeerKind::members:
    case PeerKind::socket:
      reader.read(message.members);
      break;
    case PeerKind::push:
      reader.read(message.data_bytes);
      reader.read(message.metadata_bytes);
      reader.read(message.stamp);
      break;
    case PeerKind::push_answer: {
      std::uint8_t wants_checksum = 0;
      reader.read(message.code);
      reader.read(message.reason);
      reader.read(wants_checksum);
      message.wants_checksum = wants_checksum != 0;
      reader.read(message.members);
      break;
    }
    case PeerKind::push_group:
      reader.read(message.group);
      reader.read(message.block_bytes);
      reader.read(message.checksum);
      reader.read(message.members);
      break;
    case PeerKind::push_end:
      reader.read(message.code);
      reader.read(message.reason);
      break;
    case PeerKind::holders: {
      std::uint8_t is_deleted = 0;
      reader.read(is_deleted);
      message.is_deleted = is_deleted != 0;
      const std::size_t num = reader.count(kMaxMembers, 8);
      message.holders.resize(num);
      for (std::uint64_t& holder : message.holders) reader.read(holder);
      break;
    }
    case PeerKind::watch:
    case PeerKind::ask: {
      std::uint8_t wants_checksum = 0;
      reader.read(message.threshold);
      reader.read(wants_checksum);
      message.wants_checksum = wants_checksum != 0;
      break;
    }
    case PeerKind::data:
      reader.read(message.data_bytes);
      reader.read(message.metadata_bytes);
      reader.read(message.stamp);
      reader.read(message.checksum);
      message.contents = reader.rest;
      if (message.data_bytes > reader.rest.size() ||
          reader.rest.size() - message.data_bytes != message.metadata_bytes)
        return false;
      reader.rest = {};
      break;
    case PeerKind::offer: {
      reader.read(message.data_bytes);
      reader.read(message.metadata_bytes);
      reader.read(message.stamp);
      reader.read(message.checksum);
      reader.read(message.lease_ms);
      const std::size_t num = reader.count(kMaxParts, sizeof(OfferPart));
      message.parts.resize(num);
      std::uint64_t sum = 0;
      for (OfferPart& part : message.parts) {
        reader.read(part.key);
        reader.read(part.offset);
        reader.read(part.bytes);
        if (part.bytes > UINT64_MAX - sum) return false;
        sum += part.bytes;
      }
      // The parts are the object, no more and no less.
      if (message.data_bytes > sum || sum - message.data_bytes != message.metadata_bytes)
        return false;
      break;
    }
    default:
      break;
  }
  return reader.is_ok && reader.rest.empty();
}

}  // namespace weft::objstore
