#include "report.hpp"

#include <fmt/core.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms.hpp"
#include "counts.hpp"
#include "exchange.hpp"
#include "matrix.hpp"
#include "mpi.h"
#include "waiting.hpp"

namespace weft::profile {
namespace {

using nlohmann::json;

constexpr std::size_t kMostLines = 30;  // of the table; the file has all lines
constexpr std::size_t kMostWaits = 10;

std::atomic<bool> counting{false};
std::uint64_t started_ns = 0;
Comparison clocks_at_begin;
std::string program_name;

// Writes JSON as text. Names of communicators are the program's, in any encoding.
std::string text_of(const json& value, int indent = -1) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

// Makes the part that one process sends to the first.
json own_part() {
  json part;
  part["ns"] = now_ns() - started_ns;
  part["lines"] = json::array();
  for (const Line& line : lines())
    part["lines"].push_back(
        {line.function, line.communicator, line.calls, line.ns, line.longest_ns, line.bytes});
  part["sent"] = json::array();
  const std::vector<Sent> row = sent();
  for (std::size_t to = 0; to < row.size(); ++to)
    if (row[to].messages != 0) part["sent"].push_back({to, row[to].messages, row[to].bytes});
  part["algorithms"] = json::array();
  for (const AlgorithmUse& use : algorithms_used())
    part["algorithms"].push_back({use.collective, use.algorithm, use.calls, use.bytes});
  part["joined"] = json::array();
  for (const Joined& one : joined())
    part["joined"].push_back(
        {one.function, one.communicator, one.group, one.root, one.calls, one.ns});
  part["waits"] = json::array();
  return part;
}

void add_waits(json& part, const OwnWaits& own, std::uint64_t num_left_out) {
  for (const auto& [key, waited] : own.waits.by_peer)
    part["waits"].push_back({key.first,
                             key.second == Reason::late_sender ? "late sender" : "late receiver",
                             waited.ns, waited.calls, waited.blocked_ns});
  part["paired"] = {own.waits.num_paired, own.waits.num_unpaired, num_left_out, own.clock_error_ns};
}

// Gathers all processes' parts at rank 0, in rank order. Throws std::runtime_error if that fails.
// Null: this process has none and sends an empty one, as the others wait for it.
std::vector<json> gather(json& own, Log log, int rank, int size) {
  const auto check = [](int code) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    PMPI_Error_string(code, text, &length);
    throw std::runtime_error(text);
  };
  PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm comm;
  check(PMPI_Comm_dup(MPI_COMM_WORLD, &comm));
  std::string text;
  try {
    const std::uint64_t num_left_out = log.num_left_out;
    OwnWaits waits;
    const int code = exchange(comm, std::move(log), clocks_at_begin, waits);
    if (code != MPI_ERR_NO_MEM) check(code);  // else all do without
    if (code == MPI_SUCCESS && !own.is_null()) add_waits(own, waits, num_left_out);
    text = text_of(own);
  } catch (const std::bad_alloc&) {
    // The first process finds the part empty.
  }
  const MPI_Count length = static_cast<MPI_Count>(text.size());
  const auto count = static_cast<std::size_t>(rank == 0 ? size : 0);
  std::vector<MPI_Count> lengths(count);
  std::vector<MPI_Aint> starts(count + 1);
  check(PMPI_Gather(&length, 1, MPI_COUNT, lengths.data(), 1, MPI_COUNT, 0, comm));
  for (std::size_t i = 0; i < count; ++i) starts[i + 1] = starts[i] + lengths[i];
  std::string all(static_cast<std::size_t>(starts[count]), '\0');
  check(PMPI_Gatherv_c(text.data(), length, MPI_CHAR, all.data(), lengths.data(), starts.data(),
                       MPI_CHAR, 0, comm));
  PMPI_Comm_free(&comm);
  std::vector<json> parts;
  for (std::size_t i = 0; i < count; ++i) {
    parts.push_back(
        json::parse(all.begin() + starts[i], all.begin() + starts[i + 1], nullptr, false));
    if (!parts.back().is_object())
      throw std::runtime_error(fmt::format("rank {} had no memory to report its calls", i));
  }
  return parts;
}

struct Summary {
  std::vector<Line> lines;          // over all processes, the longest first
  std::vector<double> s, in_mpi_s;  // by rank
  Matrix matrix;
  Waiting waiting;
  std::vector<AlgorithmUse> algorithms;
  std::size_t first = 0;  // the rank of the first process here
};

// Collectives by function, members and root.
using Groups = std::map<std::tuple<std::string, std::uint64_t, int>, Collective>;

// Adds one process's part.
void add_waiting(Waiting& waiting, std::size_t rank, const json& part, Groups& groups) {
  for (const json& one : part["waits"])
    waiting.messages.push_back({rank, one[0].get<std::size_t>(), one[1], one[2].get<double>() / 1e9,
                                one[4].get<double>() / 1e9, one[3].get<std::uint64_t>()});
  for (const json& one : part["joined"]) {
    const int root = one[3];
    Collective& group = groups[{one[0], one[2].get<std::uint64_t>(), root}];
    if (group.members.empty()) {
      group.function = one[0];
      group.communicator = one[1];
      if (root != kNoRoot) group.root = static_cast<std::size_t>(root);
    }
    group.members.push_back({rank, one[4].get<std::uint64_t>(), one[5].get<double>() / 1e9});
  }
  if (!part.contains("paired")) return;
  const json& paired = part["paired"];
  waiting.num_paired += paired[0].get<std::uint64_t>();
  waiting.num_unpaired += paired[1].get<std::uint64_t>();
  waiting.num_left_out += paired[2].get<std::uint64_t>();
  waiting.clock_error_us = std::max(waiting.clock_error_us, paired[3].get<double>() / 1e3);
}

Summary sum_up(const std::vector<json>& parts, std::size_t first = 0) {
  Summary summary;
  summary.first = first;
  std::map<std::pair<std::string, std::string>, Line> lines;
  std::map<std::pair<std::string, std::string>, AlgorithmUse> algorithms;
  Groups groups;
  summary.matrix.size = parts.size();
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    std::uint64_t in_mpi_ns = 0;
    for (const json& one : parts[rank]["lines"]) {
      Line& line = lines[{one[0], one[1]}];
      line.function = one[0];
      line.communicator = one[1];
      line.calls += one[2].get<std::uint64_t>();
      line.ns += one[3].get<std::uint64_t>();
      line.longest_ns = std::max(line.longest_ns, one[4].get<std::uint64_t>());
      line.bytes += one[5].get<std::uint64_t>();
      in_mpi_ns += one[3].get<std::uint64_t>();
    }
    summary.s.push_back(parts[rank]["ns"].get<double>() / 1e9);
    summary.in_mpi_s.push_back(static_cast<double>(in_mpi_ns) / 1e9);
    for (const json& one : parts[rank]["sent"])
      summary.matrix.cells.push_back({rank, one[0].get<std::size_t>(), one[1].get<std::uint64_t>(),
                                      one[2].get<std::uint64_t>()});
    for (const json& one : parts[rank]["algorithms"]) {
      AlgorithmUse& use = algorithms[{one[0], one[1]}];
      use.collective = one[0];
      use.algorithm = one[1];
      use.calls += one[2].get<std::uint64_t>();
      use.bytes += one[3].get<std::uint64_t>();
    }
    add_waiting(summary.waiting, rank, parts[rank], groups);
  }
  for (auto& [key, use] : algorithms) summary.algorithms.push_back(std::move(use));
  // A process alone knows of no others, and a root may belong to another job.
  for (auto& [key, group] : groups)
    if (group.members.size() > 1 &&
        (!group.root ||
         std::ranges::count(group.members, *group.root, &Collective::Member::rank) != 0))
      summary.waiting.collectives.push_back(std::move(group));
  for (auto& [key, line] : lines) summary.lines.push_back(std::move(line));
  std::stable_sort(summary.lines.begin(), summary.lines.end(),
                   [](const Line& a, const Line& b) { return a.ns > b.ns; });
  return summary;
}

