#pragma once
// The data representation "external32" (MPI 5.0 section 14.5.2), for packing and for files.
#include <cstddef>
#include <cstdint>

#include "mpi/datatype/datatype.hpp"

namespace weft::mpi {

// The number of bytes of one element.
std::int64_t external_bytes(const Datatype& type);
// True if all its numbers grow or shrink by the same factor.
bool is_evenly_external(const Datatype& type);
// Converts `count` elements from memory to external32. MPI_SUCCESS, MPI_ERR_CONVERSION (it cannot
// hold a number) or MPI_ERR_NO_MEM.
int encode_external(const Datatype& type, const void* memory, std::int64_t count, void* external);
// Does the reverse for the first `bytes` bytes; memory_bytes: their size in memory, including
// numbers that end inside them. MPI_SUCCESS or MPI_ERR_NO_MEM.
int decode_external(const Datatype& type, const void* external, std::uint64_t bytes, void* memory,
                    std::int64_t count, std::uint64_t& memory_bytes);

}  // namespace weft::mpi
