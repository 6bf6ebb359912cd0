#pragma once
// All options of weftrun: one table from which they are parsed and misspelt ones are corrected.
// Tests: tests/job/options_test.cpp.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/options.hpp"

namespace weft::weftrun {

// What stands after an option's name.
enum class Takes {
  nothing,
  value,
  // A value that comes after an equals sign or not at all.
  optional_value,
  // NAME=VALUE; after a single dash also NAME VALUE, as Hydra has it.
  variable,
  // Two words: a parameter's name and its value.
  parameter,
};

struct Argument {
  std::string_view option;  // as it was written, without the value
  std::string value;
  Options& options;
  Program& program;
};

struct OptionRow {
  // All names. "--name" also stands for "-name", as Open MPI and Hydra write it.
  std::vector<std::string_view> names;
  Takes takes = Takes::nothing;
  // Null: the option is ignored.
  Status (*apply)(Argument& argument) = nullptr;
  // Why it is ignored, which the user is told. Null: nothing is lost by that.
  const char* why_ignored = nullptr;
};

std::span<const OptionRow> option_table();
// Null if there is no such option.
const OptionRow* find_option(std::string_view name);

}  // namespace weft::weftrun
