#pragma once
// The main of the examples: a job, and one message for an error.
#include <cstdio>

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
