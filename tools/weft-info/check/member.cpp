#include "tools/weft-info/check/member.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/os/host_name.hpp"
#include "base/wait.hpp"
#include "tools/weft-info/check/local.hpp"
#include "tools/weft-info/check/network.hpp"

namespace weft::check {
namespace {

constexpr int kResolveMs = 5000, kConnectMs = 3000;
// An end that something has come to is polled without a pause for so long.
constexpr std::uint64_t kBusyNs = 200'000'000;

std::string from_hex(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return bytes;
}

std::string to_hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

Json to_json(const End& end) {
  const fabric::Place& place = end.place();
  return {{"fabric", end.fabric_name()},
          {"kind", end.kind()},
          {"name", place.name},
          {"interface", place.interface},
          {"ip", place.address},
          {"gbit", place.gbit_per_s},
          {"mtu", place.mtu},
          {"address", to_hex(end.address())}};
}

Json error_json(const Status& status) { return {{"error", status.text()}}; }

void print_line(const Json& json) {
  const std::string line = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  fwrite(line.data(), 1, line.size(), stdout);
  fflush(stdout);
}

class Member {
 public:
  explicit Member(std::vector<std::unique_ptr<End>> ends) : ends_(std::move(ends)) {}
  int run();

 private:
  Json answer(const Json& question);
  Json listen(const std::string& address);
  Json connect(const Json& question);
  Json measure(const Json& question);
  bool read_questions();
  void take_visitors();

  std::vector<std::unique_ptr<End>> ends_;
  std::vector<Descriptor> listeners_;
  Descriptor datagrams_;
  std::string input_;
};

int Member::run() {
  fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
  std::uint64_t busy_until_ns = 0;
  for (;;) {
    for (const auto& end : ends_)
      if (end->serve()) busy_until_ns = now_ns() + kBusyNs;
    std::vector<pollfd> polls{{STDIN_FILENO, POLLIN, 0}, {datagrams_.get(), POLLIN, 0}};
    for (const Descriptor& listener : listeners_) polls.push_back({listener.get(), POLLIN, 0});
    const int wait_ms = now_ns() < busy_until_ns ? 0 : ends_.empty() ? 1000 : 1;
    if (poll(polls.data(), polls.size(), wait_ms) <= 0) continue;
    take_visitors();
    if (datagrams_) echo_datagrams(datagrams_);
    if (polls[0].revents != 0 && !read_questions()) return 0;
  }
}

// A connection is all that they want.
void Member::take_visitors() {
  for (const Descriptor& listener : listeners_)
    while (const Descriptor visitor{accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)})
      continue;
}

// False: the input has ended.
bool Member::read_questions() {
  char buffer[4096];
  bool has_ended = false;
  while (!has_ended) {
    const ssize_t length = read(STDIN_FILENO, buffer, sizeof buffer);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0 && errno == EAGAIN) break;
    has_ended = length <= 0;
    if (has_ended) break;
    input_.append(buffer, static_cast<std::size_t>(length));
  }
  for (std::size_t end; (end = input_.find('\n')) != std::string::npos;) {
    const Json question = Json::parse(input_.substr(0, end), nullptr, false);
    input_.erase(0, end + 1);
    Json answered;
    try {
      answered = question.is_discarded() ? Json{{"error", "no JSON"}} : answer(question);
    } catch (const std::exception& error) {  // a field that is missing or of another type
      answered = {{"error", error.what()}};
    }
    print_line(answered);
  }
  return !has_ended;
}

