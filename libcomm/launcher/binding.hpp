#pragma once
// Binds the ranks of a host to processors. The values of --bind and --bind-to are parsed in
// options/values.cpp.
// Tests: tests/job/binding_test.cpp.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/status.hpp"

namespace weft {
class Topology;
}

namespace weft::weftrun {

// The kind of unit that ranks are bound to. The agent's wire format has the numbers.
enum class Bind { automatic, core, none, hwthread, numa, socket, l1cache, l2cache, l3cache };

struct Binding {
  Bind unit = Bind::automatic;  // core if there are enough of them, else none
  int units_each = 0;           // 0: an equal share
  bool hwthreads = false;       // hardware threads count as cores
  bool if_supported = false;    // binding that cannot be done is no matter
  // The units to which ranks are dealt out, `ranks_per_map_unit` at a time (0: one), before each
  // gets its share of the units within. none: ranks have shares of the host, in order.
  Bind map_unit = Bind::none;
  int ranks_per_map_unit = 0;
  std::vector<int> cpus = {};  // the cores that may be used, by their numbers here; empty: all
  bool report = false;         // says of each rank where it is bound
};

using Processors = std::vector<int>;  // in the kernel's numbering, ascending

// The units of a host, as far as this process may use them.
struct Units {
  std::vector<Processors> cores, sockets, numa_nodes, caches[3];

  static Units of(const Topology& topology);
  std::vector<Processors> of_kind(Bind kind) const;
};

// The processors of each of `num_ranks` ranks; empty if they are not bound. unsupported if the host
// has no such units (the ranks are not bound, then), bad_argument if it has not the cores of
// binding.cpus.
Status choose_processors(const Binding& binding, const Units& host, int num_ranks,
                         std::vector<Processors>& processors);

// How many units of this kind this host has, of those that `binding` leaves.
Status count_units(Bind kind, const Binding& binding, int& number);

// "cores 2-3", "core 1 (processors 1,9)", "processor 4" or "not bound".
std::string describe(const Units& host, const Processors& processors);

// "0-3,8".
std::string ranges_of(const std::vector<int>& numbers);
// False if the text is no such list.
bool parse_ranges(std::string_view text, std::vector<int>& numbers);

// "core", "socket" or "package", "l3cache" or "l3", in any case.
std::optional<Bind> unit_named(std::string_view name);
std::string_view name_of(Bind unit);

}  // namespace weft::weftrun
