#include "mpi/ft/wire.hpp"

#include <cstddef>

#include "base/bytes.hpp"

namespace weft::mpi::ft {
namespace {

void append(std::string& bytes, const MemberSet& set) {
  for (const std::uint64_t word : set.words()) append_value(bytes, word);
}
void append(std::string& bytes, const Decision& decision) {
  append_value(bytes, decision.round);
  if (decision.round == 0) return;
  append_value(bytes, static_cast<std::uint32_t>(decision.outcome));
  append_value(bytes, decision.flags);
  append_value(bytes, decision.context);
  append_value(bytes, decision.second_context);
  append(bytes, decision.failed);
}

// Returns false if it names a member that there is not.
bool read(ByteReader& reader, int size, MemberSet& set) {
  set = MemberSet(size);
  for (std::uint64_t& word : set.words()) word = reader.value<std::uint64_t>();
  return size % 64 == 0 || set.words().back() >> (size % 64) == 0;
}
bool read(ByteReader& reader, int size, Decision& decision) {
  decision.round = reader.value<std::uint32_t>();
  if (decision.round == 0) return true;
  const auto outcome = reader.value<std::uint32_t>();
  if (outcome > static_cast<std::uint32_t>(Decision::Outcome::mismatched)) return false;
  decision.outcome = static_cast<Decision::Outcome>(outcome);
  decision.flags = reader.value<std::uint32_t>();
  decision.context = reader.value<std::uint32_t>();
  decision.second_context = reader.value<std::uint32_t>();
  return read(reader, size, decision.failed);
}

ControlHead head_of(std::uint8_t kind, std::uint32_t context) {
  return {ControlHead::kMagic, ControlHead::kVersion, kind, context};
}

}  // namespace

std::string encode_revoke(std::uint32_t context) {
  std::string bytes;
  append_value(bytes, head_of(ControlHead::kRevoke, context));
  return bytes;
}

std::string encode(std::uint32_t context, const Message& message) {
  std::string bytes;
  bytes.reserve(128 + 24 * message.failed.words().size());
  append_value(bytes, head_of(static_cast<std::uint8_t>(message.kind), context));
  append_value(bytes, message.round);
  if (message.kind == Message::Kind::report) {
    append_value(bytes, message.contribution.kind);
    append_value(bytes, message.contribution.flags);
    append_value(bytes, message.contribution.context);
    append(bytes, message.contribution.acknowledged);
    append(bytes, message.failed);
  }
  if (message.kind != Message::Kind::ask) append(bytes, message.decision);
  return bytes;
}

bool decode_head(std::string_view bytes, ControlHead& head) {
  ByteReader reader(bytes);
  head = reader.value<ControlHead>();
  return reader.ok() && head.magic == ControlHead::kMagic && head.version == ControlHead::kVersion;
}

bool decode(std::string_view bytes, int size, Message& message) {
  ByteReader reader(bytes);
  const auto head = reader.value<ControlHead>();
  message.kind = static_cast<Message::Kind>(head.kind);
  message.round = reader.value<std::uint32_t>();
  bool is_valid = message.round != 0;
  switch (message.kind) {
    case Message::Kind::report:
      message.contribution.kind = reader.value<std::uint32_t>();
      message.contribution.flags = reader.value<std::uint32_t>();
      message.contribution.context = reader.value<std::uint32_t>();
      is_valid = is_valid && read(reader, size, message.contribution.acknowledged) &&
                 read(reader, size, message.failed) && read(reader, size, message.decision) &&
                 message.decision.round == message.round - 1;
      break;
    case Message::Kind::ask:
      break;
    case Message::Kind::decision:
      is_valid = is_valid && read(reader, size, message.decision) &&
                 message.decision.round == message.round;
      break;
    default:
      return false;
  }
  return is_valid && reader.complete();
}

}  // namespace weft::mpi::ft
