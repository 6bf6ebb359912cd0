#include "checkpoints.hpp"

#include <sys/stat.h>

#include <charconv>
#include <ctime>
#include <filesystem>

#include "graph/common/agree.hpp"

namespace weft::graph {
namespace {

// What decides on the result, beside the graph: an option that does so stands here. The number of
// iterations does not, as a state is the same whatever comes after it.
std::string run_of(const RunArguments& arguments, const std::vector<VertexId>& sources) {
  constexpr std::size_t kShown = 20;
  std::string text = arguments.algorithm;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (i < kShown) text.append(i == 0 ? " --source " : ",").append(std::to_string(sources[i]));
    sum = sum * 6364136223846793005ull + sources[i] + 1;
  }
  if (sources.size() > kShown)
    text += ",... (" + std::to_string(sources.size()) + ", hash " + std::to_string(sum) + ")";
  const auto add_number = [&](const char* option, double value) {
    char number[40];
    *std::to_chars(number, number + sizeof number - 1, value).ptr = '\0';  // the shortest
    text.append(option).append(number);
  };
  if (arguments.algorithm == "pagerank") {
    const PageRankOptions& rules = arguments.pagerank;
    if (rules.tolerance > 0) add_number(" --tolerance ", rules.tolerance);
    if (rules.damping != kDamping) add_number(" --damping ", rules.damping);
    if (rules.normalized) text += " --normalized";
    if (rules.single) text += " --single";
  }
  if (arguments.algorithm == "betweenness" && !arguments.betweenness.scaled) text += " --unscaled";
  // Without, they are not counted for each vertex.
  if (arguments.algorithm == "triangles" && !arguments.out.empty()) text += " --out";
  // A search that has ended has written its result, and does not do so again.
  if (has_search_of_each(arguments.algorithm) && sources.size() > 1 && !arguments.out.empty()) {
    text.append(" --out ").append(arguments.out);
    if (arguments.out_format == ResultFormat::binary) text += " --out-format binary";
  }
  return text;
}

std::string time_of(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return "?";
  char text[40];
  std::tm local{};
  localtime_r(&found.st_mtime, &local);
  return std::strftime(text, sizeof text, "%F %T", &local) > 0 ? text : "?";
}

}  // namespace

std::string checkpoint_path(const RunArguments& arguments) {
  std::error_code failed;
  const std::filesystem::path given = arguments.checkpoint;
  if (!std::filesystem::is_directory(given, failed)) return arguments.checkpoint;
  return given / (arguments.algorithm + ".checkpoint");
}

Checkpoints::Checkpoints(const Graph& graph, const RunArguments& arguments,
                         const std::vector<VertexId>& sources, std::vector<Parts> columns)
    : graph_(graph),
      arguments_(arguments),
      path_(checkpoint_path(arguments)),
      columns_(std::move(columns)) {
  if (!path_.empty()) key_ = checkpoint_key(graph, run_of(arguments, sources));
}

void Checkpoints::load(const std::function<bool(VertexId, std::uint32_t)>& is_possible) {
  if (path_.empty()) return;
  Status status = load_checkpoint(graph_, key_, path_, columns_, progress_);
  if (status == Code::not_found) return;
  throw_if(status);
  const std::uint32_t step = progress_.step;
  const std::uint32_t last = arguments_.algorithm == "pagerank" ? arguments_.pagerank.iterations
                             : arguments_.algorithm == "cdlp"   ? arguments_.cdlp.iterations
                                                                : step;
  if (step > last)
    throw Error({Code::bad_argument, path_ + ": is of iteration " + std::to_string(step) +
                                         ", and --iterations is " + std::to_string(last) +
                                         ": name another file, or remove this one"});
  // The columns of a search that has not begun are those of the one before.
  for (VertexId v = graph_.first(); v < graph_.last() && step > 0 && status.ok(); ++v)
    if (!is_possible(v, step))
      status = {Code::corrupt,
                path_ + ": vertex " + std::to_string(v) + " has an impossible value"};
  throw_together(graph_.job(), status);
  if (graph_.job().rank() == 0) note_start();
}

void Checkpoints::note_start() const {
  std::string text = "goes on from " + path_ + " of " + time_of(path_) + ", after ";
  if (progress_.num_ended > 0)
    text += std::to_string(progress_.num_ended) + " source" + (progress_.num_ended == 1 ? "" : "s");
  if (progress_.num_ended > 0 && progress_.step > 0) text += " and ";
  if (progress_.step > 0) text += "step " + std::to_string(progress_.step);
  if (arguments_.load.note) arguments_.load.note(text + "; remove the file to begin anew");
}

RunOptions Checkpoints::options() {
  RunOptions options = arguments_.run;
  if (path_.empty()) return options;
  options.resume_step = progress_.step;
  options.wants_save = [this](std::uint32_t) { return is_due(); };
  options.save = [this](std::uint32_t step) { save(step); };
  return options;
}

void Checkpoints::search_ended(std::string found, bool is_last) {
  if (path_.empty()) return;
  ++progress_.num_ended;
  progress_.found = std::move(found);
  progress_.step = 0;
  if (!is_last && is_due()) save(0);
}

// By rank 0's clock.
bool Checkpoints::is_due() {
  if (arguments_.checkpoint_every == 0) return true;
  std::uint32_t due =
      graph_.job().rank() == 0 && std::chrono::steady_clock::now() - saved_ >=
                                      std::chrono::seconds(arguments_.checkpoint_every)
          ? 1
          : 0;
  throw_if(graph_.job().all_reduce(due, transport::Max()));
  return due > 0;
}

void Checkpoints::save(std::uint32_t step) {
  progress_.step = step;
  throw_if(save_checkpoint(graph_, key_, progress_, path_, columns_));
  saved_ = std::chrono::steady_clock::now();
}

}  // namespace weft::graph
