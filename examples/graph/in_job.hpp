#pragma once
// What vertex programs share: a job with one message for an error, and results as text.
#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>
#include <string>

#include "weft/graph.hpp"

// body(job). A graph that cannot be loaded is an error on all ranks alike: rank 0 reports it, and
// its exit status, 2, is the job's. When a rank is lost, each that lives ends with 1.
template <class Body>
int in_job(const char* program, Body&& body) {
  try {
    weft::transport::Job job;
    try {
      body(job);
      return 0;
    } catch (const weft::Error& error) {
      const bool is_lost = error.status() == weft::Code::peer_lost;
      if (is_lost || job.rank() == 0) std::fprintf(stderr, "%s: %s\n", program, error.what());
      return is_lost ? 1 : job.rank() == 0 ? 2 : 0;
    }
  } catch (const weft::Error& error) {
    std::fprintf(stderr, "%s: cannot join the job: %s\n", program, error.what());
    return 1;
  }
}

inline void check_usage(bool is_right, const char* usage) {
  if (!is_right) throw weft::Error({weft::Code::bad_argument, std::string("usage: ") + usage});
}

// Each rank writes its own vertices, a line "vertex value" each, to PATH.RANK: one behind the other
// these are a result as weft-graph verify reads it. Collective.
template <class T>
void write_values(const weft::graph::Graph& graph, const weft::graph::VertexArray<T>& values,
                  const std::string& path) {
  std::ofstream out(path + "." + std::to_string(graph.job().rank()));
  out.precision(std::numeric_limits<double>::max_digits10);
  for (weft::graph::VertexId v = graph.first(); v < graph.last(); ++v)
    out << v << ' ' << values[v] << '\n';
  out.close();
  // An error is one of all ranks.
  int num_failed = out ? 0 : 1;
  const weft::Status status = graph.job().all_reduce(num_failed, std::plus<>());
  if (!status.ok()) throw weft::Error(status);
  if (num_failed > 0)
    throw weft::Error({weft::Code::not_permitted, path + ".RANK: cannot be written by " +
                                                      std::to_string(num_failed) + " processes"});
}
