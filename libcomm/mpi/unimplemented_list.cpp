// Apart from the functions themselves, so that programs can list them without being MPI programs.
#include "mpi/unimplemented.hpp"

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
