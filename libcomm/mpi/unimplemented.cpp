// The functions of the standard ABI that are not written yet: exported so that programs link, all
// with one body. This file must not see mpi.h: the table knows names only, and the body needs no
// parameters.
#include "mpi/unimplemented.hpp"

#define WEFT_UNIMPLEMENTED(name)                                        \
  extern "C" __attribute__((visibility("default"))) int PMPI_##name() { \
    return weft::mpi::raise_unimplemented("MPI_" #name);                \
  }                                                                     \
  extern "C" __attribute__((visibility("default"), weak, alias("PMPI_" #name))) int MPI_##name();
#include "mpi/unimplemented_table.hpp"
