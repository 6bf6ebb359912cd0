#pragma once
// Arrays of strings, for programs to be started.
#include <string>
#include <vector>

#include "mpi/fortran/convert.hpp"

namespace weft::mpi::fortran {

// Elements `stride` apart, up to a blank one, or `count` of them. MPI_ARGV_NULL becomes null.
class StringArray {
 public:
  StringArray(const char* text, std::size_t length, std::size_t stride,
              std::int64_t count = -1) noexcept;
  bool is_valid() const noexcept { return is_valid_; }
  char** data() const noexcept { return is_null_ ? nullptr : pointers_.data(); }

 private:
  std::vector<std::string> strings_;
  mutable std::vector<char*> pointers_;
  bool is_null_ = false;
  bool is_valid_ = true;
};

// Arrays of strings in `count` rows, the first index of a Fortran array.
class StringArrays {
 public:
  StringArrays(const char* text, std::size_t length, std::int64_t count) noexcept;
  bool is_valid() const noexcept { return is_valid_; }
  char*** data() const noexcept { return is_null_ ? nullptr : pointers_.data(); }

 private:
  std::vector<StringArray> rows_;
  mutable std::vector<char**> pointers_;
  bool is_null_ = false;
  bool is_valid_ = true;
};

}  // namespace weft::mpi::fortran
