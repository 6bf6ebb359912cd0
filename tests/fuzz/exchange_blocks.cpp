// Entries of an exchange's lane that a hostile peer made up: blocks of messages of any length, and
// announcements of memory. The input is a row of entries: kind, phase, length (two bytes), data.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/log.hpp"
#include "exchange/job_impl.hpp"
#include "exchange/wire.hpp"
#include "lanes/lane.hpp"
#include "weft/transport.hpp"

using namespace weft;
using namespace weft::transport;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static LocalRanks ranks(1);
  static transport::Job* job = [] {
    setenv("WEFT_LOG", "error", 1);
    auto* opened = new transport::Job(ranks, 0);  // lives as long as the fuzzer
    log::set_level(static_cast<LogLevel>(-1));
    return opened;
  }();
  Exchange<Bytes> exchange(*job, 1);
  SendMemory memory;
  memory.ring_bytes = 2 << 20;
  const int channel = channel_number({static_cast<std::uint16_t>(job->impl().last_client), 0, 0});
  Lanes& lanes = *job->impl().local;
  if (!lanes.connect(0, channel, memory)) std::abort();
  SendLane lane;
  lane.open(lanes, memory, 256 << 10, 2 << 20);
  unsigned sum = 0;
  const auto receive = [&] {
    Bytes message;
    for (int i = 0; i < 1000 && exchange.receive(0, message); ++i)
      for (const std::byte byte : message) sum += static_cast<unsigned>(byte);
  };
  while (size >= 4) {
    const std::uint8_t kind = data[0] != 0 ? data[0] : 1;
    const std::uint64_t immediate = make_immediate(data[1], data[1] == 7 ? 8 : 0);
    const std::size_t length = std::min<std::size_t>(data[2] | data[3] << 8, size - 4);
    if (!lane.send(kind, immediate, data + 4, length)) break;
    data += 4 + length;
    size -= 4 + length;
    if (length % 2 == 0) receive();
  }
  receive();
  if (sum == ~0u) std::abort();  // what was received is used
  return 0;
}
