// weft-switch: a switch that computes, in software, and tools for others. Exit status: 0, 1 if a
// switch does not answer or does not conform, 2 for bad arguments.
#include <poll.h>
#include <signal.h>

#include <cstdio>
#include <optional>

#include "base/wait.hpp"
#include "coll/offload/port.hpp"
#include "tools/cli/cli.hpp"
#include "tools/server/endpoint.hpp"
#include "tools/server/log_lines.hpp"
#include "tools/weft-switch/bad_luck.hpp"
#include "tools/weft-switch/bridge.hpp"
#include "tools/weft-switch/conform.hpp"
#include "tools/weft-switch/metrics.hpp"
#include "tools/weft-switch/speed.hpp"
#include "tools/weft-switch/udp_port.hpp"

namespace {

using namespace weft;         // NOLINT(google-build-using-namespace): a program's main file
using namespace weft::innet;  // NOLINT(google-build-using-namespace)

int fail(const std::string& text) {
  std::fprintf(stderr, "weft-switch: %s\n", text.c_str());
  return 2;
}

struct ServeOptions {
  std::string listen = "127.0.0.1:0";
  std::vector<std::string> spines, interfaces, trunks;
  std::string role = "tor";
  AggregatorOptions core;
  Io io = Io::packet;
  double bad_luck = 0;
  std::string metrics;
  server::LogFormat log_format = server::LogFormat::text;
};

// The line that scripts wait for.
void announce(const std::string& address) {
  std::printf("listening %s\n", address.c_str());
  std::fflush(stdout);
}

// Returns the exit status if it cannot begin, else never.
template <class Port>
int run(const ServeOptions& options, const AggregatorOptions& core, Port& port,
        const std::string& address) {
  BadLuck luck(port, options.bad_luck);
  Aggregator aggregator(core, luck);
  PublishedNumbers numbers;
  numbers.publish(aggregator, now_ns());
  const bool publishes = !options.metrics.empty();
  server::Endpoint endpoint;
  if (publishes) {
    const Status status = endpoint.open(
        options.metrics, {[&]() -> std::optional<std::string> { return numbers.metrics(); },
                          [&] { return numbers.is_alive(now_ns()); }});
    if (!status) return fail(status.text());
    server::write_line(
        "info", "metrics at " + endpoint.address(),
        std::vector<server::LogField>{{"event", "metrics"}, {"address", endpoint.address()}});
  }
  server::write_line("info", "listening at " + address,
                     std::vector<server::LogField>{
                         {"event", "listening"}, {"address", address}, {"role", options.role}});
  announce(address);
  std::uint64_t expire_ns = now_ns();
  for (;;) {
    // Sleep until a packet comes; without groups none can expire.
    port.receive(aggregator.num_groups() == 0 && !publishes ? -1 : 1000,
                 [&](const Address& from, auto bytes) {
                   if (luck.strikes()) return;
                   aggregator.on_packet(from, bytes, now_ns());
                   if (luck.strikes()) aggregator.on_packet(from, bytes, now_ns());
                 });
    const std::uint64_t now = now_ns();
    if (now - expire_ns > 1'000'000'000) {
      const std::uint64_t before = aggregator.counters().expired_groups;
      aggregator.expire(now);
      expire_ns = now;
      if (const std::uint64_t ended = aggregator.counters().expired_groups - before; ended != 0)
        server::write_line("warning",
                           std::to_string(ended) + " groups ended, as their hosts were silent",
                           std::vector<server::LogField>{{"event", "groups_expired"},
                                                         {"groups", std::to_string(ended)}});
    }
    if (publishes) numbers.publish(aggregator, now);
  }
}

// Returns why a switch at its own address and those above it could not hear each other; empty: they
// can.
std::string spine_problem(const Address& own, const std::vector<Address>& spines, bool by_roce) {
  const bool hears_both = own.is_ipv6 && own.ipv6 == std::array<std::uint8_t, 16>{};
  for (const Address& spine : spines) {
    if (by_roce && (spine.is_ipv6 || spine.port != kRocePort))
      return "the spine " + text(spine) + " is not heard: between Ethernet interfaces it is at " +
             "ADDRESS:4791, by RoCEv2 over IPv4";
    if (spine.is_ipv6 != own.is_ipv6 && !hears_both)
      return "the spine " + text(spine) + " is not heard at " + text(own) +
             ": one is an address of IPv4, the other of IPv6; --listen [::]:PORT hears both";
  }
  return {};
}

int serve(const ServeOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);  // a switch outlives the reader of its log
  server::set_log("weft-switch", options.log_format);
  // parse_address has no port 0, which here means any.
  const bool any = options.listen.ends_with(":0");
  auto own = parse_address(any ? options.listen + "1" : options.listen);
  if (!own) return fail("\"" + options.listen + "\" is no ADDRESS:PORT or [IPV6]:PORT");
  if (any) own->port = 0;
  AggregatorOptions core = options.core;
  core.is_spine = options.role == "spine";
  for (const std::string& text : options.spines) {
    const auto spine = parse_address(text);
    if (!spine) return fail("\"" + text + "\" is no ADDRESS:PORT or [IPV6]:PORT");
    core.spines.push_back(*spine);
  }
  if (core.spines.size() > kMaxSpines) return fail("more than 8 spines");
  const bool by_roce = !options.interfaces.empty() || !options.trunks.empty();
  if (const std::string why = spine_problem(*own, core.spines, by_roce); !why.empty())
    return fail(why);
  if (by_roce) {
    if (own->is_ipv6) return fail("RoCEv2 is spoken over IPv4 alone: --listen ADDRESS:4791");
    if (own->port != kRocePort) return fail("RoCEv2 is spoken at port 4791: --listen ADDRESS:4791");
    if (core.is_spine && !core.spines.empty())
      return fail("between Ethernet interfaces a spine has no switch above it; by UDP it may");
    core.features |= kFeatureRoce;
    if (!core.spines.empty() && options.trunks.empty())
      return fail("--trunk INTERFACE says where the spine is");
    Bridge bridge;
    bridge.set_address(own->ipv4);
    for (const std::string& name : options.interfaces)
      if (const Status status = bridge.add_interface(name, Bridge::Use::hosts, options.io); !status)
        return fail(status.text());
    for (const std::string& name : options.trunks) {
      // A second forwarding trunk would form a loop. Under a spine there are only trunks.
      const bool forwards = core.is_spine || name == options.trunks[0];
      const auto use = forwards ? Bridge::Use::trunk_that_forwards : Bridge::Use::trunk;
      if (const Status status = bridge.add_interface(name, use, options.io); !status)
        return fail(status.text());
    }
    return run(options, core, bridge, text(*own));
  }
  if (options.io != Io::packet)
    return fail("--io is about interfaces, of which there are none: --interface NAME");
  UdpPort port;
  if (const Status status = port.open(*own); !status) return fail(status.text());
  return run(options, core, port, text(port.address()));
}

