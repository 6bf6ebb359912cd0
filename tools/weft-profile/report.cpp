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
#include <utility>
#include <vector>

#include "counts.hpp"
#include "matrix.hpp"
#include "mpi.h"

namespace weft::profile {
namespace {

using nlohmann::json;

constexpr std::size_t kMostLines = 30;  // of the table; the file has all lines

std::atomic<bool> counting{false};
std::uint64_t started_ns = 0;
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
  return part;
}

// Gathers all processes' parts at rank 0, in rank order. Throws std::runtime_error if that fails.
// Null: this process has none and sends an empty one, as the others wait for it.
std::vector<json> gather(const json& own, int rank, int size) {
  const auto check = [](int code) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    PMPI_Error_string(code, text, &length);
    throw std::runtime_error(text);
  };
  PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  std::string text;
  try {
    text = text_of(own);
  } catch (const std::bad_alloc&) {
    // The first process finds the part empty.
  }
  MPI_Comm comm;
  check(PMPI_Comm_dup(MPI_COMM_WORLD, &comm));
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
  std::size_t first = 0;  // the rank of the first process here
};

Summary sum_up(const std::vector<json>& parts, std::size_t first = 0) {
  Summary summary;
  summary.first = first;
  std::map<std::pair<std::string, std::string>, Line> lines;
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
  }
  for (auto& [key, line] : lines) summary.lines.push_back(std::move(line));
  std::stable_sort(summary.lines.begin(), summary.lines.end(),
                   [](const Line& a, const Line& b) { return a.ns > b.ns; });
  return summary;
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
  write(std::string(out) + ".svg", picture(summary.matrix, program_name));
}

}  // namespace

bool is_counting() noexcept { return counting.load(std::memory_order_relaxed); }
void set_counting(bool wanted) noexcept {
  if (started_ns != 0) counting.store(wanted, std::memory_order_relaxed);
}

void begin(const char* program) {
  int size = 0;
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  program_name = program;
  program_name.erase(0, program_name.find_last_of('/') + 1);
  started_ns = now_ns();
  try {
    begin_world(size);
    set_counting(true);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "weft-profile: no memory for {} processes: nothing is counted\n", size);
  }
}

void report() {
  if (started_ns == 0) return;
  counting.store(false, std::memory_order_relaxed);
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
    const std::vector<json> parts = gather(own, rank, size);
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
