#pragma once
// Programs that are linked to another MPI library than Weft's: started here, each process would be
// a job of one.
#include <string>

namespace weft::weftrun {

// The name of such a library among those that the program itself asks for, as in its ELF file
// ("libmpi.so.40"); empty: there is none, or the file is no program that can be read. `program` is
// looked for as execvp does, first in `path` (folders with colons between).
std::string foreign_mpi_of(const std::string& program, const std::string& path);

}  // namespace weft::weftrun
