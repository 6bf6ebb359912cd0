#include "job/weftrun/options.hpp"

#include <fmt/core.h>
#include <stdlib.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "job/rendezvous_wire.hpp"
#include "job/weftrun/hosts.hpp"

namespace weft::weftrun {
namespace {

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

template <class Number>
bool parse_number(std::string_view text, Number& out) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, out);
  return error == std::errc{} && rest == end;
}

Status bad(std::string_view option, std::string_view value, std::string_view expected) {
  return {Code::bad_argument, fmt::format("{} {}: must be {}", option, value, expected)};
}

// NAME=VALUE, or NAME alone for the value it has here.
Status add_variable(std::string_view option, std::string_view value, Options& options) {
  const std::size_t equals = value.find('=');
  const std::string name(value.substr(0, equals));
  if (name.empty()) return bad(option, value, "NAME=VALUE");
  if (equals != std::string_view::npos) {
    options.environment.emplace_back(name, value.substr(equals + 1));
  } else if (const char* here = getenv(name.c_str())) {
    options.environment.emplace_back(name, here);
  } else {
    return {Code::bad_argument, fmt::format("{} {}: it is not set here either", option, value)};
  }
  return {};
}

Status apply(std::string_view option, std::string_view value, Options& options) {
  if (is_one_of(option, {"-n", "-np", "--np", "-c", "--n"})) {
    if (!parse_number(value, options.num_ranks) || options.num_ranks < 1 ||
        options.num_ranks > rendezvous::kMaxRanks)
      return bad(option, value, fmt::format("a number from 1 to {}", rendezvous::kMaxRanks));
  } else if (is_one_of(option, {"--hosts", "--host", "-host", "-hosts", "-H"})) {
    return parse_hosts(value, options.hosts);
  } else if (is_one_of(option,
                       {"--hostfile", "-hostfile", "-f", "--machinefile", "-machinefile"})) {
    return read_host_file(std::string(value), options.hosts);
  } else if (option == "--launch") {
    if (value.find_first_not_of(' ') == std::string_view::npos)
      return bad(option, value, "a command");
    options.launch = value;
  } else if (option == "--agent") {
    if (!value.starts_with('/')) return bad(option, value, "a whole path");
    options.agent = value;
  } else if (option == "--address") {
    if (value.empty()) return bad(option, value, "an address or the name of an interface");
    options.address = value;
  } else if (option == "--port") {
    if (!parse_number(value, options.port) || options.port < 1 || options.port > 65535)
      return bad(option, value, "a port number");
  } else if (is_one_of(option, {"--wdir", "-wdir", "-w"})) {
    if (value.empty()) return bad(option, value, "a folder");
    options.folder = value;
  } else if (is_one_of(option, {"--env", "-env", "-x"})) {
    return add_variable(option, value, options);
  } else if (is_one_of(option, {"--bind", "--bind-to", "-bind-to"})) {
    if (value != "core" && value != "none") return bad(option, value, "core or none");
    options.bind = value == "core" ? Bind::core : Bind::none;
  } else if (option == "--trace") {
    if (value.empty()) return bad(option, value, "a file");
    options.environment.emplace_back("WEFT_TRACE", std::filesystem::absolute(value).string());
  } else if (option == "--profile-out") {
    if (value.empty()) return bad(option, value, "the beginning of a file name");
    options.profile = true;
    options.environment.emplace_back("WEFT_PROFILE_OUT", std::filesystem::absolute(value).string());
  } else if (is_one_of(option, {"--timeout", "-timeout"})) {
    if (!parse_number(value, options.timeout_s) || !(options.timeout_s > 0) ||
        options.timeout_s > 1e6)
      return bad(option, value, "a number of seconds");
  } else if (option == "--on-death") {
    if (value != "kill" && value != "continue") return bad(option, value, "kill or continue");
    options.on_death = value == "kill" ? OnDeath::kill : OnDeath::go_on;
  } else {
    return {Code::bad_argument,
            fmt::format("{} is no option of weftrun (--help lists them)", option)};
  }
  return {};
}

}  // namespace

