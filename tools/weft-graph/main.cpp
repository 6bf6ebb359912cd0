// weft-graph: graph algorithms over files, by one process or many. Exit status: 0; 2 for bad input
// or a result that verify finds wrong; 1 if a process was lost.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>

#include "commands.hpp"
#include "graph/common/agree.hpp"

namespace {

using namespace weft;         // NOLINT(google-build-using-namespace): a program's main file
using namespace weft::graph;  // NOLINT(google-build-using-namespace)

const std::map<std::string, FileFormat> kFormats = {
    {"auto", FileFormat::by_name},         {"paper", FileFormat::paper_binary},
    {"gemini", FileFormat::gemini_binary}, {"gemini-weighted", FileFormat::gemini_weighted},
    {"el", FileFormat::edge_list},         {"wel", FileFormat::weighted_edge_list},
    {"mtx", FileFormat::matrix_market},    {"gr", FileFormat::dimacs}};
const std::map<std::string, Weights> kWeights = {
    {"none", Weights::none}, {"file", Weights::file}, {"hash", Weights::hash}};

// CLI's own check for names speaks of the numbers behind them as well.
template <class Value>
CLI::Validator one_of(const std::map<std::string, Value>& values) {
  const std::string names = CLI::detail::generate_map(values, true);
  return {[values, names](std::string& text) -> std::string {
            const auto found = values.find(text);
            if (found == values.end())
              return "expected one of " + names + ", found \"" + text + "\"";
            text = std::to_string(static_cast<int>(found->second));
            return {};
          },
          names};
}

// CLI's own check takes what is no number at all (nan) for one.
std::string from_zero(const std::string& text) {
  double value = 0;
  if (CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value >= 0) return {};
  return "expected a number from 0, found \"" + text + "\"";
}

// CLI itself wraps what is negative or too large.
std::string vertex_id(const std::string& text) {
  if (!text.empty() && text.size() <= 19 &&
      text.find_first_not_of("0123456789") == std::string::npos)
    return {};
  return "expected a vertex id, found \"" + text + "\"";
}

// Several values in one word, so that a file's name may stand behind it.
CLI::Option* one_word(CLI::Option* option) {
  return option->allow_extra_args(false)->expected(1)->delimiter(',')->take_all();
}

// The options of a command that are in the arguments.
GivenOptions given_options(const CLI::App& command) {
  GivenOptions given;
  for (const CLI::Option* option : command.get_options())
    if (option->count() > 0) given.insert(option->get_name());
  return given;
}

void add_file(CLI::App* command, std::string& graph, LoadOptions& load) {
  command->add_option("graph", graph, "the graph's file")->required();
  command->add_option("--format", load.format, "what the file is; auto: by its name")
      ->transform(one_of(kFormats))
      ->default_str("auto");
  command->add_flag("--undirected", load.undirected, "edges lead both ways");
  command->add_flag(
      "--cache", load.cache,
      "reads GRAPH.weft-cache, which is written if it is not there or not up to date");
}

// How processes share the graph, and their threads.
void add_shares(CLI::App* command, LoadOptions& load) {
  command
      ->add_option("--threads", load.threads, "threads of each process; 0: its share of the cores")
      ->check(CLI::Range(0, transport::kMaxThreads));
  command
      ->add_option(
          "--alpha", load.alpha,
          "what a vertex counts against an edge in the cut; 0: max(1, |E| / |V|), but 1 for "
          "pagerank and wcc by vertex program")
      ->check(from_zero);
  command->add_flag("!--no-bind", load.bind_threads, "threads run on any core");
  command->add_flag("--equal-cut", load.equal_cut, "as many vertices for each process");
  one_word(command->add_option("--shares", load.shares,
                               "edges of each process against the others', as 2,1"));
}

void add_algorithm(CLI::App* command, RunArguments& arguments) {
  arguments.load.weights = Weights::file;
  add_file(command, arguments.graph, arguments.load);
  const std::string& name = arguments.algorithm;
  if (name == "sssp")
    command
        ->add_option("--weights", arguments.load.weights,
                     "of edges: those of the file, 1, or hashed")
        ->transform(one_of(kWeights))
        ->default_str("file");
  if (name == "bfs" || name == "sssp") {
    one_word(command->add_option("--source", arguments.sources,
                                 "vertices to start from, one after the other, as 0,5"))
        ->check(vertex_id);
    command->add_option("--sources", arguments.sources_file, "a file of such");
  }
  if (name == "pagerank") {
    command->add_option("--iterations", arguments.pagerank.iterations, "at most so many")
        ->check(CLI::Range(1u, ~0u))
        ->capture_default_str();
    command
        ->add_option("--tolerance", arguments.pagerank.tolerance,
                     "ends when all vertices together change by less")
        ->check(from_zero);
  }
  command->add_option("--out-format", arguments.out_format, "of --out: text or binary")
      ->transform(one_of(std::map<std::string, ResultFormat>{{"text", ResultFormat::text},
                                                             {"binary", ResultFormat::binary}}))
      ->default_str("text");
}

void add_run(CLI::App* command, RunArguments& arguments) {
  add_algorithm(command, arguments);
  add_shares(command, arguments.load);
  command->add_option("--out", arguments.out,
                      "results by vertex; of several sources with .SOURCE behind it");
  command->add_flag("--json", arguments.json, "prints JSON");
  command->add_option("--checkpoint", arguments.checkpoint,
                      "a file for what is known now and then, to go on from");
  command->add_option("--checkpoint-every", arguments.checkpoint_every, "steps between checkpoints")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  command->add_option("--resume", arguments.resume, "goes on from this checkpoint");
  command->add_option("--repeat", arguments.repeat, "runs; the median of their times is printed")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--mode", arguments.run.mode,
                   "paper: a vertex program; push: no second copy of the edges; auto: the fastest")
      ->transform(one_of(std::map<std::string, Mode>{{"paper", Mode::paper},
                                                     {"push", Mode::push},
                                                     {"pull", Mode::pull},
                                                     {"auto", Mode::automatic}}))
      ->default_str("auto");
  command
      ->add_option("--combine", arguments.run.step.combine,
                   "one message for a changed mirror, or for each edge")
      ->transform(one_of(
          std::map<std::string, Combine>{{"mirror", Combine::mirrors}, {"edge", Combine::edges}}))
      ->default_str("mirror");
  command
      ->add_option("--schedule", arguments.run.step.schedule,
                   "threads grab active vertices, steal those of others, or have fixed shares")
      ->transform(one_of(std::map<std::string, Schedule>{
          {"grab", Schedule::grab}, {"steal", Schedule::steal}, {"fixed", Schedule::fixed}}))
      ->default_str("grab");
  transport::ExchangeSettings& exchange = arguments.run.step.exchange;
  command->add_option("--block", exchange.block_messages, "mode paper: messages sent together")
      ->check(CLI::Range(1, 1 << 12))
      ->capture_default_str()
      ->each([&](const std::string&) { exchange.block_bytes = std::size_t{1} << 16; });
  command
      ->add_option("--pairing", exchange.pairing,
                   "mode paper: a thread has a lane to each process, or to each of its threads")
      ->transform(one_of(std::map<std::string, transport::Pairing>{
          {"machine", transport::Pairing::thread_to_machine},
          {"thread", transport::Pairing::thread_to_thread}}))
      ->default_str("machine");
  MigrationOptions& migration = arguments.run.step.migration;
  command->add_flag("--migrate", migration.enabled,
                    "mode paper: processes that are done take active vertices of others");
  command->add_option("--migrate-block", migration.block, "of them, for each thread at once")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command->add_option("--migrate-threshold", migration.threshold, "none are taken of fewer")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  command
      ->add_option("--migrate-cache", migration.cached_rows,
                   "vertices of others whose edges are kept; 0: none")
      ->capture_default_str();
  command->add_option("--grain", arguments.run.step.grain, "vertices that a thread grabs at once")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
}

