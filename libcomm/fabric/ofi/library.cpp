#include "fabric/ofi/library.hpp"

#include <dlfcn.h>
#include <fmt/core.h>
#include <stdlib.h>

#include <string>

namespace weft::ofi {
namespace {

// libfabric takes these from the environment alone. They are set when Weft is loaded, which is
// before a program that is linked with it has threads: one of them could be in getenv(). Programs
// that load Weft later (dlopen, Python) should do so before they start threads, or set them
// themselves.
[[maybe_unused]] const bool set_environment = [] {
  // Read when libfabric starts. Taking an address out of the table also closes the connection to
  // it, but for the native endpoints over TCP: the buffers of a lost peer's messages are safe by
  // that alone.
  setenv("FI_AV_REMOVE_CLEANUP", "1", 0);
  // Read when the libraries of two providers are loaded: no signal handlers, no files with traces.
  setenv("HFI_NO_BACKTRACE", "1", 0);
  setenv("IPATH_NO_BACKTRACE", "1", 0);
  // Read by cxi: a key of memory that was deregistered is of no more use to anybody.
  setenv("FI_CXI_MR_MATCH_EVENTS", "1", 0);
  setenv("FI_CXI_OPTIMIZED_MRS", "0", 0);
  return true;
}();

struct Loaded {
  Library library;
  std::string error;

  Loaded() {
    void* handle = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      error = dlerror();
      return;
    }
    const auto find = [&](const char* name, auto& function) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
      if (function == nullptr) error = fmt::format("libfabric has no {}", name);
    };
    find("fi_getinfo", library.getinfo);
    find("fi_freeinfo", library.freeinfo);
    find("fi_dupinfo", library.dupinfo);
    find("fi_fabric", library.fabric);
    find("fi_strerror", library.strerror);
    find("fi_version", library.version);
  }
};

const Loaded& loaded() {
  static const Loaded once;
  return once;
}

}  // namespace

Status load(const Library*& library) {
  const Loaded& it = loaded();
  library = &it.library;
  if (!it.error.empty()) return {Code::unsupported, it.error};
  return {};
}

const Library& library() noexcept { return loaded().library; }

}  // namespace weft::ofi
