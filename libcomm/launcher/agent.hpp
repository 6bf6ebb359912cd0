#pragma once
// The agent: weftrun on another host, started by the launch command of the weftrun that the user
// started. It takes its orders from standard input, and reports on standard output; see
// agent_wire.hpp.

namespace weft::weftrun {

// Returns the exit status, once its standard input has ended and all that it started has ended.
int run_agent();

}  // namespace weft::weftrun
