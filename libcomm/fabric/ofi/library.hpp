#pragma once
// Library: libfabric, loaded when it is first needed. Linked in the usual manner it would come with
// every program, and with it its providers' libraries, some of which install signal handlers when
// they are loaded. Everything but these six functions is inline in its headers. Any thread.
#include <rdma/fabric.h>

#include "weft/status.hpp"

namespace weft::ofi {

struct Library {
  decltype(&::fi_getinfo) getinfo = nullptr;
  decltype(&::fi_freeinfo) freeinfo = nullptr;
  decltype(&::fi_dupinfo) dupinfo = nullptr;
  decltype(&::fi_fabric) fabric = nullptr;
  decltype(&::fi_strerror) strerror = nullptr;
  decltype(&::fi_version) version = nullptr;
};

// Loads it. unsupported, with the loader's message. It stays loaded.
Status load(const Library*& library);

// The library, once load() was ok.
const Library& library() noexcept;

inline const char* error_text(long error) noexcept {
  return library().strerror(static_cast<int>(error < 0 ? -error : error));
}

}  // namespace weft::ofi
