// weft-mcroute: multicast routing of a fabric from the command line. Exit status: 0, 2 for bad
// input or a routing that its own check refuses.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "mcast/routing/files.hpp"
#include "mcast/routing/install.hpp"
#include "mcast/routing/paper/paper.hpp"
#include "tools/cli/cli.hpp"
#include "weft/mcast_routing.hpp"

namespace {

using namespace weft;         // NOLINT(google-build-using-namespace): a program's main file
using namespace weft::mcast;  // NOLINT(google-build-using-namespace)

int fail(const Status& status) {
  std::fprintf(stderr, "weft-mcroute: %s\n", status.text().c_str());
  return 2;
}

Status load_topology(const std::string& path, Topology* topology) {
  std::ifstream in;
  const Status opened = open_input(path, &in);
  if (!opened.ok()) return opened;
  return read_topology(in, path, topology);
}

Status load_groups(const std::string& path, const Topology& topology, std::vector<Group>* groups) {
  std::ifstream in;
  const Status opened = open_input(path, &in);
  if (!opened.ok()) return opened;
  return read_groups(in, path, topology, groups);
}

struct RouteOptions {
  std::string topology, groups, algorithm = "mr4lms", colors = "unlimited", json, tables, dump_fts;
  std::string trace, previous, old_trees = "keep";
  uint32_t refine = 32;
};

// Carries the events out; afterwards `groups` have the members that they have then.
Status run_trace(const std::string& path, const Topology& topology, std::vector<Group>* groups,
                 Router* router, std::vector<double>* group_ms) {
  using Kind = TraceEvent::Kind;
  std::ifstream in;
  const Status opened = open_input(path, &in);
  if (!opened.ok()) return opened;
  std::vector<TraceEvent> events;
  const Status read = read_trace(in, path, topology, *groups, &events);
  if (!read.ok()) return read;
  const std::vector<Group> made = *groups;
  for (const TraceEvent& event : events) {
    Group& group = (*groups)[event.group];
    std::string text;
    Status done;
    const auto start = std::chrono::steady_clock::now();
    switch (event.kind) {
      case Kind::create:
        group = made[event.group];
        text = "create " + group.id;
        done = router->add_group(event.group, group);
        (*group_ms)[event.group] =
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
                .count();
        break;
      case Kind::remove:
        text = "delete " + group.id;
        done = router->remove_group(event.group);
        break;
      case Kind::join:
        group.members.push_back(event.member);
        text = "join " + group.id;
        done = router->join_group(event.group, event.member);
        break;
      case Kind::leave:
        std::erase(group.members, event.member);
        text = "leave " + group.id;
        done = router->leave_group(event.group, event.member);
        break;
    }
    if (!done.ok()) {
      return {done.code(), path + ":" + std::to_string(event.line) + ": " + done.text()};
    }
    if (event.member != kNone) {
      text += " " + topology.nodes[topology.endpoints[event.member].node].id;
    }
    std::printf("%s: %zu entries rewritten\n", text.c_str(), router->take_changes().size());
  }
  return Code::ok;
}

// Entries of switches that are not the same in both.
size_t num_different(const Tables& one, const Tables& other) {
  size_t number = 0;
  const auto count = [&](const Tables& from, const Tables& to, bool counts_both) {
    for (const auto& [guid, entries] : from) {
      const auto table = to.find(guid);
      for (const auto& [entry, ports] : entries) {
        const std::vector<uint16_t>* there = nullptr;
        if (table != to.end()) {
          const auto found = table->second.find(entry);
          if (found != table->second.end()) there = &found->second;
        }
        const bool is_there = there != nullptr && !there->empty();
        if (ports.empty() || (is_there && !counts_both)) continue;
        number += !is_there || *there != ports;
      }
    }
  };
  count(one, other, true);
  count(other, one, false);
  return number;
}

int route(const RouteOptions& options) {
  Topology topology;
  std::vector<Group> groups;
  Status status = load_topology(options.topology, &topology);
  if (status.ok()) status = load_groups(options.groups, topology, &groups);
  if (!status.ok()) return fail(status);
  RouterOptions router_options;
  if (options.colors != "unlimited") {
    char* end = nullptr;
    const unsigned long n = std::strtoul(options.colors.c_str(), &end, 10);
    if (*end != 0 || n == 0 || n > 16383) {
      return fail({Code::bad_argument, "--colors must be 1 to 16383, or unlimited"});
    }
    router_options.colors = static_cast<uint32_t>(n);
  }
  router_options.keep_old_trees = options.old_trees == "keep";
  router_options.refine_roots = options.refine;
  router_options.as_paper = options.refine == 1;
  Tables previous;
  if (!options.previous.empty()) {
    if (options.algorithm != "mr4lms" || !options.trace.empty()) {
      return fail({Code::bad_argument, "--previous is for mr4lms without --trace"});
    }
    std::ifstream in;
    status = open_input(options.previous, &in);
    if (status.ok()) status = read_tables(in, options.previous, &previous);
    if (!status.ok()) return fail(status);
  }
  std::ptrdiff_t num_kept = 0;
  std::vector<Tree> trees;
  std::vector<double> group_ms(groups.size(), -1);  // only MR4LMS routes groups one by one
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  if (options.algorithm == "mr4lms") {
    Router router(topology, router_options);
    if (!options.trace.empty()) {
      status = run_trace(options.trace, topology, &groups, &router, &group_ms);
    } else {
      double next_report = 1;
      std::vector<bool> kept(groups.size());
      if (!options.previous.empty()) kept = router.keep(previous, groups);
      num_kept = std::count(kept.begin(), kept.end(), true);
      for (uint32_t g = 0; g < groups.size() && status.ok(); ++g) {
        if (kept[g]) continue;
        const double before = seconds();
        status = router.add_group(g, groups[g]);
        group_ms[g] = (seconds() - before) * 1e3;
        if (seconds() < next_report) continue;
        next_report = seconds() + 1;
        std::fprintf(stderr, "\r%u of %zu groups, about %.0f s left ", g + 1, groups.size(),
                     seconds() / (g + 1) * (groups.size() - g - 1));
      }
      const double spread_at = seconds();
      if (status.ok() && options.previous.empty()) {  // it rewrites entries
        router.spread([&](size_t built, size_t most) {
          if (seconds() < next_report) return;
          next_report = seconds() + 1;
          std::fprintf(stderr, "\rtaking load off the busiest cables, at most %.0f s left    ",
                       (seconds() - spread_at) / double(built + 1) * double(most - built));
        });
      }
      if (next_report > 1) std::fputc('\n', stderr);
    }
    trees = router.trees();
  } else if (options.algorithm == "opensm-minhop") {
    status = route_minhop(topology, groups, &trees);
  } else if (options.algorithm == "opensm-sssp") {
    status = route_opensm_sssp(topology, groups, &trees);
  } else {
    status = route_paper_sssp(topology, groups, options.algorithm == "paper-sssp", &trees);
  }
  const double took = seconds();
  if (!status.ok()) return fail(status);
  for (const Tree& tree : trees) {
    if (tree.color <= kLastMlid - kFirstMlid) continue;
    if (options.tables.empty() && options.dump_fts.empty()) break;
    return fail({Code::bad_argument, "the trees need more entries than there are MLIDs (" +
                                         std::to_string(kLastMlid - kFirstMlid + 1) +
                                         "): set --colors"});
  }
  const Tables tables = make_tables(topology, trees);
  const Served served = served_groups(groups, trees);
  status = verify_tables(topology, served.groups, served.entry_of, tables, router_options.colors);
  if (!status.ok()) return fail(status);
  const Figures f = measure(topology, trees);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto num_alone = std::count_if(groups.begin(), groups.end(),
                                       [](const Group& group) { return group.members.size() < 2; });
  if (options.trace.empty() && num_alone > 0) {
    std::printf("%-12s %td, which need no entry\n", "one member", num_alone);
  }
  std::printf("%-12s %zu\n%-12s %u\n%-12s %u\n%-12s %u (mean %.2f)\n%-12s %u\n", "groups",
              served.groups.size(), "trees", f.trees, "colours", f.colors, "EFI", f.max_efi,
              f.mean_efi, "host EFI", f.max_host_efi);
  std::printf("%-12s %u (mean %.2f)\n%-12s %u\n%-12s %.3f s, %.3f ms a group\n%-12s %ld MiB\n",
              "TFI", f.max_tfi, f.mean_tfi, "height", f.max_height, "time", took,
              took * 1e3 / std::max<size_t>(1, served.groups.size()), "peak memory",
              usage.ru_maxrss / 1024);
  if (!options.previous.empty()) {
    std::printf("%-12s %td groups, %zu entries rewritten\n", "kept", num_kept,
                num_different(previous, tables));
  }
  OutputFiles output;
  if (!options.json.empty()) {
    nlohmann::json j = {{"groups", served.groups.size()},
                        {"trees", f.trees},
                        {"colors", f.colors},
                        {"max_efi", f.max_efi},
                        {"mean_efi", f.mean_efi},
                        {"max_host_efi", f.max_host_efi},
                        {"max_tfi", f.max_tfi},
                        {"mean_tfi", f.mean_tfi},
                        {"max_height", f.max_height},
                        {"mean_height", f.mean_height},
                        {"seconds", took},
                        {"peak_memory_mib", usage.ru_maxrss / 1024}};
    const std::vector<uint32_t> loads = cable_loads(topology, trees);
    HeightMeter meter(topology);
    j["per_group"] = nlohmann::json::array();
    for (const Tree& tree : trees) {
      const uint32_t height = meter.height(tree), efi = tree_efi(tree, loads);
      for (const uint32_t g : tree.groups) {
        nlohmann::json one = {{"id", groups[g].id},        {"color", tree.color},
                              {"height", height},          {"efi", efi},
                              {"tfi", tree.groups.size()}, {"switches", tree.switches.size()}};
        if (group_ms[g] >= 0) one["ms"] = group_ms[g];
        if (groups[g].pkey != 0) one["pkey"] = groups[g].pkey;
        j["per_group"].push_back(std::move(one));
      }
    }
    output.add(options.json, j.dump(1) + "\n");
  }
  if (!options.tables.empty()) {
    std::ostringstream text;
    write_mcfdbs(topology, tables, text);
    output.add(options.tables, text.str());
  }
  if (!options.dump_fts.empty()) {
    std::ostringstream text;
    write_dump_fts(topology, tables, text);
    output.add(options.dump_fts, text.str());
  }
  status = output.commit();
  return status.ok() ? 0 : fail(status);
}

int topo(const std::string& kind, std::vector<uint32_t> sizes) {
  std::string real_kind = kind;
  for (const PaperFabric& preset : paper_fabrics(false)) {
    if (kind == preset.name && sizes.empty()) real_kind = preset.kind, sizes = preset.sizes;
  }
  Topology topology;
  const Status status = make_topology(real_kind, sizes, &topology);
  if (!status.ok()) return fail(status);
  write_topology(topology, std::cout);
  return std::cout.flush() ? 0 : fail({Code::not_permitted, "cannot write to standard output"});
}

int groups(const std::string& pattern, const std::string& sizes, const std::string& path,
           uint32_t per_host, uint64_t seed) {
  std::vector<uint32_t> dims;
  std::istringstream in(sizes);
  for (std::string side; std::getline(in, side, 'x');) {
    char* end = nullptr;
    const unsigned long n = std::strtoul(side.c_str(), &end, 10);
    if (side.empty() || *end != 0 || n > UINT32_MAX) {
      return fail({Code::bad_argument, sizes + ": expected numbers separated by x"});
    }
    dims.push_back(static_cast<uint32_t>(n));
  }
  Topology topology;
  Status status = load_topology(path, &topology);
  if (!status.ok()) return fail(status);
  std::vector<Group> made;
  if (dims.size() < 2 || (pattern == "random" && dims.size() != 2)) {
    status = {Code::bad_argument, sizes + ": expected grid AxB or AxBxC, or random COUNTxSIZE"};
  } else if (pattern == "grid") {
    status = make_grid_groups(topology, dims, per_host, &made);
  } else {
    status = make_random_groups(topology, dims[0], dims[1], seed, &made);
  }
  if (!status.ok()) return fail(status);
  write_groups(topology, made, std::cout);
  return std::cout.flush() ? 0 : fail({Code::not_permitted, "cannot write to standard output"});
}

int verify(const std::string& topology_path, const std::string& groups_path,
           const std::string& tables_path, uint32_t colors) {
  Topology topology;
  std::vector<Group> made;
  Tables tables;
  Status status = load_topology(topology_path, &topology);
  if (status.ok()) status = load_groups(groups_path, topology, &made);
  std::ifstream in;
  if (status.ok()) status = open_input(tables_path, &in);
  if (status.ok()) status = read_tables(in, tables_path, &tables);
  if (status.ok()) status = verify_tables(topology, made, {}, tables, colors);
  if (!status.ok()) return fail(status);
  std::printf("%zu groups, every member gets exactly one copy\n", made.size());
  return 0;
}

int paper(const PaperOptions& options) {
  nlohmann::json results;
  Status status = run_paper(options, &results);
  if (status.ok()) status = draw_paper(options, results);
  return status.ok() ? 0 : fail(status);
}

void add_install_options(cli::Command& command, InstallOptions* options) {
  command.option("--topology", options->topology, "the fabric the tables were made for").required();
  command.option("--tables,tables", options->tables, "tables to write, in either format")
      .required();
  command.option("--previous", options->previous,
                 "tables that an earlier install wrote: their entries may be changed, and "
                 "those no longer wanted are emptied");
  command.flag("--replace-foreign", options->replace_foreign,
               "overwrite entries that are neither empty nor in --previous");
  command.flag("--dry-run", options->dry_run, "read the fabric, print, write nothing");
  command.option("--first-mlid", options->first_mlid, "MLID of the tables' first entry")
      .shows_default();
  command.option("--device", options->device, "RDMA device, as mlx5_0; default: the first");
  command.option("--port", options->port, "port of the device; default: the first that is up");
  command.option("--timeout-ms", options->timeout_ms, "time for each of 3 attempts of a packet")
      .range(1, 60000)
      .shows_default();
  command.option("--m-key", options->key, "management key of the fabric's switches");
}

}  // namespace