Status parse_options(int argc, const char* const* argv, Options& out) {
  Options options;
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; ++i) {
    std::string_view option = argv[i];
    if (option == "--") {
      ++i;
      break;
    }
    if (is_one_of(option, {"-h", "-help", "--help"})) {
      options.help = true;
    } else if (is_one_of(option, {"-V", "--version"})) {
      options.version = true;
    } else if (option == "--serve-host") {
      options.serve_host = true;
    } else if (is_one_of(option, {"--oversubscribe", "-oversubscribe"})) {
      options.oversubscribe = true;
    } else if (option == "--stats") {
      options.environment.emplace_back("WEFT_STATS", "1");
    } else if (option == "--profile") {
      options.profile = true;
    } else if (is_one_of(option, {"--tag-output", "-tag-output", "-l", "-prepend-rank"})) {
      options.tag_output = true;
    } else if (option != "--allow-run-as-root") {
      const std::size_t equals = option.find('=');
      std::string_view value;
      if (option.starts_with("--") && equals != std::string_view::npos) {
        value = option.substr(equals + 1);
        option = option.substr(0, equals);
      } else if (i + 1 < argc) {
        value = argv[++i];
      }
      Status status = apply(option, value, options);
      if (!status) return status;
    }
  }
  options.command.assign(argv + i, argv + argc);
  if (options.command.empty() && !options.help && !options.version && !options.serve_host)
    return {Code::bad_argument, "no program is named (--help explains)"};
  if (options.profile && !options.command.empty()) {
    // Installed beside this command; not installed, it lies where it is built.
    std::error_code error;
    const auto here = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
    const auto built = here / "../../../profile/weft-profile";
    const bool is_installed = std::filesystem::exists(here / "weft-profile", error);
    options.command.insert(
        options.command.begin(),
        (is_installed ? here / "weft-profile" : built.lexically_normal()).string());
  }
  if (options.num_ranks == 0)
    options.num_ranks = options.hosts.empty() ? 1 : count_slots(options.hosts);
  out = std::move(options);
  return {};
}

std::string help_text() {
  return R"(weftrun: starts a program as a job of several processes on this machine or several

  weftrun [options] program [arguments]

  -n, -np N               number of processes (default 1; with hosts: one for every slot)
  --env NAME=VALUE        sets a variable for the processes; NAME alone passes it on (also -x)
  --wdir FOLDER           where the processes start (default: here)
  --tag-output            puts the rank before every line of output, "[3] ..." (also -l)
  --bind core|none        core: every process gets an equal share of whole cores; none: the
                          scheduler decides. Default: core if there are enough cores, else none
  --timeout S             ends the job after S seconds, with exit status 124
  --on-death kill|continue
                          when a process dies, exits with an error, or leaves the job without
                          finalizing: kill ends the others within a second (default), continue
                          lets them go on
  --stats                 prints at the end what each process sent to and received from each peer
  --trace FILE            writes when which call took how long, for ui.perfetto.dev: FILE with the
                          rank before its extension
  --profile               prints at the end what the calls of an MPI program have cost (weft-profile)
  --profile-out PREFIX    the same, and writes PREFIX.json and PREFIX.svg, who sent what to whom
  --help, --version
  --allow-run-as-root     accepted because other launchers need it

Other hosts (docs/cluster.md tells more):
  --hosts H1,H2:SLOTS     hosts, and how many processes each takes; without any number all get the
                          same share (also -H, --host)
  --hostfile FILE         the same from a file, a host a line: NAME, NAME:SLOTS, NAME slots=SLOTS
  --oversubscribe         more processes than slots are no error
  --launch 'CMD {host}'   what starts a command on a host; default: WEFT_LAUNCH, else ssh
  --agent PATH            weftrun on the hosts (default: the path it has here)
  --address A             the address or interface at which hosts reach this machine (default:
                          each finds out)
  --port P                a fixed port for that, for firewalls (default: any)

Output is forwarded in whole lines, the lines of two processes never mix. Standard input goes to
rank 0. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 go to all processes and to what they
have started; a second SIGINT, SIGTERM or SIGQUIT kills them. None outlives weftrun, whatever ends it.

The exit status is that of the rank that failed first (128 + signal if a signal killed it), 1 if
output could not be written, else 0.
)";
}

}  // namespace weft::weftrun
