#pragma once
// Who sent how much to whom, and a picture of it.
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

// SVG: a square for every pair, dark where many bytes went, by their logarithm. From 129 ranks on a
// square stands for several.
std::string picture(const Matrix& matrix, std::string_view title);

}  // namespace weft::profile
