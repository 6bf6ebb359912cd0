#include "coll/switch/packet.hpp"

#include <cstring>

namespace weft::innet {
namespace {

class Writer {
 public:
  explicit Writer(std::byte* to) noexcept : to_(to) {}
  template <class T>
  void number(T value) noexcept {
    for (std::size_t i = sizeof(T); i-- > 0;)
      *to_++ = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
  void bytes(const void* from, std::size_t count) noexcept {
    if (count != 0) std::memcpy(to_, from, count);
    to_ += count;
  }
  void address(const Address& address) noexcept {
    const auto raw = mapped(address);
    bytes(raw.data(), raw.size());
    number(address.port);
  }
  std::byte* place() const noexcept { return to_; }

 private:
  std::byte* to_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> rest) noexcept : rest_(rest) {}
  template <class T>
  T number() noexcept {
    if (rest_.size() < sizeof(T)) {
      ok_ = false;
      return T{};
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      value = value << 8 | static_cast<std::uint64_t>(rest_[i]);
    rest_ = rest_.subspan(sizeof(T));
    return static_cast<T>(value);
  }
  void bytes(void* to, std::size_t count) noexcept {
    if (rest_.size() < count) {
      ok_ = false;
      return;
    }
    std::memcpy(to, rest_.data(), count);
    rest_ = rest_.subspan(count);
  }
  Address address() noexcept {
    Address address;
    std::array<std::uint8_t, 16> raw{};
    bytes(raw.data(), raw.size());
    set_mapped(address, raw);
    address.port = number<std::uint16_t>();
    return address;
  }
  bool flag() noexcept {
    const auto value = number<std::uint8_t>();
    ok_ = ok_ && value <= 1;
    return value == 1;
  }
  bool ok() const noexcept { return ok_; }
  std::span<const std::byte> rest() const noexcept { return rest_; }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

// Writes bodies, which are not on the datapath.
class Body {
 public:
  Body() : writer_(room_.data()) {}
  Writer& operator()() noexcept { return writer_; }
  std::vector<std::byte> take() const {
    return {room_.data(), static_cast<const std::byte*>(writer_.place())};
  }

 private:
  std::array<std::byte, kQueryBytes> room_{};
  Writer writer_;
};

}  // namespace

std::string_view text(Answer answer) noexcept {
  switch (answer) {
    case Answer::ok:
      return "ok";
    case Answer::pending:
      return "waiting for others";
    case Answer::no_group:
      return "knows no such group: restarted, or the lease ended";
    case Answer::table_full:
      return "its table is full";
    case Answer::conflict:
      return "the group's number or child is taken";
    case Answer::unsupported:
      return "cannot compute that";
    case Answer::mismatch:
      return "contributions differ in type, operation or length";
    case Answer::out_of_step:
      return "the slot is not free yet";
    case Answer::parent_silent:
      return "the switch above does not answer";
    case Answer::bad_format:
      return "does not understand the packet";
    case Answer::has:
      return "has the result";
    case Answer::lacks:
      return "lacks the result";
    case Answer::kEnd:
      break;
  }
  return "?";
}

std::size_t write_packet(std::span<std::byte> out, const Header& header,
                         std::span<const std::byte> payload) noexcept {
  if (out.size() < kHeaderBytes + payload.size()) return 0;
  Writer write(out.data());
  write.number(kMagic);
  write.number(kVersion);
  write.number(static_cast<std::uint8_t>(header.kind));
  write.number(header.group);
  write.number(header.key);
  write.number(header.ticket);
  write.number(header.epoch);
  write.number(header.child);
  write.number(static_cast<std::uint8_t>(header.answer));
  write.number(header.operation);
  write.number(header.offset);
  write.number(header.slot);
  write.number(static_cast<std::uint8_t>(header.element));
  write.number(static_cast<std::uint8_t>(header.arithmetic));
  write.number(static_cast<std::uint16_t>(payload.size()));
  write.number(std::uint16_t{0});
  write.bytes(payload.data(), payload.size());
  return kHeaderBytes + payload.size();
}

std::optional<Packet> read_packet(std::span<const std::byte> bytes) noexcept {
  if (bytes.size() < kHeaderBytes || bytes.size() > kMaxPacketBytes) return std::nullopt;
  Reader read(bytes);
  if (read.number<std::uint16_t>() != kMagic || read.number<std::uint8_t>() != kVersion)
    return std::nullopt;
  Packet packet;
  Header& header = packet.header;
  const auto kind = read.number<std::uint8_t>();
  header.kind = static_cast<Kind>(kind);
  header.group = read.number<std::uint32_t>();
  header.key = read.number<std::uint64_t>();
  header.ticket = read.number<std::uint32_t>();
  header.epoch = read.number<std::uint16_t>();
  header.child = read.number<std::uint8_t>();
  const auto answer = read.number<std::uint8_t>();
  header.answer = static_cast<Answer>(answer);
  header.operation = read.number<std::uint32_t>();
  header.offset = read.number<std::uint32_t>();
  header.slot = read.number<std::uint16_t>();
  const auto element = read.number<std::uint8_t>();
  header.element = static_cast<Element>(element);
  const auto operation = read.number<std::uint8_t>();
  header.arithmetic = static_cast<Operation>(operation);
  const auto length = read.number<std::uint16_t>();
  const auto reserved = read.number<std::uint16_t>();
  if (kind == 0 || kind >= static_cast<std::uint8_t>(Kind::kEnd) ||
      answer >= static_cast<std::uint8_t>(Answer::kEnd) || element >= kNumElements ||
      operation >= kNumOperations || reserved != 0 || length != read.rest().size())
    return std::nullopt;
  packet.payload = read.rest();
  return packet;
}

std::vector<std::byte> encode(const Capabilities& body) {
  Body out;
  Writer& write = out();
  write.number(body.role);
  write.number(body.features);
  write.number(body.elements);
  write.number(body.operations);
  write.number(body.payload_bytes);
  write.number(body.max_children);
  write.number(body.groups);
  write.number(body.free_groups);
  write.number(body.slots);
  write.number(body.free_slots);
  write.number(static_cast<std::uint8_t>(body.spines.size()));
  for (const auto& spine : body.spines) {
    write.address(spine.address);
    write.number(spine.below);
    write.number(static_cast<std::uint8_t>(spine.answers));
    write.number(spine.features);
    write.number(spine.elements);
    write.number(spine.operations);
    write.number(spine.payload_bytes);
    write.number(spine.max_children);
    write.number(spine.free_groups);
  }
  return out.take();
}
static_assert(31 + kMaxKnown * 37 <= kQueryBytes && kQueryBytes <= kMaxPayloadBytes);

std::optional<Capabilities> decode_capabilities(std::span<const std::byte> bytes) {
  Reader read(bytes);
  Capabilities body;
  body.role = read.number<std::uint8_t>();
  body.features = read.number<std::uint8_t>();
  body.elements = read.number<std::uint32_t>();
  body.operations = read.number<std::uint32_t>();
  body.payload_bytes = read.number<std::uint16_t>();
  body.max_children = read.number<std::uint16_t>();
  body.groups = read.number<std::uint32_t>();
  body.free_groups = read.number<std::uint32_t>();
  body.slots = read.number<std::uint32_t>();
  body.free_slots = read.number<std::uint32_t>();
  const auto spines = read.number<std::uint8_t>();
  if (spines > kMaxKnown || body.role > 1 || body.payload_bytes > kMaxPayloadBytes ||
      body.max_children > kMaxChildren)
    return std::nullopt;
  for (int i = 0; i < spines; ++i) {
    auto& spine = body.spines.emplace_back();
    spine.address = read.address();
    spine.below = read.number<std::uint8_t>();
    spine.answers = read.flag();
    spine.features = read.number<std::uint8_t>();
    spine.elements = read.number<std::uint32_t>();
    spine.operations = read.number<std::uint32_t>();
    spine.payload_bytes = read.number<std::uint16_t>();
    spine.max_children = read.number<std::uint16_t>();
    spine.free_groups = read.number<std::uint32_t>();
    if (spine.payload_bytes > kMaxPayloadBytes || spine.max_children > kMaxChildren ||
        spine.below > i)
      return std::nullopt;
  }
  if (!read.ok() || !read.rest().empty()) return std::nullopt;
  return body;
}

std::vector<std::byte> encode(const HostPort& body) {
  Body out;
  Writer& write = out();
  write.number(body.job);
  write.bytes(body.mac.data(), body.mac.size());
  write.bytes(body.gid.data(), body.gid.size());
  write.number(body.queue_pair);
  write.number(body.queue_key);
  auto bytes = out.take();
  bytes.resize(kQueryBytes);
  return bytes;
}

std::optional<HostPort> decode_host_port(std::span<const std::byte> bytes) noexcept {
  if (bytes.size() != kQueryBytes) return std::nullopt;
  Reader read(bytes);
  HostPort body;
  body.job = read.number<std::uint32_t>();
  read.bytes(body.mac.data(), body.mac.size());
  read.bytes(body.gid.data(), body.gid.size());
  body.queue_pair = read.number<std::uint32_t>();
  body.queue_key = read.number<std::uint32_t>();
  return body;
}

std::vector<std::byte> encode(const Branch& body) {
  Body out;
  Writer& write = out();
  write.number(body.job);
  write.number(body.num_children);
  write.number(static_cast<std::uint8_t>(body.ordered));
  write.number(body.window);
  write.number(body.payload_bytes);
  write.number(body.lease_s);
  write.number(body.num_above);
  for (const Parent& parent : std::span(body.above).first(body.num_above)) {
    write.address(parent.address);
    write.number(parent.child);
    write.number(parent.num_children);
  }
  return out.take();
}

std::optional<Branch> decode_branch(std::span<const std::byte> bytes) noexcept {
  Reader read(bytes);
  Branch body;
  body.job = read.number<std::uint32_t>();
  body.num_children = read.number<std::uint8_t>();
  body.ordered = read.flag();
  body.window = read.number<std::uint16_t>();
  body.payload_bytes = read.number<std::uint16_t>();
  body.lease_s = read.number<std::uint16_t>();
  body.num_above = read.number<std::uint8_t>();
  if (body.num_above > kMaxAbove) return std::nullopt;
  for (Parent& parent : std::span(body.above).first(body.num_above)) {
    parent.address = read.address();
    parent.child = read.number<std::uint8_t>();
    parent.num_children = read.number<std::uint8_t>();
    if (parent.num_children == 0 || parent.num_children > kMaxChildren ||
        parent.child >= parent.num_children || parent.address.port == 0)
      return std::nullopt;
  }
  if (!read.ok() || !read.rest().empty() || body.num_children == 0 ||
      body.num_children > kMaxChildren || body.window == 0 || body.payload_bytes == 0 ||
      body.payload_bytes > kMaxPayloadBytes || body.lease_s == 0)
    return std::nullopt;
  return body;
}

std::vector<std::byte> encode(const Grant& body) {
  Body out;
  out().number(body.window);
  return out.take();
}

std::optional<Grant> decode_grant(std::span<const std::byte> bytes) noexcept {
  Reader read(bytes);
  Grant body;
  body.window = read.number<std::uint16_t>();
  if (!read.ok() || !read.rest().empty()) return std::nullopt;
  return body;
}

}  // namespace weft::innet
