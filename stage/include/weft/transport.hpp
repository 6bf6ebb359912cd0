#pragma once
// The threaded transport: Job (ranks, memory, collective calls) and Exchange (messages). The names
// are in weft::transport; weft/weft.hpp brings them into weft.
#include "weft/exchange.hpp"
#include "weft/job.hpp"
