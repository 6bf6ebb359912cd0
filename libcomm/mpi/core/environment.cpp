// Queries of the library and the machine, time and memory.
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "mpi/comm/comm.hpp"
#include "mpi/core/info.hpp"

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_ALIAS(Wtime)
extern "C" double PMPI_Wtime(void) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

MPI_ALIAS(Wtick)
extern "C" double PMPI_Wtick(void) {
  timespec step;
  clock_getres(CLOCK_MONOTONIC, &step);
  return static_cast<double>(step.tv_sec) + static_cast<double>(step.tv_nsec) * 1e-9;
}

MPI_FUNCTION(Get_version)(int* version, int* subversion) {
  if (version == nullptr || subversion == nullptr)
    return raise(nullptr, MPI_ERR_ARG, __func__, "an argument is null");
  *version = MPI_VERSION;
  *subversion = MPI_SUBVERSION;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Get_library_version)(char* version, int* resultlen) {
  if (version == nullptr || resultlen == nullptr)
    return raise(nullptr, MPI_ERR_ARG, __func__, "an argument is null");
  static constexpr char kVersion[] = "Weft " WEFT_VERSION ", MPI 5.0 standard ABI";
  std::memcpy(version, kVersion, sizeof kVersion);
  *resultlen = static_cast<int>(sizeof kVersion - 1);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Get_processor_name)(char* name, int* resultlen) {
  MPI_MUST_RUN();
  if (name == nullptr || resultlen == nullptr)
    return raise(nullptr, MPI_ERR_ARG, __func__, "an argument is null");
  const std::string host =
      process->job->member(process->job->rank()).host.substr(0, MPI_MAX_PROCESSOR_NAME - 1);
  std::memcpy(name, host.c_str(), host.size() + 1);
  *resultlen = static_cast<int>(host.size());
  return MPI_SUCCESS;
}

MPI_FUNCTION(Get_hw_resource_info)(MPI_Info* hw_info) {
  if (hw_info == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "hw_info is null");
  *hw_info = make_info(nullptr);
  return MPI_SUCCESS;
}

// Profiling tools define MPI_Pcontrol; the library's own does nothing.
MPI_ALIAS(Pcontrol)
extern "C" int PMPI_Pcontrol(const int, ...) { return MPI_SUCCESS; }

MPI_FUNCTION(Alloc_mem)(MPI_Aint size, MPI_Info, void* baseptr) {
  MPI_MUST_RUN();
  if (size < 0 || baseptr == nullptr)
    return raise(nullptr, MPI_ERR_ARG, __func__, "the size is negative or baseptr is null");
  // The memory has cache lines of its own, so data sent from it share no line with other data.
  constexpr std::size_t kLine = 64;
  const std::size_t room = (static_cast<std::size_t>(size) + kLine) / kLine * kLine;
  void* memory = std::aligned_alloc(kLine, room);
  if (memory == nullptr) return raise(nullptr, MPI_ERR_NO_MEM, __func__);
  *static_cast<void**>(baseptr) = memory;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Free_mem)(void* base) {
  MPI_MUST_RUN();
  std::free(base);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Abi_get_version)(int* abi_major, int* abi_minor) {
  if (abi_major == nullptr || abi_minor == nullptr)
    return raise(nullptr, MPI_ERR_ARG, __func__, "an argument is null");
  *abi_major = MPI_ABI_VERSION;
  *abi_minor = MPI_ABI_SUBVERSION;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Abi_get_info)(MPI_Info* info) {
  if (info == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "info is null");
  Info sizes;
  sizes.set("mpi_aint_size", std::to_string(sizeof(MPI_Aint)));
  sizes.set("mpi_count_size", std::to_string(sizeof(MPI_Count)));
  sizes.set("mpi_offset_size", std::to_string(sizeof(MPI_Offset)));
  *info = make_info(&sizes);
  return MPI_SUCCESS;
}
