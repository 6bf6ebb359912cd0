#pragma once
// The threaded transport: Job (ranks, memory, collective calls), Exchange (messages) and Allreduce.
// The names are in weft::transport; weft/weft.hpp brings them into weft.
#include "weft/allreduce.hpp"
#include "weft/exchange.hpp"
#include "weft/export.hpp"
#include "weft/job.hpp"
