#include "launcher/binding.hpp"

#include <fmt/core.h>
#include <strings.h>

#include <algorithm>
#include <charconv>

#include "base/os/topology.hpp"

namespace weft::weftrun {
namespace {

constexpr std::pair<std::string_view, Bind> kNames[] = {
    {"core", Bind::core},       {"hwthread", Bind::hwthread}, {"socket", Bind::socket},
    {"package", Bind::socket},  {"numa", Bind::numa},         {"l1cache", Bind::l1cache},
    {"l2cache", Bind::l2cache}, {"l3cache", Bind::l3cache},   {"l1", Bind::l1cache},
    {"l2", Bind::l2cache},      {"l3", Bind::l3cache},        {"none", Bind::none}};

constexpr int kMaxListed = 1 << 16;  // the numbers of a list

std::vector<Processors> within(const std::vector<Processors>& units, const Processors& allowed) {
  std::vector<Processors> left;
  for (const Processors& unit : units) {
    Processors mine;
    for (const int cpu : unit)
      if (std::ranges::binary_search(allowed, cpu)) mine.push_back(cpu);
    if (!mine.empty()) left.push_back(std::move(mine));
  }
  return left;
}

Processors all_of(const std::vector<Processors>& units) {
  Processors all;
  for (const Processors& unit : units) all.insert(all.end(), unit.begin(), unit.end());
  std::ranges::sort(all);
  return all;
}

Units restrict(const Units& host, const Processors& allowed) {
  Units left;
  left.cores = within(host.cores, allowed);
  left.sockets = within(host.sockets, allowed);
  left.numa_nodes = within(host.numa_nodes, allowed);
  for (int level = 0; level < 3; ++level) left.caches[level] = within(host.caches[level], allowed);
  return left;
}

// What --cpu-set leaves of a host.
Status apply_cpu_set(const Binding& binding, Units& host) {
  if (binding.cpus.empty()) return {};
  const auto numbered = host.of_kind(binding.hwthreads ? Bind::hwthread : Bind::core);
  Processors allowed;
  for (const int number : binding.cpus) {
    if (number < 0 || number >= static_cast<int>(numbered.size()))
      return {Code::bad_argument,
              fmt::format("--cpu-set {}: this host has {} 0 to {}", ranges_of(binding.cpus),
                          binding.hwthreads ? "hardware threads" : "cores",
                          static_cast<int>(numbered.size()) - 1)};
    const Processors& unit = numbered[static_cast<std::size_t>(number)];
    allowed.insert(allowed.end(), unit.begin(), unit.end());
  }
  std::ranges::sort(allowed);
  host = restrict(host, allowed);
  return {};
}

// The share that the rank `place` of `num_ranks` has of the units.
Processors share_of(const std::vector<Processors>& units, int place, int num_ranks, int each) {
  const int num_units = static_cast<int>(units.size());
  // More ranks than units share them round robin.
  int first = num_ranks > num_units ? place % num_units : place * num_units / num_ranks;
  int last = num_ranks > num_units ? first + 1 : (place + 1) * num_units / num_ranks;
  if (each > 0) {
    const int num_groups = std::max(1, num_units / each);
    first = place % num_groups * each;
    last = std::min(num_units, first + each);
  }
  Processors mine;
  for (int unit = first; unit < last; ++unit) {
    const Processors& cpus = units[static_cast<std::size_t>(unit)];
    mine.insert(mine.end(), cpus.begin(), cpus.end());
  }
  std::ranges::sort(mine);
  return mine;
}

// The units that have a processor in common with `object`.
std::vector<Processors> units_in(const std::vector<Processors>& units, const Processors& object) {
  std::vector<Processors> mine;
  for (const Processors& unit : units)
    if (std::ranges::any_of(unit, [&](int cpu) { return std::ranges::binary_search(object, cpu); }))
      mine.push_back(unit);
  return mine;
}

}  // namespace

Units Units::of(const Topology& topology) {
  Units all;
  all.cores = topology.cores();
  all.sockets = topology.sockets();
  for (const NumaNode& node : topology.numa_nodes()) all.numa_nodes.push_back(node.cpus);
  for (const Cache& cache : topology.caches())
    if (cache.level <= 3) all.caches[cache.level - 1].push_back(cache.cpus);
  return restrict(all, all_of(all.cores));
}

std::vector<Processors> Units::of_kind(Bind kind) const {
  switch (kind) {
    case Bind::hwthread: {
      std::vector<Processors> threads;
      for (const Processors& core : cores)
        for (const int cpu : core) threads.push_back({cpu});
      return threads;
    }
    case Bind::numa:
      return numa_nodes;
    case Bind::socket:
      return sockets;
    case Bind::l1cache:
      return caches[0];
    case Bind::l2cache:
      return caches[1];
    case Bind::l3cache:
      return caches[2];
    case Bind::automatic:
    case Bind::core:
      return cores;
    case Bind::none:
      break;
  }
  return {};
}

Status choose_processors(const Binding& binding, const Units& host, int num_ranks,
                         std::vector<Processors>& processors) {
  processors.clear();
  Units usable = host;
  if (Status status = apply_cpu_set(binding, usable); !status) return status;
  const auto leave_unbound = [&] {
    if (!binding.cpus.empty())
      processors.assign(static_cast<std::size_t>(num_ranks), all_of(usable.cores));
  };
  const bool is_automatic = binding.unit == Bind::automatic;
  const Bind kind = is_automatic && binding.hwthreads ? Bind::hwthread : binding.unit;
  const auto units = usable.of_kind(kind);
  if (units.empty() || (is_automatic && num_ranks > static_cast<int>(units.size()))) {
    leave_unbound();
    if (units.empty() && binding.unit != Bind::none && !is_automatic && !binding.if_supported)
      return {Code::unsupported, fmt::format("this host reports no {}", name_of(kind))};
    return {};
  }
  std::vector<Processors> objects = usable.of_kind(binding.map_unit);
  if (objects.empty()) objects = {all_of(usable.cores)};
  const int num_objects = static_cast<int>(objects.size());
  const int at_a_time = binding.ranks_per_map_unit > 0 ? binding.ranks_per_map_unit : 1;
  std::vector<std::vector<int>> places(objects.size());
  for (int place = 0; place < num_ranks; ++place)
    places[static_cast<std::size_t>(place / at_a_time % num_objects)].push_back(place);
  processors.resize(static_cast<std::size_t>(num_ranks));
  for (std::size_t object = 0; object < objects.size(); ++object) {
    const auto mine = units_in(units, objects[object]);
    // A part of the ranks of a full unit has the same shares as all of them.
    const int num_here =
        std::max(static_cast<int>(places[object].size()), binding.ranks_per_map_unit);
    const bool is_crowded = is_automatic && num_here > static_cast<int>(mine.size());
    for (std::size_t i = 0; i < places[object].size(); ++i)
      processors[static_cast<std::size_t>(places[object][i])] =
          mine.empty() || is_crowded ? objects[object]
                                     : share_of(mine, static_cast<int>(i), num_here,
                                                is_automatic ? 0 : binding.units_each);
  }
  return {};
}

Status count_units(Bind kind, const Binding& binding, int& number) {
  Topology topology;
  if (Status status = Topology::read(topology); !status) return status;
  Units units = Units::of(topology);
  if (Status status = apply_cpu_set(binding, units); !status) return status;
  number = static_cast<int>(units.of_kind(kind).size());
  return {};
}

std::string describe(const Units& host, const Processors& processors) {
  if (processors.empty()) return "not bound";
  const auto plural = [](std::size_t number) { return number == 1 ? "" : "s"; };
  const std::string cpus = ranges_of(processors);
  const std::string cpus_text = fmt::format("processor{} {}", plural(processors.size()), cpus);
  std::vector<int> cores;
  std::size_t num_covered = 0;
  for (std::size_t i = 0; i < host.cores.size(); ++i) {
    const auto is_ours = [&](int cpu) { return std::ranges::binary_search(processors, cpu); };
    if (!std::ranges::all_of(host.cores[i], is_ours)) continue;
    cores.push_back(static_cast<int>(i));
    num_covered += host.cores[i].size();
  }
  if (num_covered != processors.size()) return cpus_text;
  const std::string numbers = ranges_of(cores);
  return fmt::format("core{} {}{}", plural(cores.size()), numbers,
                     numbers == cpus ? "" : fmt::format(" ({})", cpus_text));
}

std::string ranges_of(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t first = 0, last = 0; first < numbers.size(); first = ++last) {
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += first == last ? std::to_string(numbers[first])
                          : fmt::format("{}-{}", numbers[first], numbers[last]);
  }
  return text;
}

