#pragma once
// The representation "external32" of data (MPI 5.0 section 14.5.2), for packing and for files.
#include <cstddef>
#include <cstdint>

#include "mpi/datatype/datatype.hpp"

namespace weft::mpi {

// Bytes of one element.
std::int64_t external_bytes(const Datatype& type);
// Whether all its numbers grow or shrink by the same factor.
bool is_evenly_external(const Datatype& type);
// `count` elements from memory to external32; MPI_ERR_CONVERSION: it cannot hold a number. Or
// MPI_ERR_NO_MEM.
int encode_external(const Datatype& type, const void* memory, std::int64_t count, void* external);
// The reverse of that for the first `bytes` bytes; memory_bytes: what they are in memory, numbers
// that end inside them. MPI_SUCCESS or MPI_ERR_NO_MEM.
int decode_external(const Datatype& type, const void* external, std::uint64_t bytes, void* memory,
                    std::int64_t count, std::uint64_t& memory_bytes);

}  // namespace weft::mpi
