#include "tools/weft-info/check/pair.hpp"

#include <errno.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <string.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace weft::check {
namespace {

using Level = Finding::Level;

constexpr int kMeasureMs = 150;  // of each figure
// More pairs of devices than this: the first of one host with the first of the other, and so on.
constexpr std::size_t kMostCrossed = 16;
// Of the link's rate; less is worth a word, or a warning.
constexpr double kGoodShare = 0.5, kPoorShare = 0.1;

class Pair {
 public:
  Pair(Host& a, Host& b, Report& report)
      : a_(a), b_(b), report_(report), both_(a.name() + " <-> " + b.name()) {}

  void check() {
    for (auto [from, to] : {std::pair(&a_, &b_), std::pair(&b_, &a_)}) names(*from, *to);
    mtus();
    bool connects = true;
    for (auto [from, to] : {std::pair(&a_, &b_), std::pair(&b_, &a_)})
      connects = reach(*from, *to) && connects;
    ends(connects);
  }

 private:
  void add(const std::string& where, Level level, std::string what, std::string value,
           std::string todo = {}) {
    report_.add(where, {level, std::move(what), std::move(value), std::move(todo)});
  }
  void names(Host& from, Host& to);
  void mtus();
  bool reach(Host& from, Host& to);
  bool connections(Host& from, Host& to, const Json& listening, const std::string& address,
                   const std::string& by);
  void packets(Host& from, Host& to, const Json& listening, const std::string& address);
  void ends(bool connects);
  void end_pair(const Json& left, std::size_t left_index, const Json& right);
  void route_of(Host& from, Host& to, const Json& left, const Json& right);

