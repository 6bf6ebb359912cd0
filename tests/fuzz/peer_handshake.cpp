// What a stranger sends to a bootstrap socket, and what one that is connected to answers: bytes cut
// into frames, frames given to both sides of the handshake. Nobody who does not know the secret may
// get through, and an address that is read must survive being written. The first byte says which
// side; with 2 and 3 the frames come from one that knows the secret, but sends any address.
#include <cstdlib>

#include "peer/handshake.hpp"
#include "script.hpp"

using namespace weft;
using namespace weft::peer;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Script script{data, size};
  const auto mode = script.take<std::uint8_t>() % 4;
  NodeAddress own;
  own.name = "own";
  own.generation = 1;
  const std::string_view rest(reinterpret_cast<const char*>(script.data), script.size);
  NodeAddress read;
  if (decode(rest, read)) {
    NodeAddress again;
    if (!decode(encode(read), again) || !(again == read)) std::abort();
  }
  if (from_text(rest, read) && read.generation == 0) std::abort();

  const auto role = mode % 2 == 0 ? Handshake::Role::listens : Handshake::Role::connects;
  Handshake handshake(role, Secret("secret"), encode(own));
  std::string out;
  if (mode < 2) {
    FrameReader reader;
    reader.feed(rest);
    FrameHead head;
    std::string_view body;
    while (reader.next(head, body) == FrameReader::Next::frame) {
      if (body.size() > kMaxFrameBytes) std::abort();
      const Handshake::State state = handshake.on_frame(head.type, body, out);
      if (state == Handshake::State::done) std::abort();
      if (state == Handshake::State::failed) break;
    }
    return 0;
  }
  // The other side knows the secret; what it says of itself is the input.
  if (rest.size() > 4096) return 0;
  Handshake other(mode == 2 ? Handshake::Role::connects : Handshake::Role::listens,
                  Secret("secret"), rest);
  std::string to_ours, to_other;
  (mode == 2 ? to_ours : to_other) = mode == 2 ? other.start() : handshake.start();
  for (int i = 0; i < 4; ++i) {
    for (Handshake* side : {&handshake, &other}) {
      std::string& in = side == &handshake ? to_ours : to_other;
      std::string& answer = side == &handshake ? to_other : to_ours;
      FrameReader reader;
      reader.feed(in);
      in.clear();
      FrameHead head;
      std::string_view body;
      while (reader.next(head, body) == FrameReader::Next::frame) {
        const auto state = side->on_frame(head.type, body, answer);
        if (state == Handshake::State::done && side == &handshake) {
          if (!decode(rest, read) || !(side->theirs() == read)) std::abort();
        }
      }
    }
  }
  return 0;
}
