#pragma once
// What weftrun was asked to do, from its command line.
#include <string>
#include <utility>
#include <vector>

#include "weft/status.hpp"

namespace weft::weftrun {

enum class Bind { automatic, core, none };
enum class OnDeath { kill, go_on };

struct HostEntry {
  std::string name;
  int slots = 0;  // 0: none were given
};

struct Options {
  int num_ranks = 0;             // 0: one on this machine, or one for every slot
  std::vector<HostEntry> hosts;  // empty: this machine
  bool oversubscribe = false;
  std::string launch;   // what starts something on another host; empty: the setting LAUNCH
  std::string agent;    // weftrun's path there; empty: as here
  std::string address;  // of the rendezvous server: an address or an interface; empty: any
  int port = 0;         // of the same; 0: any
  std::string folder;   // where the processes start; empty: here
  std::vector<std::pair<std::string, std::string>> environment;
  bool tag_output = false;
  bool profile = false;  // weft-profile is put before the program
  Bind bind = Bind::automatic;
  double timeout_s = 0;  // 0: none
  OnDeath on_death = OnDeath::kill;
  bool serve_host = false;  // be the agent of another weftrun
  bool help = false;
  bool version = false;
  std::vector<std::string> command;  // the program and its arguments
};

// bad_argument names the word that does not fit.
Status parse_options(int argc, const char* const* argv, Options& out);
std::string help_text();

}  // namespace weft::weftrun
