#pragma once
// The environment of a job's processes: the part of this one's that processes on other hosts get,
// and what weftrun itself takes from it.
#include <string>
#include <utility>
#include <vector>

#include "base/settings.hpp"
#include "launcher/options.hpp"

namespace weft::weftrun {

// Everything but variables that describe this host or this login: HOSTNAME, SSH_*, DISPLAY, XDG_*,
// ...
std::vector<std::pair<std::string, std::string>> portable_environment(char* const* environment);

// How long another host of the job may be silent: silence_beyond() the longest WEFT_PEER_TIMEOUT_MS
// of its programs.
// `settings` has that of this process, `environment` is for all programs, and counts before it. The
// ranks report a value that is wrong.
int silence_ms(const Settings& settings,
               const std::vector<std::pair<std::string, std::string>>& environment,
               const std::vector<Program>& programs);

// WEFT_HANG_REPORT_MS of a job, as the last of these sets it; 0: no report.
int hang_report_ms(const Settings& settings,
                   const std::vector<std::pair<std::string, std::string>>& environment,
                   const std::vector<Program>& programs);

}  // namespace weft::weftrun