// "allreduce: 1000 by recursive_doubling, 20 by ring"
std::string algorithm_lines(std::vector<AlgorithmUse> uses) {
  std::ranges::stable_sort(uses, [](const AlgorithmUse& a, const AlgorithmUse& b) {
    return a.collective != b.collective ? a.collective < b.collective : a.calls > b.calls;
  });
  std::string text;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const bool is_new = i == 0 || uses[i - 1].collective != uses[i].collective;
    if (is_new)
      text += fmt::format("{}  {}: ", i == 0 ? "algorithms:\n" : "\n", uses[i].collective);
    text += fmt::format("{}{} by {}", is_new ? "" : ", ", uses[i].calls, uses[i].algorithm);
  }
  return text.empty() ? text : text + '\n';
}

std::string table(const Summary& summary) {
  double all_s = 0, mpi_s = 0;
  std::size_t least = 0, most = 0;
  for (std::size_t i = 0; i < summary.s.size(); ++i) {
    all_s += summary.s[i];
    mpi_s += summary.in_mpi_s[i];
    if (summary.in_mpi_s[i] < summary.in_mpi_s[least]) least = i;
    if (summary.in_mpi_s[i] > summary.in_mpi_s[most]) most = i;
  }
  const auto percent = [&](double s, double of_s) { return of_s > 0 ? 100 * s / of_s : 0; };
  std::string text = fmt::format(
      "weft-profile: {}{}{} process{} for {:.3f} s; {:.1f} % of it in MPI: from {:.3f} s (rank {}) "
      "to {:.3f} s (rank {})\n",
      program_name, program_name.empty() ? "" : ", ", summary.s.size(),
      summary.s.size() == 1 ? "" : "es",
      summary.s.empty() ? 0 : *std::ranges::max_element(summary.s), percent(mpi_s, all_s),
      summary.in_mpi_s[least], summary.first + least, summary.in_mpi_s[most], summary.first + most);
  text +=
      fmt::format("  {:<26} {:<20} {:>10} {:>10} {:>6} {:>11} {:>11} {:>15}\n", "function",
                  "communicator", "calls", "seconds", "% MPI", "mean us", "longest us", "bytes");
  for (std::size_t i = 0; i < summary.lines.size() && i < kMostLines; ++i) {
    const Line& line = summary.lines[i];
    const double s = static_cast<double>(line.ns) / 1e9;
    text += fmt::format("  {:<26} {:<20} {:>10} {:>10.4f} {:>6.1f} {:>11.2f} {:>11.1f} {:>15}\n",
                        line.function, line.communicator, line.calls, s, percent(s, mpi_s),
                        s * 1e6 / static_cast<double>(line.calls),
                        static_cast<double>(line.longest_ns) / 1e3, line.bytes);
  }
  if (summary.lines.size() > kMostLines)
    text += fmt::format("  and {} more, which --out has\n", summary.lines.size() - kMostLines);
  text += algorithm_lines(summary.algorithms);
  text += wait_lines(summary.waiting, kMostWaits);
  return text;
}

