// Views: the bytes of a file that a member sees, and their order.
#include <algorithm>
#include <numeric>

#include "mpi/datatype/external32.hpp"
#include "mpi/file/file.hpp"

namespace weft::mpi {
namespace {

// No view reaches beyond this, so sums of positions are far from overflowing.
constexpr std::int64_t kLastPlace = std::int64_t{1} << 61;

}  // namespace

View::~View() {
  if (etype != nullptr) release(etype);
  if (filetype != nullptr) release(filetype);
}

std::int64_t View::place_of(std::uint64_t position) const {
  if (shape->is_block()) return displacement + shape->first() + static_cast<std::int64_t>(position);
  Cursor cursor(shape, position);
  return displacement + cursor.next(1).offset;
}

std::uint64_t View::position_at(std::int64_t place) const {
  std::int64_t inside = place - displacement;
  if (inside <= 0) return 0;
  if (shape->is_block())
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, inside - shape->first()));
  if (tile_extent <= 0) return 0;
  // Inside one tile the search begins at its start. A tile's data may reach beyond its extent.
  std::int64_t tile = inside / tile_extent;
  if (tile > 0) --tile;
  auto position = static_cast<std::uint64_t>(tile) * tile_bytes;
  Cursor cursor(shape, position);
  for (;;) {
    const ByteRange range = cursor.next(~std::uint64_t{0});
    if (range.bytes == 0 || range.offset >= inside) return position;
    const std::int64_t end = range.offset + static_cast<std::int64_t>(range.bytes);
    if (end > inside) return position + static_cast<std::uint64_t>(inside - range.offset);
    position += range.bytes;
  }
}

FileError make_view(std::int64_t displacement, Datatype& etype, Datatype& filetype,
                    std::shared_ptr<const Datarep> rep, bool is_written, ViewPtr& out) {
  auto view = std::make_shared<View>();
  view->displacement = displacement;
  retain(&etype);
  view->etype = &etype;
  retain(&filetype);
  view->filetype = &filetype;
  view->rep = std::move(rep);
  if (etype.size() == 0) return {MPI_ERR_TYPE, "the etype has no data"};
  if (filetype.size() % etype.size() != 0)
    return {MPI_ERR_TYPE, "the filetype's data are no multiple of the etype's"};
  if (displacement > kLastPlace) return {MPI_ERR_ARG, "the displacement is beyond 2^61"};
  if (FileError error = size_in_file(*view->rep, etype, view->etype_bytes)) return error;
  // A member without a part in what the others read or write sees nothing of the file.
  if (filetype.size() == 0) {
    view->shape = Shape::make(filetype.layout_, 0, 0);
    out = std::move(view);
    return {};
  }
  std::int64_t bytes = 0;
  if (FileError error = size_in_file(*view->rep, filetype, bytes)) return error;
  // Numbers have another size in the file: all by the same factor, which holds for types that are
  // made of one predefined type.
  const auto size = static_cast<std::int64_t>(filetype.size());
  const std::int64_t common = std::gcd(bytes, size);
  const std::int64_t numerator = bytes / common, denominator = size / common;
  if (view->etype_bytes * denominator != static_cast<std::int64_t>(etype.size()) * numerator ||
      (view->rep->is_external32 && !is_evenly_external(filetype)))
    return {MPI_ERR_UNSUPPORTED_DATAREP,
            "the etype and the filetype are of numbers whose sizes differ in the file"};
  view->tile_bytes = static_cast<std::uint64_t>(bytes);
  view->tile_extent = filetype.extent() / denominator * numerator;
  const std::int64_t most =
      std::max({filetype.extent(), filetype.true_extent(), size, std::int64_t{1}});
  const std::int64_t count =
      std::max<std::int64_t>(1, kLastPlace / most / std::max<std::int64_t>(1, numerator));
  if (filetype.extent() < 0)
    return {MPI_ERR_IO, "the filetype's extent is negative: its displacements would go back"};
  const std::shared_ptr<const Shape> tile = Shape::make(filetype.layout_, 1, 0);
  if (tile->first() < 0) return {MPI_ERR_IO, "the filetype has data before its beginning"};
  if (!tile->is_in_order()) return {MPI_ERR_IO, "the filetype's displacements go back"};
  if (is_written && !tile->is_ascending())
    return {MPI_ERR_IO, "the filetype's data overlap in a file that is opened for writing"};
  view->tile_blocks = std::max<std::uint64_t>(1, tile->num_blocks());
  view->shape = Shape::make(filetype.layout_, count, filetype.extent(), numerator, denominator);
  out = std::move(view);
  return {};
}

}  // namespace weft::mpi
