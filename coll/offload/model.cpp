#include "coll/offload/model.hpp"

namespace weft::offload {

bool offload_wins(const Size& size) noexcept {
  if (size.leaders < 4) return false;
  if (size.leaders >= 9 || size.by_socket) return true;
  return size.members >= 64;
}

}  // namespace weft::offload
