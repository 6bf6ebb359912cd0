#pragma once
// The options of weftrun, from its command line. options/table.hpp has them all.
// Tests: tests/job/options_test.cpp.
#include <string>
#include <utility>
#include <vector>

#include "launcher/binding.hpp"
#include "weft/status.hpp"

namespace weft::weftrun {

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
  int ranks_per_host = 0;  // 0: as many as the hosts have slots
  bool excludes_this_machine = false;
  bool hosts_in_turn = false;  // rank after rank to the next host, not host after host filled
  std::string launch;  // the command that starts one on another host; empty: the setting LAUNCH
  std::string agent;   // weftrun's path there; empty: as here
  std::string prefix_agent;  // the same below --prefix, if `agent` is empty
  std::string address;       // of the rendezvous server: an address or an interface; empty: any
  int port = 0;              // of the same; 0: any
  std::string folder;        // where the processes start; empty: here
  std::vector<std::pair<std::string, std::string>> environment;
  bool tag_output = false;
  bool merge_errors = false;          // standard error goes where standard output goes
  std::string output_files;           // a folder with a file for each output of a rank; empty: none
  bool output_is_copied = true;       // what goes there is also written to the standard outputs
  bool output_has_job_folder = true;  // PATH/1/rank.N, as Open MPI names them, not PATH/rank.N
  bool display_map = false;           // says which ranks run where
  bool check = false;                 // weft-check is put before the program
  bool profile = false;               // weft-profile is put before the program
  Binding binding;
  bool verbose = false;
  bool quiet = false;
  std::vector<std::string> ignored;  // options of other launchers that mean nothing here
  std::vector<std::string> notes;    // what is ignored of that which was asked for, and why
  double timeout_s = 0;              // 0: none
  double spent_s = 0;                // of it, by earlier starts of the job
  OnDeath on_death = OnDeath::kill;
  int restarts = 0;           // how often the job may be started again
  bool is_restarted = false;  // this is not its first start
  bool core = false;          // processes may leave core files
  std::string path;           // folders where programs are looked for first
  std::string name_server;    // host:port/key of one that serves names; empty: this one does
  bool serve_names = false;   // serve names, and start no ranks
  int background = -1;        // go on in the background, keeping this descriptor open until the end
  bool serve_host = false;    // be the agent of another weftrun
  bool help = false;
  bool version = false;
  std::vector<Program> programs;
};

// bad_argument names the word that does not fit. Host files and, for "ppr:2:socket", the topology
// of this machine are read.
Status parse_options(int argc, const char* const* argv, Options& out);
std::string help_text();

}  // namespace weft::weftrun
