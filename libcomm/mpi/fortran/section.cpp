#include "mpi/fortran/section.hpp"

#include <algorithm>

namespace weft::mpi::fortran {

namespace {

// Calls visit(address of an element) for each element, in Fortran's order, until it returns false.
template <class Visit>
void for_each_element(const CFI_cdesc_t* section, Visit visit) {
  CFI_index_t index[CFI_MAX_RANK] = {};
  auto* element = static_cast<char*>(section->base_addr);
  for (;;) {
    if (!visit(element)) return;
    int dim = 0;
    for (; dim < section->rank; ++dim) {
      element += section->dim[dim].sm;
      if (++index[dim] < section->dim[dim].extent) break;
      element -= section->dim[dim].sm * section->dim[dim].extent;
      index[dim] = 0;
    }
    if (dim == section->rank) return;
  }
}

// Replaces `type` by the type that `make` makes of it.
template <class Make>
int replace(MPI_Datatype& type, Make make) {
  MPI_Datatype made = MPI_DATATYPE_NULL;
  const int result = make(type, &made);
  PMPI_Type_free(&type);
  type = result == MPI_SUCCESS ? made : MPI_DATATYPE_NULL;
  return result;
}

}  // namespace

std::size_t num_bytes(const CFI_cdesc_t* section) noexcept {
  std::size_t bytes = section->elem_len;
  for (int i = 0; i < section->rank; ++i) bytes *= static_cast<std::size_t>(section->dim[i].extent);
  return bytes;
}

void CopiedSection::copy(bool is_written) noexcept {
  is_written_ = is_written;
  copy_ = static_cast<char*>(std::malloc(num_bytes(section_)));
  is_valid_ = copy_ != nullptr;
  if (!is_valid_) return;
  // A section that is only written is read too: the call may leave parts of it as they were.
  char* to = copy_;
  for_each_element(section_, [&](const char* element) {
    std::memcpy(to, element, section_->elem_len);
    to += section_->elem_len;
    return true;
  });
  address_ = copy_;
}

void CopiedSection::copy_back() noexcept {
  if (!is_written_) return;
  const char* from = copy_;
  for_each_element(section_, [&](char* element) {
    std::memcpy(element, from, section_->elem_len);
    from += section_->elem_len;
    return true;
  });
}

// The datatypes must lie end to end in an element, or elements in bytes; a datatype with gaps of
// its own would need to be cut at the section's gaps.
int TypedSection::describe(const CFI_cdesc_t* section, MPI_Count count,
                           MPI_Datatype datatype) noexcept {
  MPI_Count size = 0, lower = 0, extent = 0, true_lower = 0, true_extent = 0;
  if (PMPI_Type_size_c(datatype, &size) != MPI_SUCCESS) return MPI_ERR_TYPE;
  PMPI_Type_get_extent_c(datatype, &lower, &extent);
  PMPI_Type_get_true_extent_c(datatype, &true_lower, &true_extent);
  if (count <= 0 || size <= 0) return MPI_SUCCESS;  // nothing moves, or the call reports the error
  if (lower != 0 || true_lower != 0 || extent != size || true_extent != size) return MPI_ERR_BUFFER;
  const auto element_bytes = static_cast<MPI_Count>(section->elem_len);
  const auto section_bytes = static_cast<MPI_Count>(num_bytes(section));
  if (element_bytes % size != 0 || count > section_bytes / size) return MPI_ERR_BUFFER;
  const MPI_Count per_element = element_bytes / size;
  if (count % per_element != 0) return MPI_ERR_BUFFER;

  int result = PMPI_Type_contiguous_c(per_element, datatype, &type_);
  if (count * size == section_bytes) {
    for (int i = 0; i < section->rank && result == MPI_SUCCESS; ++i)
      result = replace(type_, [&](MPI_Datatype old, MPI_Datatype* made) {
        return PMPI_Type_create_hvector_c(section->dim[i].extent, 1, section->dim[i].sm, old, made);
      });
  } else if (result == MPI_SUCCESS) {
    const MPI_Count num_elements = count / per_element;
    Scratch<MPI_Count, 64> places(static_cast<std::size_t>(num_elements));
    if (places.data() == nullptr) return MPI_ERR_NO_MEM;
    MPI_Count done = 0;
    for_each_element(section, [&](const char* element) {
      places.data()[done++] = element - static_cast<const char*>(section->base_addr);
      return done < num_elements;
    });
    result = replace(type_, [&](MPI_Datatype old, MPI_Datatype* made) {
      return PMPI_Type_create_hindexed_block_c(num_elements, 1, places.data(), old, made);
    });
  }
  if (result == MPI_SUCCESS) result = PMPI_Type_commit(&type_);
  return result;
}

}  // namespace weft::mpi::fortran
