#pragma once
// The options of weftrun, from its command line.
#include <string>
#include <utility>
#include <vector>

#include "weft/status.hpp"

namespace weft::weftrun {

enum class Bind { automatic, core, none, hwthread, numa, socket };
enum class OnDeath { kill, go_on };

struct HostEntry {
  std::string name;
  int slots = 0;  // 0: none were given
};

// One of the programs of a job: those after a colon start ranks of their own.
struct Program {
  int num_ranks = 0;  // 0: none was given
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> command;  // the program and its arguments
};

struct Options {
  int num_ranks = 0;             // 0: one on this machine, or one for every slot
  std::vector<HostEntry> hosts;  // empty: this machine
  bool oversubscribe = false;
  int ranks_per_host = 0;      // 0: as many as the hosts have slots
  bool hosts_in_turn = false;  // rank after rank to the next host, not host after host filled
  std::string launch;   // the command that starts one on another host; empty: the setting LAUNCH
  std::string agent;    // weftrun's path there; empty: as here
  std::string address;  // of the rendezvous server: an address or an interface; empty: any
  int port = 0;         // of the same; 0: any
  std::string folder;   // where the processes start; empty: here
  std::vector<std::pair<std::string, std::string>> environment;
  bool tag_output = false;
  bool profile = false;  // weft-profile is put before the program
  Bind bind = Bind::automatic;
  int cores_each = 0;  // with Bind::core; 0: an equal share
  bool verbose = false;
  std::vector<std::string> ignored;  // options of other launchers without a meaning here
  double timeout_s = 0;              // 0: none
  OnDeath on_death = OnDeath::kill;
  std::string path;          // folders where programs are looked for first
  std::string name_server;   // host:port/key of one that serves names; empty: this one does
  bool serve_names = false;  // serve names, and start no ranks
  int background = -1;       // go on in the background, keeping this descriptor open until the end
  bool serve_host = false;   // be the agent of another weftrun
  bool help = false;
  bool version = false;
  std::vector<Program> programs;
};

// bad_argument names the word that does not fit.
Status parse_options(int argc, const char* const* argv, Options& out);
std::string help_text();

}  // namespace weft::weftrun
