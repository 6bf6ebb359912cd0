#include "mpi/datatype/datatype.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "mpi/core/state.hpp"

namespace weft::mpi {

DatatypeTable& datatypes() noexcept {
  static Immortal<DatatypeTable> table;
  return *table;
}

void Datatype::seal() {
  // The data are one block as long as the extent, from true_lb on.
  if (size_ == 0) {
    contiguous_ = ub_ == lb_;
    return;
  }
  Layout shifted;
  shifted.append(layout_, -true_lb_, 1, 0);
  contiguous_ = shifted.is_block(size_) && static_cast<std::ptrdiff_t>(size_) == extent();
}

void Datatype::pack_part(void* to, const void* from, std::size_t skip,
                         std::size_t bytes) const noexcept {
  if (bytes == 0) return;
  if (contiguous_) {
    std::memcpy(to, static_cast<const std::byte*>(from) + true_lb_ + skip, bytes);
    return;
  }
  layout_.pack(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), extent(), skip,
               bytes);
}

void Datatype::unpack_part(void* to, const void* from, std::size_t skip,
                           std::size_t bytes) const noexcept {
  if (bytes == 0) return;
  if (contiguous_) {
    std::memcpy(static_cast<std::byte*>(to) + true_lb_ + skip, from, bytes);
    return;
  }
  layout_.unpack(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), extent(), skip,
                 bytes);
}

std::int64_t Datatype::elements(std::int64_t bytes) const noexcept {
  if (size_ == 0) return bytes == 0 ? 0 : MPI_UNDEFINED;
  const auto size = static_cast<std::int64_t>(size_);
  std::int64_t rest = 0;
  const std::int64_t last = signature_.elements_in(bytes % size, &rest);
  return rest != 0 ? MPI_UNDEFINED : bytes / size * signature_.elements() + last;
}

std::int64_t Datatype::bytes_of_elements(std::int64_t elements) const noexcept {
  if (signature_.elements() == 0) return 0;
  return elements / signature_.elements() * static_cast<std::int64_t>(size_) +
         signature_.bytes_of(elements % signature_.elements());
}

namespace {
std::mutex pins_mutex;  // guards the pins of all types: they are pinned and freed seldom
}

void pin_handles(Datatype* type) noexcept {
  OptionalLock lock(pins_mutex);
  ++type->pins_;
}

void unpin_handles(Datatype* type) noexcept {
  OptionalLock lock(pins_mutex);
  if (--type->pins_ != 0) return;
  for (MPI_Datatype handle : type->freed_handles_) datatypes().erase(handle);
  type->freed_handles_.clear();
}

bool free_handle(Datatype* type, MPI_Datatype handle) {
  OptionalLock lock(pins_mutex);
  if (type->pins_ == 0) return datatypes().erase(handle) != nullptr;
  auto& freed = type->freed_handles_;
  if (std::ranges::find(freed, handle) != freed.end()) return false;
  freed.push_back(handle);
  return true;
}

void destroy(Datatype* type) noexcept {
  for (Datatype* part : type->types_) release(part);
  delete type;
}

}  // namespace weft::mpi
