#pragma once
// The fabric over RDMA devices: reliable connections of libibverbs, made with librdmacm.
//
// One queue pair per pair of processes, one completion queue and one shared receive queue per
// process. Rings are written by RDMA WRITE with immediate, remote memory is read and written by
// RDMA READ and WRITE, counters by the device's atomics or by their owner (atomics.cpp).
//
// What this relies on. InfiniBand promises nothing about the order in which the bytes of an RDMA
// WRITE become visible. It promises that when a receive completes, all bytes of that message and of
// every message before it on the same queue pair are visible. So each post ends in a write that
// completes a receive, whose immediate says how far the reader may look; credit travels as sends.
#include <memory>
#include <string>

#include "fabric/fabric.hpp"
#include "job/job.hpp"

namespace weft {

// See MakeFabric. not_found: no usable device; the text says what is there and what to do.
Status make_verbs_fabric(Job& job, Fabric& local, std::unique_ptr<Fabric>& fabric);

// For weft-info.
std::string verbs_text();

}  // namespace weft
