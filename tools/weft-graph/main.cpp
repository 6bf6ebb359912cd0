// weft-graph: graph algorithms over files, by one process or many. Exit status: 0; 2 for bad input
// or a result that verify finds wrong; 1 if a process was lost.
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>

#include "base/os/own_program.hpp"
#include "commands.hpp"
#include "graph/common/agree.hpp"
#include "tools/cli/cli.hpp"

namespace {

using namespace weft;         // NOLINT(google-build-using-namespace): a program's main file
using namespace weft::graph;  // NOLINT(google-build-using-namespace)

const std::vector<std::pair<std::string, FileFormat>> kFormats = {
    {"auto", FileFormat::automatic},       {"paper", FileFormat::paper_binary},
    {"gemini", FileFormat::gemini_binary}, {"gemini-weighted", FileFormat::gemini_weighted},
    {"el", FileFormat::edge_list},         {"wel", FileFormat::weighted_edge_list},
    {"mtx", FileFormat::matrix_market},    {"gr", FileFormat::dimacs},
    {"metis", FileFormat::metis}};
const std::vector<std::pair<std::string, Weights>> kWeights = {{"none", Weights::none},
                                                               {"file", Weights::file},
                                                               {"real", Weights::real},
                                                               {"hash", Weights::hash}};

void add_file(cli::Command& command, std::string& graph, LoadOptions& load) {
  command
      .option("graph", graph,
              "the graph's file, a folder of them, - for standard input, or Graphalytics' pair")
      .required();
  command
      .option("--also", load.more_files,
              "another file of the same graph; may be given several times")
      .repeated();
  command.choice("--format", load.format, kFormats, "format of the file; auto: by its content");
  command.option("--columns", load.columns,
                 "of a table: source,destination[,weight], by name or by number from 1");
  command.flag("--named", load.named, "vertices are any words, by which results name them");
  command.option("--names", load.names, "the file of names that convert --names wrote");
  command.flag("--undirected", load.undirected, "edges count in both directions");
  command.flag("--cache", load.cache,
               "reads GRAPH.weft-cache, which is written if it is missing or out of date");
  command.flag("--stream", load.stream,
               "leaves the edges in GRAPH.weft-cache: for graphs that memory does not hold");
}

// Options of the partition and of threads.
void add_shares(cli::Command& command, LoadOptions& load) {
  command.option("--threads", load.threads, "threads of each process; 0: its share of the cores")
      .range(0, transport::kMaxThreads);
  command
      .option("--alpha", load.alpha,
              "weight of a vertex, in edges, in the cut (1); 0: max(1, |E| / |V|), as in the "
              "paper, and so for bfs and sssp in its mode")
      .not_negative();
  command.flag("!--no-bind", load.bind_threads, "do not bind threads to cores");
  command.flag("--equal-cut", load.equal_cut, "the same number of vertices for each process");
  command.option("--shares", load.shares, "relative number of edges of each process, as 2,1")
      .list();
}

void add_algorithm(cli::Command& command, RunArguments& arguments) {
  arguments.load.weights = Weights::file;
  add_file(command, arguments.graph, arguments.load);
  const std::string& name = arguments.algorithm;
  if (name == "sssp")
    command.choice(
        "--weights", arguments.load.weights, kWeights,
        "file: those of the file, whole numbers; real: with fractions, as floats; none: 1; "
        "hash: 1 to 255");
  if (name == "sssp")
    command
        .option("--weight-scale", arguments.load.weight_scale,
                "weights of the file are multiplied by it and rounded; 1: whole numbers alone")
        .positive();
  if (has_sources(name)) {
    command
        .option("--source", arguments.sources,
                name == "betweenness" ? "vertices from which paths count, as 0,5"
                : name == "pagerank"
                    ? "personalised: restarts from these vertices alone, as 0,5; normalized"
                    : "vertices to start from, one after the other, as 0,5")
        .list();
    command.option("--sources", arguments.sources_file, "file of vertices to start from");
  }
  if (name == "betweenness")
    command.flag("!--unscaled", arguments.betweenness.scaled,
                 "the sums themselves, in which a source is on none of its own paths");
  if (name == "cdlp")
    command.option("--iterations", arguments.cdlp.iterations, "maximal number of iterations")
        .range(1u, ~0u)
        .shows_default();
  if (name == "pagerank") {
    command.option("--iterations", arguments.pagerank.iterations, "maximal number of iterations")
        .range(1u, ~0u)
        .shows_default();
    command
        .option("--tolerance", arguments.pagerank.tolerance,
                "ends when the sum of all changes is less")
        .not_negative();
    command
        .option("--damping", arguments.pagerank.damping,
                "damping factor, the share of a value that goes along edges")
        .range_real(0, 1)
        .shows_default();
    command.flag("--normalized", arguments.pagerank.normalized,
                 "ranks begin with 1 / |V| and sum to 1: what vertices without edges out have goes "
                 "to all; as Graphalytics and NetworkX");
    command.flag("--single", arguments.pagerank.single,
                 "what goes along edges has 4 bytes, as in GAPBS: about six digits, in less time");
  }
  command.choice("--out-format", arguments.out_format,
                 {{"text", ResultFormat::text}, {"binary", ResultFormat::binary}},
                 "format of --out: text or binary");
}

// Options of the ways to run an algorithm that has several.
void add_modes(cli::Command& command, RunArguments& arguments) {
  command.choice("--mode", arguments.run.mode,
                 {{"paper", Mode::paper},
                  {"push", Mode::push},
                  {"pull", Mode::pull},
                  {"auto", Mode::automatic}},
                 "paper: a vertex program; push: no second copy of the edges; auto: the fastest");
  command.choice("--combine", arguments.run.step.combine,
                 {{"mirror", Combine::mirrors}, {"edge", Combine::edges}},
                 "one message for a changed mirror, or for each edge");
  command.choice("--schedule", arguments.run.step.schedule,
                 {{"grab", Schedule::grab}, {"steal", Schedule::steal}, {"fixed", Schedule::fixed}},
                 "threads grab active vertices, steal those of others, or have fixed shares");
  transport::ExchangeSettings& exchange = arguments.run.step.exchange;
  command.option("--block", exchange.block_messages, "mode paper: messages sent together")
      .range(1, 1 << 12)
      .shows_default()
      .on_value([&] { exchange.block_bytes = std::size_t{1} << 16; });
  command.choice("--pairing", exchange.pairing,
                 {{"machine", transport::Pairing::thread_to_machine},
                  {"thread", transport::Pairing::thread_to_thread}},
                 "mode paper: a thread has a lane to each process, or to each of its threads");
  MigrationOptions& migration = arguments.run.step.migration;
  command.flag("--migrate", migration.enabled,
               "mode paper: idle processes take active vertices of others");
  command.option("--migrate-block", migration.block, "vertices that a thread takes at once")
      .range(1, 1 << 16)
      .shows_default();
  command
      .option("--migrate-threshold", migration.threshold,
              "a process with fewer active vertices keeps them")
      .range(0, 1 << 30)
      .shows_default();
  command
      .option("--migrate-cache", migration.cached_rows,
              "vertices of other processes whose edges are cached; 0: none")
      .shows_default();
  command.option("--grain", arguments.run.step.grain, "vertices that a thread grabs at once")
      .range(1, 1 << 20)
      .shows_default();
}

void add_run(cli::Command& command, RunArguments& arguments) {
  add_algorithm(command, arguments);
  add_shares(command, arguments.load);
  command.option("--out", arguments.out,
                 "file for results by vertex; with several sources one each, FILE.SOURCE");
  command.flag("--json", arguments.json, "prints JSON");
  command.option("--checkpoint", arguments.checkpoint,
                 "file or folder for the state: a run that was killed goes on from it");
  command
      .option("--checkpoint-every", arguments.checkpoint_every,
              "seconds between two states, at least; 0: after every step")
      .range(0, 1 << 30)
      .shows_default();
  command.option("--repeat", arguments.repeat, "number of runs; prints the median of their times")
      .range(1, 1000);
  if (has_modes(arguments.algorithm)) add_modes(command, arguments);
}

// True if all ranks have this error, as they agree about the user's input.
bool is_of_input(const Status& status) {
  return status == Code::bad_argument || status == Code::corrupt || status == Code::unsupported ||
         status == Code::not_found || status == Code::not_permitted;
}

// One process, the first live rank, prints the error and has the job's exit status: a launcher
// would report every other process with such a status.
int report(const transport::Job* job, const Status& status) {
  int speaker = 0;
  while (job != nullptr && speaker < job->rank() && !job->is_alive(speaker)) ++speaker;
  const bool speaks = job == nullptr || speaker == job->rank();
  if (speaks) std::fprintf(stderr, "weft-graph: %s\n", status.text().c_str());
  if (!speaks && is_of_input(status)) return 0;
  return status == Code::peer_lost ? 1 : 2;
}

// Progress of rank 0 on standard error, once a second.
class Reporter {
 public:
  explicit Reporter(bool active) : active_(active) {}
  void load(const char* what, double share) const {
    if (active_) std::fprintf(stderr, "weft-graph: %s, %.0f %%\n", what, share * 100);
  }
  void step(const char* what, std::uint64_t step) {
    const auto now = std::chrono::steady_clock::now();
    if (!active_ || now - last_ < std::chrono::seconds(1)) return;
    last_ = now;
    std::fprintf(stderr, "weft-graph: %s, step %llu\n", what,
                 static_cast<unsigned long long>(step));
  }

