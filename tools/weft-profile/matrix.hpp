#pragma once
// Pictures of what goes on between each rank and each other.
#include <cstddef>
#include <cstdint>
#include <span>
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

// One square of a picture, with a row and a column for each rank.
struct Panel {
  enum class Unit { bytes, seconds };
  struct Cell {
    std::size_t row, column;  // ranks
    double value;
    std::uint64_t messages;  // 0: none are told
  };
  std::string title, row_axis, column_axis;
  Unit unit = Unit::bytes;
  std::vector<Cell> cells;
};

// The messages and bytes that each rank sent to each other.
Panel panel_of(const Matrix& matrix, std::string_view title);

// Returns an SVG: panels side by side, for so many ranks, with a square for every pair, dark where
// the value is high, by its logarithm. From 129 ranks on a square stands for several pairs.
std::string picture(std::span<const Panel> panels, std::size_t num_ranks);

}  // namespace weft::profile
