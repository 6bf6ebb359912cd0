#pragma once
// The control messages of fault tolerance as bytes: version 2; the page is docs/design/wire.md. The
// receiver checks every field before use.
#include <cstdint>
#include <string>
#include <string_view>

#include "mpi/ft/consensus.hpp"

namespace weft::mpi::ft {

// Every message begins with it.
struct ControlHead {
  static constexpr std::uint16_t kMagic = 0x5446;  // "FT"
  static constexpr std::uint8_t kVersion = 2;
  // Revocation; else a Message::Kind, with the rest of the message behind the head.
  static constexpr std::uint8_t kRevoke = 16;
  std::uint16_t magic;
  std::uint8_t version;
  std::uint8_t kind;
  std::uint32_t context;  // of the communicator
};
static_assert(sizeof(ControlHead) == 8);

std::string encode_revoke(std::uint32_t context);
std::string encode(std::uint32_t context, const Message& message);
// False: they are not the bytes of a control message.
bool decode_head(std::string_view bytes, ControlHead& head);
// False: they are not those of a message of an agreement among so many members.
bool decode(std::string_view bytes, int size, Message& message);

}  // namespace weft::mpi::ft
