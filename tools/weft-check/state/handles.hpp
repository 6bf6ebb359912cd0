#pragma once
// Handles: the objects that the program has made and must free before MPI_Finalize.
// Threads: any.
#include <cstdint>
#include <string_view>

namespace weft::check {

enum class Object : std::uint8_t {
  communicator,
  datatype,
  window,
  group,
  file,
  op,
  info,
  error_handler,
  message
};

void add_handle(Object object, const void* handle);
void remove_handle(Object object, const void* handle);
// Called in MPI_Finalize.
void report_handles();

}  // namespace weft::check
