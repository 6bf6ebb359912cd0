// Requests that a server's endpoint takes, and the metrics that it writes.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <new>
#include <string>

#include "base/os/descriptor.hpp"
#include "tools/server/endpoint.hpp"
#include "tools/server/metrics_text.hpp"
#include "tools/server/request.hpp"

using namespace weft::server;

namespace {

constexpr const char* kGood = "GET /metrics HTTP/1.1\r\nHost: a:1\r\nAccept: */*\r\n\r\n";

RequestState state_of(std::string_view bytes) { return read_request(bytes).state; }

}  // namespace

TEST_CASE("a request is complete at its end and not before") {
  const std::string good = kGood;
  for (std::size_t length = 0; length < good.size(); ++length)
    CHECK(state_of(good.substr(0, length)) == RequestState::incomplete);
  const Request request = read_request(good);
  CHECK(request.state == RequestState::complete);
  CHECK(request.path == "/metrics");
  CHECK(read_request("GET / HTTP/1.0\r\n\r\n").path == "/");
  CHECK(state_of("GET /a HTTP/1.1\r\nhOsT:\r\nX: \xff\t\r\n\r\n") == RequestState::complete);
}

TEST_CASE("what is no request is wrong") {
  for (const char* wrong : {"P",
                            "POST / HTTP/1.1\r\nHost: a\r\n\r\n",
                            "get / HTTP/1.1\r\nHost: a\r\n\r\n",
                            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
                            "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
                            "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
                            "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
                            "GET /\r\n\r\n",
                            "GET / HTTP/1.1\nHost: a\n\n",
                            "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n",
                            "GET /\x01 HTTP/1.1\r\n",
                            "GET /\x80 HTTP/1.1\r\nHost: a\r\n\r\n",
                            "GET / HTTP/1.1\r\n\r\n",
                            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                            "GET / HTTP/1.1\r\nHost a\r\n\r\n",
                            "GET / HTTP/1.1\r\n: a\r\n\r\n",
                            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
                            "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
                            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
                            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
                            "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"}) {
    INFO(wrong);
    CHECK(state_of(wrong) == RequestState::wrong);
  }
  CHECK(state_of(std::string_view("GET /\0", 6)) == RequestState::wrong);
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
  CHECK(state_of(start + std::string(kMaxRequestBytes - start.size() - 1, 'x')) ==
        RequestState::incomplete);
  CHECK(state_of(start + std::string(kMaxRequestBytes - start.size(), 'x')) == RequestState::wrong);
  CHECK(state_of(start + std::string(kMaxRequestBytes, 'x') + "\r\n\r\n") == RequestState::wrong);
}

TEST_CASE("metrics are written with help, type and escaped labels") {
  MetricsText text;
  text.family("a_total", MetricType::counter, "Back\\slash and\nline.");
  text.sample(std::uint64_t{18446744073709551615u}, {{"x", "a\"b\\c\nd"}, {"y", ""}});
  text.family("b", MetricType::gauge, "B.");
  text.sample("1.5");
  CHECK(text.text() ==
        "# HELP a_total Back\\\\slash and\\nline.\n# TYPE a_total counter\n"
        "a_total{x=\"a\\\"b\\\\c\\nd\",y=\"\"} 18446744073709551615\n"
        "# HELP b B.\n# TYPE b gauge\nb 1.5\n");
}

namespace {

// What the endpoint at this port of 127.0.0.1 sends, until it closes the connection.
std::string answer_to(std::uint16_t port, const std::string& request) {
  const weft::Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
          0);
  REQUIRE(::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(request.size()));
  std::string answer;
  char piece[4096];
  for (ssize_t got; (got = ::recv(socket.get(), piece, sizeof piece, 0)) > 0;)
    answer.append(piece, static_cast<std::size_t>(got));
  return answer;
}

}  // namespace

TEST_CASE("a request that there is no memory for ends with its connection") {
  Endpoint endpoint;
  const weft::Status status = endpoint.open(
      "127.0.0.1:0",
      {[]() -> std::optional<std::string> { throw std::bad_alloc(); }, [] { return true; }});
  REQUIRE(status.ok());
  const auto port = static_cast<std::uint16_t>(
      std::stoi(endpoint.address().substr(endpoint.address().rfind(':') + 1)));
  CHECK(answer_to(port, kGood).empty());
  CHECK(answer_to(port, "GET /healthz HTTP/1.0\r\n\r\n").ends_with("ok\n"));
}
