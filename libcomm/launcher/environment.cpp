#include "launcher/environment.hpp"

#include <fmt/core.h>

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

// With this one as variables set it, until one is wrong: that is the ranks' to report.
static Settings with(Settings settings, std::string_view name,
                     const std::vector<std::pair<std::string, std::string>>& variables) {
  for (const auto& [variable, value] : variables)
    if (variable == fmt::format("WEFT_{}", name) && !settings.set(name, value)) break;
  return settings;
}

int silence_ms(const Settings& settings,
               const std::vector<std::pair<std::string, std::string>>& environment,
               const std::vector<Program>& programs) {
  constexpr std::string_view kName = "PEER_TIMEOUT_MS";
  const Settings for_all = with(settings, kName, environment);
  int longest = programs.empty() ? for_all.ms(Setting::peer_timeout_ms) : 0;
  for (const Program& program : programs)
    longest =
        std::max(longest, with(for_all, kName, program.environment).ms(Setting::peer_timeout_ms));
  return silence_beyond(longest);
}

int hang_report_ms(const Settings& settings,
                   const std::vector<std::pair<std::string, std::string>>& environment,
                   const std::vector<Program>& programs) {
  constexpr std::string_view kName = "HANG_REPORT_MS";
  Settings changed = with(settings, kName, environment);
  for (const Program& program : programs) changed = with(changed, kName, program.environment);
  return changed.ms(Setting::hang_report_ms);
}

}  // namespace weft::weftrun
