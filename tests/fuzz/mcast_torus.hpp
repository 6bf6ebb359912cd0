#pragma once
// The small fabric that groups, tables and traces are read for: 12 switches of two hosts each.
#include <cstdlib>

#include "weft/mcast_routing.hpp"

inline const weft::mcast::Topology& small_torus() {
  static const weft::mcast::Topology topology = [] {
    weft::mcast::Topology made;
    if (!make_topology("torus", {3, 2, 2, 2}, &made).ok()) std::abort();
    return made;
  }();
  return topology;
}
