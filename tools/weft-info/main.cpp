// weft-info: the settings with the source of each value, and the facts found about this machine.
#include <fmt/core.h>
#include <stdio.h>

#include <charconv>
#include <string_view>

#include "base/info.hpp"
#include "base/stats.hpp"
#include "coll/offload/info.hpp"
#include "lanes/fabrics.hpp"
#include "peer/address.hpp"
#include "tools/weft-info/collectives.hpp"
#include "tools/weft-info/tune.hpp"
#include "weft/job.hpp"
#include "weft/node.hpp"

extern char** environ;

namespace {

using namespace weft;

std::string help_text(const InfoReport& report) {
  std::string text =
      "weft-info: settings, and what was found on this machine\n\n"
      "  weft-info [options]   without options: everything not marked *\n\n";
  for (const InfoSection& section : report.sections())
    text += fmt::format("  --{:12} {}{}\n", section.name, section.by_default ? "" : "* ",
                        section.meaning);
  return text +
         "  --attach PID   what a running process has sent to and received from each peer, and "
         "nothing else\n"
         "  --collectives PROCESSES HOSTS   the same for so many, and nothing else\n"
         "  --tune [PROCESSES]   measures between two hosts, as in weftrun --hosts a,b -n 2 "
         "weft-info "
         "--tune, and prints the setting that makes collectives of up to so many processes (256) "
         "take what is fastest there; with WEFT_OFFLOAD set it times the switch too, among all "
         "processes\n"
         "  --peer ADDRESS [--secret S]   meets the Node at this address, and says over which "
         "fabric\n"
         "  --version, --help\n";
}

// Parses an argument of the command line, or null. Returns 0 if it is not a number above 0.
int count_of(const char* word) {
  const std::string_view text = word != nullptr ? word : "";
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && number > 0 ? number : 0;
}

// process: an argument of the command line, or null.
int print_stats(const char* process) {
  const pid_t pid = count_of(process);
  if (pid == 0) {
    fputs("weft-info: --attach wants the number of a process\n", stderr);
    return 2;
  }
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

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  const Status environment = Settings::from_environment(environ, settings);

  InfoReport report;
  report.add({"settings", "every setting, its value and where that came from", true,
              [&] { return settings_text(settings); }});
  report.add({"topology", "cores, caches and NUMA nodes", true, topology_text});
  report.add(
      {"fabrics", "routes to other processes", true, [&] { return fabrics_text(settings); }});
  report.add({"collectives", "which algorithm a collective uses, by size and processes", false,
              collectives_text});
  report.add({"offload", "whether allreduce goes through switches, and why not", true,
              [&] { return offload::offload_text(settings); }});

  std::vector<std::string> names;
  std::string peer, secret;
  int num_processes = -1, num_hosts = 0;  // given on the command line, if not -1
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--attach") return print_stats(argv[i + 1]);
    if (word == "--help" || word == "-h") {
      fputs(help_text(report).c_str(), stdout);
      return 0;
    }
    if (word == "--version") {
      puts("weft-info (Weft) " WEFT_VERSION);
      return 0;
    }
    if (word == "--collectives" && i + 1 < argc && argv[i + 1][0] != '-') {
      num_processes = count_of(argv[++i]);
      if (i + 1 < argc) num_hosts = count_of(argv[++i]);
      continue;
    }
    if (word == "--tune") {
      const int most = argv[i + 1] == nullptr ? 256 : count_of(argv[i + 1]);
      if (most < 2 || most > 1024) {
        fputs("weft-info: --tune takes a number of processes from 2 to 1024\n", stderr);
        return 2;
      }
      if (environment) return tune(settings, most);
      fprintf(stderr, "weft-info: %s\n", environment.text().c_str());
      return 1;
    }
    if (word == "--peer" || word == "--secret") {
      if (i + 1 == argc) {
        fprintf(stderr, "weft-info: %s takes a value\n", argv[i]);
        return 2;
      }
      (word == "--peer" ? peer : secret) = argv[++i];
      continue;
    }
    if (!word.starts_with("--")) {
      fprintf(stderr, "weft-info: %s is no option (--help lists them)\n", argv[i]);
      return 2;
    }
    names.emplace_back(word.substr(2));
  }
  if (!peer.empty() && environment) return show_peer(peer, secret);
  std::string text;
  const Status status = num_processes < 0 ? report.print(names, text)
                                          : chosen_text(settings, num_processes, num_hosts, text);
  if (!status) {
    fprintf(stderr, "weft-info: %s (--help lists them)\n", status.text().c_str());
    return 2;
  }
  fputs(text.c_str(), stdout);
  if (!environment) {
    fprintf(stderr, "weft-info: %s\n", environment.text().c_str());
    return 1;
  }
  return 0;
}
