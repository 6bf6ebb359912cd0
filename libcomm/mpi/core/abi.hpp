#pragma once
// mpi.h as the library itself includes it: its functions are exported, everything else of the
// library is hidden. Constants that name functions or addresses by integer casts are fine here.
#pragma GCC visibility push(default)
#include "mpi.h"  // IWYU pragma: export
#pragma GCC visibility pop
