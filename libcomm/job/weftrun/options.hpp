#pragma once
// What weftrun was asked to do, from its command line.
#include <string>
#include <utility>
#include <vector>

#include "weft/status.hpp"

namespace weft::weftrun {

enum class Bind { automatic, core, none };
enum class OnDeath { kill, go_on };

struct Options {
  int num_ranks = 1;
  std::vector<std::pair<std::string, std::string>> environment;
  bool tag_output = false;
  Bind bind = Bind::automatic;
  double timeout_s = 0;  // 0: none
  OnDeath on_death = OnDeath::kill;
  bool help = false;
  bool version = false;
  std::vector<std::string> command;  // the program and its arguments
};

// bad_argument names the word that does not fit.
Status parse_options(int argc, const char* const* argv, Options& out);
std::string help_text();

}  // namespace weft::weftrun
