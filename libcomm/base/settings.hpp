#pragma once
// The settings table: every value a user can set, one row each. WEFT_<NAME> in the environment sets
// it. Read once when a job opens; afterwards a Settings is constant and any thread may read it.
//
// Tests: tests/base/settings_test.cpp.
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "weft/status.hpp"

namespace weft {

// The notation of a value. `bytes` takes a suffix K, M or G (powers of 1024); `picks` is a list
// "name=choice,word,...", or "name=choice@MEMBERS:BYTES+choice+...", the first that applies, with
// either bound or none; `lengths` is a choice, or two numbers of bytes "MIN-MAX".
enum class Unit { text, choice, picks, lengths, flag, count, bytes, us, ms };

// The readers of a setting's documentation: those who run programs, or those who measure and test.
enum class Audience { user, expert };

enum class Setting : int {
#define WEFT_SETTING(id, name, value, unit, audience, meaning) id,
#include "base/settings_table.hpp"
#undef WEFT_SETTING
  kCount
};

inline constexpr int kNumSettings = static_cast<int>(Setting::kCount);

struct SettingRow {
  Setting id;
  std::string_view name;  // without the prefix WEFT_
  std::string_view default_value;
  Unit unit;
  Audience audience;
  // For Unit::choice and lengths it starts with the choices, "a|b|c: ...", for Unit::picks with the
  // choices of each name and the words, "x=a|b,y=c|d,word: ...".
  std::string_view meaning;
};

std::span<const SettingRow> setting_rows() noexcept;
std::string_view unit_name(Unit unit) noexcept;

// Returns true if `item` is among the comma-separated words of `list`.
bool list_has(std::string_view list, std::string_view item) noexcept;

// The choice that a value of Unit::picks gives for `name`, or an empty text.
std::string_view pick_of(std::string_view picks, std::string_view name) noexcept;

// One choice of it.
struct Pick {
  std::string_view name;
  static constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  std::int64_t max_members = kAny, max_bytes = kAny;
};
// Calls `use(pick)` with each, until it returns false. Returns false then, and where a pick is not
// valid.
bool for_each_pick(std::string_view picks, const std::function<bool(const Pick&)>& use);

// The two numbers of a value of Unit::lengths that is not a choice.
struct Lengths {
  std::int64_t min, max;
};
std::optional<Lengths> lengths_of(std::string_view value) noexcept;

class Settings {
 public:
  Settings();  // the defaults

  // The defaults, overridden by every WEFT_ variable in `environment` (as `environ`: "NAME=value",
  // null-terminated), and below those by the lines of the file WEFT_SETTINGS_FILE. bad_setting
  // names the row, the value and what would be right, and the file and line; an unknown WEFT_
  // variable is bad_setting and names the nearest row. Variables that launchers own (WEFT_RANK,
  // WEFT_SIZE, WEFT_RENDEZVOUS, WEFT_JOB_KEY, ...) are listed in settings.cpp.
  static Status from_environment(char* const* environment, Settings& out);

  // Sets one row by its name without prefix. bad_setting as above.
  Status set(std::string_view name, std::string_view value);

  std::int64_t number(Setting id) const noexcept { return numbers_[index(id)]; }
  std::size_t bytes(Setting id) const noexcept {
    return static_cast<std::size_t>(numbers_[index(id)]);
  }
  // Like bytes(), for a setting whose 0 stands for the caller's own choice.
  std::size_t bytes_or(Setting id, std::size_t best) const noexcept {
    return bytes(id) != 0 ? bytes(id) : best;
  }
  // Of Unit::us and ms.
  std::uint64_t ns(Setting id) const noexcept;
  // The time for which anything but a network may keep a process from going on, as memory that is
  // short: the time for a peer, at most 5 s.
  std::uint64_t patience_ns() const noexcept;
  // Of Unit::ms.
  int ms(Setting id) const noexcept { return static_cast<int>(number(id)); }
  bool flag(Setting id) const noexcept { return numbers_[index(id)] != 0; }
  const std::string& text(Setting id) const noexcept { return texts_[index(id)]; }
  // Where a value comes from.
  enum class Origin : std::uint8_t { built_in, file, environment };
  Origin origin(Setting id) const noexcept { return origins_[index(id)]; }
  bool is_default(Setting id) const noexcept { return origin(id) == Origin::built_in; }

 private:
  Status read_file(const std::string& path);
  static std::size_t index(Setting id) noexcept { return static_cast<std::size_t>(id); }

  std::array<std::string, kNumSettings> texts_;
  std::array<std::int64_t, kNumSettings> numbers_{};
  std::array<Origin, kNumSettings> origins_{};
};

}  // namespace weft
