#pragma once
// Shape: the positions of the data of a file's view, or of a buffer, as a tree of repetitions in
// which a position is found without walking what precedes it. Cursor: a position in a shape, which
// advances piece by piece, so that the list of all pieces is never built. No MPI calls here.
//
// Threads: a shape never changes; a cursor belongs to one thread.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "mpi/datatype/layout.hpp"

namespace weft::mpi {

class Shape {
 public:
  struct Part {
    std::int64_t offset;
    std::int64_t count;
    std::int64_t stride;
    std::uint64_t bytes;                 // data of one repetition
    std::uint64_t before;                // data of the parts before it
    std::shared_ptr<const Shape> child;  // null: one block
  };

  // Makes the shape of `count` elements that lie `extent` apart. Offsets and lengths are multiplied
  // by numerator / denominator, for files whose numbers have other sizes than memory's.
  static std::shared_ptr<const Shape> make(const Layout& element, std::int64_t count,
                                           std::int64_t extent, std::int64_t numerator = 1,
                                           std::int64_t denominator = 1);

  const std::vector<Part>& parts() const noexcept { return parts_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  // The bounds of all blocks.
  std::int64_t first() const noexcept { return first_; }
  std::int64_t last() const noexcept { return last_; }  // behind the last byte
  // True if no block begins before the end of the one before it, or before its beginning.
  bool is_ascending() const noexcept { return ascending_; }
  bool is_in_order() const noexcept { return in_order_; }
  // True if all of it is one block.
  bool is_block() const noexcept {
    return parts_.size() == 1 && parts_[0].count == 1 && parts_[0].child == nullptr;
  }
  std::uint64_t num_blocks() const noexcept { return num_blocks_; }
  std::size_t depth() const noexcept { return depth_; }

 private:
  friend class ShapeBuilder;
  std::vector<Part> parts_;
  std::uint64_t bytes_ = 0;
  std::uint64_t num_blocks_ = 0;
  std::size_t depth_ = 1;
  std::int64_t first_ = 0;
  std::int64_t last_ = 0;
  std::int64_t first_block_ = 0;  // the offsets of the first block and of the last one
  std::int64_t last_block_ = 0;
  bool ascending_ = true;
  bool in_order_ = true;
};

struct ByteRange {
  std::int64_t offset;
  std::uint64_t bytes;
};

class Cursor {
 public:
  // Starts at so many bytes of data from the shape's beginning, at most all of them.
  explicit Cursor(std::shared_ptr<const Shape> shape, std::uint64_t position = 0);

  // Returns the next piece of one block, at most so many bytes (not 0), and moves behind it. 0
  // bytes: the shape has ended.
  ByteRange next(std::uint64_t most) noexcept;
  // Does the same, but joins blocks that follow each other without a gap.
  ByteRange next_joined(std::uint64_t most) noexcept;

 private:
  struct Level {
    const Shape* shape;
    std::size_t part;
    std::int64_t index;  // of the part's repetition
    std::int64_t base;   // of the shape
  };
  void descend(const Shape& shape, std::int64_t base, std::uint64_t position);
  void next_block() noexcept;

  std::shared_ptr<const Shape> shape_;
  std::vector<Level> levels_;  // the last one's part is a block; empty: at the end
  std::uint64_t inside_ = 0;   // of the block
};

}  // namespace weft::mpi