bool parse_ranges(std::string_view text, std::vector<int>& numbers) {
  const auto number_in = [](std::string_view word, int& number) {
    const char* end = word.data() + word.size();
    const auto [rest, error] = std::from_chars(word.data(), end, number);
    return error == std::errc{} && rest == end && number >= 0 && number < kMaxListed;
  };
  for (;;) {
    const std::string_view word = text.substr(0, text.find(','));
    const std::size_t dash = word.find('-');
    int first = 0, last = 0;
    if (!number_in(word.substr(0, dash), first)) return false;
    if (dash == std::string_view::npos)
      last = first;
    else if (!number_in(word.substr(dash + 1), last) || last < first)
      return false;
    for (int number = first; number <= last; ++number) numbers.push_back(number);
    if (word.size() == text.size()) break;
    text.remove_prefix(word.size() + 1);
  }
  std::ranges::sort(numbers);
  const auto repeated = std::ranges::unique(numbers);
  numbers.erase(repeated.begin(), repeated.end());
  return true;
}

std::optional<Bind> unit_named(std::string_view name) {
  for (const auto& [known, unit] : kNames)
    if (known.size() == name.size() && strncasecmp(known.data(), name.data(), name.size()) == 0)
      return unit;
  return std::nullopt;
}

std::string_view name_of(Bind unit) {
  for (const auto& [name, named] : kNames)
    if (named == unit) return name;
  return "automatic";
}

}  // namespace weft::weftrun
