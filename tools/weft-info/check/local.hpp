#pragma once
// What weft-info --check looks at on the host itself: limits, the kernel, and the fabrics. One
// thread.
#include <vector>

#include "base/settings.hpp"
#include "fabric/inspection.hpp"

namespace weft::check {

// A fabric of other hosts that the settings allow, with what it has found.
struct Fabric {
  std::string name;
  fabric::Inspection inspection;
};

void inspect_limits(std::vector<Finding>& findings);
void inspect_kernel(std::vector<Finding>& findings);
std::vector<Fabric> inspect_fabrics(const Settings& settings);

}  // namespace weft::check
