#include "launcher/options/table.hpp"

#include <errno.h>
#include <fmt/core.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/settings.hpp"
#include "launcher/hosts.hpp"
#include "launcher/options/values.hpp"

namespace weft::weftrun {
namespace {

using enum Takes;
using A = Argument;

template <auto member, auto value = true>
Status set(A& a) {
  a.options.*member = value;
  return {};
}

template <auto member, auto value = true>
Status set_binding(A& a) {
  a.options.binding.*member = value;
  return {};
}

// For the parsers of values.hpp that change the options.
template <Status (*parse)(std::string_view, std::string_view, Options&)>
Status with(A& a) {
  return parse(a.option, a.value, a.options);
}

template <auto member>
Status text(A& a) {
  if (a.value.empty()) return bad_value(a.option, a.value, "a word");
  a.options.*member = a.value;
  return {};
}

Status set_launch(A& a) {
  if (a.value.find_first_not_of(' ') == std::string::npos)
    return bad_value(a.option, a.value, "a command");
  a.options.launch = a.value;
  return {};
}

Status set_agent(A& a) {
  if (!a.value.starts_with('/')) return bad_value(a.option, a.value, "a whole path");
  a.options.agent = a.value;
  return {};
}

Status set_name_server(A& a) {
  if (a.value.find('/') == std::string::npos || a.value.find(':') == std::string::npos)
    return bad_value(a.option, a.value, "HOST:PORT/KEY, as weftrun --serve-names prints it");
  a.options.name_server = a.value;
  return {};
}

Status set_trace(A& a) {
  if (a.value.empty()) return bad_value(a.option, a.value, "a file");
  a.options.environment.emplace_back("WEFT_TRACE", std::filesystem::absolute(a.value).string());
  return {};
}

Status set_profile_out(A& a) {
  if (a.value.empty()) return bad_value(a.option, a.value, "the beginning of a file name");
  const auto path = std::filesystem::absolute(a.value);
  if (const auto folder = path.parent_path(); access(folder.c_str(), W_OK | X_OK) != 0)
    return {Code::bad_argument, fmt::format("{} {}: cannot write in {}: {}", a.option, a.value,
                                            folder.string(), strerror(errno))};
  a.options.profile = true;
  a.options.environment.emplace_back("WEFT_PROFILE_OUT", path.string());
  return {};
}

Status set_check(A& a) {
  if (!a.value.empty() && a.value != "report" && a.value != "abort")
    return bad_value(a.option, a.value, "report or abort");
  a.options.check = true;
  a.options.environment.emplace_back("WEFT_CHECK", a.value.empty() ? "report" : a.value);
  return {};
}

Status set_on_death(A& a) {
  if (a.value != "kill" && a.value != "continue")
    return bad_value(a.option, a.value, "kill or continue");
  a.options.on_death = a.value == "kill" ? OnDeath::kill : OnDeath::go_on;
  return {};
}

Status set_initial_errhandler(A& a) {
  if (Settings settings; !settings.set("INITIAL_ERRHANDLER", a.value))
    return bad_value(a.option, a.value,
                     "mpi_errors_abort, mpi_errors_are_fatal or mpi_errors_return");
  a.options.environment.emplace_back("WEFT_INITIAL_ERRHANDLER", a.value);
  return {};
}

Status set_kill_on_bad_exit(A& a) {
  if (!a.value.empty() && a.value != "0" && a.value != "1")
    return bad_value(a.option, a.value, "0 or 1");
  a.options.on_death = a.value == "0" ? OnDeath::go_on : OnDeath::kill;
  return {};
}

Status set_cpus(A& a) {
  a.options.binding.cpus.clear();
  if (!parse_ranges(a.value, a.options.binding.cpus))
    return bad_value(a.option, a.value, "numbers of cores, as 0,2-3");
  return {};
}

Status set_input(A& a) {
  if (a.value != "0")
    a.options.notes.push_back(
        fmt::format("{} {} is ignored: standard input goes to rank 0", a.option, a.value));
  return {};
}

Status accept(A&) { return {}; }

const std::vector<OptionRow>& rows() {
  constexpr const char* kNoParameters = nullptr;
  static const std::vector<OptionRow> table = {
      // Processes.
      {{"--np", "-n", "--n", "-c", "--ntasks"},
       value,
       [](A& a) { return parse_count(a.option, a.value, a.program.num_ranks); }},
      {{"--wdir", "-w", "--wd", "--chdir", "-D"}, value, text<&Options::folder>},
      {{"--path"},
       value,
       [](A& a) {
         a.options.path = a.value;
         return Status();
       }},
      {{"--prefix"}, value, with<apply_prefix>},
      // Hosts.
      {{"--hosts", "--host", "-H", "--nodelist"},
       value,
       [](A& a) { return parse_hosts(a.value, a.options.hosts); }},
      {{"--hostfile", "-f", "--machinefile", "--default-hostfile"},
       value,
       [](A& a) { return read_host_file(a.value, a.options.hosts); }},
      {{"--ppn", "-N", "--npernode", "--perhost", "--ntasks-per-node"},
       value,
       [](A& a) { return parse_count(a.option, a.value, a.options.ranks_per_host); }},
      {{"--pernode"}, nothing, set<&Options::ranks_per_host, 1>},
      {{"--oversubscribe", "--overcommit", "-O"}, nothing, set<&Options::oversubscribe>},
      {{"--nooversubscribe"}, nothing, accept},
      {{"--nolocal", "--skip-launch-node"}, nothing, set<&Options::excludes_this_machine>},
      {{"--launch", "--launcher-exec", "--bootstrap-exec"}, value, set_launch},
      {{"--launcher", "--bootstrap"}, value, with<apply_launcher>},
      {{"--agent"}, value, set_agent},
      {{"--address", "--iface"}, value, text<&Options::address>},
      {{"--port"}, value, [](A& a) { return parse_port(a.option, a.value, a.options.port); }},
      // Binding.
      {{"--bind", "--bind-to"}, value, with<apply_binding>},
      {{"--bind-to-core"},
       nothing,
       [](A& a) { return apply_binding(a.option, "core", a.options); }},
      {{"--bind-to-socket"},
       nothing,
       [](A& a) { return apply_binding(a.option, "socket", a.options); }},
      {{"--bind-to-none"},
       nothing,
       [](A& a) { return apply_binding(a.option, "none", a.options); }},
      {{"--cpu-bind"}, value, with<apply_cpu_bind>},
      {{"--map-by"}, value, with<apply_mapping>},
      {{"--rank-by"}, value, with<apply_ranking>},
      {{"--ppr"}, value, [](A& a) { return apply_mapping(a.option, "ppr:" + a.value, a.options); }},
      {{"--npersocket"},
       value,
       [](A& a) {
         return apply_mapping(a.option, fmt::format("ppr:{}:socket", a.value), a.options);
       }},
      {{"--bynode"}, nothing, set<&Options::hosts_in_turn>},
      {{"--byslot", "--bycore"}, nothing, accept},
      {{"--cpus-per-rank", "--cpus-per-proc", "--cpus-per-task"}, value, with<bind_to_cores_each>},
      {{"--use-hwthread-cpus"}, nothing, set_binding<&Binding::hwthreads>},
      {{"--cpu-set", "--cpu-list"}, value, set_cpus},
      {{"--report-bindings"}, nothing, set_binding<&Binding::report>},
      // Output.
      {{"--tag-output", "-l", "--prepend-rank", "--label"}, nothing, set<&Options::tag_output>},
      {{"--output-filename", "--output-directory"}, value, with<apply_output_files>},
      {{"--output"}, value, with<apply_output>},
      {{"--merge-stderr-to-stdout"}, nothing, set<&Options::merge_errors>},
      {{"--display-map", "--print-rank-map", "--display-devel-map"},
       nothing,
       set<&Options::display_map>},
      {{"--display"}, value, with<apply_display>},
      {{"--stats"},
       nothing,
       [](A& a) {
         a.options.environment.emplace_back("WEFT_STATS", "1");
         return Status();
       }},
      {{"--trace"}, value, set_trace},
      {{"--check"}, optional_value, set_check},
      {{"--profile"}, nothing, set<&Options::profile>},
      {{"--profile-out"}, value, set_profile_out},
      {{"--quiet", "-q"}, nothing, set<&Options::quiet>},
      {{"--verbose", "-v"}, nothing, set<&Options::verbose>},
      // Environment. --env and -x are of one program, --genv of all.
      {{"--env"},
       variable,
       [](A& a) { return add_variable(a.option, a.value, a.program.environment); }},
      {{"-x"}, value, [](A& a) { return add_variable(a.option, a.value, a.program.environment); }},
      {{"--genv"},
       variable,
       [](A& a) { return add_variable(a.option, a.value, a.options.environment); }},
      {{"--envlist"},
       value,
       [](A& a) { return add_variables(a.option, a.value, a.program.environment); }},
      {{"--genvlist"},
       value,
       [](A& a) { return add_variables(a.option, a.value, a.options.environment); }},
      {{"--export"}, value, with<apply_export>},
      {{"--genvall", "--envall"}, nothing, accept},
      {{"--genvnone", "--envnone"}, nothing, nullptr, "processes get the whole environment"},
      // Ends.
      {{"--timeout"},
       value,
       [](A& a) { return parse_seconds(a.option, a.value, a.options.timeout_s); }},
      {{"--on-death"}, value, set_on_death},
      {{"--restart"},
       value,
       [](A& a) { return parse_count(a.option, a.value, a.options.restarts); }},
      {{"--initial-errhandler"}, value, set_initial_errhandler},
      {{"--core"}, nothing, set<&Options::core>},
      {{"--kill-on-bad-exit", "-K"}, optional_value, set_kill_on_bad_exit},
      {{"--enable-recovery", "--disable-auto-cleanup"},
       nothing,
       set<&Options::on_death, OnDeath::go_on>},
      {{"--disable-recovery"}, nothing, accept},
      // Names.
      {{"--name-server"}, value, set_name_server},
      {{"--serve-names"}, nothing, set<&Options::serve_names>},
      // Other.
      {{"--help", "-h"}, nothing, set<&Options::help>},
      {{"--version", "-V"}, nothing, set<&Options::version>},
      {{"--serve-host"}, nothing, set<&Options::serve_host>},
      {{"--background"},
       value,
       [](A& a) { return parse_descriptor(a.option, a.value, a.options.background); }},
      {{"--allow-run-as-root"}, nothing, accept},
      {{"--stdin"}, value, set_input},
      // Nothing is lost by ignoring these: they are about the inside of other launchers.
      {{"--mca", "--gmca", "--prtemca", "--pmixmca"}, parameter, nullptr, kNoParameters},
      {{"--tune", "--am", "--personality", "--mpi", "--rmk", "--topolib", "--demux", "--localhost",
        "--forward-signals"},
       value,
       nullptr,
       kNoParameters},
      {{"--noprefix", "--novm", "--use-regexp", "--leave-session-attached", "--debug-daemons",
        "--show-progress", "--enable-x", "--disable-x", "--pmi-port",
        "--disable-hostname-propagation"},
       nothing,
       nullptr,
       kNoParameters},
      // These ask for what weftrun does not do.
      {{"--timestamp-output"}, nothing, nullptr, "lines get no time; --tag-output has the rank"},
      {{"--xml"}, nothing, nullptr, "output is text"},
      {{"--outfile-pattern", "--errfile-pattern", "--prepend-pattern", "--xml-file", "--xterm",
        "--stream-buffering"},
       value,
       nullptr,
       "--output-filename PATH and --tag-output are what there is"},
      {{"--display-allocation", "--display-topo"},
       nothing,
       nullptr,
       "--display-map says which ranks run where, and weft-info shows a host"},
      {{"--get-stack-traces", "--report-state-on-timeout"},
       nothing,
       nullptr,
       "at a timeout the ranks that still run are named"},
      {{"--print-all-exitcodes"}, nothing, nullptr, "each rank that fails is named with its code"},
      {{"--membind"}, value, nullptr, "memory is where the rank is bound that touches it first"},
      {{"--gpus-per-proc"}, value, nullptr, "weftrun deals out no GPUs"},
      {{"--max-restarts"},
       value,
       nullptr,
       "a rank alone is not started again; --restart is of the whole job"},
      {{"--preload-binary"}, nothing, nullptr, "weft-copy copies programs to hosts"},
      {{"--preload-files"}, value, nullptr, "weft-copy copies files to hosts"},
      {{"--launch-agent"},
       value,
       nullptr,
       "the agent is weftrun; --agent names another path of it"},
      {{"--nameserver"}, value, nullptr, "--name-server takes what weftrun --serve-names prints"},
      {{"--usize"}, value, nullptr, "a job may spawn as many processes as it likes"},
      {{"--order-nodes"}, value, nullptr, "hosts are taken in the order in which they are named"},
      {{"--runtime-options"}, value, nullptr, "these are of PRRTE"},
      {{"--nodes"}, value, nullptr, "--hosts names the hosts"},
      {{"--unbuffered", "-u"}, nothing, nullptr, "output is forwarded in whole lines"},
  };
  return table;
}

}  // namespace

std::span<const OptionRow> option_table() { return rows(); }

const OptionRow* find_option(std::string_view name) {
  for (const OptionRow& row : rows())
    for (const std::string_view known : row.names) {
      if (name == known) return &row;
      const bool is_long = known.starts_with("--") && known.size() > 3;
      if (is_long && name == known.substr(1)) return &row;
    }
  return nullptr;
}

}  // namespace weft::weftrun
