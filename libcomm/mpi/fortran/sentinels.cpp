// The library's own copies of the common blocks, in a file that does not use them: the compiler
// must not take for granted that they are the ones the program has.
#include "mpi/fortran/convert.hpp"

namespace weft::mpi::fortran {
Sentinels weft_sentinels_{};
ArgvSentinels weft_argv_sentinels_{};
}  // namespace weft::mpi::fortran
