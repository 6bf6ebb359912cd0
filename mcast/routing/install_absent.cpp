// Built where libibmad and libibumad are missing.
#include "mcast/routing/install.hpp"

namespace weft::mcast {

Status install(const InstallOptions&) {
  return {Code::unsupported,
          "install: this Weft was built without libibmad and libibumad (packages libibmad-dev and "
          "libibumad-dev)"};
}

}  // namespace weft::mcast
