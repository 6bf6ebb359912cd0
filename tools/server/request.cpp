#include "tools/server/request.hpp"

#include <algorithm>
#include <string>

namespace weft::server {
namespace {

constexpr std::string_view kEnd = "\r\n";

bool is_visible(char letter) { return letter > ' ' && letter <= '~'; }

bool is_token(char letter) {
  return is_visible(letter) &&
         std::string_view("\"(),/:;<=>?@[\\]{}").find(letter) == std::string_view::npos;
}

// Bytes of a field's value; those beyond ASCII are allowed and mean nothing.
bool is_text(char letter) {
  return is_visible(letter) || letter == ' ' || letter == '\t' ||
         static_cast<unsigned char>(letter) >= 0x80;
}

bool has_only_lines(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == '\r') {
      if (i + 1 < bytes.size() && bytes[i + 1] != '\n') return false;
    } else if (bytes[i] == '\n') {
      if (i == 0 || bytes[i - 1] != '\r') return false;
    } else if (!is_text(bytes[i])) {
      return false;
    }
  }
  return true;
}

std::string lower(std::string_view text) {
  std::string made(text);
  for (char& letter : made)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return made;
}

// "GET PATH HTTP/1.1"; the path, or nothing.
std::string_view path_of(std::string_view line, bool& is_old) {
  constexpr std::string_view kMethod = "GET ";
  if (!line.starts_with(kMethod)) return {};
  line.remove_prefix(kMethod.size());
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return {};
  const std::string_view path = line.substr(0, space), version = line.substr(space + 1);
  is_old = version == "HTTP/1.0";
  if (!is_old && version != "HTTP/1.1") return {};
  return path.starts_with('/') && std::all_of(path.begin(), path.end(), is_visible)
             ? path
             : std::string_view();
}

// False: the line is no field, or announces a body.
bool check_field(std::string_view line, int& num_hosts) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  if (!std::all_of(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(colon), is_token))
    return false;
  const std::string name = lower(line.substr(0, colon));
  if (name == "host") ++num_hosts;
  return name != "transfer-encoding" && name != "content-length";
}

}  // namespace

Request read_request(std::string_view bytes) {
  constexpr Request kWrong{RequestState::wrong, {}};
  constexpr std::string_view kStart = "GET /";
  const std::size_t begun = std::min(bytes.size(), kStart.size());
  if (bytes.size() > kMaxRequestBytes || bytes.substr(0, begun) != kStart.substr(0, begun) ||
      !has_only_lines(bytes))
    return kWrong;
  const std::size_t end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos) return bytes.size() == kMaxRequestBytes ? kWrong : Request{};
  if (end + 4 != bytes.size()) return kWrong;
  std::string_view rest = bytes.substr(0, end + 2);
  const auto take_line = [&] {
    const std::string_view line = rest.substr(0, rest.find(kEnd));
    rest.remove_prefix(line.size() + kEnd.size());
    return line;
  };
  bool is_old = false;
  const std::string_view path = path_of(take_line(), is_old);
  if (path.empty()) return kWrong;
  int num_hosts = 0;
  while (!rest.empty())
    if (!check_field(take_line(), num_hosts)) return kWrong;
  if (num_hosts > 1 || (num_hosts == 0 && !is_old)) return kWrong;
  return {RequestState::complete, path};
}

}  // namespace weft::server
