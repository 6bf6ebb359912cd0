#pragma once
// Provider: what Weft lets one of libfabric's providers do by itself. Puts, gets and atomics that a
// device does, or that memory does, are the provider's; what it emulates by messages needs the
// owner's processor anyway, so Weft's own target-side emulation does that (rma/target_side.hpp), of
// which more is known.
#include <rdma/fabric.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/settings.hpp"
#include "weft/status.hpp"

namespace weft::ofi {

struct Provider {
  std::string_view name;     // as libfabric's names start
  bool is_native = false;    // puts and gets are the provider's
  bool has_atomics = false;  // of the device, among devices: where WEFT_VERBS_ATOMICS=device
  // A put has arrived when it completes, without FI_DELIVERY_COMPLETE.
  bool is_delivered = false;
  // When an endpoint is closed, what was posted there reads and writes no memory of this process
  // any more. Otherwise the provider is given memory of Weft's alone, which stays.
  bool ends_with_endpoint = false;
  const char* why = "";  // it is native, or not
};

// The row of this provider; one that is not native where there is none.
const Provider& provider_of(std::string_view name) noexcept;

// What an endpoint has its provider do.
struct OneSided {
  bool puts = false, gets = false, atomics = false;
  bool is_in_place = false;  // from and to the program's memory
  std::uint64_t put_flags = 0;
  std::string why;
};

// `info` is of find_offers(), with the capabilities that wants_atomics() asks for where the
// provider has them; is_confirmed: libfabric offers FI_DELIVERY_COMPLETE.
OneSided choose_one_sided(const fi_info& info, const Settings& settings, bool is_confirmed);

bool wants_one_sided(const Provider& provider) noexcept;
bool wants_atomics(const Provider& provider, const Settings& settings);

// For tests: from now on, endpoints have their provider do all that libfabric says it can, as long
// as it is not the native one over TCP.
void force_one_sided(bool on) noexcept;

}  // namespace weft::ofi
