#pragma once
// The traffic class of packets (RFC 2474), by which a network tells what is lossless or urgent.
#include <fmt/core.h>

#include <cstdint>

#include "base/settings.hpp"
#include "weft/status.hpp"

namespace weft::fabric {

// That of WEFT_TRAFFIC_CLASS; 0: the system's. bad_setting.
inline Status read_traffic_class(const Settings& settings, std::uint8_t& value) {
  const std::int64_t number = settings.number(Setting::traffic_class);
  if (number > 255)
    return {Code::bad_setting, fmt::format("WEFT_TRAFFIC_CLASS={}: 0 to 255 can be, of which the "
                                           "upper six bits are the DSCP (DSCP 26 is 104)",
                                           number)};
  value = static_cast<std::uint8_t>(number);
  return {};
}

}  // namespace weft::fabric
