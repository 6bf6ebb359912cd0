#include "launcher/options.hpp"

#include <errno.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "job/rendezvous_wire.hpp"
#include "launcher/hosts.hpp"

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
using Environment = std::vector<std::pair<std::string, std::string>>;

Status add_variable(std::string_view option, std::string_view value, Environment& environment) {
  const std::size_t equals = value.find('=');
  const std::string name(value.substr(0, equals));
  if (name.empty()) return bad(option, value, "NAME=VALUE");
  if (equals != std::string_view::npos) {
    environment.emplace_back(name, value.substr(equals + 1));
  } else if (const char* here = getenv(name.c_str())) {
    environment.emplace_back(name, here);
  } else {
    return {Code::bad_argument, fmt::format("{} {}: it is not set here either", option, value)};
  }
  return {};
}

// Hydra's -genvlist: names with commas between them.
Status add_variables(std::string_view option, std::string_view names, Environment& environment) {
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    if (name.find('=') != std::string_view::npos) return bad(option, name, "a variable's name");
    if (Status status = add_variable(option, name, environment); !status) return status;
  }
  return {};
}

// Open MPI's "core", "node:PE=2:OVERSUBSCRIBE", "ppr:2:node".
Status apply_mapping(std::string_view option, std::string_view value, Options& options) {
  const std::string_view whole = value;
  const auto next = [&value] {
    const std::string_view word = value.substr(0, value.find(':'));
    value.remove_prefix(std::min(value.size(), word.size() + 1));
    return word;
  };
  const std::string_view unit = next();
  if (unit == "ppr") {
    if (!parse_number(next(), options.ranks_per_host) || options.ranks_per_host < 1 ||
        options.ranks_per_host > rendezvous::kMaxRanks || next() != "node")
      return bad(option, whole, "ppr:NUMBER:node, or a unit");
  } else if (unit == "node") {
    options.hosts_in_turn = true;
  } else if (!unit.empty() && !is_one_of(unit, {"slot", "core", "hwthread", "socket", "package",
                                                "numa", "l1cache", "l2cache", "l3cache"})) {
    return bad(option, whole, "slot, node, core, hwthread, socket, numa or a cache");
  }
  while (!value.empty()) {
    const std::string_view modifier = next();
    if (is_one_of(modifier, {"OVERSUBSCRIBE", "oversubscribe"})) {
      options.oversubscribe = true;
    } else if (modifier.starts_with("PE=") || modifier.starts_with("pe=")) {
      if (!parse_number(modifier.substr(3), options.cores_each) || options.cores_each < 1 ||
          options.cores_each > rendezvous::kMaxRanks)
        return bad(option, whole, "PE=NUMBER after the colon");
      options.bind = Bind::core;
    } else if (!is_one_of(modifier, {"NOOVERSUBSCRIBE", "nooversubscribe", "SPAN", "span"})) {
      return bad(option, whole, "a unit with PE=NUMBER or OVERSUBSCRIBE after colons");
    }
  }
  return {};
}

Status apply_binding(std::string_view option, std::string_view value, Options& options) {
  constexpr std::pair<std::string_view, Bind> kUnits[] = {
      {"core", Bind::core},     {"none", Bind::none},     {"hwthread", Bind::hwthread},
      {"numa", Bind::numa},     {"socket", Bind::socket}, {"package", Bind::socket},
      {"user", Bind::automatic}};
  for (const auto& [name, bind] : kUnits)
    if (value == name) {
      options.bind = bind;
      return {};
    }
  return bad(option, value, "core, none, hwthread, numa or socket");
}