 private:
  bool active_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Executes the program that repeats the paper's experiments, which starts this one many times.
// Returns only on failure.
int become_paper(const std::vector<std::string>& arguments) {
  std::error_code failed;
  const std::filesystem::path self = weft::own_program();
  const std::filesystem::path installed =
      self.parent_path().parent_path() / "libexec/weft/graph-paper/weft-graph-paper";
  std::string program =
      std::filesystem::exists(installed, failed) ? installed.string() : WEFT_GRAPH_PAPER;
  std::vector<std::string> words = {"python3", program, "--weft-graph", self.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp("python3", pointers.data());
  std::fprintf(stderr, "weft-graph: cannot start python3 for %s: %s\n", program.c_str(),
               std::strerror(errno));
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  cli::Command app{"weft-graph",
                   "Graph algorithms over files, by one process or by many under weftrun"};
  app.requires_command();

  const char* const kAlgorithms[][2] = {
      {"bfs", "distances in edges from a vertex, and parents"},
      {"sssp", "shortest paths from a vertex"},
      {"pagerank", "PageRank"},
      {"wcc", "weakly connected components"},
      {"cdlp", "communities by label propagation"},
      {"lcc", "local clustering coefficients"},
      {"triangles", "triangles, and how many a vertex is in"},
      {"kcore", "core numbers"},
      {"betweenness", "betweenness, by paths from some vertices"}};
  std::map<std::string, RunArguments> runs;
  std::map<std::string, VerifyArguments> verifications;
  cli::Command& verify = app.command("verify", "checks a result by a serial computation");
  verify.requires_command();
  for (const auto& [name, about] : kAlgorithms) {
    runs[name].algorithm = name;
    add_run(app.command(name, about), runs[name]);
    VerifyArguments& arguments = verifications[name];
    arguments.run.algorithm = name;
    cli::Command& command = verify.command(name, about);
    add_algorithm(command, arguments.run);
    command.option("result", arguments.result, "the file that --out wrote").required();
  }

  ConvertArguments conversion;
  cli::Command& convert_command = app.command("convert", "writes a graph in another format");
  convert_command
      .option("from", conversion.from,
              "the graph's file, a folder of them, - for standard input, or Graphalytics' pair")
      .required();
  convert_command.option("to", conversion.to, "the new file").required();
  convert_command
      .option("--also", conversion.more_files,
              "another file of the same graph; may be given several times")
      .repeated();
  convert_command.choice("--from-format", conversion.from_format, kFormats, "format of the file");
  convert_command.choice("--format", conversion.to_format, kFormats, "format of the new file");
  convert_command.option("--columns", conversion.columns,
                         "of a table: source,destination[,weight], by name or by number from 1");
  convert_command.option("--names", conversion.names,
                         "vertices are any words: writes them here, in the order of their numbers");
  convert_command
      .option("--weight-scale", conversion.weight_scale,
              "weights of the file are multiplied by it and rounded; 1: whole numbers alone")
      .positive();
  convert_command.choice(
      "--weights", conversion.weights, kWeights,
      "file: those of the file, whole numbers; real: with fractions, as floats; none: 1; "
      "hash: 1 to 255");

  GenerateArguments generation;
  cli::Command& generate_command = app.command("generate", "generates a graph");
  generate_command.option("kind", generation.kind, "rmat or grid")
      .required()
      .one_of({"rmat", "grid"});
  generate_command.option("to", generation.to, "the new file").required();
  generate_command.choice("--format", generation.format, kFormats, "format of the new file");
  generate_command.option("--scale", generation.scale, "rmat: 2^scale vertices")
      .range(1, 31)
      .shows_default();
  generate_command.option("--edge-factor", generation.edge_factor, "rmat: edges for a vertex")
      .range(1, 1 << 16)
      .shows_default();
  generate_command.option("--seed", generation.seed, "rmat: seed of the edges").shows_default();
  generate_command.flag("--permute", generation.permute, "rmat: number vertices at random");
  generate_command.option("--width", generation.width, "grid: columns")
      .range(1, 60000)
      .shows_default();
  generate_command.option("--height", generation.height, "grid: rows")
      .range(1, 60000)
      .shows_default();

  InfoArguments info;
  cli::Command& info_command = app.command("info", "figures of a graph and its partition");
  add_file(info_command, info.graph, info.load);
  add_shares(info_command, info.load);
  info_command.flag("--json", info.json, "prints JSON");

  cli::Command& paper_command = app.command(
      "paper", "repeats the RGraph paper's experiments here, with pictures (paper --help)");
  paper_command.passes_rest();
  paper_command.passes_help();

  Status wrong_arguments;
  std::string wrong;
  if (const auto status = app.parse(argc, argv, wrong); status && *status == 2)
    wrong_arguments = {Code::bad_argument, wrong + " (see --help)"};
  else if (status)
    return *status;

  if (wrong_arguments.ok() && paper_command) return become_paper(paper_command.rest());

  std::unique_ptr<transport::Job> job;
  try {
    job = std::make_unique<transport::Job>();
    if (!wrong_arguments.ok()) return report(job.get(), wrong_arguments);
    Reporter reporter(job->rank() == 0);
    const auto progress = [&](const char* what, double share) { reporter.load(what, share); };
    Status status;
    conversion.given = convert_command.given();
    generation.given = generate_command.given();
    info.given = info_command.given();
    if (convert_command) status = convert(*job, conversion);
    if (generate_command) status = generate(*job, generation);
    const auto note = [&](const std::string& text) {
      std::fprintf(stderr, "weft-graph: %s\n", text.c_str());
    };
    info.load.progress = progress;
    info.load.note = note;
    if (info_command) status = show_info(*job, info);
    for (auto& [name, arguments] : runs) {
      if (app.chosen()->word() != name) continue;
      arguments.load.progress = progress;
      arguments.load.note = note;
      arguments.given = app.chosen()->given();
      arguments.run.progress = [&](const char* what, std::uint64_t step) {
        reporter.step(what, step);
      };
      status = run_algorithm(*job, arguments);
    }
    for (auto& [name, arguments] : verifications)
      if (verify && verify.chosen()->word() == name) status = verify_result(*job, arguments);
    if (status.ok() && (std::fflush(stdout) != 0 || std::ferror(stdout) != 0))
      status = {Code::not_permitted,
                std::string("cannot print the result: ") + std::strerror(errno)};
    return status.ok() ? 0 : report(job.get(), status);
  } catch (const Error& error) {
    return report(job.get(), error.status());
  } catch (const std::bad_alloc&) {
    // Only this process has this error, so report() cannot be used.
    std::fprintf(stderr, "weft-graph: not enough memory\n");
    return 2;
  }
}
