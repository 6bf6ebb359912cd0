#pragma once
// Builder: a new datatype made of blocks of old ones. Used by the functions that make datatypes.
#include <algorithm>
#include <memory>
#include <type_traits>

#include "mpi/datatype/datatype.hpp"

namespace weft::mpi {

class Builder {
 public:
  // is_large: made by a _c function, which get_envelope reports.
  Builder(int combiner, bool is_large) : type_(new Datatype) {
    type_->combiner_ = combiner;
    type_->large_ = is_large;
  }

  // Adds `count` elements of `old` in a row, the first at `offset` bytes. False: the size
  // overflows.
  bool add(const Datatype& old, std::int64_t count, std::ptrdiff_t offset) {
    return add_repeated(old, count, offset, 1, 0);
  }

  // `number` in units of `unit` bytes. False: it overflows.
  static bool scale(std::int64_t number, std::ptrdiff_t unit, std::ptrdiff_t& bytes) {
    return !__builtin_mul_overflow(number, unit, &bytes);
  }

  // Adds the same `times` times, `stride` bytes apart.
  bool add_repeated(const Datatype& old, std::int64_t count, std::ptrdiff_t offset,
                    std::int64_t times, std::ptrdiff_t stride) {
    if (count == 0 || times == 0) return true;
    std::int64_t total = 0, size = 0, span = 0, reach = 0;
    if (__builtin_mul_overflow(count, times, &total) ||
        __builtin_mul_overflow(total, static_cast<std::int64_t>(old.size()), &size) ||
        __builtin_add_overflow(size, static_cast<std::int64_t>(type_->size_), &size) ||
        __builtin_mul_overflow(count - 1, old.extent(), &span) ||
        __builtin_mul_overflow(times - 1, stride, &reach))
      return false;
    // The bounds of the first copy in memory and of the last one.
    std::ptrdiff_t low = 0, high = 0, lb = 0, ub = 0, true_lb = 0, true_ub = 0;
    if (__builtin_add_overflow(offset, std::min<std::int64_t>(0, span), &low) ||
        __builtin_add_overflow(low, std::min<std::int64_t>(0, reach), &low) ||
        __builtin_add_overflow(offset, std::max<std::int64_t>(0, span), &high) ||
        __builtin_add_overflow(high, std::max<std::int64_t>(0, reach), &high) ||
        __builtin_add_overflow(low, old.lb_, &lb) || __builtin_add_overflow(high, old.ub_, &ub) ||
        __builtin_add_overflow(low, old.true_lb_, &true_lb) ||
        __builtin_add_overflow(high, old.true_ub_, &true_ub))
      return false;
    // Bounds that were set by hand stay: parts without explicit bounds do not count beside them.
    if (old.resized_ && !type_->resized_) has_bounds_ = false;
    type_->resized_ = type_->resized_ || old.resized_;
    if (old.resized_ == type_->resized_) widen(has_bounds_, type_->lb_, type_->ub_, lb, ub);
    std::ptrdiff_t extent = 0;
    if (__builtin_sub_overflow(type_->ub_, type_->lb_, &extent)) return false;
    if (old.size() != 0) widen(has_data_, type_->true_lb_, type_->true_ub_, true_lb, true_ub);
    type_->size_ = static_cast<std::size_t>(size);
    type_->align_ = std::max(type_->align_, old.align_);
    Layout block;
    block.append(old.layout_, 0, count, old.extent());
    type_->layout_.append(block, offset, times, stride);
    type_->signature_.append(old.signature_, total);
    return true;
  }

  void set_bounds(std::ptrdiff_t lb, std::ptrdiff_t extent) {
    type_->lb_ = lb;
    type_->ub_ = lb + extent;
    type_->resized_ = true;
  }

  // Adds the padding that a compiler adds at the end of a struct.
  void pad_to_alignment() {
    const auto align = static_cast<std::ptrdiff_t>(type_->align_);
    if (!type_->resized_ && align > 1)
      type_->ub_ = type_->lb_ + (type_->extent() + align - 1) / align * align;
  }

  // Records arguments for get_contents: ints of a plain call, counts of a _c call.
  template <class Number>
  void note(Number number) {
    if constexpr (std::is_same_v<Number, int>)
      type_->integers_.push_back(number);
    else
      type_->counts_.push_back(number);
  }
  template <class Number>
  void note(const Number* numbers, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) note(numbers[i]);
  }
  void note_int(int number) { type_->integers_.push_back(number); }
  // Records a displacement in bytes: an address of a plain call, a count of a _c call.
  void note_place(MPI_Count place) {
    if (type_->large_)
      type_->counts_.push_back(place);
    else
      type_->addresses_.push_back(place);
  }
  void note(Datatype* old) {
    type_->types_.push_back(old);
    retain(old);
  }

  // Returns the handle of the finished type; MPI_DATATYPE_NULL if there are too many.
  MPI_Datatype finish() {
    type_->seal();
    const MPI_Datatype handle = datatypes().insert(type_.get());
    if (handle != MPI_DATATYPE_NULL && handle != nullptr) {
      type_->handle_ = handle;
      type_.release();
      return handle;
    }
    return MPI_DATATYPE_NULL;
  }
  Datatype& type() noexcept { return *type_; }

 private:
  struct Drop {
    void operator()(Datatype* type) const noexcept { destroy(type); }
  };

  static void widen(bool& has, std::ptrdiff_t& low, std::ptrdiff_t& high, std::ptrdiff_t new_low,
                    std::ptrdiff_t new_high) {
    low = has ? std::min(low, new_low) : new_low;
    high = has ? std::max(high, new_high) : new_high;
    has = true;
  }

  std::unique_ptr<Datatype, Drop> type_;
  bool has_bounds_ = false;
  bool has_data_ = false;
};

}  // namespace weft::mpi
