#include "launcher/options.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <string_view>

#include "base/nearest_name.hpp"
#include "base/os/own_program.hpp"
#include "job/rendezvous_wire.hpp"
#include "launcher/hosts.hpp"
#include "launcher/options/table.hpp"
#include "launcher/options/values.hpp"

namespace weft::weftrun {
namespace {

Status not_an_option(std::string_view name) {
  std::vector<std::string> names;
  for (const OptionRow& row : option_table())
    if (row.apply != nullptr) names.insert(names.end(), row.names.begin(), row.names.end());
  const auto meant = nearest_name(name, names);
  return {Code::bad_argument,
          fmt::format("{} is not an option{} (weftrun --help)", name,
                      meant ? fmt::format("; did you mean {}?", *meant) : std::string())};
}

void ignore(const OptionRow& row, const Argument& argument) {
  const std::string words =
      fmt::format("{}{}{}", argument.option, argument.value.empty() ? "" : " ", argument.value);
  if (row.why_ignored != nullptr)
    argument.options.notes.push_back(fmt::format("{} is ignored: {}", words, row.why_ignored));
  else
    argument.options.ignored.push_back(words);
}

// One option. `i` stands on its name, then on its last word.
Status parse_option(int argc, const char* const* argv, int& i, Options& options, Program& program) {
  const std::string_view word = argv[i];
  const std::size_t equals = word.starts_with("--") ? word.find('=') : std::string_view::npos;
  const std::string_view name = word.substr(0, equals);
  const OptionRow* row = find_option(name);
  if (row == nullptr) return not_an_option(name);
  Argument argument{name, {}, options, program};
  const bool has_value = equals != std::string_view::npos;
  if (has_value) argument.value = word.substr(equals + 1);
  if (row->takes == Takes::nothing && has_value)
    return {Code::bad_argument, fmt::format("{} takes no value (weftrun --help)", name)};
  const bool is_followed =
      row->takes == Takes::value || row->takes == Takes::variable || row->takes == Takes::parameter;
  if (is_followed && !has_value) {
    if (i + 1 >= argc)
      return {Code::bad_argument, fmt::format("{} needs a value (weftrun --help)", name)};
    argument.value = argv[++i];
  }
  if (row->takes == Takes::parameter) {
    if (i + 1 >= argc) return bad_value(name, argument.value, "followed by a name and a value");
    argument.value += fmt::format(" {}", argv[++i]);
  }
  // Hydra's -env NAME VALUE.
  if (row->takes == Takes::variable && !name.starts_with("--") &&
      argument.value.find('=') == std::string::npos && i + 1 < argc)
    argument.value += fmt::format("={}", argv[++i]);
  if (row->apply != nullptr) return row->apply(argument);
  ignore(*row, argument);
  return {};
}

// The options and the command between two colons. `i` stands on its first word, then on the colon.
Status parse_program(int argc, const char* const* argv, int& i, Options& options) {
  Program program;
  const auto ends = [&] { return i >= argc || std::string_view(argv[i]) == ":"; };
  for (; !ends() && argv[i][0] == '-'; ++i) {
    if (std::string_view(argv[i]) == "--") {
      ++i;
      break;
    }
    if (Status status = parse_option(argc, argv, i, options, program); !status) return status;
  }
  for (; !ends(); ++i) program.command.emplace_back(argv[i]);
  if (!program.command.empty() || options.programs.empty()) {
    options.programs.push_back(std::move(program));
  } else {
    return {Code::bad_argument, "no program is named after a colon (--help explains)"};
  }
  return {};
}

// A command that is installed beside this one; not installed, it lies where it is built.
std::string companion(const std::string& name) {
  std::error_code error;
  const auto here = std::filesystem::path(own_program()).parent_path();
  const auto built = here / ".." / name / name;
  const bool is_installed = std::filesystem::exists(here / name, error);
  return (is_installed ? here / name : built.lexically_normal()).string();
}

// Puts weft-check or weft-profile before the programs: by their options, or by WEFT_CHECK.
Status add_tools(Options& options) {
  if (const char* value = getenv("WEFT_CHECK"); value != nullptr && !options.check) {
    const std::string_view how(value);
    if (how != "off" && how != "report" && how != "abort")
      return {Code::bad_argument,
              fmt::format("WEFT_CHECK={}: must be off, report or abort", value)};
    options.check = how != "off";
  }
  if (options.check && options.profile)
    return {Code::bad_argument,
            "weft-check (--check, WEFT_CHECK) and --profile exclude each other: both take the "
            "functions of MPI over; run the program once with each"};
  if (!options.check && !options.profile) return {};
  const std::string tool = companion(options.check ? "weft-check" : "weft-profile");
  for (Program& program : options.programs)
    if (!program.command.empty()) program.command.insert(program.command.begin(), tool);
  return {};
}

// --nolocal. A job without any host named runs on this machine alone.
Status exclude_this_machine(Options& options) {
  std::erase_if(options.hosts, [](const HostEntry& host) { return is_this_machine(host.name); });
  if (options.hosts.empty())
    return {Code::bad_argument, "no host is left without this machine (--nolocal)"};
  return {};
}

// --map-by ppr:N:UNIT: how many ranks that makes for a host.
Status count_ranks_per_host(Options& options) {
  const Binding& binding = options.binding;
  int num_units = 0;
  Status status = count_units(binding.map_unit, binding, num_units);
  if (!status) return status;
  if (num_units == 0)
    return {Code::bad_argument, fmt::format("--map-by ppr:{}:{}: this machine reports no {}",
                                            binding.ranks_per_map_unit, name_of(binding.map_unit),
                                            name_of(binding.map_unit))};
  options.ranks_per_host = binding.ranks_per_map_unit * num_units;
  // Placing comes before the agents, which could ask the hosts themselves.
  for (const HostEntry& host : options.hosts)
    if (!is_this_machine(host.name)) {
      options.notes.push_back(fmt::format("every host is taken to have {} {}{}, as this machine",
                                          num_units, name_of(binding.map_unit),
                                          num_units == 1 ? "" : "s"));
      break;
    }
  return {};
}

}  // namespace

Status parse_options(int argc, const char* const* argv, Options& out) {
  Options options;
  int i = 1;
  for (;; ++i) {
    if (Status status = parse_program(argc, argv, i, options); !status) return status;
    if (i >= argc) break;
  }
  if (options.help || options.version) {
    out = std::move(options);
    return {};
  }
  if (options.programs[0].command.empty() && !options.serve_host && !options.serve_names)
    return {Code::bad_argument, "no program is named (--help explains)"};
  if (options.restarts > 0 && options.on_death == OnDeath::go_on)
    return {Code::bad_argument,
            "--restart and --on-death continue exclude each other: either the job starts again "
            "after a death, or the others go on"};
  if (options.excludes_this_machine)
    if (Status status = exclude_this_machine(options); !status) return status;
  if (options.binding.ranks_per_map_unit > 0)
    if (Status status = count_ranks_per_host(options); !status) return status;
  // With --use-hwthread-cpus the processing elements of PE=N are hardware threads.
  if (options.binding.hwthreads && options.binding.units_each > 0 &&
      options.binding.unit == Bind::core)
    options.binding.unit = Bind::hwthread;
  if (!options.prefix_agent.empty()) {
    // Before what --path names, which may stand before or behind --prefix.
    const std::string programs = std::filesystem::path(options.prefix_agent).parent_path();
    options.path = options.path.empty() ? programs : fmt::format("{}:{}", programs, options.path);
  }
  if (options.agent.empty()) options.agent = options.prefix_agent;
  if (options.ranks_per_host > 0) {
    for (HostEntry& host : options.hosts) host.slots = options.ranks_per_host;
    options.oversubscribe = true;
  }
  if (Status status = add_tools(options); !status) return status;
  for (Program& program : options.programs) {
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

}  // namespace weft::weftrun
