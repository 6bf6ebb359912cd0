#pragma once
// Requests of HTTP/1.1 that the endpoint understands: GET without a body. Pure functions; any
// thread. Tests: tests/tools/server_test.cpp.
#include <string_view>

namespace weft::server {

inline constexpr std::size_t kMaxRequestBytes = 8192;

enum class RequestState { incomplete, wrong, complete };

struct Request {
  RequestState state = RequestState::incomplete;
  std::string_view path;  // in the bytes that were read
};

// Every byte is checked as it comes, so that garbage is wrong before it ends. RFC 9112, but: lines
// end in CR LF alone, there is one request, and it has one Host (HTTP/1.0: at most one).
Request read_request(std::string_view bytes);

}  // namespace weft::server
