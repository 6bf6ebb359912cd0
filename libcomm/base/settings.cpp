#include "base/settings.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <limits>
#include <vector>

#include "base/nearest_name.hpp"

namespace weft {
namespace {

constexpr SettingRow kRows[] = {
#define WEFT_SETTING(id, name, value, unit, audience, meaning) \
  {Setting::id, name, value, Unit::unit, Audience::audience, meaning},
#include "base/settings_table.hpp"
#undef WEFT_SETTING
};

constexpr std::string_view kPrefix = "WEFT_";

// Set by whatever starts the job, or read by the compiler wrappers; not for users, hence no rows.
constexpr std::string_view kLauncherNames[] = {
    "RANK",         "SIZE", "RENDEZVOUS", "JOB_KEY",     "LAUNCHER", "APP_NUMBER",
    "CRASH_SOCKET", "CC",   "CXX",        "PROFILE_OUT", "PARENT",   "NAME_SERVER"};

const SettingRow* find_row(std::string_view name) {
  for (const SettingRow& row : kRows)
    if (row.name == name) return &row;
  return nullptr;
}

// "a|b|c" of a choice's meaning.
std::string_view choices_of(const SettingRow& row) {
  return row.meaning.substr(0, row.meaning.find(':'));
}

// Position of `value` among the choices, or -1.
std::int64_t find_choice(std::string_view choices, std::string_view value) {
  for (std::int64_t position = 0;; ++position) {
    const std::size_t end = choices.find('|');
    if (choices.substr(0, end) == value) return position;
    if (end == std::string_view::npos) return -1;
    choices.remove_prefix(end + 1);
  }
}

// The value of the last "name=value" of a comma-separated list.
std::string_view value_of(std::string_view list, std::string_view name) noexcept {
  std::string_view found;
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    if (item.substr(0, item.find('=')) == name && item.size() > name.size())
      found = item.substr(name.size() + 1);
    list.remove_prefix(std::min(list.size(), item.size() + 1));
  }
  return found;
}

bool parse_flag(std::string_view value, std::int64_t& out) {
  for (std::string_view yes : {"1", "yes", "on", "true"})
    if (value == yes) return out = 1, true;
  for (std::string_view no : {"0", "no", "off", "false"})
    if (value == no) return out = 0, true;
  return false;
}

bool parse_count(std::string_view value, bool with_suffix, std::int64_t& out) {
  std::int64_t number = 0;
  const char* end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc{} || number < 0) return false;
  int shift = 0;
  if (rest != end) {
    if (!with_suffix || rest + 1 != end) return false;
    switch (*rest) {
      case 'k':
      case 'K':
        shift = 10;
        break;
      case 'm':
      case 'M':
        shift = 20;
        break;
      case 'g':
      case 'G':
        shift = 30;
        break;
      default:
        return false;
    }
  }
  if (number > (std::numeric_limits<std::int64_t>::max() >> shift)) return false;
  out = number << shift;
  return true;
}

bool are_picks(std::string_view choices, std::string_view value) {
  while (!value.empty()) {
    const std::string_view item = value.substr(0, value.find(','));
    const std::size_t equals = item.find('=');
    const std::string_view known = value_of(choices, item.substr(0, equals));
    if (equals == std::string_view::npos
            ? !list_has(choices, item)
            : known.empty() || !for_each_pick(item.substr(equals + 1), [&](const Pick& pick) {
                return find_choice(known, pick.name) >= 0;
              }))
      return false;
    value.remove_prefix(std::min(value.size(), item.size() + 1));
  }
  return true;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string expectation(const SettingRow& row) {
  switch (row.unit) {
    case Unit::text:
      return "a text";
    case Unit::choice:
      return fmt::format("one of {}", choices_of(row));
    case Unit::picks:
      return fmt::format("one or more of {}", choices_of(row));
    case Unit::lengths:
      return fmt::format("one of {}, or two numbers of bytes such as 8-4K", choices_of(row));
    case Unit::flag:
      return "0 or 1";
    case Unit::count:
      return "a whole number, 0 or more";
    case Unit::bytes:
      return "a number of bytes such as 4096, 64K, 2M or 1G";
    case Unit::us:
      return "a whole number of microseconds";
    case Unit::ms:
      return "a whole number of milliseconds";
  }
  return {};
}

bool parse(const SettingRow& row, std::string_view value, std::int64_t& out) {
  switch (row.unit) {
    case Unit::text:
      return true;
    case Unit::choice:
      return (out = find_choice(choices_of(row), value)) >= 0;
    case Unit::picks:
      return are_picks(choices_of(row), value);
    case Unit::lengths:
      return find_choice(choices_of(row), value) >= 0 || lengths_of(value).has_value();
    case Unit::flag:
      return parse_flag(value, out);
    case Unit::bytes:
      return parse_count(value, true, out);
    case Unit::count:
    case Unit::us:
    case Unit::ms:
      return parse_count(value, false, out);
  }
  return false;
}

}  // namespace

std::span<const SettingRow> setting_rows() noexcept { return kRows; }

std::optional<Lengths> lengths_of(std::string_view value) noexcept {
  const std::size_t dash = value.find('-');
  Lengths lengths{};
  if (dash == std::string_view::npos || !parse_count(value.substr(0, dash), true, lengths.min) ||
      !parse_count(value.substr(dash + 1), true, lengths.max) || lengths.min > lengths.max)
    return std::nullopt;
  return lengths;
}

