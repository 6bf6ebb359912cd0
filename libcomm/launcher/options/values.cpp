#include "launcher/options/values.hpp"

#include <errno.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "job/rendezvous_wire.hpp"

namespace weft::weftrun {
namespace {

template <class Number>
bool parse_number(std::string_view text, Number& out) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, out);
  return error == std::errc{} && rest == end;
}

// Takes what comes before the first `separator` off the text.
std::string_view next_word(std::string_view& text, char separator) {
  const std::string_view word = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  return word;
}

std::string lower(std::string_view text) {
  std::string letters(text);
  std::ranges::transform(letters, letters.begin(),
                         [](unsigned char c) { return static_cast<char>(tolower(c)); });
  return letters;
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

// A directive of Open MPI may be cut to any beginning that is of no other.
bool begins(std::string_view whole, std::string_view word, std::size_t least) {
  return word.size() >= least && whole.starts_with(word);
}

void note(Options& options, std::string_view option, std::string_view value, std::string_view why) {
  options.notes.push_back(fmt::format("{} {} is ignored: {}", option, value, why));
}

std::string whole_path(std::string_view path) {
  std::string whole = std::filesystem::absolute(path).lexically_normal().string();
  if (whole.size() > 1 && whole.ends_with('/')) whole.pop_back();
  return whole;
}

std::string front_of_path(const std::string& folder, const char* name) {
  const char* here = getenv(name);
  return here != nullptr && *here != '\0' ? fmt::format("{}:{}", folder, here) : folder;
}

}  // namespace

Status bad_value(std::string_view option, std::string_view value, std::string_view expected) {
  return {Code::bad_argument, fmt::format("{} {}: must be {}", option, value, expected)};
}

Status parse_count(std::string_view option, std::string_view value, int& number) {
  if (!parse_number(value, number) || number < 1 || number > rendezvous::kMaxRanks)
    return bad_value(option, value, fmt::format("a number from 1 to {}", rendezvous::kMaxRanks));
  return {};
}

Status parse_seconds(std::string_view option, std::string_view value, double& seconds) {
  if (!parse_number(value, seconds) || !(seconds > 0) || seconds > 1e6)
    return bad_value(option, value, "a number of seconds");
  return {};
}

Status parse_port(std::string_view option, std::string_view value, int& port) {
  if (!parse_number(value, port) || port < 1 || port > 65535)
    return bad_value(option, value, "a port number");
  return {};
}

Status parse_descriptor(std::string_view option, std::string_view value, int& descriptor) {
  if (!parse_number(value, descriptor) || descriptor < 3)
    return bad_value(option, value, "a descriptor");
  return {};
}

Status add_variable(std::string_view option, std::string_view value, Environment& environment) {
  const std::size_t equals = value.find('=');
  const std::string name(value.substr(0, equals));
  if (name.empty()) return bad_value(option, value, "NAME=VALUE");
  if (equals != std::string_view::npos) {
    environment.emplace_back(name, value.substr(equals + 1));
  } else if (const char* here = getenv(name.c_str())) {
    environment.emplace_back(name, here);
  } else {
    return {Code::bad_argument, fmt::format("{} {}: it is not set here either", option, value)};
  }
  return {};
}

Status add_variables(std::string_view option, std::string_view names, Environment& environment) {
  while (!names.empty()) {
    const std::string_view name = next_word(names, ',');
    if (name.find('=') != std::string_view::npos)
      return bad_value(option, name, "a variable's name");
    if (Status status = add_variable(option, name, environment); !status) return status;
  }
  return {};
}

Status apply_export(std::string_view option, std::string_view value, Options& options) {
  while (!value.empty()) {
    const std::string_view word = next_word(value, ',');
    if (word == "NONE" || word == "NIL") {
      note(options, option, word, "processes get the whole environment");
    } else if (word != "ALL") {
      if (Status status = add_variable(option, word, options.environment); !status) return status;
    }
  }
  return {};
}

