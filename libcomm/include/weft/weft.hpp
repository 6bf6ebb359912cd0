#pragma once
// Everything of Weft for C++ programs, under short names.
#include "weft/export.hpp"
#include "weft/transport.hpp"
#include "weft/version.hpp"

namespace weft {

using transport::Allreduce;
using transport::Bytes;
using transport::Exchange;
using transport::ExchangeSettings;
using transport::Fetched;
using transport::Job;
using transport::LocalRanks;
using transport::Max;
using transport::Min;
using transport::Pairing;
using transport::Reduce;
using transport::RemoteMemory;
using transport::Token;

}  // namespace weft
