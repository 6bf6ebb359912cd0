#pragma once
// The agent: weftrun on another host, started by the launch command of the weftrun that the user
// started. Takes what to start from its standard input, and reports on its standard output; see
// agent_wire.hpp.

namespace weft::weftrun {

// Returns the exit status, once its standard input has ended and nothing it started is left.
int run_agent();

}  // namespace weft::weftrun