std::string_view unit_name(Unit unit) noexcept {
  switch (unit) {
    case Unit::text:
      return "text";
    case Unit::choice:
      return "choice";
    case Unit::picks:
      return "picks";
    case Unit::lengths:
      return "lengths";
    case Unit::flag:
      return "flag";
    case Unit::count:
      return "count";
    case Unit::bytes:
      return "bytes";
    case Unit::us:
      return "us";
    case Unit::ms:
      return "ms";
  }
  return "unknown";
}

bool list_has(std::string_view list, std::string_view item) noexcept {
  for (;;) {
    const std::size_t comma = list.find(',');
    if (list.substr(0, comma) == item) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
}

std::string_view pick_of(std::string_view picks, std::string_view name) noexcept {
  return value_of(picks, name);
}

bool for_each_pick(std::string_view picks, const std::function<bool(const Pick&)>& use) {
  for (;;) {
    const std::size_t end = picks.find('+');
    std::string_view item = picks.substr(0, end);
    Pick pick;
    if (const std::size_t bytes = item.find(':'); bytes != std::string_view::npos) {
      if (!parse_count(item.substr(bytes + 1), true, pick.max_bytes)) return false;
      item = item.substr(0, bytes);
    }
    if (const std::size_t members = item.find('@'); members != std::string_view::npos) {
      if (!parse_count(item.substr(members + 1), false, pick.max_members)) return false;
      item = item.substr(0, members);
    }
    pick.name = item;
    if (!use(pick)) return false;
    if (end == std::string_view::npos) return true;
    picks.remove_prefix(end + 1);
  }
}

Settings::Settings() {
  for (const SettingRow& row : kRows) {
    const std::size_t i = index(row.id);
    texts_[i] = row.default_value;
    // A test reads every default back, so a bad one in the table does not go unseen.
    (void)parse(row, row.default_value, numbers_[i]);
  }
}

std::uint64_t Settings::ns(Setting id) const noexcept {
  const std::uint64_t in_ns = kRows[index(id)].unit == Unit::us ? 1000 : 1'000'000;
  return static_cast<std::uint64_t>(number(id)) * in_ns;
}

std::uint64_t Settings::patience_ns() const noexcept {
  constexpr std::uint64_t kMostNs = 5'000'000'000;
  return std::min(ns(Setting::peer_timeout_ms), kMostNs);
}

Status Settings::set(std::string_view name, std::string_view value) {
  const SettingRow* row = find_row(name);
  if (row == nullptr) {
    std::vector<std::string> names;
    for (const SettingRow& each : kRows) names.emplace_back(each.name);
    const auto near = nearest_name(name, names);
    return {Code::bad_setting,
            fmt::format("WEFT_{} is not a setting; {}weft-info --settings lists all", name,
                        near ? "did you mean WEFT_" + *near + "? " : "")};
  }
  std::int64_t number = 0;
  if (!parse(*row, value, number))
    return {Code::bad_setting,
            fmt::format("WEFT_{}={} is not valid; it must be {}", name, value, expectation(*row))};
  const std::size_t i = index(row->id);
  texts_[i] = value;
  numbers_[i] = number;
  origins_[i] = Origin::environment;
  return {};
}

Status Settings::from_environment(char* const* environment, Settings& out) {
  Settings settings;
  for (; *environment != nullptr; ++environment) {
    std::string_view entry = *environment;
    if (!entry.starts_with(kPrefix)) continue;
    entry.remove_prefix(kPrefix.size());
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = entry.substr(0, equals);
    if (std::ranges::find(kLauncherNames, name) != std::end(kLauncherNames)) continue;
    Status status = settings.set(name, entry.substr(equals + 1));
    if (!status) return status;
  }
  if (const std::string path = settings.text(Setting::settings_file); !path.empty())
    if (Status status = settings.read_file(path); !status) return status;
  out = std::move(settings);
  return {};
}

// Lines WEFT_NAME=value, as a shell would read them: "export " may stand before, and quotes around
// the value.
Status Settings::read_file(const std::string& path) {
  std::ifstream file(path);
  const auto failed = [&](int line, const std::string& why) -> Status {
    return {Code::bad_setting, fmt::format("{}:{}: {}", path, line, why)};
  };
  if (!file)
    return {Code::bad_setting,
            fmt::format("WEFT_SETTINGS_FILE={} cannot be read: {}", path, std::strerror(errno))};
  int number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    std::string_view line = trimmed(text);
    if (line.empty() || line.front() == '#') continue;
    if (line.starts_with("export ")) line = trimmed(line.substr(7));
    const std::size_t equals = line.find('=');
    if (!line.starts_with(kPrefix) || equals == std::string_view::npos)
      return failed(number, fmt::format("'{}' is no line WEFT_NAME=value", line));
    const std::string_view name = line.substr(kPrefix.size(), equals - kPrefix.size());
    std::string_view value = line.substr(equals + 1);
    if (value.size() >= 2 && (value.front() == '\'' || value.front() == '"') &&
        value.back() == value.front())
      value = value.substr(1, value.size() - 2);
    const SettingRow* row = find_row(name);
    if (row != nullptr && row->id == Setting::settings_file)
      return failed(number, "a file of settings names no other");
    if (row != nullptr && origin(row->id) == Origin::environment) continue;
    if (Status status = set(name, value); !status) return failed(number, status.text());
    origins_[index(row->id)] = Origin::file;
  }
  // A folder opens, and cannot be read.
  if (file.bad())
    return {Code::bad_setting, fmt::format("WEFT_SETTINGS_FILE={} cannot be read", path)};
  return {};
}

}  // namespace weft
