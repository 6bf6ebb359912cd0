#pragma once
// The requests of a process to a PMI server (Hydra's proxy, slurmstepd) over the socket it was
// given. Version 1 sends lines, "cmd=get kvsname=a key=b\n"; version 2 frames, six digits of length
// before "cmd=kvs-get;key=b;". Each request has one answer. One thread.
#include <chrono>
#include <map>
#include <string>
#include <string_view>

#include "weft/status.hpp"

namespace weft::pmi {

using Deadline = std::chrono::steady_clock::time_point;

// The fields of an answer, by name.
class Answer {
 public:
  // False: that is no answer. `separator` is a blank in version 1, a semicolon in version 2.
  bool parse(std::string_view text, char separator);
  std::string_view field(std::string_view name) const;
  // False: there is no such field, or it is no number from `least` to `most`.
  bool number(std::string_view name, int least, int most, int& value) const;

 private:
  std::map<std::string, std::string, std::less<>> fields_;
};

class Connection {
 public:
  // The socket stays the caller's.
  explicit Connection(int fd) : fd_(fd) {}
  int fd() const { return fd_; }

  // Sends the line, to which it adds the end, and reads an answer whose cmd is `expected`.
  Status ask_line(std::string_view line, std::string_view expected, Deadline deadline,
                  Answer& answer);
  Status ask_frame(std::string_view frame, std::string_view expected, Deadline deadline,
                   Answer& answer);
  Status send(std::string_view bytes, Deadline deadline);
  Status receive_line(std::string_view expected, Deadline deadline, Answer& answer);

 private:
  Status read_more(Deadline deadline);
  Status take(std::string_view text, char separator, std::string_view expected, Answer& answer);

  const int fd_;
  std::string input_;
};

// Bytes as text of letters, digits, - and _, which both versions carry as it is (RFC 4648,
// "base64url" without padding).
std::string to_text(std::string_view bytes);
// False: that is none of to_text().
bool from_text(std::string_view text, std::string& bytes);

}  // namespace weft::pmi
