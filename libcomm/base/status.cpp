#include "weft/status.hpp"

namespace weft {

std::string_view code_name(Code code) noexcept {
  switch (code) {
    case Code::ok:
      return "ok";
    case Code::again:
      return "again";
    case Code::bad_argument:
      return "bad argument";
    case Code::bad_setting:
      return "bad setting";
    case Code::no_memory:
      return "out of memory";
    case Code::not_permitted:
      return "not permitted";
    case Code::not_found:
      return "not found";
    case Code::truncated:
      return "truncated";
    case Code::peer_lost:
      return "peer lost";
    case Code::timed_out:
      return "timed out";
    case Code::corrupt:
      return "corrupt";
    case Code::unsupported:
      return "unsupported";
    case Code::cancelled:
      return "cancelled";
    case Code::internal:
      return "internal error";
    case Code::outcome_unknown:
      return "outcome unknown";
    case Code::exists:
      return "exists already";
  }
  return "unknown";
}

std::string Status::text() const { return message_ ? *message_ : std::string(code_name(code_)); }

}  // namespace weft
