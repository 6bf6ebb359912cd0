#pragma once
// Procedures of Fortran that C calls. Where C passes an extra state to the function, that is a cell
// with the procedures; where it has none (operations, error handlers), each procedure gets a C
// function of its own out of a stock. Cells and functions stay while the process lives, as nothing
// shows when a keyval or an operation is no longer used; equal ones are used again.
#include "mpi/fortran/convert.hpp"

namespace weft::mpi::fortran {

// Stands for any arguments, all by reference.
using Procedure = void();

// Returns the C function for a user's procedure; null when the stock of 256 is used up.
MPI_User_function* user_function(Procedure* procedure) noexcept;
MPI_User_function_c* user_function_c(Procedure* procedure) noexcept;
MPI_Comm_errhandler_function* comm_errhandler(Procedure* procedure) noexcept;
MPI_File_errhandler_function* file_errhandler(Procedure* procedure) noexcept;
MPI_Win_errhandler_function* win_errhandler(Procedure* procedure) noexcept;
MPI_Session_errhandler_function* session_errhandler(Procedure* procedure) noexcept;

// The predefined procedures become the constants of C. cell: null without memory.
struct Keyval {
  void* cell;
  MPI_Comm_copy_attr_function* comm_copy;
  MPI_Comm_delete_attr_function* comm_delete;
  MPI_Type_copy_attr_function* type_copy;
  MPI_Type_delete_attr_function* type_delete;
  MPI_Win_copy_attr_function* win_copy;
  MPI_Win_delete_attr_function* win_delete;
};
// is_old: for MPI_Keyval_create, whose procedures have INTEGER values.
Keyval keyval_of(Procedure* copy, Procedure* remove, MPI_Aint extra_state, bool is_old) noexcept;

struct Grequest {
  void* cell;
  MPI_Grequest_query_function* query;
  MPI_Grequest_free_function* free;
  MPI_Grequest_cancel_function* cancel;
};
// The cell lives until the request is freed; drop() is for a request that was never made. The
// procedures get the program's own extra_state, in which they may keep the state of the operation
// (MPI 5.0, 13.2).
Grequest grequest_of(Procedure* query, Procedure* free, Procedure* cancel,
                     MPI_Aint* extra_state) noexcept;
void drop(const Grequest& request) noexcept;

struct Datarep {
  void* cell;
  MPI_Datarep_conversion_function *read, *write;
  MPI_Datarep_conversion_function_c *read_c, *write_c;
  MPI_Datarep_extent_function* extent;
};
Datarep datarep_of(Procedure* read, Procedure* write, Procedure* extent,
                   MPI_Aint extra_state) noexcept;

// Keeps a number that Fortran sets as an attribute; C, which has pointers, sees a pointer to it.
// Equal numbers are kept once, as long as the process lives. Null without memory.
void* keep_attribute(MPI_Aint value) noexcept;
// The reverse: returns the number; for an attribute that C has set, the pointer as a number; for
// predefined attributes that C has by pointer, the value.
MPI_Aint attribute_value(void* attribute) noexcept;
MPI_Aint comm_attribute(int keyval, void* attribute) noexcept;
MPI_Aint win_attribute(int keyval, void* attribute) noexcept;

}  // namespace weft::mpi::fortran
