// The functions that Fortran calls, compiled twice: mpi_* call MPI_*, where a tool may be, pmpi_*
// call PMPI_*.
#include <mpi-ext.h>

#include "mpi/fortran/callbacks.hpp"
#include "mpi/fortran/section.hpp"
#include "mpi/fortran/strings.hpp"

#ifdef WEFT_PROFILING
#define WEFT_C(name) PMPI_##name
#define WEFT_FORTRAN(name) pmpi_##name##_
#define WEFT_TEXT(name) "pmpi_" #name "_"
#else
#define WEFT_C(name) MPI_##name
#define WEFT_FORTRAN(name) mpi_##name##_
#define WEFT_TEXT(name) "mpi_" #name "_"
#endif
#define WEFT_SAME(name, other) \
  extern "C" void WEFT_FORTRAN(other)() __attribute__((alias(WEFT_TEXT(name))));

// An alias has the type of none of its callers; the compiler checks the C++ types only.
#pragma GCC diagnostic ignored "-Wattribute-alias"
#pragma GCC visibility push(default)

using namespace weft::mpi::fortran;  // NOLINT: the functions that follow have no namespace

#include "mpi/fortran/special.inc"
#include "wrappers.inc"
#include "wrappers_f08.inc"

// Those of mpi-ext.h.
#undef WEFT_C
#undef WEFT_FORTRAN
#undef WEFT_TEXT
#ifdef WEFT_PROFILING
#define WEFT_C(name) PMPIX_##name
#define WEFT_FORTRAN(name) pmpix_##name##_
#define WEFT_TEXT(name) "pmpix_" #name "_"
#else
#define WEFT_C(name) MPIX_##name
#define WEFT_FORTRAN(name) mpix_##name##_
#define WEFT_TEXT(name) "mpix_" #name "_"
#endif
#include "wrappers_ext.inc"
