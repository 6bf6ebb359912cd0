#pragma once
// The types of vertices, edges and weights of a graph. Included by the other headers of weft/graph.
#include <atomic>
#include <bit>
#include <cstdint>
#include <limits>

#include "weft/export.hpp"

namespace weft::graph {

// A vertex's number, from 0. 32 bits by default (-Dgraph_vertex_bits=64 changes it); programs must
// be compiled with the library's value, which weft/graph.hpp checks.
#ifndef WEFT_GRAPH_VERTEX_BITS
#define WEFT_GRAPH_VERTEX_BITS 32
#endif
#if WEFT_GRAPH_VERTEX_BITS == 64
using VertexId = std::uint64_t;
#else
using VertexId = std::uint32_t;
#endif
// Of an edge, from 0: a whole number, or in a graph of Weights::real the bits of a float, whose
// order is the same.
using Weight = std::uint32_t;
constexpr float real_weight(Weight bits) noexcept { return std::bit_cast<float>(bits); }

inline constexpr VertexId kNoVertex = std::numeric_limits<VertexId>::max();

// A value that other threads may be changing by the functions below.
template <class T>
T atomic_read(const T& value) noexcept {
  if constexpr (std::atomic_ref<T>::is_always_lock_free)
    return std::atomic_ref<T>(const_cast<T&>(value)).load(std::memory_order_relaxed);
  else
    return value;
}

// Lowers `value` to `candidate`. True if this call did it. Any threads may do so at the same time;
// relaxed, as steps end with a barrier.
template <class T>
bool atomic_min(T& value, T candidate) noexcept {
  std::atomic_ref<T> shared(value);
  T found = shared.load(std::memory_order_relaxed);
  while (candidate < found)
    if (shared.compare_exchange_weak(found, candidate, std::memory_order_relaxed)) return true;
  return false;
}

// The same upwards.
template <class T>
bool atomic_max(T& value, T candidate) noexcept {
  std::atomic_ref<T> shared(value);
  T found = shared.load(std::memory_order_relaxed);
  while (candidate > found)
    if (shared.compare_exchange_weak(found, candidate, std::memory_order_relaxed)) return true;
  return false;
}

// value += increment, by any threads at the same time.
template <class T>
void atomic_add(T& value, T increment) noexcept {
  std::atomic_ref<T>(value).fetch_add(increment, std::memory_order_relaxed);
}

// Replaces the value by `desired` only if it is `expected`. True if this call did it.
template <class T>
bool atomic_claim(T& value, T expected, T desired) noexcept {
  std::atomic_ref<T> shared(value);
  return shared.load(std::memory_order_relaxed) == expected &&
         shared.compare_exchange_strong(expected, desired, std::memory_order_relaxed);
}

}  // namespace weft::graph
