#pragma once
// Which algorithm each collective took, and how often, as the library counts them: read through
// MPI_T, from the variables of the category "collectives". Another library that has no such
// variables says nothing.
#include <cstdint>
#include <string>
#include <vector>

namespace weft::profile {

struct AlgorithmUse {
  std::string collective, algorithm;
  std::uint64_t calls = 0, bytes = 0;
};

// Finds the variables; counting is off.
void open_algorithms();
void close_algorithms() noexcept;
// What is counted between these calls is reported.
void resume_algorithms() noexcept;
void pause_algorithms() noexcept;
std::vector<AlgorithmUse> algorithms_used();

}  // namespace weft::profile