  Host& a_;
  Host& b_;
  Report& report_;
  const std::string both_;
};

std::string way(const Host& from, const Host& to) { return from.name() + " -> " + to.name(); }

unsigned mtu_of(const Host& host, const std::string& address) {
  for (const Json& one : host.facts().at("interfaces"))
    if (one.at("address") == address) return one.at("mtu");
  return 0;
}

std::string interface_with(const Host& host, const std::string& address) {
  for (const Json& one : host.facts().at("interfaces"))
    if (one.at("address") == address) return one.at("interface");
  return "DEV";
}

void Pair::names(Host& from, Host& to) {
  if (to.name() == "localhost") return;
  Json answer;
  if (const Status status = from.ask({{"do", "resolve"}, {"name", to.name()}}, answer); !status) {
    if (status == Code::not_found)
      add(way(from, to), Level::note, "name",
          fmt::format("{} resolves to nothing there ({}); ranks go by addresses, but ssh and other "
                      "programs do not",
                      to.name(), status.text()),
          fmt::format("getent hosts {}; a line \"{} {}\" in /etc/hosts", to.name(), to.address(),
                      to.name()));
    return;
  }
  const auto addresses = answer.at("addresses").get<std::vector<std::string>>();
  const bool is_own =
      std::ranges::any_of(addresses, [&](const std::string& one) { return mtu_of(to, one) != 0; });
  if (is_own)
    add(way(from, to), Level::ok, "name", fmt::format("resolves to {}", addresses[0]));
  else
    add(way(from, to), Level::warning, "name",
        fmt::format("{} resolves to {}, which is no address of an interface there", to.name(),
                    fmt::join(std::set(addresses.begin(), addresses.end()), ", ")),
        fmt::format("correct /etc/hosts or DNS: it has {}", to.address()));
}

// Both hosts' own, of the addresses that they are reached by.
void Pair::mtus() {
  const unsigned left = mtu_of(a_, a_.address()), right = mtu_of(b_, b_.address());
  if (left == 0 || right == 0) return;
  if (left == right) return;  // packets() says it
  const Host& less = left < right ? a_ : b_;
  add(both_, Level::warning, "MTU",
      fmt::format("{} has {}, {} has {}; the smaller is taken", a_.name(), left, b_.name(), right),
      fmt::format("ip link set {} mtu {} on {}, if the switches between pass that",
                  interface_with(less, less.address()), std::max(left, right), less.name()));
}

// Route, connections and packets to the address by which a host is reached. True: TCP connects.
bool Pair::reach(Host& from, Host& to) {
  const std::string address = to.address();
  if (address.empty()) {
    add(way(from, to), Level::error, "address",
        to.name() + " has no interface with an address besides the loopback",
        "ip address; ip link set DEV up, on " + to.name());
    return false;
  }
  Json route, listening;
  if (const Status status = from.ask({{"do", "route"}, {"to", address}, {"from", ""}}, route);
      !status) {
    add(way(from, to), Level::error, "route", fmt::format("to {}: {}", address, status.text()),
        fmt::format("on {}: ip route get {}; ip route", from.name(), address));
    return false;
  }
  const std::string gateway = route.at("gateway"), interface = route.at("interface"),
                    source = route.at("source");
  const std::string by =
      fmt::format("by {} from {}{}", interface, source, gateway.empty() ? "" : " over " + gateway);
  if (const Status status = to.ask({{"do", "listen"}, {"address", address}}, listening); !status) {
    add(to.name(), Level::error, "TCP", status.text(), "ip address; ss -lnt");
    return false;
  }
  if (!connections(from, to, listening, address, by)) return false;
  packets(from, to, listening, address);
  return true;
}

bool Pair::connections(Host& from, Host& to, const Json& listening, const std::string& address,
                       const std::string& by) {
  Json answer;
  if (!from.ask({{"do", "connect"}, {"address", address}, {"ports", listening.at("ports")}},
                answer))
    return false;
  std::vector<int> silent, refused, other;
  std::string reason;
  double us = 0;
  const Json attempts = answer.at("attempts");
  for (const Json& attempt : attempts) {
    const int error = attempt.at("error"), port = attempt.at("port");
    us = std::max(us, attempt.at("us").get<double>());
    if (error == ETIMEDOUT)
      silent.push_back(port);
    else if (error == ECONNREFUSED)
      refused.push_back(port);
    else if (error != 0) {
      other.push_back(port);
      reason = strerror(error);
    }
  }
  const std::string range = fmt::format("{}-{}", to.facts().at("ports").at(0).get<int>(),
                                        to.facts().at("ports").at(1).get<int>());
  const std::string source = from.address();
  const std::string let_in = fmt::format(
      "on {}: nft list ruleset (or iptables -nL), and let it in: iptables -I INPUT -p tcp -s {} "
      "--dport {} -j ACCEPT; answers need a route back: ip route get {}",
      to.name(), source,
      fmt::format("{}:{}", to.facts().at("ports").at(0).get<int>(),
                  to.facts().at("ports").at(1).get<int>()),
      source);
  if (!silent.empty())
    add(way(from, to), Level::error, "TCP",
        fmt::format("{} port{} {}: no answer in 3 s, a firewall drops what comes or the answers",
                    address, silent.size() == 1 ? "" : "s", fmt::join(silent, ", ")),
        let_in);
  if (!refused.empty())
    add(way(from, to), Level::error, "TCP",
        fmt::format("{} port{} {}: refused, though {} listens there: a firewall rejects it",
                    address, refused.size() == 1 ? "" : "s", fmt::join(refused, ", "), to.name()),
        let_in);
  if (!other.empty())
    add(way(from, to), Level::error, "TCP",
        fmt::format("{} port{} {}: {}", address, other.size() == 1 ? "" : "s",
                    fmt::join(other, ", "), reason),
        fmt::format("on {}: ip route get {}; ip neighbour show {}", from.name(), address, address));
  const std::size_t failed = silent.size() + refused.size() + other.size();
  if (failed == 0)
    add(way(from, to), Level::ok, "TCP",
        fmt::format("{} ports {} connect, {}", address, range, by));
  return failed < attempts.size();
}

// The largest packet that arrives in one piece.
void Pair::packets(Host& from, Host& to, const Json& listening, const std::string& address) {
  const unsigned most = std::min(mtu_of(from, from.address()), mtu_of(to, address));
  if (most == 0) return;
  Json answer;
  if (!from.ask({{"do", "largest"},
                 {"address", address},
                 {"port", listening.at("datagrams")},
                 {"most", most}},
                answer))
    return;
  const unsigned bytes = answer.at("bytes");
  if (bytes == most)
    add(way(from, to), Level::ok, "packets", fmt::format("up to {} bytes arrive", most));
  else if (bytes == 0)
    add(way(from, to), Level::warning, "packets",
        fmt::format("no UDP arrives at {}, so nobody knows how large they may be; RoCE v2 needs "
                    "UDP port 4791",
                    address),
        fmt::format("on {}: iptables -I INPUT -p udp -s {} -j ACCEPT", to.name(), from.address()));
  else
    add(way(from, to), Level::error, "packets",
        fmt::format("those of more than {} bytes vanish, though both ends have MTU {} or more: a "
                    "switch between passes less, and long messages hang",
                    bytes, most),
        fmt::format("raise the switch's MTU, or on both: ip link set {} mtu {}; try: ping -M do -s "
                    "{} {}",
                    interface_with(to, address), bytes, most - 28, address));
}

// It goes by the kernel's connections and routes.
bool is_by_kernel(const Json& end) { return end.at("fabric") != "verbs"; }

std::string name_of(const Json& end) {
  const std::string fabric = end.at("fabric"), name = end.at("name");
  return fabric + " " + name;
}

// Bytes of one device of a host to one of the other's.
void Pair::ends(bool connects) {
  const Json& left = a_.facts().at("ends");
  const Json& right = b_.facts().at("ends");
  std::set<std::string> met;
  for (std::size_t i = 0; i < left.size(); ++i)
    for (std::size_t j = 0; j < right.size(); ++j) {
      if (left[i].at("kind") != right[j].at("kind")) continue;
      met.insert(left[i].at("fabric"));
      if (left.size() * right.size() > kMostCrossed && i != j) continue;
      route_of(a_, b_, left[i], right[j]);
      route_of(b_, a_, right[j], left[i]);
      // Without connections it would take time to say the same again.
      if (!connects && is_by_kernel(left[i])) continue;
      end_pair(left[i], i, right[j]);
    }
  if (met.empty())
    add(both_, Level::error, "fabrics",
        "none that both have, so processes there cannot reach each other",
        "weft-info --fabrics on both; compare WEFT_FABRIC, WEFT_DEVICE and WEFT_INTERFACE");
  for (const std::string fabric : {"verbs"})
    if (!met.contains(fabric))
      for (const Host* host : {&a_, &b_})
        for (const Json& end : host->facts().at("ends"))
          if (end.at("fabric") == fabric)
            add(both_, Level::warning, "RDMA",
                fmt::format("{} has {}, the other none that is usable: they go by TCP",
                            host->name(), end.at("name").get<std::string>()),
                "see the other host's lines of devices");
}

// RDMA devices send by the interface that they belong to: the kernel's route should agree.
void Pair::route_of(Host& from, Host& to, const Json& left, const Json& right) {
  const std::string interface = left.at("interface"), source = left.at("ip"),
                    target = right.at("ip");
  if (is_by_kernel(left) || interface.empty() || target.empty()) return;
  Json route;
  const Status status = from.ask({{"do", "route"}, {"to", target}, {"from", source}}, route);
  const std::string what = fmt::format("route of {} to {}", left.at("name").get<std::string>(),
                                       right.at("name").get<std::string>());
  const std::string fix = fmt::format(
      "on {0}: ip route add {1} dev {2} src {3} table 100; ip rule add from {3} table 100",
      from.name(), target, interface, source);
  if (!status)
    add(way(from, to), Level::warning, what, fmt::format("to {}: {}", target, status.text()), fix);
  else if (route.at("interface") != interface)
    add(way(from, to), Level::warning, what,
        fmt::format("to {} leaves by {}, not by the device's own {}", target,
                    route.at("interface").get<std::string>(), interface),
        fix);
  else
    add(way(from, to), Level::ok, what, fmt::format("to {} by {}", target, interface));
}

void Pair::end_pair(const Json& left, std::size_t left_index, const Json& right) {
  const std::string what =
      fmt::format("{} to {}", name_of(left), right.at("name").get<std::string>());
  const unsigned left_mtu = left.at("mtu"), right_mtu = right.at("mtu");
  if (!is_by_kernel(left) && left_mtu != right_mtu)
    add(both_, Level::warning, what + " MTU",
        fmt::format("{} at {}, {} at {}: the larger end may send packets that the other drops",
                    left_mtu, a_.name(), right_mtu, b_.name()),
        fmt::format("ip link set {} mtu N, the same on both (RoCE: 4200 or more for 4096)",
                    (left_mtu < right_mtu ? left : right).at("interface").get<std::string>()));
  Json answer;
  const Status status = a_.ask({{"do", "measure"},
                                {"end", left_index},
                                {"address", right.at("address")},
                                {"ms", kMeasureMs}},
                               answer);
  if (!status) {
    add(both_, Level::error, what, status.text(),
        is_by_kernel(left)
            ? "see the lines of TCP and packets; WEFT_INTERFACE names another interface"
            : fmt::format(
                  "see the lines of MTU, packets and routes; a firewall must pass UDP 4791; "
                  "beside Weft: rping -s -a {} on {}, rping -c -a {} on {}",
                  right.at("ip").get<std::string>(), b_.name(), right.at("ip").get<std::string>(),
                  a_.name()));
    return;
  }
  const double out = answer.at("out_gbit"), in = answer.at("in_gbit"),
               latency = answer.at("latency_us");
  const double here = left.at("gbit"), there = right.at("gbit");
  const double link = here > 0 && there > 0 ? std::min(here, there) : std::max(here, there);
  const double share = link > 0 ? std::min(out, in) / link : 1;
  const std::string value =
      fmt::format("{:.1f} us, {:.2f} Gbit/s there and {:.2f} back, of {}", latency, out, in,
                  link > 0 ? fmt::format("{:g}", link) : "a link of unknown rate");
  if (share >= kGoodShare)
    add(both_, Level::ok, what, value);
  else
    add(both_, share >= kPoorShare ? Level::note : Level::warning, what,
        fmt::format("{}: {:.0f} %", value, share * 100),
        is_by_kernel(left)
            ? "one connection of TCP is bound by one core: nothing on fast links and busy hosts; "
              "else ethtool -S DEV | grep -e err -e drop"
            : "ethtool -S DEV | grep -e discard -e pause; weft-perf for a longer look; the place "
              "of "
              "the device (NUMA) and its PCI width: lspci -vv | grep LnkSta");
}

}  // namespace

void check_pair(Host& a, Host& b, Report& report) try {
  Pair(a, b, report).check();
  for (const Host* host : {&a, &b})
    if (!host->is_there() && !is_interrupted)
      report.add(host->name(), {Level::error, "host", "it was lost while it was checked",
                                "weft-info --check there"});
} catch (const Json::exception& error) {
  report.add(a.name() + " <-> " + b.name(),
             {Level::error, "answers", error.what(), "install the same Weft on all hosts"});
}

}  // namespace weft::check