json as_json(const Summary& summary) {
  json all;
  all["program"] = program_name;
  all["processes"] = summary.s.size();
  all["seconds"] = summary.s;
  all["seconds_in_mpi"] = summary.in_mpi_s;
  all["calls"] = json::array();
  for (const Line& line : summary.lines)
    all["calls"].push_back({{"function", line.function},
                            {"communicator", line.communicator},
                            {"calls", line.calls},
                            {"seconds", static_cast<double>(line.ns) / 1e9},
                            {"longest_us", static_cast<double>(line.longest_ns) / 1e3},
                            {"bytes", line.bytes}});
  all["messages"] = json::array();
  for (const Matrix::Cell& cell : summary.matrix.cells)
    all["messages"].push_back(
        {{"from", cell.from}, {"to", cell.to}, {"messages", cell.messages}, {"bytes", cell.bytes}});
  all["algorithms"] = json::array();
  for (const AlgorithmUse& use : summary.algorithms)
    all["algorithms"].push_back({{"collective", use.collective},
                                 {"algorithm", use.algorithm},
                                 {"calls", use.calls},
                                 {"bytes", use.bytes}});
  const Waiting& waiting = summary.waiting;
  all["waits"] = json::array();
  for (const WaitedFor& one : waiting.messages)
    all["waits"].push_back({{"rank", one.rank},
                            {"for", one.other},
                            {"reason", one.reason},
                            {"seconds", one.s},
                            {"calls", one.calls},
                            {"blocked_seconds", one.blocked_s}});
  all["collectives"] = json::array();
  for (const Collective& one : waiting.collectives) {
    json members = json::array();
    double waited_s = 0;
    for (const Collective::Member& member : one.members) {
      members.push_back({{"rank", member.rank}, {"calls", member.calls}, {"seconds", member.s}});
      waited_s += one.waited_s(member);
    }
    all["collectives"].push_back({{"function", one.function},
                                  {"communicator", one.communicator},
                                  {"last", one.last().rank},
                                  {"waited_seconds", waited_s},
                                  {"members", std::move(members)}});
  }
  all["pairing"] = {{"paired", waiting.num_paired},
                    {"unpaired", waiting.num_unpaired},
                    {"left_out", waiting.num_left_out},
                    {"clock_error_us", waiting.clock_error_us}};
  return all;
}

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
  fmt::print(stderr, "weft-profile: wrote {}\n", path);
}

