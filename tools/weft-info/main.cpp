// weft-info: the settings with the source of each value, and the facts found about this machine.
#include <fmt/core.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <limits>
#include <string>

#include "base/info.hpp"
#include "base/stats.hpp"
#include "coll/offload/info.hpp"
#include "lanes/fabrics.hpp"
#include "peer/address.hpp"
#include "tools/cli/cli.hpp"
#include "tools/weft-info/check/check.hpp"
#include "tools/weft-info/check/member.hpp"
#include "tools/weft-info/collectives.hpp"
#include "tools/weft-info/tune.hpp"
#include "tools/weft-info/why.hpp"
#include "weft/job.hpp"
#include "weft/node.hpp"

extern char** environ;

namespace {

using namespace weft;

int print_stats(pid_t pid) {
  std::string text;
  if (Status status = stats::read(pid, text); !status) {
    fprintf(stderr, "weft-info: %s\n", status.text().c_str());
    return 1;
  }
  fputs(text.c_str(), stdout);
  return 0;
}

// Prints the fabric that leads to the Node at this address; returns the exit status.
int show_peer(const std::string& address, const std::string& secret) {
  Status status;
  try {
    Node node({.name = "weft-info", .secret = secret, .progress_thread = false});
    Peer peer;
    status = node.connect(address, peer);
    if (status) {
      fmt::print("{} is reached over {}\n", peer.name().empty() ? "a Node" : peer.name(),
                 peer.fabric());
      return 0;
    }
  } catch (const Error& error) {
    status = error.status();
  }
  fmt::print(stderr, "weft-info: {}\n", status.text());
  if (peer::NodeAddress theirs;
      peer::is_address_text(address) && peer::from_text(address, theirs)) {
    std::string fabrics;
    for (const auto& item : theirs.fabrics) fabrics += " " + item.fabric;
    fmt::print(stderr, "weft-info: its address names{}\n", fabrics);
  }
  return 1;
}

// 0: standard output is no terminal.
std::size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  const Status environment = Settings::from_environment(environ, settings);

  InfoReport report;
  report.add({"settings", "every setting, its value and where that came from", true,
              [&] { return settings_text(settings, terminal_columns()); }});
  report.add({"topology", "cores, caches and NUMA nodes", true, topology_text});
  report.add(
      {"fabrics", "routes to other processes", true, [&] { return fabrics_text(settings); }});
  report.add({"collectives", "which algorithm a collective uses, by size and processes", false,
              collectives_text});
  report.add({"offload", "whether allreduce goes through switches, and why not", true,
              [&] { return offload::offload_text(settings); }});

  cli::Command app("weft-info",
                   "Prints the settings and what was found on this machine. Without options: the\n"
                   "sections that are not marked *.");
  std::vector<cli::Option> asked;
  bool is_flag = false;
  std::vector<int> shape;
  for (const InfoSection& section : report.sections()) {
    const std::string about = (section.by_default ? "" : "* ") + section.meaning;
    asked.push_back(section.name == "collectives"
                        ? app.option("--collectives", shape,
                                     about + "; PROCESSES HOSTS: of so many, and nothing else")
                              .values(0, 2)
                              .range(1, 1 << 30)
                        : app.flag("--" + section.name, is_flag, about));
  }
  int pid = 0, most = 256;
  std::string peer, secret;
  const cli::Option attach =
      app.option("--attach", pid,
                 "what the running process PID has sent to and received from each peer, and "
                 "nothing else")
          .range(1, std::numeric_limits<pid_t>::max())
          .value_name("PID");
  bool asks_why = false;
  app.flag("--why", asks_why,
           "of --attach: what the processes of its job on this host wait for in MPI")
      .needs(attach);
  const cli::Option tunes =
      app.option("--tune", most,
                 "measure between two hosts, as in weftrun --hosts a,b -n 2 weft-info --tune, and "
                 "print the setting that makes collectives of up to so many processes take what "
                 "is fastest there; with WEFT_OFFLOAD set it times the switch too, among all "
                 "processes")
          .value_or("256")
          .range(2, 1024);
  const cli::Option meets =
      app.option("--peer", peer, "meet the Node at ADDRESS, and say over which fabric")
          .value_name("ADDRESS");
  app.option("--secret", secret, "of --peer").needs(meets);
  std::vector<std::string> hosts;
  const cli::Option checks =
      app.option(
             "--check", hosts,
             "whether this host is fit for Weft; HOST...: these, one with this host, and what is "
             "between each two of them; a line for each finding with what to do")
          .values(0, 1 << 20)
          .value_name("HOST");
  bool json = false, serves = false;
  app.flag("--json", json, "of --check: as JSON").needs(checks);
  app.flag("--serve-check", serves,
           "what --check starts on each host: answers its questions on standard input");
  if (const auto status = app.parse(argc, argv)) return *status;
  if (serves) return check::serve(settings, environment);
  if (checks.is_given()) return check::check(settings, environment, hosts, json);

  if (attach.is_given()) return asks_why ? print_why(pid) : print_stats(pid);
  if (tunes.is_given()) {
    if (environment) return tune(settings, most);
    fprintf(stderr, "weft-info: %s\n", environment.text().c_str());
    return 1;
  }
  if (meets.is_given() && environment) return show_peer(peer, secret);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < asked.size(); ++i)
    if (asked[i].is_given()) names.push_back(report.sections()[i].name);
  std::string text;
  const Status status =
      shape.empty() ? report.print(names, text)
                    : chosen_text(settings, shape[0], shape.size() > 1 ? shape[1] : 0, text);
  if (!status) {
    fprintf(stderr, "weft-info: %s\n", status.text().c_str());
    return 2;
  }
  fputs(text.c_str(), stdout);
  if (!environment) {
    fprintf(stderr, "weft-info: %s\n", environment.text().c_str());
    return 1;
  }
  return 0;
}
