#include "launcher/environment.hpp"

#include <algorithm>
#include <string_view>

#include "job/boards.hpp"

namespace weft::weftrun {
namespace {

constexpr std::string_view kOwnNames[] = {"_",          "DBUS_SESSION_BUS_ADDRESS",
                                          "DISPLAY",    "HOST",
                                          "HOSTNAME",   "LOGNAME",
                                          "MAIL",       "OLDPWD",
                                          "PWD",        "SHLVL",
                                          "STY",        "TERM",
                                          "TMPDIR",     "TMUX",
                                          "TTY",        "USER",
                                          "WINDOWID",   "XAUTHORITY",
                                          "WEFT_LAUNCH"};
constexpr std::string_view kOwnPrefixes[] = {"SSH_", "XDG_", "SYSTEMD_", "PMIX_", "OMPI_", "PMI_"};

bool is_own(std::string_view name) {
  return std::ranges::find(kOwnNames, name) != std::end(kOwnNames) ||
         std::ranges::any_of(kOwnPrefixes,
                             [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::vector<std::pair<std::string, std::string>> portable_environment(char* const* environment) {
  std::vector<std::pair<std::string, std::string>> portable;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const std::size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string_view::npos) continue;
    if (!is_own(entry.substr(0, equals)))
      portable.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return portable;
}

int silence_ms(const Settings& settings,
               const std::vector<std::pair<std::string, std::string>>& environment,
               const std::vector<Program>& programs) {
  const auto with = [](Settings changed, const auto& variables) {
    for (const auto& [name, value] : variables)
      if (name == "WEFT_PEER_TIMEOUT_MS")
        if (!changed.set("PEER_TIMEOUT_MS", value)) break;
    return changed;
  };
  const Settings for_all = with(settings, environment);
  int longest = programs.empty() ? for_all.ms(Setting::peer_timeout_ms) : 0;
  for (const Program& program : programs)
    longest = std::max(longest, with(for_all, program.environment).ms(Setting::peer_timeout_ms));
  return silence_beyond(longest);
}

int hang_report_ms(const Settings& settings,
                   const std::vector<std::pair<std::string, std::string>>& environment,
                   const std::vector<Program>& programs) {
  Settings changed = settings;
  const auto take = [&changed](const auto& variables) {
    for (const auto& [name, value] : variables)
      if (name == "WEFT_HANG_REPORT_MS" && !changed.set("HANG_REPORT_MS", value)) return;
  };
  take(environment);
  for (const Program& program : programs) take(program.environment);
  return changed.ms(Setting::hang_report_ms);
}

}  // namespace weft::weftrun
