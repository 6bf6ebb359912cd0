#pragma once
// Buffers of mpi_f08: array sections by descriptor. A contiguous section is its address. For others
// a blocking call works on a copy; a call that goes on after its return gets a datatype that
// describes the section.
#include <ISO_Fortran_binding.h>

#include "mpi/fortran/convert.hpp"

namespace weft::mpi::fortran {

inline bool is_contiguous(const CFI_cdesc_t* section) noexcept {
  auto stride = static_cast<CFI_index_t>(section->elem_len);
  bool is_dense = true;
  for (int i = 0; i < section->rank; ++i) {
    const CFI_index_t extent = section->dim[i].extent;
    if (extent < 0) return true;   // of assumed size
    if (extent == 0) return true;  // empty
    if (extent > 1 && section->dim[i].sm != stride) is_dense = false;
    stride *= extent;
  }
  return is_dense;
}
std::size_t num_bytes(const CFI_cdesc_t* section) noexcept;

class CopiedSection {
 public:
  CopiedSection(const CFI_cdesc_t* section, bool is_written) noexcept : section_(section) {
    if (is_contiguous(section)) [[likely]]
      address_ = translate(section->base_addr);
    else
      copy(is_written);
  }
  ~CopiedSection() {
    if (copy_ != nullptr) [[unlikely]]
      std::free(copy_);
  }
  CopiedSection(const CopiedSection&) = delete;
  CopiedSection& operator=(const CopiedSection&) = delete;
  bool is_valid() const noexcept { return is_valid_; }
  static int error() noexcept { return MPI_ERR_NO_MEM; }
  void* address() const noexcept { return address_; }
  void store() noexcept {
    if (copy_ != nullptr) [[unlikely]]
      copy_back();
  }

 private:
  void copy(bool is_written) noexcept;
  void copy_back() noexcept;

  const CFI_cdesc_t* section_;
  void* address_ = nullptr;
  char* copy_ = nullptr;
  bool is_written_ = false;
  bool is_valid_ = true;
};

class TypedSection {
 public:
  TypedSection(const CFI_cdesc_t* section, MPI_Count count, MPI_Fint datatype) noexcept
      : address_(translate(section->base_addr)) {
    if (!is_contiguous(section)) [[unlikely]]
      error_ = describe(section, count, to_c<MPI_Datatype>(datatype));
  }
  ~TypedSection() {
    if (type_ != MPI_DATATYPE_NULL) [[unlikely]]
      PMPI_Type_free(&type_);
  }
  TypedSection(const TypedSection&) = delete;
  TypedSection& operator=(const TypedSection&) = delete;
  bool is_valid() const noexcept { return error_ == MPI_SUCCESS; }
  int error() const noexcept { return error_; }
  void* address() const noexcept { return address_; }
  template <class Count>
  Count count(Count count) const noexcept {
    return type_ == MPI_DATATYPE_NULL ? count : 1;
  }
  MPI_Datatype datatype(MPI_Fint datatype) const noexcept {
    return type_ == MPI_DATATYPE_NULL ? to_c<MPI_Datatype>(datatype) : type_;
  }

 private:
  int describe(const CFI_cdesc_t* section, MPI_Count count, MPI_Datatype datatype) noexcept;

  void* address_;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  int error_ = MPI_SUCCESS;
};

// For calls that accept only contiguous buffers.
class WholeBuffer {
 public:
  explicit WholeBuffer(const CFI_cdesc_t* section) noexcept
      : address_(translate(section->base_addr)), is_valid_(is_contiguous(section)) {}
  bool is_valid() const noexcept { return is_valid_; }
  static int error() noexcept { return MPI_ERR_BUFFER; }
  void* address() const noexcept { return address_; }

 private:
  void* address_;
  bool is_valid_;
};

}  // namespace weft::mpi::fortran