// Whether all ranks know of it, as they agree about what users give.
bool is_of_input(const Status& status) {
  return status == Code::bad_argument || status == Code::corrupt || status == Code::unsupported ||
         status == Code::not_found || status == Code::not_permitted;
}

// One line, from one process, whose exit status is the job's: a launcher reports every other that
// ends with one. Ranks that died cannot be the one.
int report(const transport::Job* job, const Status& status) {
  int speaker = 0;
  while (job != nullptr && speaker < job->rank() && !job->is_alive(speaker)) ++speaker;
  const bool speaks = job == nullptr || speaker == job->rank();
  if (speaks) std::fprintf(stderr, "weft-graph: %s\n", status.text().c_str());
  if (!speaks && is_of_input(status)) return 0;
  return status == Code::peer_lost ? 1 : 2;
}

// Rank 0's word on a terminal or in a log, once a second.
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

// Becomes the program that repeats the paper's experiments: it starts this one many times, with
// many processes. Returns if it cannot.
int become_paper(const std::vector<std::string>& arguments) {
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
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
  CLI::App app{"Graph algorithms over files, by one process or by many under weftrun"};
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default(false);

  const char* const kAlgorithms[][2] = {{"bfs", "distances in edges from a vertex, and parents"},
                                        {"sssp", "shortest paths from a vertex"},
                                        {"pagerank", "PageRank"},
                                        {"wcc", "weakly connected components"}};
  std::map<std::string, RunArguments> runs;
  std::map<std::string, VerifyArguments> verifications;
  CLI::App* const verify = app.add_subcommand("verify", "checks a result by a serial computation");
  verify->require_subcommand(1);
  for (const auto& [name, about] : kAlgorithms) {
    runs[name].algorithm = name;
    add_run(app.add_subcommand(name, about), runs[name]);
    VerifyArguments& arguments = verifications[name];
    arguments.run.algorithm = name;
    CLI::App* const command = verify->add_subcommand(name, about);
    add_algorithm(command, arguments.run);
    command->add_option("result", arguments.result, "the file that --out wrote")->required();
  }

  ConvertArguments conversion;
  CLI::App* const convert_command =
      app.add_subcommand("convert", "writes a graph in another format");
  convert_command->add_option("from", conversion.from, "the graph's file")->required();
  convert_command->add_option("to", conversion.to, "the new file")->required();
  convert_command->add_option("--from-format", conversion.from_format, "what the file is")
      ->transform(one_of(kFormats));
  convert_command->add_option("--format", conversion.to_format, "what the new file is to be")
      ->transform(one_of(kFormats));
  convert_command->add_option("--weights", conversion.weights, "of the file, 1, or hashed")
      ->transform(one_of(kWeights));

  GenerateArguments generation;
  CLI::App* const generate_command = app.add_subcommand("generate", "makes up a graph");
  generate_command->add_option("kind", generation.kind, "rmat or grid")
      ->required()
      ->check(CLI::IsMember({"rmat", "grid"}));
  generate_command->add_option("to", generation.to, "the new file")->required();
  generate_command->add_option("--format", generation.format, "what it is to be")
      ->transform(one_of(kFormats));
  generate_command->add_option("--scale", generation.scale, "rmat: 2^scale vertices")
      ->check(CLI::Range(1, 31))
      ->capture_default_str();
  generate_command->add_option("--edge-factor", generation.edge_factor, "rmat: edges for a vertex")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  generate_command->add_option("--seed", generation.seed, "rmat")->capture_default_str();
  generate_command->add_flag("--permute", generation.permute, "rmat: vertices have random numbers");
  generate_command->add_option("--width", generation.width, "grid")
      ->check(CLI::Range(1, 60000))
      ->capture_default_str();
  generate_command->add_option("--height", generation.height, "grid")
      ->check(CLI::Range(1, 60000))
      ->capture_default_str();

  InfoArguments info;
  CLI::App* const info_command = app.add_subcommand("info", "numbers about a graph and its cut");
  add_file(info_command, info.graph, info.load);
  add_shares(info_command, info.load);
  info_command->add_flag("--json", info.json, "prints JSON");

  CLI::App* const paper_command = app.add_subcommand(
      "paper", "repeats the RGraph paper's experiments here, with pictures (paper --help)");
  paper_command->prefix_command()->set_help_flag();

  Status wrong_arguments;
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    wrong_arguments = {Code::bad_argument, std::string(error.what()) + " (see --help)"};
  }

  if (wrong_arguments.ok() && *paper_command) return become_paper(paper_command->remaining());

  std::unique_ptr<transport::Job> job;
  try {
    job = std::make_unique<transport::Job>();
    if (!wrong_arguments.ok()) return report(job.get(), wrong_arguments);
    Reporter reporter(job->rank() == 0);
    const auto progress = [&](const char* what, double share) { reporter.load(what, share); };
    Status status;
    conversion.given = given_options(*convert_command);
    generation.given = given_options(*generate_command);
    info.given = given_options(*info_command);
    if (*convert_command) status = convert(*job, conversion);
    if (*generate_command) status = generate(*job, generation);
    const auto note = [&](const std::string& text) {
      std::fprintf(stderr, "weft-graph: %s\n", text.c_str());
    };
    info.load.progress = progress;
    if (*info_command) status = show_info(*job, info);
    for (auto& [name, arguments] : runs) {
      if (!*app.get_subcommand(name)) continue;
      arguments.load.progress = progress;
      arguments.load.note = note;
      arguments.given = given_options(*app.get_subcommand(name));
      arguments.run.progress = [&](const char* what, std::uint64_t step) {
        reporter.step(what, step);
      };
      status = run_algorithm(*job, arguments);
    }
    for (auto& [name, arguments] : verifications)
      if (*verify && *verify->get_subcommand(name)) status = verify_result(*job, arguments);
    if (status.ok() && (std::fflush(stdout) != 0 || std::ferror(stdout) != 0))
      status = {Code::not_permitted,
                std::string("cannot print the result: ") + std::strerror(errno)};
    return status.ok() ? 0 : report(job.get(), status);
  } catch (const Error& error) {
    return report(job.get(), error.status());
  } catch (const std::bad_alloc&) {
    // Of this process alone: the others do not know.
    std::fprintf(stderr, "weft-graph: not enough memory\n");
    return 2;
  }
}
