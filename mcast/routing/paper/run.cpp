// The runs of the paper's evaluation. Every run is a child process, so that its peak memory is its
// own; it writes its result as JSON into a pipe. Results are kept in a file after every run, and a
// run that is there already is not repeated: an evaluation that was stopped goes on.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>

#include "mcast/routing/paper/paper.hpp"

namespace weft::mcast {

namespace {

using nlohmann::json;

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

json figures_json(const Topology& topology, const std::vector<Tree>& trees) {
  const Figures f = measure(topology, trees);
  uint64_t groups = 0;
  std::vector<uint32_t> trees_of, groups_of;
  for (const Tree& tree : trees) {
    groups += tree.groups.size();
    if (trees_of.size() <= tree.color) {
      trees_of.resize(tree.color + 1);
      groups_of.resize(tree.color + 1);
    }
    ++trees_of[tree.color];
    groups_of[tree.color] += static_cast<uint32_t>(tree.groups.size());
  }
  return {{"groups", groups},           {"trees", f.trees},
          {"colors", f.colors},         {"max_efi", f.max_efi},
          {"mean_efi", f.mean_efi},     {"max_host_efi", f.max_host_efi},
          {"max_tfi", f.max_tfi},       {"mean_tfi", f.mean_tfi},
          {"max_height", f.max_height}, {"mean_height", f.mean_height},
          {"trees_of_color", trees_of}, {"groups_of_color", groups_of}};
}

// Cells of the picture of switch against switch, each the highest EFI of its cables.
json heat_cells(const Topology& topology, const std::vector<Tree>& trees) {
  const std::vector<uint32_t> load = cable_loads(topology, trees);
  const uint32_t side = std::min(96u, topology.num_switches());
  std::vector<int> cells(size_t{side} * side, -1);
  for (uint32_t a = 0; a < load.size(); ++a) {
    const uint64_t x = uint64_t{topology.arc_from[a]} * side / topology.num_switches();
    const uint64_t y = uint64_t{topology.arcs[a].to} * side / topology.num_switches();
    cells[y * side + x] = std::max(cells[y * side + x], static_cast<int>(load[a]));
  }
  return {{"side", side}, {"switches", topology.num_switches()}, {"cells", cells}};
}

Status prove(const Topology& topology, const std::vector<Group>& groups,
             const std::vector<Tree>& trees, uint32_t colors) {
  const Served served = served_groups(groups, trees);
  if (served.groups.size() != groups.size()) return {Code::internal, "some groups have no tree"};
  return verify_tables(topology, served.groups, served.entry_of, make_tables(topology, trees),
                       colors);
}

// Runs `work` in a child; what it returns arrives here, with the child's peak memory.
Status in_child(const std::function<Status(json*)>& work, json* result) {
  int ends[2];
  if (pipe(ends) != 0) return {Code::no_memory, "no pipe"};
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return {Code::no_memory, "no child process"};
  }
  if (child == 0) {
    close(ends[0]);
    json made;
    const Status status = work(&made);
    if (!status.ok()) made = {{"error", status.text()}};
    const std::string text = made.dump();
    for (size_t sent = 0; sent < text.size();) {
      const ssize_t n = write(ends[1], text.data() + sent, text.size() - sent);
      if (n <= 0) _exit(1);
      sent += static_cast<size_t>(n);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[65536];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, n);
  close(ends[0]);
  int how = 0;
  rusage usage{};
  wait4(child, &how, 0, &usage);
  *result = json::parse(text, nullptr, false);
  if (how != 0 || !result->is_object()) return {Code::internal, "a run died"};
  if (result->contains("error")) return {Code::internal, (*result)["error"].get<std::string>()};
  (*result)["peak_memory_mib"] = usage.ru_maxrss / 1024;
  return Code::ok;
}

Status route_mr4lms(const Topology& topology, const std::vector<Group>& groups,
                    const RouterOptions& options, bool heat, json* result) {
  const double start = processor_seconds();
  Router router(topology, options);
  for (uint32_t g = 0; g < groups.size(); ++g) {
    const Status status = router.add_group(g, groups[g]);
    if (!status.ok()) return status;
  }
  router.spread();
  const double took = processor_seconds() - start;
  const std::vector<Tree> trees = router.trees();
  *result = figures_json(topology, trees);
  (*result)["seconds"] = took;
  if (heat) (*result)["heat"] = heat_cells(topology, trees);
  return prove(topology, groups, trees, options.colors);
}

using Baseline = Status (*)(const Topology&, const std::vector<Group>&, std::vector<Tree>*);

Status route_baseline(const Topology& topology, const std::vector<Group>& groups, Baseline route,
                      bool heat, json* result) {
  const double start = processor_seconds();
  std::vector<Tree> trees;
  const Status status = route(topology, groups, &trees);
  if (!status.ok()) return status;
  const double took = processor_seconds() - start;
  *result = figures_json(topology, trees);
  (*result)["seconds"] = took;
  if (heat) (*result)["heat"] = heat_cells(topology, trees);
  return Code::ok;
}

// OpenSM's link weights depend on the fabric alone and take long to find, so the groups of all
// patterns are routed at once and the trees divided afterwards: no group influences another.
Status route_opensm_sssp_at_once(const Topology& topology, const PaperFabric& fabric,
                                 json* result) {
  std::vector<Group> all;
  std::vector<size_t> ends;
  for (const PaperPattern& pattern : fabric.patterns) {
    std::vector<Group> groups;
    const Status status = make_pattern(topology, pattern, &groups);
    if (!status.ok()) return status;
    all.insert(all.end(), groups.begin(), groups.end());
    ends.push_back(all.size());
  }
  const double start = processor_seconds();
  std::vector<Tree> trees;
  const Status status = route_opensm_sssp(topology, all, &trees);
  if (!status.ok()) return status;
  const double took = processor_seconds() - start;
  size_t begin = 0;
  for (size_t p = 0; p < ends.size(); ++p) {
    std::vector<Tree> part(trees.begin() + static_cast<ptrdiff_t>(begin),
                           trees.begin() + static_cast<ptrdiff_t>(ends[p]));
    (*result)[fabric.patterns[p].label] = figures_json(topology, part);
    (*result)[fabric.patterns[p].label]["seconds"] =
        took * double(ends[p] - begin) / double(all.size());
    begin = ends[p];
  }
  return Code::ok;
}

struct Step {
  const PaperFabric* fabric;
  uint32_t pattern;  // kNone: all at once
  std::string run;   // key in the results
  double cost;       // expected, in no particular unit, for the estimate
  std::function<Status(const Topology&, const std::vector<Group>&, json*)> work;
};

std::vector<Step> plan(const PaperOptions& options) {
  std::vector<Step> steps;
  for (const PaperFabric& fabric : paper_fabrics(options.quick)) {
    if (!options.only.empty() && options.only != fabric.name) continue;
    const auto mr4lms = [&](uint32_t p, const std::string& run, uint32_t colors, uint32_t refine,
                            bool heat, double cost) {
      RouterOptions router;
      router.colors = colors;
      router.refine_roots = refine;
      router.as_paper = refine == 1;
      steps.push_back({&fabric, p, run, cost,
                       [router, heat](const Topology& t, const std::vector<Group>& g, json* r) {
                         return route_mr4lms(t, g, router, heat, r);
                       }});
    };
    const auto baseline = [&](uint32_t p, const std::string& run, Baseline route, bool heat,
                              double cost) {
      steps.push_back({&fabric, p, run, cost,
                       [route, heat](const Topology& t, const std::vector<Group>& g, json* r) {
                         return route_baseline(t, g, route, heat, r);
                       }});
    };
    const RouterOptions usual;
    const uint32_t last = static_cast<uint32_t>(fabric.patterns.size()) - 1;
    for (uint32_t p = 0; p <= last; ++p) {
      mr4lms(p, "unlimited", kNone, usual.refine_roots, false, 1);
      mr4lms(p, "recommended", fabric.recommended, usual.refine_roots, p == last, 2);
      mr4lms(p, "unlimited-greedy", kNone, 1, false, 1);
      if (fabric.name == "paper-torus") {  // point 4 of section 4.5.1
        mr4lms(p, "recommended-greedy", fabric.recommended, 1, false, 2);
      }
      baseline(p, "opensm-minhop", route_minhop, p == last, 1);
      baseline(
          p, "paper-sssp",
          [](const Topology& t, const std::vector<Group>& g, std::vector<Tree>* trees) {
            return route_paper_sssp(t, g, true, trees);
          },
          false, 3);
      baseline(
          p, "paper-sssp-first-root",
          [](const Topology& t, const std::vector<Group>& g, std::vector<Tree>* trees) {
            return route_paper_sssp(t, g, false, trees);
          },
          false, 3);
      // Figure 8: two patterns of the paper against the size of the table.
      const std::string& label = fabric.patterns[p].label;
      if ((fabric.name == "taihulight" && (label == "34x34x34" || label == "5x5x5")) ||
          (fabric.name == "paper-random" && (label == "32x32x40" || label == "4x4x8"))) {
        const uint32_t most = 2 * fabric.recommended;
        for (uint32_t n = most / 32 ? most / 32 : 1; n <= most; n *= 2) {
          mr4lms(p, "colors-" + std::to_string(n), n, usual.refine_roots, false, 3);
          if (n > 1 && n < most) {
            mr4lms(p, "colors-" + std::to_string(n * 3 / 2), n * 3 / 2, usual.refine_roots, false,
                   3);
          }
        }
      }
    }
    steps.push_back({&fabric, kNone, "opensm-sssp", 20,
                     [&fabric](const Topology& t, const std::vector<Group>&, json* r) {
                       return route_opensm_sssp_at_once(t, fabric, r);
                     }});
  }
  for (const PaperFabric& fabric : scaling_fabrics(options.quick)) {
    if (!options.only.empty() && options.only != "scaling") continue;
    steps.push_back(
        {&fabric, 0, "unlimited", 3, [](const Topology& t, const std::vector<Group>& g, json* r) {
           return route_mr4lms(t, g, RouterOptions(), false, r);
         }});
  }
  return steps;
}

}  // namespace

Status run_paper(const PaperOptions& options, json* results) {
  std::error_code ignored;
  std::filesystem::create_directories(options.out, ignored);
  const std::string path = options.out + "/results.json";
  std::ifstream in(path);
  *results = in ? json::parse(in, nullptr, false) : json::object();
  if (!results->is_object()) return {Code::corrupt, path + ": is no result of an earlier run"};
  if (!results->contains("quick")) (*results)["quick"] = options.quick;
  if ((*results)["quick"] != options.quick) {
    return {Code::bad_argument, path + ": holds results of the other scale"};
  }
  if (options.draw_only) return Code::ok;
  std::vector<Step> steps = plan(options);
  const auto there = [&](const Step& step) {
    const json& runs = (*results)["runs"][step.fabric->name];
    for (const PaperPattern& pattern : step.fabric->patterns) {
      if (step.pattern != kNone && &pattern != &step.fabric->patterns[step.pattern]) continue;
      if (!runs.contains(pattern.label) || !runs[pattern.label].contains(step.run)) return false;
    }
    return true;
  };
  std::erase_if(steps, [&](const Step& step) {
    return there(step) || step.run.find(options.runs) == std::string::npos;
  });
  double left = 0, done = 0;
  for (const Step& step : steps) left += step.cost;
  const auto start = std::chrono::steady_clock::now();
  Topology topology;
  std::vector<Group> groups;
  const PaperFabric* fabric = nullptr;
  uint32_t pattern = kNone;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    const double took =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const std::string label =
        step.pattern == kNone ? "all" : step.fabric->patterns[step.pattern].label;
    std::fprintf(stderr, "[%zu/%zu] %s %s %s", i + 1, steps.size(), step.fabric->name.c_str(),
                 label.c_str(), step.run.c_str());
    if (done > 0) std::fprintf(stderr, ", about %.0f s left", took / done * left);
    std::fputc('\n', stderr);
    Status status;
    if (fabric != step.fabric) {
      fabric = step.fabric;
      pattern = kNone;
      status = make_topology(fabric->kind, fabric->sizes, &topology);
    }
    if (status.ok() && step.pattern != kNone && pattern != step.pattern) {
      pattern = step.pattern;
      status = make_pattern(topology, fabric->patterns[pattern], &groups);
    }
    json result;
    if (status.ok()) {
      status = in_child([&](json* r) { return step.work(topology, groups, r); }, &result);
    }
    if (!status.ok()) {
      return {status.code(), fabric->name + " " + label + " " + step.run + ": " + status.text()};
    }
    json& runs = (*results)["runs"][fabric->name];
    if (step.pattern != kNone) {
      runs[label][step.run] = result;
      const double seconds = result["seconds"];
      std::fprintf(stderr, "    colours %s, EFI %s, TFI %s, %.2f s, %.3f ms a group, %s MiB\n",
                   result["colors"].dump().c_str(), result["max_efi"].dump().c_str(),
                   result["max_tfi"].dump().c_str(), seconds,
                   seconds * 1e3 / double(std::max<size_t>(1, groups.size())),
                   result["peak_memory_mib"].dump().c_str());
    } else {
      for (const PaperPattern& each : fabric->patterns) {
        runs[each.label][step.run] = result[each.label];
        runs[each.label][step.run]["peak_memory_mib"] = result["peak_memory_mib"];
      }
    }
    const std::string part = path + ".part";
    std::ofstream out(part);
    out << results->dump() << '\n';
    out.close();
    if (!out || std::rename(part.c_str(), path.c_str()) != 0) {
      std::remove(part.c_str());
      return {Code::not_permitted, path + ": cannot be written"};
    }
    done += step.cost;
    left -= step.cost;
  }
  return Code::ok;
}

}  // namespace weft::mcast