int main(int argc, char** argv) {
  cli::Command app("weft-mcroute", "Multicast routing for switches with few table entries");
  app.requires_command();

  std::string kind, pattern, sides, topology_path, groups_path, tables_path;
  std::vector<uint32_t> sizes;
  uint32_t per_host = 1, colors = kNone;
  uint64_t seed = 1;
  RouteOptions options;

  auto& topo_command = app.command("topo", "print a topology as ibnetdiscover would");
  topo_command
      .option("kind", kind,
              "fat-tree PORTS | pruned-fat-tree LEAVES HOSTS SPINES CABLES | "
              "supernodes COUNT LEAVES HOSTS MIDDLES DIRECTORS PATHS | torus X Y Z HOSTS | "
              "dragonfly A P H | random SWITCHES HOSTS PORTS SEED, or a preset: paper-fat-tree, "
              "paper-torus, paper-dragonfly, paper-random, bluelight, taihulight")
      .required();
  topo_command.option("sizes,--ports", sizes, "the sizes of the kind");

  auto& groups_command = app.command("groups", "print groups made by pattern");
  groups_command.option("pattern", pattern, "pattern of the groups")
      .required()
      .one_of({"grid", "random"});
  groups_command.option("sizes", sides, "AxB, AxBxC, or COUNTxSIZE").required();
  groups_command.option("--topology", topology_path, "the fabric").required();
  groups_command.option("--per-host", per_host, "processes on a host");
  groups_command.option("--seed", seed, "seed of random groups");

  auto& route_command = app.command("route", "route groups and check the tables");
  route_command.option("--topology", options.topology, "the fabric").required();
  route_command.option("--groups", options.groups, "the groups").required();
  route_command.option("--algorithm", options.algorithm, "routing algorithm")
      .one_of({"mr4lms", "opensm-minhop", "opensm-sssp", "paper-sssp", "paper-sssp-first-root"});
  route_command.option("--colors", options.colors, "entries of a switch, or unlimited");
  route_command.option("--old-trees", options.old_trees, "treatment of old trees when groups merge")
      .one_of({"keep", "destroy"});
  route_command
      .option("--refine", options.refine, "trees compared per group; 1: exactly as in the paper")
      .range(1, 64);
  route_command.option(
      "--trace", options.trace,
      "file of groups that are created and deleted, and members that join and leave");
  route_command.option("--previous", options.previous,
                       "tables whose trees stay where fabric and groups have not changed");
  route_command.option("--json", options.json, "file for the figures, as JSON");
  route_command.option("--tables", options.tables, "file for the tables, as opensm.mcfdbs");
  route_command.option("--dump-fts", options.dump_fts, "file for the tables, as dump_fts -M");

  auto& verify_command = app.command("verify", "forward packets through tables");
  verify_command.option("--topology", topology_path, "the fabric").required();
  verify_command.option("--groups", groups_path, "the groups").required();
  verify_command.option("--tables,tables", tables_path, "tables to verify").required();
  verify_command.option("--colors", colors, "entries of a switch");

  auto& install_command = app.command("install", "write tables into the fabric");
  InstallOptions install_options;
  add_install_options(install_command, &install_options);
  PaperOptions paper_options;
  auto& paper_command =
      app.command("paper", "run the evaluation of the MR4LMS paper and draw its figures");
  paper_command.option("--out", paper_options.out, "folder for results and pictures").required();
  paper_command.option("--only", paper_options.only, "one fabric (a preset's name), or scaling");
  paper_command.option("--runs", paper_options.runs, "only runs whose name contains this");
  paper_command.flag("--quick", paper_options.quick, "small fabrics of the same kinds");
  paper_command.flag("--draw", paper_options.draw_only, "only draw, from earlier results");

  if (const auto status = app.parse(argc, argv)) return *status;
  if (topo_command) return topo(kind, sizes);
  if (groups_command) return groups(pattern, sides, topology_path, per_host, seed);
  if (paper_command) return paper(paper_options);
  if (route_command) return route(options);
  if (install_command) {
    const Status status = install(install_options);
    return status.ok() ? 0 : fail(status);
  }
  return verify(topology_path, groups_path, tables_path, colors);
}
