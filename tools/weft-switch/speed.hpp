#pragma once
// How fast a switch's core is without a network: packets from memory, on one core.

namespace weft::innet {

// Prints packets a second of the thread's processor time: of adding alone, and of the whole core
// from packet to packet, without and with RoCEv2 around them.
void measure_speed(int children, int bytes, double seconds);

}  // namespace weft::innet
