#include "peer/handshake.hpp"

#include <fmt/core.h>
#include <sodium.h>

#include <cstring>

#include "base/bytes.hpp"

namespace weft::peer {

static_assert(sizeof(Bytes32) == crypto_generichash_BYTES);
static_assert(sizeof(Bytes32) == crypto_generichash_KEYBYTES);

namespace {
constexpr std::string_view kContext = "weft peer 1";
constexpr std::size_t kMaxReasonBytes = 200;
// Replaces bytes of a foreign process's text that would control a terminal.
std::string printable(std::string_view text) {
  std::string out;
  for (char c : text) out.push_back(c >= ' ' && c < 127 ? c : '?');
  return out;
}
const unsigned char* raw(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
}  // namespace

std::string make_frame(FrameType type, std::string_view body, std::size_t num_descriptors) {
  std::string frame;
  append_value(frame, FrameHead{kFrameMagic, type, static_cast<std::uint16_t>(num_descriptors),
                                static_cast<std::uint32_t>(body.size())});
  frame.append(body);
  return frame;
}

FrameReader::Next FrameReader::next(FrameHead& head, std::string_view& body) {
  const std::string_view left = std::string_view(buffer_).substr(taken_);
  if (left.size() >= sizeof head) {
    std::memcpy(&head, left.data(), sizeof head);
    if (head.magic != kFrameMagic || head.length > kMaxFrameBytes ||
        head.num_descriptors > kMaxDescriptors)
      return Next::corrupt;
    if (left.size() >= sizeof head + head.length) {
      body = left.substr(sizeof head, head.length);
      taken_ += sizeof head + head.length;
      return Next::frame;
    }
  }
  buffer_.erase(0, taken_);
  taken_ = 0;
  return Next::none;
}

void fill_random(void* to, std::size_t bytes) { randombytes_buf(to, bytes); }
std::uint64_t random_word() {
  std::uint64_t word = 0;
  while (word == 0) fill_random(&word, sizeof word);
  return word;
}

Secret::Secret(std::string_view text) : is_empty(text.empty()) {
  // A failure would show in randombytes_buf, which ends the process rather than be guessed.
  [[maybe_unused]] const int once = sodium_init();
  crypto_generichash(key.data(), key.size(), raw(text), text.size(), nullptr, 0);
}

Handshake::Handshake(Role role, const Secret& secret, std::string_view own)
    : role_(role),
      secret_(secret),
      own_(own),
      expected_(role == Role::connects ? FrameType::challenge : FrameType::hello) {
  Bytes32& mine = nonces_[role == Role::connects ? 0 : 1];
  fill_random(mine.data(), mine.size());
  if (role == Role::listens) fill_random(cookie_.data(), cookie_.size());
}

std::string Handshake::start() const {
  std::string body;
  append_value(body, kHandshakeVersion);
  append_value(body, nonces_[0]);
  return make_frame(FrameType::hello, body);
}

Bytes32 Handshake::mac(Role of, std::string_view content) const {
  Bytes32 out;
  crypto_generichash_state state;
  crypto_generichash_init(&state, secret_.key.data(), secret_.key.size(), out.size());
  crypto_generichash_update(&state, raw(kContext), kContext.size());
  const unsigned char role = of == Role::connects ? 1 : 2;
  crypto_generichash_update(&state, &role, 1);
  for (const Bytes32& nonce : nonces_)
    crypto_generichash_update(&state, nonce.data(), nonce.size());
  crypto_generichash_update(&state, raw(content), content.size());
  crypto_generichash_final(&state, out.data(), out.size());
  return out;
}

Handshake::State Handshake::fail(Code code, std::string text, std::string* out) {
  // The listening side sends the reason; the connecting side just closes.
  if (out != nullptr && role_ == Role::listens) *out += make_frame(FrameType::refused, text);
  status_ = {code, std::move(text)};
  return State::failed;
}

Handshake::State Handshake::on_frame(FrameType type, std::string_view body, std::string& out) {
  if (type == FrameType::refused && role_ == Role::connects)
    return fail(Code::not_permitted,
                fmt::format("refused: {}", printable(body.substr(0, kMaxReasonBytes))), nullptr);
  if (type != expected_) return fail(Code::corrupt, "the handshake is out of order", &out);
  switch (type) {
    case FrameType::hello:
      return on_hello(body, out);
    case FrameType::challenge:
      return on_challenge(body, out);
    case FrameType::proof:
      return on_proof(body, out);
    default:
      return on_welcome(body);
  }
}

Handshake::State Handshake::on_hello(std::string_view body, std::string& out) {
  ByteReader reader(body);
  const auto version = reader.value<std::uint32_t>();
  if (reader.ok() && version != kHandshakeVersion)
    return fail(Code::unsupported,
                fmt::format("the handshake is of version {}, and version {} is spoken here",
                            version, kHandshakeVersion),
                &out);
  nonces_[0] = reader.value<Bytes32>();
  if (!reader.complete()) return fail(Code::corrupt, "the hello is invalid", &out);
  std::string answer;
  append_value(answer, kHandshakeVersion);
  append_value(answer, nonces_[1]);
  out += make_frame(FrameType::challenge, answer);
  expected_ = FrameType::proof;
  return State::going_on;
}

Handshake::State Handshake::on_challenge(std::string_view body, std::string& out) {
  ByteReader reader(body);
  const auto version = reader.value<std::uint32_t>();
  if (reader.ok() && version != kHandshakeVersion)
    return fail(Code::unsupported,
                fmt::format("the peer's handshake is of version {}, and this one is of version {}",
                            version, kHandshakeVersion),
                nullptr);
  nonces_[1] = reader.value<Bytes32>();
  if (!reader.complete()) return fail(Code::corrupt, "the challenge is invalid", nullptr);
  std::string answer;
  append_value(answer, mac(Role::connects, own_));
  answer += own_;
  out += make_frame(FrameType::proof, answer);
  expected_ = FrameType::welcome;
  return State::going_on;
}

Handshake::State Handshake::on_proof(std::string_view body, std::string& out) {
  ByteReader reader(body);
  const auto shown = reader.value<Bytes32>();
  const Bytes32 right = mac(Role::connects, reader.rest());
  if (!reader.ok() || sodium_memcmp(shown.data(), right.data(), right.size()) != 0)
    return fail(Code::not_permitted, "the secret is not the same", &out);
  if (Status status = decode(reader.rest(), theirs_); !status)
    return fail(status.code(), status.text(), &out);
  std::string content = own_;
  append_value(content, cookie_);
  std::string answer;
  append_value(answer, mac(Role::listens, content));
  out += make_frame(FrameType::welcome, answer + content);
  return State::done;
}

Handshake::State Handshake::on_welcome(std::string_view body) {
  ByteReader reader(body);
  const auto shown = reader.value<Bytes32>();
  const std::string_view content = reader.rest();
  const Bytes32 right = mac(Role::listens, content);
  if (!reader.ok() || content.size() < sizeof cookie_ ||
      sodium_memcmp(shown.data(), right.data(), right.size()) != 0)
    return fail(Code::not_permitted, "the peer does not know the secret", nullptr);
  std::memcpy(cookie_.data(), content.data() + content.size() - sizeof cookie_, sizeof cookie_);
  if (Status status = decode(content.substr(0, content.size() - sizeof cookie_), theirs_); !status)
    return fail(status.code(), status.text(), nullptr);
  return State::done;
}

}  // namespace weft::peer
