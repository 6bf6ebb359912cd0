// Options without an effect are errors, as the user expects one.
#include <initializer_list>

#include "commands.hpp"
#include "graph/load/edge_writer.hpp"

namespace weft::graph {
namespace {

struct Effect {
  const char* option;
  bool is_there;
  const char* where;  // the option has an effect
};

Status check(const GivenOptions& given, std::initializer_list<Effect> effects) {
  for (const Effect& effect : effects)
    if (!effect.is_there && given.count(effect.option) > 0)
      return {Code::bad_argument,
              std::string(effect.option) + " has no effect here: it has one " + effect.where};
  return Code::ok;
}

Status check_cut(int num_processes, const GivenOptions& given, const LoadOptions& load) {
  const bool several = num_processes > 1;
  const bool by_shares = given.count("--shares") > 0;
  return check(given, {{"--alpha", several && !by_shares && !load.equal_cut,
                        "with several processes, and without --shares and --equal-cut"},
                       {"--equal-cut", several && !by_shares,
                        "with several processes, and without --shares"},
                       {"--shares", several, "with several processes"}});
}

}  // namespace

Status check_effects(int num_processes, const RunArguments& arguments) {
  const GivenOptions& given = arguments.given;
  const Status status = check_cut(num_processes, given, arguments.load);
  if (!status.ok()) return status;
  const bool several = num_processes > 1;
  const Mode mode = arguments.run.mode;
  const bool is_paper = mode == Mode::paper;
  const bool is_program = is_paper || (arguments.algorithm == "pagerank" && mode == Mode::push);
  const bool migrates = arguments.run.step.migration.enabled;
  const bool has_tasks = is_program || arguments.algorithm == "bfs";
  const char* const by_messages =
      "with several processes in --mode paper, or in --mode push of pagerank";
  const char* const with_migrate = "with --migrate";
  return check(
      given, {{"--combine", is_program && several, by_messages},
              {"--block", is_program && several, by_messages},
              {"--pairing", is_program && several, by_messages},
              {"--single", mode == Mode::automatic || mode == Mode::pull, "in --mode auto or pull"},
              {"--migrate", is_paper && several, "with several processes in --mode paper"},
              {"--migrate-block", migrates, with_migrate},
              {"--migrate-threshold", migrates, with_migrate},
              {"--migrate-cache", migrates, with_migrate},
              {"--schedule", has_tasks && !migrates,
               "in --mode paper without --migrate, in --mode push of pagerank, and in bfs"},
              {"--grain", has_tasks, "in --mode paper, in --mode push of pagerank, and in bfs"},
              {"--weight-scale", arguments.load.weights == Weights::file, "with --weights file"},
              {"--out-format", !arguments.out.empty(), "with --out"},
              {"--out-format", arguments.out_format == ResultFormat::text || !arguments.load.named,
               "without --named, as binary results have no names: convert the graph with --names"},
              {"--stream", !migrates, "without --migrate"},
              {"--checkpoint-every", !arguments.checkpoint.empty(), "with --checkpoint"}});
}

Status check_effects(int num_processes, const InfoArguments& arguments) {
  return check_cut(num_processes, arguments.given, arguments.load);
}

Status check_effects(const ConvertArguments& arguments, FileFormat format) {
  if (arguments.weights == Weights::real && format == FileFormat::paper_binary)
    return {Code::bad_argument,
            "--weights real: the weights of format paper are whole numbers: --format "
            "gemini-weighted has floats"};
  return check(
      arguments.given,
      {{"--weights", EdgeWriter::has_weights(format),
        "where the new file has weights: in paper, gemini-weighted, wel, "
        "mtx and gr"},
       {"--weight-scale", EdgeWriter::has_weights(format) && arguments.weights == Weights::file,
        "where the new file has weights of the old one"}});
}

Status check_effects(const GenerateArguments& arguments) {
  const bool is_grid = arguments.kind == "grid";
  const char* const in_rmat = "with rmat";
  const char* const in_grid = "with grid";
  return check(arguments.given, {{"--scale", !is_grid, in_rmat},
                                 {"--edge-factor", !is_grid, in_rmat},
                                 {"--seed", !is_grid, in_rmat},
                                 {"--permute", !is_grid, in_rmat},
                                 {"--width", is_grid, in_grid},
                                 {"--height", is_grid, in_grid}});
}

}  // namespace weft::graph
