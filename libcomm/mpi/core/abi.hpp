#pragma once
// mpi.h and mpi-ext.h as the library itself includes it: their functions are exported, everything
// else of the library is hidden. Constants that name functions or addresses by integer casts are
// fine here.
#pragma GCC visibility push(default)
#include "mpi-ext.h"  // IWYU pragma: export
#include "mpi.h"      // IWYU pragma: export
#pragma GCC visibility pop