Json Member::answer(const Json& question) {
  const auto text = [&](const char* name) { return question.at(name).get<std::string>(); };
  const std::string what = text("do");
  if (what == "time") {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return {{"ns", std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()}};
  }
  if (what == "resolve") {
    std::vector<std::string> addresses;
    const Status status = resolve(text("name"), kResolveMs, addresses);
    return status ? Json{{"addresses", addresses}} : error_json(status);
  }
  if (what == "route") {
    Route route;
    const Status status = find_route(text("to"), text("from"), route);
    return status ? Json{{"interface", route.interface},
                         {"source", route.source},
                         {"gateway", route.gateway}}
                  : error_json(status);
  }
  if (what == "listen") return listen(text("address"));
  if (what == "connect") return connect(question);
  if (what == "largest")
    return {{"bytes", largest_packet(text("address"), question.at("port").get<int>(),
                                     question.at("most").get<unsigned>())}};
  if (what == "measure") return measure(question);
  return {{"error", "unknown: " + what}};
}

// At both ends of the range that the kernel takes ports from, and wherever it likes.
Json Member::listen(const std::string& address) {
  const Ports range = port_range();
  Json ports = Json::array();
  for (const int port : {range.first, 0, range.last - 64}) {
    int bound = 0;
    Descriptor socket;
    if (const Status status = listen_at(address, port, socket, bound); !status)
      return error_json(status);
    ports.push_back(bound);
    listeners_.push_back(std::move(socket));
  }
  int datagrams = 0;
  if (const Status status = bind_datagrams(address, datagrams_, datagrams); !status)
    return error_json(status);
  return {{"ports", ports}, {"datagrams", datagrams}};
}

Json Member::connect(const Json& question) {
  Json attempts = Json::array();
  for (const Attempt& attempt :
       connect_to(question.at("address").get<std::string>(),
                  question.at("ports").get<std::vector<int>>(), kConnectMs))
    attempts.push_back({{"port", attempt.port}, {"error", attempt.error}, {"us", attempt.us}});
  return {{"attempts", attempts}};
}

Json Member::measure(const Json& question) {
  const auto index = question.at("end").get<std::size_t>();
  if (index >= ends_.size()) return {{"error", "no such end"}};
  Measured measured;
  const Status status = ends_[index]->measure(from_hex(question.at("address").get<std::string>()),
                                              question.at("ms").get<int>(), measured);
  return status ? Json{{"latency_us", measured.latency_us},
                       {"out_gbit", measured.out_gbit},
                       {"in_gbit", measured.in_gbit}}
                : error_json(status);
}

}  // namespace

Json inspect_host(const Settings& settings, const Status& environment,
                  std::vector<std::unique_ptr<End>>& ends) {
  std::vector<Finding> findings;
  if (!environment)
    findings.push_back({Finding::Level::error, "settings", environment.text(),
                        "correct or unset it; weft-info --settings lists all"});
  inspect_limits(findings);
  inspect_kernel(findings);
  Json list = Json::array();
  for (const Fabric& fabric : inspect_fabrics(settings)) {
    findings.insert(findings.end(), fabric.inspection.findings.begin(),
                    fabric.inspection.findings.end());
    for (const fabric::Place& place : fabric.inspection.places) {
      std::unique_ptr<End> end;
      if (const Status status = End::open(fabric.name, place, settings, end); !status) {
        findings.push_back({Finding::Level::error, fabric.name + " on " + place.name, status.text(),
                            "see this host's lines of limits and devices"});
        continue;
      }
      list.push_back(to_json(*end));
      ends.push_back(std::move(end));
    }
  }
  Json found = Json::array();
  for (const Finding& finding : findings) found.push_back(to_json(finding));
  Json addresses = Json::array();
  for (const Interface& one : interfaces())
    addresses.push_back({{"interface", one.name}, {"address", one.address}, {"mtu", one.mtu}});
  const Ports range = port_range();
  return {{"weft", WEFT_VERSION},
          {"host", host_name()},
          {"findings", found},
          {"interfaces", addresses},
          {"ports", {range.first, range.last}},
          {"ends", list}};
}

int serve(const Settings& settings, const Status& environment) {
  std::vector<std::unique_ptr<End>> ends;
  print_line(inspect_host(settings, environment, ends));
  return Member(std::move(ends)).run();
}

}  // namespace weft::check
