#pragma once
// Which endpoints a Node has.
#include <memory>
#include <string_view>
#include <vector>

#include "base/settings.hpp"
#include "fabric/endpoint.hpp"

namespace weft {

// An endpoint of each fabric in the list (as WEFT_FABRIC) that this machine has, in its order.
// bad_setting: none of them.
Status make_endpoints(std::string_view fabrics, const Settings& settings,
                      std::vector<std::unique_ptr<fabric::Endpoint>>& endpoints);

}  // namespace weft
