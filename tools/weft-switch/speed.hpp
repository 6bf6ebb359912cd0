#pragma once
// The speed of a switch's core without a network: packets from memory, on one core.

namespace weft::innet {

// Prints packets per second of the thread's processor time: of adding alone, and of the entire core
// from packet to packet, without and with RoCEv2 around them.
void measure_speed(int children, int bytes, double seconds);

}  // namespace weft::innet
