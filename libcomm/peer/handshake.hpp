#pragma once
// The handshake of two processes that do not know each other: each proves that it knows the secret
// without sending it, and sends its identity. No sockets here: frames in, frames out, so that tests
// and fuzzers drive it. One thread each.
//
//   connecting side                           listening side
//   hello      version, nonce                 challenge  version, nonce
//   proof      mac, address                   welcome    mac, address, cookie
//                                             refused    why (instead of any)
//
// A mac is libsodium's keyed hash, under the secret, of the role, both nonces and what follows it.
// So a foreign process learns only that something here speaks this protocol. The data are not
// encrypted. docs/design/wire.md has the page.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "peer/address.hpp"
#include "weft/status.hpp"

namespace weft::peer {

// Changes with what Nodes say after the handshake, too, so that two versions part here, with an
// error that names both; messages.hpp checks that.
inline constexpr std::uint32_t kHandshakeVersion = 2;
inline constexpr std::size_t kMaxFrameBytes = 8192;  // of a body

enum class FrameType : std::uint16_t {
  hello = 1,
  challenge,
  proof,
  welcome,
  refused,
  // After the handshake, between transports:
  offer,    // descriptors of a link over shared memory
  mapping,  // a descriptor of memory
  data,     // bytes of a client's own
};

struct FrameHead {
  std::uint32_t magic;
  FrameType type;
  std::uint16_t num_descriptors;
  std::uint32_t length;  // of the body behind it
};
static_assert(sizeof(FrameHead) == 12);
inline constexpr std::uint32_t kFrameMagic = 0x4e544657;  // "WFTN"
inline constexpr std::size_t kMaxDescriptors = 4;         // of a frame

std::string make_frame(FrameType type, std::string_view body, std::size_t num_descriptors = 0);

// Splits received bytes into frames.
class FrameReader {
 public:
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  enum class Next { frame, none, corrupt };
  // The body lasts until feed().
  Next next(FrameHead& head, std::string_view& body);

 private:
  std::string buffer_;
  std::size_t taken_ = 0;
};

using Bytes16 = std::array<unsigned char, 16>;
using Bytes32 = std::array<unsigned char, 32>;

void fill_random(void* to, std::size_t bytes);
std::uint64_t random_word();  // never 0

// The key that a secret gives; the secret itself is not kept.
struct Secret {
  Bytes32 key{};
  bool is_empty = true;
  explicit Secret(std::string_view text = {});
};

class Handshake {
 public:
  enum class Role { connects, listens };
  enum class State { going_on, done, failed };

  // own: encode()d. On the connecting side, start() gives the first frame.
  Handshake(Role role, const Secret& secret, std::string_view own);
  std::string start() const;

  // Takes one frame of the other side; the reply is appended to `out`, also in failure.
  State on_frame(FrameType type, std::string_view body, std::string& out);

  // In State::done.
  const NodeAddress& theirs() const { return theirs_; }
  const Bytes16& cookie() const { return cookie_; }  // names this agreement, known to both alone
  // In State::failed.
  const Status& status() const { return status_; }

 private:
  State fail(Code code, std::string text, std::string* out);
  Bytes32 mac(Role of, std::string_view content) const;
  State on_hello(std::string_view body, std::string& out);
  State on_challenge(std::string_view body, std::string& out);
  State on_proof(std::string_view body, std::string& out);
  State on_welcome(std::string_view body);

  Role role_;
  Secret secret_;
  std::string own_;
  FrameType expected_;
  Bytes32 nonces_[2] = {};  // of the connecting and of the listening side
  NodeAddress theirs_;
  Bytes16 cookie_{};
  Status status_;
};

}  // namespace weft::peer
