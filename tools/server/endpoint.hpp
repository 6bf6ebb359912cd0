#pragma once
// Endpoint: a server's metrics and health over HTTP/1.1, for scrapers: GET /metrics and /healthz;
// another path is 404, and whatever is not a request of this kind 400. It has a thread of its own,
// so that no client delays the server. A connection has one request and a few seconds, a request at
// most 8 KiB; beyond 16 connections the oldest is closed, so that silent ones keep no scraper away.
// There is no authentication: an address that others reach shows them the numbers.
// Tests: tests/tools/endpoint_test.py.
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/os/descriptor.hpp"
#include "weft/status.hpp"

namespace weft::server {

// The endpoint's questions to its server, from its own thread. Each returns within seconds.
struct EndpointSources {
  // Null: the server does not answer, which is 503.
  std::function<std::optional<std::string>()> metrics;
  std::function<bool()> is_healthy;
};

class Endpoint {
 public:
  Endpoint() = default;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  // Ends the thread and all connections; a unix socket's path is gone.
  ~Endpoint();

  // `where`: HOST:PORT, [IPV6]:PORT or unix:PATH; port 0 is any, which address() has. bad_argument:
  // no such address; others: it cannot be listened at. The sources are used until the destructor.
  Status open(const std::string& where, EndpointSources sources);
  const std::string& address() const { return address_; }

 private:
  enum class Stage { reading, writing, draining };
  struct Connection {
    Descriptor socket;
    Stage stage = Stage::reading;
    std::string received, answer;
    std::size_t sent = 0, drained = 0;
    std::uint64_t deadline_ns = 0;
  };

  Status listen(const std::string& where);
  void run();
  bool accept_connections();
  // False: the connection has ended.
  bool advance(Connection& connection);
  bool read(Connection& connection);
  bool write(Connection& connection);
  static bool drain(Connection& connection);
  std::string answer_to(std::string_view path);

  EndpointSources sources_;
  std::string address_, unix_path_;
  Descriptor listener_, wake_;
  std::list<Connection> connections_;  // the oldest first
  std::thread thread_;
  std::string metrics_;  // the last ones, which serve all requests of a moment
  std::uint64_t metrics_until_ns_ = 0;
};

}  // namespace weft::server
