#include "job/pmi/wire.hpp"

#include <errno.h>
#include <fmt/core.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace weft::pmi {
namespace {

constexpr std::size_t kMaxAnswerBytes = 1u << 20;
constexpr std::size_t kLengthDigits = 6;
constexpr std::string_view kTextDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

Status wait_for_socket(int fd, short events, Deadline deadline) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd poll_fd{fd, events, 0};
    const int result =
        poll(&poll_fd, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30)));
    if (result > 0) return {};
    if (result == 0) return {Code::timed_out, "the launcher's PMI server has not answered"};
    if (errno != EINTR)
      return {Code::peer_lost, fmt::format("the launcher's PMI server: {}", strerror(errno))};
  }
}

}  // namespace

bool Answer::parse(std::string_view text, char separator) {
  fields_.clear();
  while (!text.empty()) {
    std::string_view field = text.substr(0, text.find(separator));
    text.remove_prefix(std::min(text.size(), field.size() + 1));
    const std::size_t equals = field.find('=');
    // A message of several words may follow the fields of a line.
    if (equals == std::string_view::npos || equals == 0) continue;
    fields_.emplace(field.substr(0, equals), field.substr(equals + 1));
  }
  return fields_.contains("cmd");
}

std::string_view Answer::field(std::string_view name) const {
  const auto found = fields_.find(name);
  return found == fields_.end() ? std::string_view() : std::string_view(found->second);
}

bool Answer::number(std::string_view name, int least, int most, int& value) const {
  const std::string_view text = field(name);
  int parsed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc{} || end != text.data() + text.size() || parsed < least || parsed > most)
    return false;
  value = parsed;
  return true;
}

Status Connection::send(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    if (Status status = wait_for_socket(fd_, POLLOUT, deadline); !status) return status;
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EINTR && errno != EAGAIN) {
      return {Code::peer_lost, fmt::format("the launcher's PMI server: {}", strerror(errno))};
    }
  }
  return {};
}

Status Connection::read_more(Deadline deadline) {
  if (input_.size() > kMaxAnswerBytes)
    return {Code::corrupt, "the launcher's PMI server sends an answer without an end"};
  if (Status status = wait_for_socket(fd_, POLLIN, deadline); !status) return status;
  char buffer[4096];
  const ssize_t received = recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
  if (received > 0) input_.append(buffer, static_cast<std::size_t>(received));
  if (received == 0)
    return {Code::peer_lost, "the launcher's PMI server has closed the connection"};
  if (received < 0 && errno != EINTR && errno != EAGAIN)
    return {Code::peer_lost, fmt::format("the launcher's PMI server: {}", strerror(errno))};
  return {};
}

Status Connection::take(std::string_view text, char separator, std::string_view expected,
                        Answer& answer) {
  if (!answer.parse(text, separator) || answer.field("cmd") != expected)
    return {Code::corrupt, fmt::format("the launcher's PMI server answers \"{}\" instead of {}",
                                       text.substr(0, 200), expected)};
  return {};
}

Status Connection::receive_line(std::string_view expected, Deadline deadline, Answer& answer) {
  std::size_t end = 0;
  while ((end = input_.find('\n')) == std::string::npos)
    if (Status status = read_more(deadline); !status) return status;
  const std::string line = input_.substr(0, end);
  input_.erase(0, end + 1);
  return take(line, ' ', expected, answer);
}

Status Connection::ask_line(std::string_view line, std::string_view expected, Deadline deadline,
                            Answer& answer) {
  Status status = send(fmt::format("{}\n", line), deadline);
  return status ? receive_line(expected, deadline, answer) : status;
}

Status Connection::ask_frame(std::string_view frame, std::string_view expected, Deadline deadline,
                             Answer& answer) {
  Status status = send(fmt::format("{:>6}{}", frame.size(), frame), deadline);
  if (!status) return status;
  while (input_.size() < kLengthDigits)
    if (status = read_more(deadline); !status) return status;
  std::string_view digits = std::string_view(input_).substr(0, kLengthDigits);
  // The digits are padded with blanks on either side, depending on the server.
  while (digits.starts_with(' ')) digits.remove_prefix(1);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  std::size_t length = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), length);
  if (error != std::errc{} || end != digits.data() + digits.size())
    return {Code::corrupt, fmt::format("the launcher's PMI server sends \"{}\" as a length",
                                       input_.substr(0, kLengthDigits))};
  while (input_.size() < kLengthDigits + length)
    if (status = read_more(deadline); !status) return status;
  const std::string text = input_.substr(kLengthDigits, length);
  input_.erase(0, kLengthDigits + length);
  return take(text, ';', expected, answer);
}

std::string to_text(std::string_view bytes) {
  std::string text;
  std::uint32_t bits = 0;
  int num_bits = 0;
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    for (num_bits += 8; num_bits >= 6; num_bits -= 6)
      text += kTextDigits[bits >> (num_bits - 6) & 63];
  }
  if (num_bits > 0) text += kTextDigits[bits << (6 - num_bits) & 63];
  return text;
}

bool from_text(std::string_view text, std::string& bytes) {
  bytes.clear();
  std::uint32_t bits = 0;
  int num_bits = 0;
  for (const char digit : text) {
    const std::size_t value = kTextDigits.find(digit);
    if (value == std::string_view::npos) return false;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    num_bits += 6;
    if (num_bits >= 8) {
      num_bits -= 8;
      bytes += static_cast<char>(bits >> num_bits & 255);
    }
  }
  return num_bits < 6;
}

}  // namespace weft::pmi
