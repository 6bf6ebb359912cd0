#pragma once
// Link: a connection to the rendezvous server, from the side of its clients: ranks (their board)
// and the agents that weftrun starts on other hosts. Every call ends by its deadline. One thread at
// a time.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/wait.hpp"
#include "job/rendezvous_wire.hpp"
#include "weft/status.hpp"

namespace weft::rendezvous {

// A point in time that waits count down to.
class Deadline {
 public:
  explicit Deadline(int ms) : at_ns_(now_ns() + static_cast<std::uint64_t>(ms) * 1'000'000u) {}
  // For poll: never negative, and zero only once it has passed.
  int left_ms() const {
    const std::uint64_t now = now_ns();
    return now >= at_ns_ ? 0 : static_cast<int>((at_ns_ - now) / 1'000'000u) + 1;
  }
  // This one or one in so many milliseconds, whichever comes first.
  Deadline at_most(int ms) const { return Deadline(std::min(ms, left_ms())); }

 private:
  std::uint64_t at_ns_;
};

// "host:port", "[v6 address]:port" or "v6 address:port". False if it is none.
bool split_address(std::string_view address, std::string& host, std::uint16_t& port);
// The reverse: puts brackets around hosts with colons.
std::string join_address(std::string_view host, std::uint16_t port);
// Only processes of the same machine reach it.
bool is_loopback(std::string_view host);

class Link {
 public:
  Link() = default;
  ~Link() { close(); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // From the next connection on, the server's machine may be silent for so long.
  void set_silence(int ms) { silence_ms_ = ms; }
  // One attempt to connect and to be welcomed after the greeting (a hello or visit frame). again:
  // no server answers there now; not_permitted: refused, with the reason; corrupt: no rendezvous
  // server.
  Status greet(const std::string& address, std::string_view greeting, const Deadline& deadline);
  bool is_open() const { return socket_ >= 0; }
  int fd() const { return socket_; }
  void close();

  // timed_out, peer_lost.
  Status send_frame(Type type, std::string_view body, const Deadline& deadline);
  Status receive_frame(Type& type, std::string& body, const Deadline& deadline);
  // Sends one and takes the answer: the server's own status, with its text if it is ok.
  Status ask(Type type, std::string_view body, const Deadline& deadline, std::string& text);

 private:
  Status connect(const std::string& address, const Deadline& deadline);
  Status send_bytes(std::string_view bytes, const Deadline& deadline);
  Status receive_bytes(char* bytes, std::size_t length, const Deadline& deadline);
  Status lost() const;
  Status no_server() const;

  std::string address_;
  int socket_ = -1;
  int silence_ms_ = 60'000;
};

}  // namespace weft::rendezvous