void print(const Summary& summary) {
  fmt::print(stderr, "{}", table(summary));
  const char* out = getenv("WEFT_PROFILE_OUT");
  if (out == nullptr || *out == '\0') return;
  write(std::string(out) + ".json", text_of(as_json(summary), 1) + '\n');
  const Panel panels[] = {panel_of(summary.matrix, program_name), panel_of(summary.waiting)};
  write(std::string(out) + ".svg", picture(panels, summary.matrix.size));
}

}  // namespace

bool is_counting() noexcept { return counting.load(std::memory_order_relaxed); }
void set_counting(bool wanted) noexcept {
  if (started_ns == 0) return;
  counting.store(wanted, std::memory_order_relaxed);
  wanted ? resume_algorithms() : pause_algorithms();
}

void begin(const char* program) {
  int size = 0;
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  program_name = program;
  program_name.erase(0, program_name.find_last_of('/') + 1);
  // Another process may have ended by now, which is the program's own affair.
  MPI_Errhandler before;
  PMPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
  PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  (void)compare_clocks(MPI_COMM_WORLD, clocks_at_begin);
  PMPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
  PMPI_Errhandler_free(&before);
  started_ns = now_ns();
  try {
    begin_world(size);
    open_algorithms();
    begin_log();
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "weft-profile: no memory for {} processes: nothing is counted\n", size);
    return;
  }
  set_counting(true);
}

void report() {
  if (started_ns == 0) return;
  set_counting(false);
  Log log = end_log();
  end_world();
  int rank = 0, size = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  json own;
  try {
    try {
      own = own_part();
    } catch (const std::bad_alloc&) {
      // Go on without a part: the others wait for this process.
    }
    close_algorithms();
    const std::vector<json> parts = gather(own, std::move(log), rank, size);
    if (rank == 0) print(sum_up(parts));
  } catch (const std::exception& error) {
    fmt::print(stderr, "weft-profile: rank {}: {}; only its own calls follow\n", rank,
               error.what());
    try {
      if (!own.is_null())
        fmt::print(stderr, "{}", table(sum_up({own}, static_cast<std::size_t>(rank))));
    } catch (const std::exception&) {
      // There is no memory to say more.
    }
  }
}

}  // namespace weft::profile