int status(const std::string& address) {
  const auto to = parse_address(address);
  if (!to) return fail("\"" + address + "\" is no ADDRESS:PORT or [IPV6]:PORT");
  Status opened;
  const auto port = offload::open_port(*to, opened);
  if (!opened) return fail(opened.text());
  Header header;
  header.kind = Kind::status;
  header.key = now_ns();
  // The answer is at most as long as the request.
  const std::vector<std::byte> room(kMaxPayloadBytes);
  std::byte packet[kMaxPacketBytes + 1];
  for (int attempt = 0; attempt < 10; ++attempt) {
    port->send({packet, write_packet(packet, header, room)});
    pollfd readable{port->descriptor(), POLLIN, 0};
    (void)poll(&readable, 1, 200);
    for (long bytes = 0; (bytes = port->receive(packet)) >= 0;) {
      const auto reply = read_packet({packet, static_cast<std::size_t>(bytes)});
      if (!reply || reply->header.kind != Kind::status_reply || reply->header.key != header.key)
        continue;
      std::fwrite(reply->payload.data(), 1, reply->payload.size(), stdout);
      return 0;
    }
  }
  std::fprintf(stderr, "weft-switch: %s does not answer: is a switch running there?\n",
               address.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  cli::Command app(
      "weft-switch",
      "A switch in software that computes MPI_Allreduce on the way, and tools for such.");
  app.requires_command();

  ServeOptions options;
  auto& serve_command = app.command(
      "serve", "be a switch at a UDP address, or between Ethernet interfaces, until killed");
  serve_command
      .option("--listen", options.listen, "ADDRESS:PORT or [IPV6]:PORT; port 0: any, printed")
      .shows_default();
  serve_command.option("--interface", options.interfaces,
                       "an Ethernet interface to forward frames from and to, and take RoCEv2 "
                       "packets from that are sent to --listen ADDRESS:4791, an address of "
                       "this switch's own; to be repeated");
  serve_command.option("--trunk", options.trunks,
                       "an Ethernet interface to another switch; may be repeated. Of several "
                       "a tor forwards frames by the first alone, a spine by all");
  serve_command.choice(
      "--io", options.io,
      {{"packet", Io::packet}, {"xdp", Io::xdp}, {"xdp-driver", Io::xdp_driver}},
      "how this switch's own packets come and go at interfaces: AF_PACKET; AF_XDP; AF_XDP by the "
      "interface's driver, without copies where it can");
  serve_command.option("--role", options.role, "tor: hosts hang on it; spine: switches do")
      .one_of({"tor", "spine"})
      .shows_default();
  serve_command.option("--spine", options.spines,
                       "ADDRESS:PORT of a switch above; may be repeated");
  serve_command.option("--payload", options.core.payload_bytes, "bytes of data in a packet")
      .range(16, static_cast<int>(kMaxPayloadBytes))
      .shows_default();
  serve_command.option("--groups", options.core.max_groups, "groups at the same time")
      .shows_default();
  serve_command.option("--children", options.core.max_children, "leaders or switches of a group")
      .range(2, kMaxChildren)
      .shows_default();
  serve_command.option("--slots", options.core.max_slots, "packets under way, of all groups")
      .shows_default();
  serve_command.option("--metrics", options.metrics,
                       "HOST:PORT or unix:PATH where GET /metrics has the numbers for Prometheus, "
                       "and GET /healthz the switch's health; port 0: any, logged");
  serve_command.choice("--log-format", options.log_format,
                       {{"text", server::LogFormat::text}, {"json", server::LogFormat::json}},
                       "of the lines on standard error");
  serve_command
      .option("--bad-luck", options.bad_luck,
              "lose, double and reorder so many of 100 packets each, to try out hosts")
      .range_real(0.0, 50.0);
  serve_command.option("--slots-per-job", options.core.slots_per_job, "of one job's groups")
      .shows_default();

  std::string address;
  auto& status_command = app.command("status", "what a switch has done so far");
  status_command.option("ADDRESS:PORT", address).required();
  auto& conform_command = app.command("conform", "test whether a switch keeps to the protocol");
  conform_command.option("ADDRESS:PORT", address).required();
  int children = 8, bytes = 256;
  double seconds = 1;
  auto& speed_command = app.command("speed", "measure the core alone, fed from memory on one core");
  speed_command.option("--children", children).range(1, kMaxChildren).shows_default();
  speed_command.option("--bytes", bytes, "of data in a packet")
      .range(16, static_cast<int>(kMaxPayloadBytes))
      .shows_default();
  speed_command.option("--seconds", seconds).range_real(0.01, 60.0);

  if (const auto status = app.parse(argc, argv)) return *status;
  if (serve_command) return serve(options);
  if (status_command) return status(address);
  if (speed_command) {
    measure_speed(children, bytes / 4 * 4, seconds);
    return 0;
  }
  const auto to = parse_address(address);
  if (!to) return fail("\"" + address + "\" is no ADDRESS:PORT or [IPV6]:PORT");
  return conform(*to);
}
