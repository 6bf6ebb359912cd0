// weft-mcast: predicts the time of a multicast, explains that of a real one, and plans which groups
// get trees in switches.
#include <fmt/core.h>

#include <cmath>

#include "explain.hpp"
#include "mcast/plan/plan.hpp"
#include "mcast/simulate/simulate.hpp"
#include "tools/cli/cli.hpp"

namespace {

struct Options {
  std::vector<int> members = {8};
  std::vector<std::string> algorithms = {"pipeline", "chain", "tree", "sequential"};
  std::uint64_t bytes = 64 << 20, block_bytes = 1 << 20;
  int rack_members = 0;
  bool scattered = false;
  double mbit = 200;
  weft::mcast::Network network;
};

// Says what is wrong with the arguments; empty: nothing.
std::string check(const Options& options) {
  using namespace weft::mcast;
  if (options.bytes / options.block_bytes > 1'000'000)
    return "more than 1000000 blocks: use larger --block-bytes";
  for (const std::string& name : options.algorithms) {
    if (name == "native" || find_algorithm(name) != nullptr) continue;
    std::string names = " native";
    for (const Algorithm* item : algorithms()) names += fmt::format(" {}", item->name);
    return fmt::format("unknown algorithm {}; known:{}", name, names);
  }
  for (const int members : options.members)
    if (options.network.slow_member >= members)
      return fmt::format("--slow-member {} is not below the {} members",
                         options.network.slow_member, members);
  return {};
}

int run(Options& options) {
  using namespace weft::mcast;
  options.network.rate = options.mbit * 1e6 / 8;
  if (const std::string wrong = check(options); !wrong.empty()) {
    fmt::print(stderr, "weft-mcast: {}\n", wrong);
    return 2;
  }
  fmt::print("{:<14} {:>7} {:>8} {:>8} {:>14} {:>14} {:>10} {:>6} {:>12}\n", "algorithm", "members",
             "blocks", "steps", "first done us", "last done us", "MB/s", "lanes", "bound us");
  for (const int members : options.members)
    for (const std::string& name : options.algorithms) {
      const bool is_native = name == "native";
      const Algorithm* algorithm = is_native ? nullptr : find_algorithm(name);
      std::vector<int> rack_of;
      const int in_rack = options.rack_members;
      for (int member = 0; in_rack > 0 && member < members; ++member)
        rack_of.push_back(options.scattered ? member % ((members + in_rack - 1) / in_rack)
                                            : member / in_rack);
      const Racks racks(rack_of, members);
      const Simulated simulated =
          is_native ? simulate_native(members, options.bytes, racks, options.network)
                    : simulate(*algorithm, members, options.bytes, options.block_bytes, racks,
                               options.network);
      const auto blocks = static_cast<std::uint32_t>(std::max<std::uint64_t>(
          1, (options.bytes + options.block_bytes - 1) / options.block_bytes));
      const bool is_pipeline = algorithm == &kBinomialPipeline;
      const Network& network = options.network;
      const bool has_bound = is_pipeline && network.oversubscription <= 0 &&
                             network.delay_probability <= 0 && network.slow_member < 0;
      fmt::print(
          "{:<14} {:>7} {:>8} {:>8} {:>14.0f} {:>14.0f} {:>10.2f} {:>6} {:>12}\n", name, members,
          is_native ? "" : fmt::format("{}", blocks),
          is_native ? "" : fmt::format("{}", algorithm->num_steps({members, blocks, &racks})),
          simulated.first_us, simulated.last_us,
          simulated.last_us > 0 ? static_cast<double>(options.bytes) / simulated.last_us : 0,
          is_pipeline ? fmt::format("{}", simulated.lanes) : "",
          has_bound ? fmt::format("{:.0f}", pipeline_bound_us(members, options.bytes,
                                                              options.block_bytes, options.network))
                    : "");
    }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  weft::cli::Command app("weft-mcast",
                         "Predicts and explains the time of a multicast, and plans which groups "
                         "get trees in switches.");
  app.requires_command();
  weft::cli::Command& command =
      app.command("simulate", "runs the schedules over a modelled network, block by block");
  command.option("--members", options.members, "number of members with the root; several: 2,4,8")
      .separated_by_commas()
      .range(1, 65'535);
  command.option("--algorithms", options.algorithms, "schedules to run").separated_by_commas();
  command.option("--bytes", options.bytes, "size of the message (64 MiB)");
  command.option("--block-bytes", options.block_bytes, "size of a block (1 MiB)").positive();
  command.option("--rate", options.mbit, "rate of a member's link, each way, in Mbit/s (200)")
      .positive();
  command.option("--latency-us", options.network.latency_us, "latency of a block (50)")
      .not_negative();
  command
      .option("--block-us", options.network.block_us,
              "time of a member for a block before it sends it (0)")
      .not_negative();
  command.option("--rack-members", options.rack_members, "members per rack").positive();
  command.flag("--scattered", options.scattered,
               "consecutive members are in different racks (round robin)");
  command
      .option("--oversubscription", options.network.oversubscription,
              "bandwidth of a rack's members together, by that of the rack's link")
      .not_negative();
  command.option("--delay-us", options.network.delay_us, "delay of randomly chosen blocks")
      .not_negative();
  command
      .option("--delay-probability", options.network.delay_probability, "share of delayed blocks")
      .range_real(0.0, 1.0);
  command
      .option("--jitter-us", options.network.jitter_us,
              "most that a block's latency is longer, at random (0)")
      .not_negative();
  command
      .option("--lanes", options.network.lanes,
              "pipelines of `pipeline` that take turns (chosen by the latency)")
      .range(0, 1000);
  command
      .option("--loss", options.network.loss,
              "share of a native group's packets that a receiver lacks (0)")
      .range_real(0.0, 0.5);
  command.option("--seed", options.network.seed, "seed of the delays");
  command.option("--slow-member", options.network.slow_member, "member with a slower link")
      .not_negative();
  command.option("--slow-factor", options.network.slow_factor, "its link's rate by --rate, as 0.5")
      .range_real(0.0001, 1.0);

  weft::cli::Command& plan = app.command(
      "plan", "chooses the groups that get trees in the switches; the others use the pipeline");
  weft::mcast::PlanFiles files;
  weft::mcast::PlanOptions plan_options;
  plan.option("topology", files.topology, "output of ibnetdiscover").required();
  plan.option("groups", files.groups, "one a line: its id, then port GUIDs or names").required();
  plan.option("--entries", plan_options.entries,
              "usable entries of a switch's multicast table (no limit)")
      .range(1u, weft::mcast::kLastMlid - weft::mcast::kFirstMlid + 1);
  plan.option("--min-members", plan_options.min_members, "smallest group that gets a tree (3)")
      .range(2, 65'535);
  plan.option("--json", files.json, "file for the plan of every group, as JSON");
  plan.option("--tables", files.tables, "file for the trees, as weft-mcroute install reads them");

  weft::cli::Command& explain = app.command(
      "explain", "sends one message through a group and prints where the time of each member went");
  weft::mcast::ExplainOptions explain_options;
  explain
      .option("--members", explain_options.members,
              "threads of this process with the root (none: the ranks that weftrun has started)")
      .range(2, 256);
  explain.option("--bytes", explain_options.bytes, "size of the message (16 MiB)").positive();
  explain.option("--block-bytes", explain_options.block_bytes, "size of a block (0: chosen)");
  explain.option("--algorithm", explain_options.algorithm, "schedule of the group (pipeline)");
  explain
      .option("--member", explain_options.member,
              "the one whose blocks are listed (the slowest receiver)")
      .not_negative();
  explain.option("--timeout", explain_options.timeout_s, "seconds that it may take (600)")
      .range(1, 1'000'000);
  if (const auto status = app.parse(argc, argv)) return *status;
  if (explain) return weft::mcast::run_explain(explain_options);
  return plan ? weft::mcast::run_plan(files, plan_options) : run(options);
}