Status apply_mapping(std::string_view option, std::string_view value, Options& options) {
  const std::string_view whole = value;
  Binding& binding = options.binding;
  const std::string word = lower(next_word(value, ':'));
  const auto unit = unit_named(word);
  // The last mapping counts; one of qualifiers alone keeps it.
  if (binding.ranks_per_map_unit > 0 && !word.empty()) {
    options.ranks_per_host = binding.ranks_per_map_unit = 0;
    binding.map_unit = Bind::none;
  }
  if (word == "ppr") {
    int each = 0;
    const bool is_number = parse_count(option, next_word(value, ':'), each).ok();
    const std::string object = lower(next_word(value, ':'));
    const auto per = unit_named(object);
    if (!is_number || (object != "node" && (!per || *per == Bind::none)))
      return bad_value(option, whole, "ppr:NUMBER:UNIT with node, socket, numa, l3cache or core");
    binding.map_unit = object == "node" ? Bind::none : *per;
    binding.ranks_per_map_unit = object == "node" ? 0 : each;
    options.ranks_per_host = each;  // times the units of a host
  } else if (word == "node") {
    options.hosts_in_turn = true;
  } else if (unit && *unit != Bind::none) {
    const bool is_core = *unit == Bind::core || *unit == Bind::hwthread;
    binding.map_unit = is_core ? Bind::none : *unit;
    binding.ranks_per_map_unit = 0;
  } else if (!is_one_of(word, {"", "slot", "machine"})) {
    return bad_value(option, whole,
                     "slot, node, core, hwthread, socket, numa, a cache or ppr:N:UNIT");
  }
  while (!value.empty()) {
    const std::string modifier = lower(next_word(value, ':'));
    int number = 0;
    if (modifier == "oversubscribe") {
      options.oversubscribe = true;
    } else if (modifier.starts_with("pe=")) {
      if (!parse_count(option, std::string_view(modifier).substr(3), number))
        return bad_value(option, whole, "PE=NUMBER after the colon");
      binding.units_each = number;
      binding.unit = Bind::core;
    } else if (modifier == "hwtcpus") {
      binding.hwthreads = true;
    } else if (modifier == "nolocal") {
      options.excludes_this_machine = true;
    } else if (parse_number(modifier, number)) {
      note(options, option, whole, "ranks go to one unit after another");
    } else if (!is_one_of(modifier,
                          {"nooversubscribe", "span", "corecpus", "inherit", "noinherit"})) {
      return bad_value(option, whole, "a unit with PE=NUMBER or OVERSUBSCRIBE after colons");
    }
  }
  return {};
}

Status apply_ranking(std::string_view option, std::string_view value, Options& options) {
  const std::string word = lower(value.substr(0, value.find(':')));
  if (word == "node") {
    options.hosts_in_turn = true;
  } else if (word == "span" || word == "numa" || word == "socket" || word == "package") {
    note(options, option, value,
         "ranks are numbered in the order in which --map-by deals them out");
  } else if (!unit_named(word) && !is_one_of(word, {"slot", "fill"})) {
    return bad_value(option, value, "slot, node, fill or core");
  }
  return {};
}

Status apply_binding(std::string_view option, std::string_view value, Options& options) {
  const std::string_view whole = value;
  Binding& binding = options.binding;
  const std::string word = lower(next_word(value, ':'));
  if (const auto unit = unit_named(word)) {
    binding.unit = *unit;
    if (*unit != Bind::core && *unit != Bind::hwthread) binding.units_each = 0;
  } else if (word == "rr") {  // Hydra: one processor after another
    binding.unit = Bind::hwthread;
    binding.units_each = 1;
  } else if (word == "machine" || word == "board") {
    binding.unit = Bind::none;
  } else if (word == "user" || word == "slot") {
    binding.unit = Bind::automatic;
  } else {
    return bad_value(option, whole,
                     "core, none, hwthread, numa, socket, l1cache, l2cache or l3cache");
  }
  // Open MPI separates qualifiers by colons or commas.
  while (!value.empty()) {
    std::string_view group = next_word(value, ':');
    while (!group.empty()) {
      const std::string qualifier = lower(next_word(group, ','));
      int number = 0;
      if (word == "user") {
        note(options, option, whole, "--cpu-set LIST names cores, of which each rank gets a share");
        return {};
      }
      if (qualifier == "if-supported") {
        binding.if_supported = true;
      } else if (qualifier.starts_with("limit=")) {
        note(options, option, whole, "there is no limit of ranks that share a unit");
      } else if (parse_count(option, qualifier, number).ok()) {
        binding.units_each = number;
      } else if (!is_one_of(qualifier, {"overload-allowed", "overload", "no-overload"})) {
        return bad_value(option, whole,
                         "a unit, and overload-allowed or if-supported after a colon");
      }
    }
  }
  return {};
}

Status apply_cpu_bind(std::string_view option, std::string_view value, Options& options) {
  const std::string_view whole = value;
  while (!value.empty()) {
    const std::string word = lower(next_word(value, ','));
    constexpr std::pair<std::string_view, Bind> kKinds[] = {
        {"cores", Bind::core},   {"threads", Bind::hwthread}, {"sockets", Bind::socket},
        {"ldoms", Bind::numa},   {"none", Bind::none},        {"no", Bind::none},
        {"rank", Bind::hwthread}};
    const auto kind = std::ranges::find(kKinds, std::string_view(word),
                                        [](const auto& entry) { return entry.first; });
    if (kind != std::end(kKinds)) {
      options.binding.unit = kind->second;
      if (word == "rank")
        options.binding.units_each = 1;
      else if (kind->second != Bind::core && kind->second != Bind::hwthread)
        options.binding.units_each = 0;  // what there was counts cores
    } else if (word == "verbose" || word == "v") {
      options.binding.report = true;
    } else if (word != "quiet" && word != "q") {
      note(options, option, whole, "only cores, threads, sockets, ldoms, rank and none are known");
      return {};
    }
  }
  return {};
}

