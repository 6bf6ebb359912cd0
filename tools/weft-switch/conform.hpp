#pragma once
// Whether a switch keeps to the protocol: plays some hosts to it, over UDP or RoCEv2 as hosts
// would, and looks at what it answers.
#include "coll/switch/packet.hpp"

namespace weft::innet {

// Prints a line for each check. 0: it conforms; 1: it does not, or does not answer.
int conform(const Address& address);

}  // namespace weft::innet
