#define WEFT_PROFILING
#include "mpi/fortran/wrappers.cpp"
