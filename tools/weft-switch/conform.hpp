#pragma once
// Checks whether a switch keeps to the protocol: plays some hosts, over UDP or RoCEv2 as hosts
// would, and checks the answers.
#include "coll/switch/packet.hpp"

namespace weft::innet {

// Prints a line for each check. Returns 0 if the switch conforms; 1 if it does not, or does not
// answer.
int conform(const Address& address);

}  // namespace weft::innet
