// weft-offload: computes where allreduce by switches pays, by the model of
// coll/offload/choice/model.hpp. Exit status: 0, 1 if nothing could be drawn, 2 for bad arguments.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "coll/offload/choice/model.hpp"
#include "coll/offload/choice/paper_tables.hpp"
#include "tools/cli/cli.hpp"

namespace {

using namespace weft::offload;  // NOLINT(google-build-using-namespace): a program's main file

constexpr const char* kNames[] = {"hosts", "node", "socket", "hierarchy"};

void print_check() {
  fmt::print(
      "16 nodes, predicted by costs fitted to the paper's 4 and 9 nodes, and measured (us)\n"
      "processes  bytes |   hosts           |   node            |   socket\n");
  std::vector<double> errors;
  for (std::size_t i = 0; i < 3; ++i)
    for (const PaperRow& row : kPaperRows) {
      if (row.nodes != 16) continue;
      fmt::print("{:9}  {:5}", kPaperProcesses[i], row.bytes);
      for (std::size_t method = 0; method < 3; ++method) {
        const double measured = row.us[method * 3 + i];
        const double us =
            predict_us(static_cast<Method>(method), {16, kPaperProcesses[i], row.bytes});
        errors.push_back(std::abs(us / measured - 1));
        fmt::print(" | {:5.2f} {:5.2f} {:+4.0f} %", us, measured, (us / measured - 1) * 100);
      }
      fmt::print("\n");
    }
  std::sort(errors.begin(), errors.end());
  fmt::print("error: median {:.1f} %, worst {:.1f} %\n\n", errors[errors.size() / 2] * 100,
             errors.back() * 100);
}

// What Node mode gains in a call of 8 bytes by the paper's cells; between those of 8, 32 and 64
// processes, and below them, on the straight line through the nearest two.
double measured_gain_us(int nodes, int processes) {
  for (const PaperRow& row : kPaperRows) {
    if (row.nodes != nodes || row.bytes != 8) continue;
    const std::size_t i = processes <= kPaperProcesses[1] ? 0 : 1;
    const double gain = row.us[i] - row.us[3 + i];
    const double next_gain = row.us[i + 1] - row.us[3 + i + 1];
    return gain + (next_gain - gain) * (processes - kPaperProcesses[i]) /
                      (kPaperProcesses[i + 1] - kPaperProcesses[i]);
  }
  return 0;
}

// The number of the application's calls follows from its gain on 9 nodes, and is taken for that on
// 16. A gain is a small difference of two times: where they differ by a tenth, fitted ones that are
// right within 5 % may give twice the gain, so the cells themselves stand beside the model.
void print_application() {
  constexpr std::size_t kBytes = 8;  // a scalar product
  fmt::print(
      "OpenFOAM on 16 nodes: what switches gain, from the share of allreduce on 9 nodes, by the "
      "model and\nby the paper's times of allreduce themselves, and measured\n"
      "processes | million calls: model  times | gain: model   times  measured\n");
  for (const PaperApplication& row : kPaperApplication) {
    const auto gained_us = [&row](int nodes) {
      const Case given = {nodes, row.processes, kBytes};
      return predict_us(Method::hosts, given) - predict_us(Method::node, given);
    };
    const double gained_s = row.hosts_9 - row.switches_9;
    const double calls = gained_s / gained_us(9);  // million
    const double calls_by_times = gained_s / measured_gain_us(9, row.processes);
    fmt::print("{:9} | {:20.1f}  {:5.1f} | {:9.1f} %  {:4.1f} %     {:3.1f} %\n", row.processes,
               calls, calls_by_times, calls * gained_us(16) / row.hosts_16 * 100,
               calls_by_times * measured_gain_us(16, row.processes) / row.hosts_16 * 100,
               (1 - row.switches_16 / row.hosts_16) * 100);
  }
  fmt::print("\n");
}

constexpr int kMostNodes = 10'000;

// The number of nodes from which on a method by switches is faster; 0: not up to kMostNodes.
int pays_from(Method method, Method hosts, int processes, std::size_t bytes) {
  for (int nodes = 2; nodes <= kMostNodes; ++nodes)
    if (predict_us(method, {nodes, processes, bytes}) <
        predict_us(hosts, {nodes, processes, bytes}))
      return nodes;
  return 0;
}

void print_pays() {
  fmt::print(
      "from how many nodes on switches are faster than hosts, all of whose processes exchange, "
      "and\n"
      "than a hierarchy, whose leaders alone do (-: not up to 10000)\n"
      "processes  bytes | node: hosts  hierarchy | socket: hosts  hierarchy\n");
  const auto text = [](int nodes) { return nodes == 0 ? "-" : std::to_string(nodes); };
  for (const int processes : {2, 8, 32, 64, 128})
    for (const std::size_t bytes : {8, 256, 1024})
      fmt::print("{:9}  {:5} | {:>11}  {:>9} | {:>13}  {:>9}\n", processes, bytes,
                 text(pays_from(Method::node, Method::hosts, processes, bytes)),
                 text(pays_from(Method::node, Method::hierarchy, processes, bytes)),
                 text(pays_from(Method::socket, Method::hosts, processes, bytes)),
                 text(pays_from(Method::socket, Method::hierarchy, processes, bytes)));
}

// The switches that a group of so many leaders takes, with 64 children each, and its time.
void print_large() {
  fmt::print(
      "\nlarge fabrics: 64 processes a node, 8 bytes, and the switches of 64 children that join "
      "the "
      "nodes'\nleaders; a third level is reckoned, as nothing was measured with one\n"
      "nodes | switches  spines  above them |     hosts  hierarchy      node    socket (us)\n");
  constexpr int kChildren = 64;
  const auto above = [](int below) { return (below + kChildren - 1) / kChildren; };
  for (const int nodes : {16, 64, 256, 1024, 4096, kMostNodes}) {
    const int tors = above(nodes), spines = tors > 1 ? above(tors) : 0;
    const auto us = [nodes](Method method) { return predict_us(method, {nodes, 64, 8}); };
    fmt::print("{:5} | {:8}  {:6}  {:10} | {:9.2f}  {:9.2f} {:9.2f} {:9.2f}\n", nodes, tors, spines,
               spines > 1 ? above(spines) : 0, us(Method::hosts), us(Method::hierarchy),
               us(Method::node), us(Method::socket));
  }
}

int draw(const std::string& file) {
  if (file.find_first_of("'\n") != std::string::npos) {
    fmt::print(stderr, "weft-offload: a file's name may not hold ' or a line's end\n");
    return 2;
  }
  FILE* plot = popen("gnuplot", "w");
  if (plot == nullptr) {
    fmt::print(stderr, "weft-offload: gnuplot cannot be started: is it installed?\n");
    return 1;
  }
  fmt::print(plot,
             "set terminal svg size 900,360\nset output '{}'\nset logscale x 2\nset key left top\n"
             "set xlabel 'nodes'\nset ylabel 'us'\nset multiplot layout 1,3\n",
             file);
  for (std::size_t i = 0; i < 3; ++i) {
    const int processes = kPaperProcesses[i];
    fmt::print(plot, "set title '{} processes a node, 256 bytes'\nplot ", processes);
    for (int method = 0; method < 4; ++method)
      fmt::print(plot, "'-' with lines title '{}'{}", kNames[method], method < 3 ? ", " : "");
    for (int method = 0; method < 3; ++method)
      fmt::print(plot, ", '-' with points lt {} notitle", method + 1);
    fmt::print(plot, "\n");
    for (int method = 0; method < 4; ++method) {
      for (int nodes = 2; nodes <= 64; nodes += 1)
        fmt::print(plot, "{} {}\n", nodes,
                   predict_us(static_cast<Method>(method), {nodes, processes, 256}));
      fmt::print(plot, "e\n");
    }
    for (std::size_t method = 0; method < 3; ++method) {
      for (const PaperRow& row : kPaperRows)
        if (row.bytes == 256) fmt::print(plot, "{} {}\n", row.nodes, row.us[method * 3 + i]);
      fmt::print(plot, "e\n");
    }
  }
  if (pclose(plot) == 0) return 0;
  fmt::print(stderr, "weft-offload: gnuplot could not draw {}\n", file);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  weft::cli::Command app("weft-offload", "When allreduce by switches pays.");
  app.requires_command();
  auto& simulate = app.command(
      "simulate", "predict times on the paper's hosts, links and switches, and where switches pay");
  Case given;
  std::string plot;
  const weft::cli::Option nodes =
      simulate.option("--nodes", given.nodes, "of one case alone").range(1, 1 << 20);
  simulate.option("--processes", given.processes, "of a node").needs(nodes).range(1, 1 << 16);
  simulate.option("--bytes", given.bytes, "of the vector").needs(nodes);
  simulate.option("--plot", plot, "an SVG file to draw (by gnuplot)");
  if (const auto status = app.parse(argc, argv)) return *status;
  if (nodes.is_given()) {
    for (int method = 0; method < 4; ++method)
      fmt::print("{:9} {:8.2f} us\n", kNames[method],
                 predict_us(static_cast<Method>(method), given));
    return 0;
  }
  print_check();
  print_application();
  print_pays();
  print_large();
  return plot.empty() ? 0 : draw(plot);
}
