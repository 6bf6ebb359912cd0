#pragma once
// The protocol of the launcher and its agent on another host, over the agent's standard input and
// output. The agent begins with kGreeting (a login shell may have written something before it);
// after that both sides send frames: a head of two little-endian 32-bit words (type, length of the
// body), then the body, a row of words and texts as in rendezvous_wire.hpp.
//
//   launcher -> agent                                agent -> launcher
//   start      an Assignment                         started     rank pid
//   signal     number                                output      rank stream bytes
//   input      bytes                                 closed      rank stream
//   end_input                                        exited      rank wait_status
//   stop_reading stream                              input_taken num_bytes
//                                                    said        text
//                                                    failed      code text
//   inspect    number with_places                    bound       rank text
//                                                    inspected   number rank, a Seen
//                                                    all_inspected number
//                                                    waiting     whether all its ranks wait
//                                                    crashed     a Crash, without its host
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/rendezvous_wire.hpp"
#include "launcher/host.hpp"

namespace weft::weftrun {

inline constexpr std::string_view kGreeting = "\x01weftrun agent, version 6\n";
inline constexpr std::size_t kMaxFrameBytes = 16u << 20;
// The most bytes of the input that may be on their way to rank 0.
inline constexpr std::size_t kInputWindowBytes = 256u << 10;

enum class Message : std::uint32_t {
  start = 1,
  signal,
  input,
  end_input,
  stop_reading,
  started,
  output,
  closed,
  exited,
  input_taken,
  said,
  failed,
  bound,
  inspect,
  inspected,
  all_inspected,
  waiting,
  crashed,
};

// The body of a message, put together word by word.
class Body {
 public:
  Body& word(std::size_t value) {
    rendezvous::append_word(bytes_, static_cast<std::uint32_t>(value));
    return *this;
  }
  Body& text(std::string_view value) {
    rendezvous::append_text(bytes_, value);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

inline std::string make_message(Message type, const Body& body = {}) {
  std::string frame;
  rendezvous::append_word(frame, static_cast<std::uint32_t>(type));
  rendezvous::append_text(frame, body.bytes());
  return frame;
}

std::string encode(const Assignment& assignment);
bool decode(std::string_view body, Assignment& assignment);
// The record of a Seen goes as it is in memory: the agent is of the same version.
void append(Body& body, const Seen& seen);
bool decode(rendezvous::BodyReader& reader, Seen& seen);
void append(Body& body, const Crash& crash);
bool decode(rendezvous::BodyReader& reader, Crash& crash);

// One end of the conversation: two descriptors, made non-blocking, which stay the caller's.
class Channel {
 public:
  enum class State { open, ended, broken };

  void attach(int in, int out);
  void send(std::string_view bytes);  // queued; write_some() moves it
  void write_some();
  // Its output is closed by its owner.
  void stop_writing();
  void read_some();
  // The next whole message that was read.
  struct Received {
    Message type;
    std::string body;
  };
  std::optional<Received> next();
  // Takes everything up to and with `text`; the bytes before it are in `before`. False while it is
  // not there.
  bool skip_past(std::string_view text, std::string& before);

  // ended: the other side has closed; broken: it sends an invalid message, or does not read.
  State state() const { return state_; }
  std::size_t queued() const { return output_.size(); }
  void add_polls(std::vector<pollfd>& polls) const;

 private:
  int in_ = -1, out_ = -1;
  State state_ = State::open;
  std::string input_, output_;
  std::vector<char> buffer_ = std::vector<char>(64u << 10);
};

}  // namespace weft::weftrun