Status bind_to_cores_each(std::string_view option, std::string_view value, Options& options) {
  options.binding.unit = Bind::core;
  return parse_count(option, value, options.binding.units_each);
}

Status apply_output_files(std::string_view option, std::string_view value, Options& options) {
  // What follows the last colon is a list of qualifiers only if all of them are known.
  std::string_view path = value;
  if (const std::size_t colon = value.rfind(':'); colon != std::string_view::npos) {
    bool is_copied = true, has_job_folder = true, is_list = colon + 1 < value.size();
    for (std::string_view rest = value.substr(colon + 1); !rest.empty();) {
      const std::string qualifier = lower(next_word(rest, ','));
      if (qualifier == "nocopy")
        is_copied = false;
      else if (qualifier == "nojobid")
        has_job_folder = false;
      else
        is_list = false;
    }
    if (is_list) {
      path = value.substr(0, colon);
      options.output_is_copied = is_copied;
      options.output_has_job_folder = has_job_folder;
    }
  }
  if (path.empty()) return bad_value(option, value, "a folder, which is made if need be");
  options.output_files = whole_path(path);
  return {};
}

Status apply_output(std::string_view option, std::string_view value, Options& options) {
  std::string_view qualifiers = value;
  std::string_view list = next_word(qualifiers, ':');
  while (!qualifiers.empty()) {
    const std::string qualifier = lower(next_word(qualifiers, ':'));
    if (qualifier == "nocopy")
      options.output_is_copied = false;
    else if (qualifier != "raw")
      return bad_value(option, value, "tag, merge-stderr-to-stdout or dir=PATH, and :nocopy");
  }
  while (!list.empty()) {
    const std::string_view given = next_word(list, ',');
    const std::string word = lower(given);
    if (word.starts_with("dir=")) {
      if (given.size() == 4) return bad_value(option, value, "dir=PATH");
      options.output_files = whole_path(given.substr(4));
    } else if (begins("tag", word, 1) || begins("tag-detailed", word, 5) ||
               begins("tag-fullname", word, 5)) {
      options.tag_output = true;
    } else if (begins("merge-stderr-to-stdout", word, 1)) {
      options.merge_errors = true;
    } else if (word.starts_with("file=") || begins("timestamp", word, 2) ||
               begins("xml", word, 1)) {
      note(options, option, given, "tag, merge and dir=PATH are what there is");
    } else {
      return bad_value(option, value, "tag, merge-stderr-to-stdout or dir=PATH");
    }
  }
  return {};
}

Status apply_display(std::string_view option, std::string_view value, Options& options) {
  std::string_view rest = value.substr(0, value.find(':'));
  while (!rest.empty()) {
    const std::string_view given = next_word(rest, ',');
    const std::string word = lower(given);
    if (begins("map", word, 1) || begins("map-devel", word, 5))
      options.display_map = true;
    else if (begins("bindings", word, 1))
      options.binding.report = true;
    else if (begins("allocation", word, 1) || word.starts_with("topo") || word.starts_with("cpus"))
      note(options, option, given, "map and bind are what there is; weft-info shows a host");
    else
      return bad_value(option, value, "map or bind");
  }
  return {};
}

Status apply_prefix(std::string_view option, std::string_view value, Options& options) {
  if (value.empty()) return bad_value(option, value, "a folder");
  const std::string folder = whole_path(value);
  const std::string programs = folder + "/bin";
  // Of a folder that is not there, only other hosts have one.
  if (access(programs.c_str(), F_OK) == 0 && access((programs + "/weftrun").c_str(), X_OK) != 0) {
    note(options, option, value, fmt::format("there is no weftrun in {}", programs));
    return {};
  }
  options.prefix_agent = programs + "/weftrun";
  options.environment.emplace_back("LD_LIBRARY_PATH",
                                   front_of_path(folder + "/lib", "LD_LIBRARY_PATH"));
  return {};
}

Status apply_launcher(std::string_view option, std::string_view value, Options& options) {
  if (value == "slurm")
    options.launch = "srun --overlap -N1 -n1 -w {host}";
  else if (value == "rsh")
    options.launch = "rsh {host}";
  else if (value != "ssh")
    note(options, option, value, "weftrun starts its agents by ssh, or by --launch");
  return {};
}

}  // namespace weft::weftrun
