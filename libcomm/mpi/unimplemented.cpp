// The functions of the standard ABI that are not written yet: exported so that programs link, all
// with one body. This file must not see mpi.h: the table knows names only, and the body needs no
// parameters.
#include "mpi/unimplemented.hpp"

#include <iterator>

namespace weft::mpi {
namespace {

constexpr const char* kNames[] = {
#define WEFT_UNIMPLEMENTED(name) "MPI_" #name,
#include "mpi/unimplemented_table.hpp"
#undef WEFT_UNIMPLEMENTED
};

}  // namespace

std::span<const char* const> unimplemented_functions() noexcept { return kNames; }

}  // namespace weft::mpi

#define WEFT_UNIMPLEMENTED(name)                                        \
  extern "C" __attribute__((visibility("default"))) int PMPI_##name() { \
    return weft::mpi::raise_unimplemented("MPI_" #name);                \
  }                                                                     \
  extern "C" __attribute__((visibility("default"), weak, alias("PMPI_" #name))) int MPI_##name();
#include "mpi/unimplemented_table.hpp"