Status apply(std::string_view option, std::string_view value, Options& options, Program& program) {
  if (is_one_of(option, {"-n", "-np", "--np", "-c", "--n"})) {
    if (!parse_number(value, program.num_ranks) || program.num_ranks < 1 ||
        program.num_ranks > rendezvous::kMaxRanks)
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
  } else if (option == "--path") {
    options.path = value;
  } else if (option == "--background") {
    if (!parse_number(value, options.background) || options.background < 3)
      return bad(option, value, "a descriptor");
  } else if (option == "--name-server") {
    if (value.find('/') == std::string_view::npos || value.find(':') == std::string_view::npos)
      return bad(option, value, "HOST:PORT/KEY, as weftrun --serve-names prints it");
    options.name_server = value;
  } else if (option == "--port") {
    if (!parse_number(value, options.port) || options.port < 1 || options.port > 65535)
      return bad(option, value, "a port number");
  } else if (is_one_of(option, {"--wdir", "-wdir", "-w"})) {
    if (value.empty()) return bad(option, value, "a folder");
    options.folder = value;
  } else if (is_one_of(option, {"--env", "-env", "-x"})) {
    return add_variable(option, value, program.environment);
  } else if (is_one_of(option, {"-genv", "--genv"})) {
    return add_variable(option, value, options.environment);
  } else if (option == "-genvlist") {
    return add_variables(option, value, options.environment);
  } else if (option == "-envlist") {
    return add_variables(option, value, program.environment);
  } else if (is_one_of(option, {"-ppn", "--ppn", "-perhost", "-npernode", "--npernode",
                                "--ntasks-per-node"})) {
    if (!parse_number(value, options.ranks_per_host) || options.ranks_per_host < 1 ||
        options.ranks_per_host > rendezvous::kMaxRanks)
      return bad(option, value, fmt::format("a number from 1 to {}", rendezvous::kMaxRanks));
  } else if (is_one_of(option, {"--map-by", "-map-by", "--rank-by", "-rank-by"})) {
    return apply_mapping(option, value, options);
  } else if (is_one_of(option, {"--bind", "--bind-to", "-bind-to"})) {
    return apply_binding(option, value, options);
  } else if (option == "--trace") {
    if (value.empty()) return bad(option, value, "a file");
    options.environment.emplace_back("WEFT_TRACE", std::filesystem::absolute(value).string());
  } else if (option == "--profile-out") {
    if (value.empty()) return bad(option, value, "the beginning of a file name");
    if (const auto folder = std::filesystem::absolute(value).parent_path();
        access(folder.c_str(), W_OK | X_OK) != 0)
      return {Code::bad_argument, fmt::format("--profile-out {}: cannot write in {}: {}", value,
                                              folder.string(), strerror(errno))};
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

namespace {

bool takes_no_value(std::string_view option, Options& options) {
  if (is_one_of(option, {"-h", "-help", "--help"})) {
    options.help = true;
  } else if (is_one_of(option, {"-V", "--version"})) {
    options.version = true;
  } else if (option == "--serve-host") {
    options.serve_host = true;
  } else if (option == "--serve-names") {
    options.serve_names = true;
  } else if (is_one_of(option, {"--oversubscribe", "-oversubscribe"})) {
    options.oversubscribe = true;
  } else if (is_one_of(option, {"--verbose", "-verbose", "-v"})) {
    options.verbose = true;
  } else if (option == "--stats") {
    options.environment.emplace_back("WEFT_STATS", "1");
  } else if (option == "--profile") {
    options.profile = true;
  } else if (is_one_of(option, {"--tag-output", "-tag-output", "-l", "-prepend-rank"})) {
    options.tag_output = true;
  } else {
    // Processes get the whole environment unchanged.
    return is_one_of(option, {"--allow-run-as-root", "-genvall", "-envall", "--nooversubscribe"});
  }
  return true;
}

// The options and the command between two colons. `i` stands on its first word, then on the colon.
Status parse_program(int argc, const char* const* argv, int& i, Options& options) {
  Program program;
  const auto ends = [&] { return i >= argc || std::string_view(argv[i]) == ":"; };
  for (; !ends() && argv[i][0] == '-'; ++i) {
    std::string_view option = argv[i];
    if (option == "--") {
      ++i;
      break;
    }
    if (takes_no_value(option, options)) continue;
    if (is_one_of(option, {"--mca", "-mca", "--gmca", "-gmca", "--prtemca", "--pmixmca"})) {
      if (i + 2 >= argc) return bad(option, "", "followed by a name and a value");
      options.ignored.push_back(fmt::format("{} {} {}", option, argv[i + 1], argv[i + 2]));
      i += 2;
      continue;
    }
    const std::size_t equals = option.find('=');
    std::string value;
    if (option.starts_with("--") && equals != std::string_view::npos) {
      value = option.substr(equals + 1);
      option = option.substr(0, equals);
    } else if (i + 1 < argc) {
      value = argv[++i];
    }
    // Hydra's -env NAME VALUE.
    if (is_one_of(option, {"-env", "-genv"}) && value.find('=') == std::string::npos &&
        i + 1 < argc)
      value += fmt::format("={}", argv[++i]);
    Status status = apply(option, value, options, program);
    if (!status) return status;
  }
  for (; !ends(); ++i) program.command.emplace_back(argv[i]);
  if (!program.command.empty() || options.programs.empty()) {
    options.programs.push_back(std::move(program));
  } else {
    return {Code::bad_argument, "no program is named after a colon (--help explains)"};
  }
  return {};
}

// Installed beside this command; not installed, it lies where it is built.
std::string profiler() {
  std::error_code error;
  const auto here = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const auto built = here / "../weft-profile/weft-profile";
  const bool is_installed = std::filesystem::exists(here / "weft-profile", error);
  return (is_installed ? here / "weft-profile" : built.lexically_normal()).string();
}

}  // namespace

Status parse_options(int argc, const char* const* argv, Options& out) {
  Options options;
  int i = 1;
  for (;; ++i) {
    if (Status status = parse_program(argc, argv, i, options); !status) return status;
    if (i >= argc) break;
  }
  if (options.programs[0].command.empty() && !options.help && !options.version &&
      !options.serve_host && !options.serve_names)
    return {Code::bad_argument, "no program is named (--help explains)"};
  if (options.ranks_per_host > 0) {
    for (HostEntry& host : options.hosts) host.slots = options.ranks_per_host;
    options.oversubscribe = true;
  }
  for (Program& program : options.programs) {
    if (options.profile && !program.command.empty())
      program.command.insert(program.command.begin(), profiler());
    if (program.num_ranks == 0)
      program.num_ranks = options.programs.size() > 1 ? 1
                          : !options.hosts.empty()    ? count_slots(options.hosts)
                                                      : std::max(options.ranks_per_host, 1);
    options.num_ranks += program.num_ranks;
  }
  if (options.num_ranks > rendezvous::kMaxRanks)
    return {Code::bad_argument, fmt::format("{} processes: must be at most {}", options.num_ranks,
                                            rendezvous::kMaxRanks)};
  out = std::move(options);
  return {};
}

std::string help_text() {
  return R"(weftrun: starts a program as a job of several processes on this machine or several

  weftrun [options] program [arguments] [: [options] program [arguments]]...

After a colon follows another program, whose processes have the next ranks of the same job; -n and
--env are of each program, all other options of the job.

  -n, -np N               number of processes (default 1; with hosts: one for every slot)
  --env NAME=VALUE        sets a variable for the processes; NAME alone passes it on (also -x,
                          -env NAME VALUE; -genv NAME VALUE is for all programs)
  --wdir FOLDER           where the processes start (default: here)
  --tag-output            puts the rank before every line of output, "[3] ..." (also -l)
  --bind core|none|hwthread|numa|socket
                          core: every process gets an equal share of whole cores; hwthread, numa,
                          socket: of those; none: the scheduler decides. Default: core if there
                          are enough cores, else none (also --bind-to)
  --map-by UNIT[:PE=N]    node: each rank on the next host; slot, core, socket and others: hosts
                          are filled in order. PE=N binds each process to N cores. ppr:N:node is
                          -ppn N (also --rank-by)
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
  --name-server H:P/KEY   where MPI programs publish names and look them up (default: this weftrun
                          has its own)
  --serve-names           starts nothing, but serves names to several jobs: prints what --name-server
                          takes, and ends with SIGTERM or SIGINT (--port, --address)
  --path FOLDERS          where programs are looked for before PATH
  --verbose               says which options are ignored
  --help, --version
  --allow-run-as-root, -genvall, --mca NAME VALUE
                          accepted because scripts for other launchers have them

Other hosts (see docs/use/cluster.md):
  --hosts H1,H2:SLOTS     hosts, and how many processes each takes; without any number all get the
                          same share (also -H, --host)
  --hostfile FILE         the same from a file, a host a line: NAME, NAME:SLOTS, NAME slots=SLOTS
                          (also -machinefile, -f)
  -ppn N                  N processes on each host
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
