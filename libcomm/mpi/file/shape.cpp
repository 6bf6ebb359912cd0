#include "mpi/file/shape.hpp"

#include <algorithm>
#include <unordered_map>

namespace weft::mpi {

class ShapeBuilder {
 public:
  ShapeBuilder(std::int64_t numerator, std::int64_t denominator)
      : numerator_(numerator), denominator_(denominator) {}

  std::shared_ptr<const Shape> build(const std::vector<Run>& runs) {
    auto shape = std::make_shared<Shape>();
    shape->parts_.reserve(runs.size());
    bool is_first = true;
    for (const Run& run : runs) {
      Shape::Part part{scaled(run.offset), run.count,     scaled(run.stride),
                       scaled_bytes(run),  shape->bytes_, nullptr};
      if (run.bytes == 0) {
        part.child = child_of(run);
        part.bytes = part.child->bytes_;
      }
      if (part.bytes == 0 || part.count == 0) continue;
      add(*shape, part, is_first);
      is_first = false;
      shape->parts_.push_back(std::move(part));
    }
    return shape;
  }

 private:
  std::int64_t scaled(std::int64_t value) const noexcept {
    return numerator_ == denominator_ ? value : value / denominator_ * numerator_;
  }
  std::uint64_t scaled_bytes(const Run& run) const noexcept {
    return static_cast<std::uint64_t>(scaled(static_cast<std::int64_t>(run.bytes)));
  }
  std::shared_ptr<const Shape> child_of(const Run& run) {
    auto& known = known_[run.children.get()];
    if (known == nullptr) known = build(*run.children);
    return known;
  }
  // Adds the properties of a part to those of the whole.
  static void add(Shape& shape, const Shape::Part& part, bool is_first) {
    const Shape* child = part.child.get();
    const std::int64_t low = part.offset + (child != nullptr ? child->first_ : 0);
    const std::int64_t span =
        child != nullptr ? child->last_ - child->first_ : static_cast<std::int64_t>(part.bytes);
    const std::int64_t reach = (part.count - 1) * part.stride;
    const std::int64_t first = low + std::min<std::int64_t>(0, reach);
    const std::int64_t last = low + span + std::max<std::int64_t>(0, reach);
    const bool goes_on = is_first || low >= shape.last_;
    const bool repeats = part.count == 1 || part.stride >= span;
    shape.ascending_ =
        shape.ascending_ && goes_on && repeats && (child == nullptr || child->ascending_);
    const std::int64_t first_block = part.offset + (child != nullptr ? child->first_block_ : 0);
    const std::int64_t last_block = part.offset + (child != nullptr ? child->last_block_ : 0);
    shape.in_order_ = shape.in_order_ && (is_first || first_block >= shape.last_block_) &&
                      (part.count == 1 || part.stride + first_block >= last_block) &&
                      (child == nullptr || child->in_order_);
    if (is_first) shape.first_block_ = first_block;
    shape.last_block_ = last_block + reach;
    shape.first_ = is_first ? first : std::min(shape.first_, first);
    shape.last_ = is_first ? last : std::max(shape.last_, last);
    if (child != nullptr) shape.depth_ = std::max(shape.depth_, child->depth_ + 1);
    const auto count = static_cast<std::uint64_t>(part.count);
    shape.bytes_ += part.bytes * count;
    shape.num_blocks_ += count * (child != nullptr ? child->num_blocks_ : 1);
  }

  std::int64_t numerator_, denominator_;
  std::unordered_map<const void*, std::shared_ptr<const Shape>> known_;
};

std::shared_ptr<const Shape> Shape::make(const Layout& element, std::int64_t count,
                                         std::int64_t extent, std::int64_t numerator,
                                         std::int64_t denominator) {
  Layout all;
  all.append(element, 0, count, extent);
  return ShapeBuilder(numerator, denominator).build(all.runs());
}

Cursor::Cursor(std::shared_ptr<const Shape> shape, std::uint64_t position)
    : shape_(std::move(shape)) {
  levels_.reserve(shape_->depth());
  if (position < shape_->bytes()) descend(*shape_, 0, position);
}

void Cursor::descend(const Shape& shape, std::int64_t base, std::uint64_t position) {
  const auto& parts = shape.parts();
  const auto behind = std::upper_bound(
      parts.begin(), parts.end(), position,
      [](std::uint64_t place, const Shape::Part& part) { return place < part.before; });
  const Shape::Part& part = *(behind - 1);
  const std::uint64_t place = position - part.before;
  const auto index = static_cast<std::int64_t>(place / part.bytes);
  levels_.push_back({&shape, static_cast<std::size_t>(&part - parts.data()), index, base});
  const std::uint64_t rest = place % part.bytes;
  if (part.child != nullptr)
    descend(*part.child, base + part.offset + index * part.stride, rest);
  else
    inside_ = rest;
}

// Moves from the end of a block to the beginning of the next one.
void Cursor::next_block() noexcept {
  inside_ = 0;
  while (!levels_.empty()) {
    Level& level = levels_.back();
    const auto& parts = level.shape->parts();
    if (++level.index < parts[level.part].count) break;
    level.index = 0;
    if (++level.part < parts.size()) break;
    levels_.pop_back();
  }
  if (levels_.empty()) return;
  for (;;) {
    const Level level = levels_.back();
    const Shape::Part& part = level.shape->parts()[level.part];
    if (part.child == nullptr) return;
    levels_.push_back(
        {part.child.get(), 0, 0, level.base + part.offset + level.index * part.stride});
  }
}

ByteRange Cursor::next(std::uint64_t most) noexcept {
  if (levels_.empty()) return {0, 0};
  const Level& level = levels_.back();
  const Shape::Part& part = level.shape->parts()[level.part];
  const std::int64_t offset =
      level.base + part.offset + level.index * part.stride + static_cast<std::int64_t>(inside_);
  const std::uint64_t bytes = std::min(most, part.bytes - inside_);
  inside_ += bytes;
  if (inside_ == part.bytes) next_block();
  return {offset, bytes};
}

ByteRange Cursor::next_joined(std::uint64_t most) noexcept {
  ByteRange all = next(most);
  while (all.bytes != 0 && all.bytes < most && !levels_.empty()) {
    const Level& level = levels_.back();
    const Shape::Part& part = level.shape->parts()[level.part];
    const std::int64_t offset = level.base + part.offset + level.index * part.stride;
    if (offset != all.offset + static_cast<std::int64_t>(all.bytes)) break;
    all.bytes += next(most - all.bytes).bytes;
  }
  return all;
}

}  // namespace weft::mpi
