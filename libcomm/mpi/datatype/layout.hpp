#pragma once
// Layout: the positions of the bytes of one element of a datatype, as a small tree of repetitions
// rather than a list of blocks, so that a vector of a million blocks costs one node. Signature: the
// basic elements that the bytes are, in order, for MPI_Get_elements. Immutable once built, shared
// by the types made from it. No MPI calls here.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace weft::mpi {

// A block of `bytes`, or the children, repeated `count` times, `stride` bytes apart, from `offset`.
struct Run {
  std::ptrdiff_t offset;
  std::int64_t count;
  std::ptrdiff_t stride;
  std::size_t bytes;  // 0: children
  std::shared_ptr<const std::vector<Run>> children;
  std::size_t before = 0;  // packed bytes of the runs before it in the list

  // The packed size of one repetition.
  std::size_t size() const noexcept {
    return bytes != 0 ? bytes : children->back().before + children->back().total();
  }
  std::size_t total() const noexcept { return static_cast<std::size_t>(count) * size(); }
};

class Layout {
 public:
  Layout() = default;
  static Layout block(std::size_t bytes) { return Layout({{0, 1, 0, bytes, nullptr, 0}}); }

  bool empty() const noexcept { return runs_.empty(); }
  const std::vector<Run>& runs() const noexcept { return runs_; }
  // True if the data are one block that starts at offset 0.
  bool is_block(std::size_t bytes) const noexcept {
    return runs_.empty() ? bytes == 0
                         : runs_.size() == 1 && runs_[0].bytes == bytes && runs_[0].count == 1 &&
                               runs_[0].offset == 0;
  }

  // Appends `count` copies of `element`, `stride` apart, the first at `offset`.
  void append(const Layout& element, std::ptrdiff_t offset, std::int64_t count,
              std::ptrdiff_t stride);

  // Packs elements that lie `extent` apart, the first of them at `from`: copies bytes [skip, skip +
  // bytes) of their packed form. Costs the logarithm of the number of runs, and then the copy.
  void pack(std::byte* to, const std::byte* from, std::ptrdiff_t extent, std::size_t skip,
            std::size_t bytes) const noexcept;
  // Does the reverse.
  void unpack(std::byte* to, const std::byte* from, std::ptrdiff_t extent, std::size_t skip,
              std::size_t bytes) const noexcept;

  // Calls visit(offset, bytes) for the blocks of `count` elements that lie `extent` apart, in the
  // order in which they are packed.
  template <class Visit>
  void for_each_block(std::int64_t count, std::ptrdiff_t extent, Visit&& visit) const {
    for (std::int64_t i = 0; i < count; ++i) visit_runs(runs_, i * extent, visit);
  }

 private:
  explicit Layout(std::vector<Run> runs) : runs_(std::move(runs)) {}
  void add(Run run);
  template <class Visit>
  static void visit_runs(const std::vector<Run>& runs, std::ptrdiff_t base, Visit& visit) {
    for (const Run& run : runs)
      for (std::int64_t i = 0; i < run.count; ++i) {
        const std::ptrdiff_t at = base + run.offset + i * run.stride;
        if (run.bytes != 0)
          visit(at, run.bytes);
        else
          visit_runs(*run.children, at, visit);
      }
  }

  std::vector<Run> runs_;
};

// The components of a basic element, for converting it: numbers of `unit` bytes.
struct Form {
  enum class Kind : std::uint8_t { plain, is_long, is_unsigned_long, wide_character, long_double };
  Kind kind = Kind::plain;
  std::uint8_t unit = 1;
  bool operator==(const Form&) const = default;
};

// The basic elements in the order of the bytes.
class Signature {
 public:
  static Signature basic(std::size_t bytes, Form form) {
    Signature result;
    result.add({1, static_cast<std::int64_t>(bytes), 1, form, nullptr});
    return result;
  }
  void append(const Signature& element, std::int64_t count);

  std::int64_t bytes() const noexcept { return bytes_; }
  std::int64_t elements() const noexcept { return elements_; }
  // The number of whole basic elements in the first `bytes` bytes; *rest: bytes beyond them.
  std::int64_t elements_in(std::int64_t bytes, std::int64_t* rest) const noexcept;
  std::int64_t bytes_of(std::int64_t elements) const noexcept;

  // Calls visit(form, numbers) for runs of equal numbers, in order, until it returns false.
  template <class Visit>
  bool for_each_run(Visit&& visit) const {
    for (const Part& part : parts_) {
      if (part.inner == nullptr) {
        if (!visit(part.form, part.count * (part.bytes / part.form.unit))) return false;
        continue;
      }
      for (std::int64_t i = 0; i < part.count; ++i)
        if (!part.inner->for_each_run(visit)) return false;
    }
    return true;
  }

 private:
  struct Part {
    std::int64_t count;
    std::int64_t bytes;     // of one repetition
    std::int64_t elements;  // of one repetition
    Form form;              // of basic elements
    std::shared_ptr<const Signature> inner;
  };
  void add(Part part);

  std::vector<Part> parts_;
  std::int64_t bytes_ = 0;
  std::int64_t elements_ = 0;
};

}  // namespace weft::mpi
