#pragma once
// The metrics of a store, from the JSON of its status: for `weft-store status --prometheus` and for
// the endpoint of --metrics. A number that the table of metrics.cpp does not know is a gauge with
// its path as name, so that none is missing. Any thread.
#include <string>

namespace weft::objstore {

// `status`: as ObjectStore::status() gives it.
std::string metrics_of(const std::string& status);

}  // namespace weft::objstore
