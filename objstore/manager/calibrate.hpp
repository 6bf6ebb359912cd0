#pragma once
// `weft-store calibrate`: measures, for the fabric that leads to another store, the size from which
// on objects are read rather than sent, and keeps it in a file that stores read when they start.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "weft/status.hpp"

namespace weft::objstore {

struct Measured {
  std::uint64_t bytes;
  double sent_ns, read_ns;
};

// store-thresholds in XDG_CONFIG_HOME/weft, or ~/.config/weft; empty if there is no home.
std::string default_thresholds_file();
// Lines of a fabric's name and bytes; of a file that is not there none.
std::map<std::string, std::uint64_t> read_thresholds(const std::string& file);
Status write_thresholds(const std::string& file,
                        const std::map<std::string, std::uint64_t>& thresholds);
// UINT64_MAX: none of the sizes is faster read.
std::uint64_t crossover(const std::vector<Measured>& sizes);
// Prints its measurements. peer_lost, not_permitted (the secret, the file), timed_out, ...
Status calibrate(const std::string& address, const std::string& secret, const std::string& file);

}  // namespace weft::objstore
