#pragma once
// The messages and bytes that each rank sent to each other, and a picture of them.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::profile {

struct Matrix {
  struct Cell {
    std::size_t from, to;  // ranks of MPI_COMM_WORLD
    std::uint64_t messages, bytes;
  };
  std::size_t size = 0;  // ranks
  std::vector<Cell> cells;
};

// Returns an SVG: a square for every pair, dark where many bytes went, by their logarithm. From 129
// ranks on a square stands for several pairs.
std::string picture(const Matrix& matrix, std::string_view title);

}  // namespace weft::profile
