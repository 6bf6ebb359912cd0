// Ranks die, or write garbage into rings, and the others go on.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "support/process.hpp"

namespace weft::testing {
namespace {

void run(const char* scenario, int exit_code, const std::string& out,
         const Process::Environment& environment = {}) {
  INFO(scenario);
  Process process({std::getenv("WEFTRUN"), "-n", "3", "--timeout", "30", "--on-death", "continue",
                   std::getenv("FAULT_PROBE"), scenario},
                  environment);
  CHECK(process.wait(40'000) == exit_code);
  INFO(process.err());
  CHECK(process.out() == out);
}

}  // namespace

TEST_CASE("the death of a rank ends what needs it, and nothing else") {
  for (const char* scenario : {"connect", "send", "receive", "read", "write", "phase", "leave"})
    run(scenario, 128 + 9, "ok\nok\n");
}

#ifdef WEFT_HAVE_OFI
TEST_CASE("the same between ranks that share no memory") {
  for (const char* scenario : {"connect", "send", "receive", "read", "write", "phase", "leave"})
    run(scenario, 128 + 9, "ok\nok\n",
        {{"WEFT_FABRIC", "ofi"}, {"WEFT_OFI_DOMAIN", "lo"}, {"WEFT_PEER_TIMEOUT_MS", "2000"}});
}
#endif

TEST_CASE("garbage in a ring closes that lane, and its reader survives") {
  for (const char* scenario : {"length", "odd", "empty", "kind", "wrong_phase", "size", "turn",
                               "announce", "announce_far", "announce_long", "announce_odd"})
    run(scenario, 0, "ok\nok\nok\n");
}

}  // namespace weft::testing
