// weftrun's command line: the table of options, what each of them sets, and what errors say.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <sstream>

#include "launcher/options.hpp"
#include "launcher/options/table.hpp"

using namespace weft::weftrun;
using weft::Code;
using weft::Status;
using Words = std::vector<std::string>;

namespace {

Status parse(const Words& words, Options& options) {
  std::vector<const char*> arguments{"weftrun"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  return parse_options(static_cast<int>(arguments.size()), arguments.data(), options);
}

// The options of a command line that ends with "true".
Options options_of(Words words) {
  words.push_back("true");
  Options options;
  const Status status = parse(words, options);
  INFO(status.text());
  REQUIRE(status.ok());
  REQUIRE(options.programs.back().command == Words{"true"});
  return options;
}

std::string error_of(Words words) {
  words.push_back("true");
  Options options;
  const Status status = parse(words, options);
  INFO(words[0]);
  REQUIRE(status.code() == Code::bad_argument);
  return status.text();
}

}  // namespace

TEST_CASE("every name is in the table once, and found with one dash or two") {
  std::set<std::string_view> seen;
  for (const OptionRow& row : option_table())
    for (const std::string_view name : row.names) {
      INFO(name);
      CHECK(seen.insert(name).second);
      CHECK(find_option(name) == &row);
      if (name.starts_with("--") && name.size() > 3) CHECK(find_option(name.substr(1)) == &row);
      CHECK((row.apply == nullptr || row.why_ignored == nullptr));
    }
  CHECK(find_option("-") == nullptr);
  CHECK(find_option("--") == nullptr);
  CHECK(find_option("") == nullptr);
}

TEST_CASE("a misspelt option is named with the one that was probably meant") {
  CHECK(error_of({"--np4"}) == "--np4 is not an option; did you mean --np? (weftrun --help)");
  CHECK(error_of({"--tagoutput"}) ==
        "--tagoutput is not an option; did you mean --tag-output? (weftrun --help)");
  CHECK(error_of({"--hlep"}) == "--hlep is not an option; did you mean --help? (weftrun --help)");
  CHECK(error_of({"--host-file=x"}) ==
        "--host-file is not an option; did you mean --hostfile? (weftrun --help)");
  CHECK(error_of({"-report-binding"}) ==
        "-report-binding is not an option; did you mean --report-bindings? (weftrun --help)");
  CHECK(error_of({"--frobnicate"}) == "--frobnicate is not an option (weftrun --help)");
  CHECK(error_of({"-"}) == "- is not an option (weftrun --help)");
}

TEST_CASE("values that are missing, too many or wrong are named") {
  Options options;
  CHECK(parse({"-n"}, options).text() == "-n needs a value (weftrun --help)");
  CHECK(parse({"--mca", "btl"}, options).code() == Code::bad_argument);
  CHECK(error_of({"--stats=1"}) == "--stats takes no value (weftrun --help)");
  for (const Words& words :
       {Words{"-n", "0"}, Words{"--map-by", "moon"}, Words{"--map-by", "ppr:0:socket"},
        Words{"--map-by", "ppr:2:moon"}, Words{"--map-by", "ppr:2"}, Words{"--map-by", "core:PE=0"},
        Words{"--bind-to", "moon"}, Words{"--bind-to", "core:moon"}, Words{"--cpu-set", "1-"},
        Words{"--cpu-set", "3-1"}, Words{"--cpu-set", ""}, Words{"--cpu-set", "-1"},
        Words{"--output-filename", ""}, Words{"--output", "moon"}, Words{"--display", "moon"},
        Words{"--port", "0"}, Words{"-N", "x"}, Words{"--rank-by", "moon"}}) {
    const std::string text = error_of(words);
    CHECK(text.starts_with(words[0] + " "));
    CHECK(text.find("must be") != std::string::npos);
  }
}

TEST_CASE("a tool is put before all programs, and two are refused") {
  for (const auto& [words, how] :
       {std::pair{Words{"--check"}, "report"}, std::pair{Words{"--check=abort"}, "abort"}}) {
    Words all = words;
    all.insert(all.end(), {"-n", "2", "one", ":", "-n", "1", "two"});
    Options options;
    REQUIRE(parse(all, options).ok());
    REQUIRE(options.programs.size() == 2);
    for (const Program& program : options.programs)
      CHECK(program.command.front().ends_with("/weft-check"));
    CHECK(std::ranges::count(options.environment,
                             std::pair{std::string("WEFT_CHECK"), std::string(how)}) == 1);
  }
  CHECK(error_of({"--check", "--profile"}).find("exclude each other") != std::string::npos);
  CHECK(error_of({"--restart", "1", "--on-death", "continue"}).find("exclude each other") !=
        std::string::npos);
  CHECK(error_of({"--check=all"}).find("report or abort") != std::string::npos);
  setenv("WEFT_CHECK", "abort", 1);
  Options options;
  CHECK(parse({"true"}, options).ok());
  CHECK(options.programs[0].command.front().ends_with("/weft-check"));
  CHECK(error_of({"--profile"}).find("WEFT_CHECK") != std::string::npos);
  setenv("WEFT_CHECK", "perhaps", 1);
  CHECK(error_of({}).find("perhaps") != std::string::npos);
  setenv("WEFT_CHECK", "off", 1);
  CHECK(options_of({}).check == false);
  unsetenv("WEFT_CHECK");
}

TEST_CASE("options of other launchers mean what the same ones mean here") {
  struct Case {
    Words words;
    bool (*holds)(const Options&);
  };
  using O = const Options&;
  const Case cases[] = {
      {{"-np", "3"}, [](O o) { return o.num_ranks == 3; }},
      {{"--ntasks=3"}, [](O o) { return o.num_ranks == 3; }},
      {{"-N", "2"}, [](O o) { return o.num_ranks == 2 && o.ranks_per_host == 2; }},
      {{"-npernode", "2"}, [](O o) { return o.ranks_per_host == 2; }},
      {{"--pernode"}, [](O o) { return o.ranks_per_host == 1; }},
      {{"-wd", "/x"}, [](O o) { return o.folder == "/x"; }},
      {{"--chdir=/x"}, [](O o) { return o.folder == "/x"; }},
      {{"-D", "/x"}, [](O o) { return o.folder == "/x"; }},
      {{"-q"}, [](O o) { return o.quiet; }},
      {{"--bind-to", "core:overload-allowed"}, [](O o) { return o.binding.unit == Bind::core; }},
      {{"--bind-to", "L3cache:if-supported,overload-allowed"},
       [](O o) { return o.binding.unit == Bind::l3cache && o.binding.if_supported; }},
      {{"--bind-to", "l1cache"}, [](O o) { return o.binding.unit == Bind::l1cache; }},
      {{"--bind-to", "l2cache"}, [](O o) { return o.binding.unit == Bind::l2cache; }},
      {{"--bind-to", "package"}, [](O o) { return o.binding.unit == Bind::socket; }},
      {{"-bind-to", "core:2"},
       [](O o) { return o.binding.unit == Bind::core && o.binding.units_each == 2; }},
      {{"-bind-to", "rr"},
       [](O o) { return o.binding.unit == Bind::hwthread && o.binding.units_each == 1; }},
      {{"--bind-to-core"}, [](O o) { return o.binding.unit == Bind::core; }},
      {{"--bind-to-socket"}, [](O o) { return o.binding.unit == Bind::socket; }},
      {{"--cpu-bind=verbose,cores"},
       [](O o) { return o.binding.unit == Bind::core && o.binding.report; }},
      {{"--cpu-bind", "ldoms"}, [](O o) { return o.binding.unit == Bind::numa; }},
      {{"--cpus-per-task", "2", "--cpu-bind", "sockets"},
       [](O o) { return o.binding.unit == Bind::socket && o.binding.units_each == 0; }},
      {{"--cpus-per-task", "2", "--cpu-bind", "cores"},
       [](O o) { return o.binding.unit == Bind::core && o.binding.units_each == 2; }},
      {{"--map-by", "slot:PE=4"},
       [](O o) { return o.binding.unit == Bind::core && o.binding.units_each == 4; }},
      {{"--cpus-per-task=4"},
       [](O o) { return o.binding.unit == Bind::core && o.binding.units_each == 4; }},
      {{"--use-hwthread-cpus", "--map-by", "slot:PE=4"},
       [](O o) { return o.binding.unit == Bind::hwthread && o.binding.units_each == 4; }},
      {{"--map-by", "core:HWTCPUS"}, [](O o) { return o.binding.hwthreads; }},
      {{"--map-by", "socket"}, [](O o) { return o.binding.map_unit == Bind::socket; }},
      {{"--map-by", "node:OVERSUBSCRIBE"}, [](O o) { return o.hosts_in_turn && o.oversubscribe; }},
      {{"--bynode"}, [](O o) { return o.hosts_in_turn; }},
      {{"--map-by", "ppr:2:node"},
       [](O o) { return o.num_ranks == 2 && o.binding.map_unit == Bind::none; }},
      {{"--hosts", "h1,h2", "--map-by", "ppr:3:node"}, [](O o) { return o.num_ranks == 6; }},
      {{"--cpu-set", "4,0-1,1"},
       [](O o) {
         return o.binding.cpus == std::vector<int>{0, 1, 4};
       }},
      {{"--report-bindings"}, [](O o) { return o.binding.report; }},
      {{"--display", "map,bind"}, [](O o) { return o.display_map && o.binding.report; }},
      {{"--display-map"}, [](O o) { return o.display_map; }},
      {{"--label"}, [](O o) { return o.tag_output; }},
      {{"--output-filename", "/a/b/"},
       [](O o) {
         return o.output_files == "/a/b" && o.output_is_copied && o.output_has_job_folder;
       }},
      {{"--output-filename", "/a:nojobid,nocopy"},
       [](O o) {
         return o.output_files == "/a" && !o.output_is_copied && !o.output_has_job_folder;
       }},
      {{"--output-filename", "/a:b"}, [](O o) { return o.output_files == "/a:b"; }},
      {{"--output", "tag,merge,dir=/a:nocopy"},
       [](O o) {
         return o.tag_output && o.merge_errors && o.output_files == "/a" && !o.output_is_copied;
       }},
      {{"--merge-stderr-to-stdout"}, [](O o) { return o.merge_errors; }},
      {{"-iface", "eth0"}, [](O o) { return o.address == "eth0"; }},
      {{"-launcher", "rsh"}, [](O o) { return o.launch == "rsh {host}"; }},
      {{"-launcher", "ssh"}, [](O o) { return o.launch.empty() && o.notes.empty(); }},
      {{"-launcher-exec", "/x/ssh"}, [](O o) { return o.launch == "/x/ssh"; }},
      {{"-disable-auto-cleanup"}, [](O o) { return o.on_death == OnDeath::go_on; }},
      {{"--kill-on-bad-exit=0"}, [](O o) { return o.on_death == OnDeath::go_on; }},
      {{"-K"}, [](O o) { return o.on_death == OnDeath::kill; }},
      {{"--nolocal", "--hosts", "localhost,h1:2"},
       [](O o) { return o.hosts.size() == 1 && o.num_ranks == 2; }},
      {{"--prefix", "/nonexistent/weft"},
       [](O o) {
         return o.agent == "/nonexistent/weft/bin/weftrun" && o.path == "/nonexistent/weft/bin" &&
                o.environment.at(0).second.starts_with("/nonexistent/weft/lib");
       }},
      {{"--prefix", "/nonexistent/weft", "--path", "/y"},
       [](O o) { return o.path == "/nonexistent/weft/bin:/y"; }},
      {{"--path", "/y", "--prefix", "/nonexistent/weft"},
       [](O o) { return o.path == "/nonexistent/weft/bin:/y"; }},
      {{"--prefix", "/nonexistent/weft", "--agent", "/x"}, [](O o) { return o.agent == "/x"; }},
      {{"--export=ALL,A=1"},
       [](O o) { return o.environment.size() == 1 && o.environment[0].second == "1"; }},
      {{"-env", "A", "1", "-x", "B=2"}, [](O o) { return o.programs[0].environment.size() == 2; }},
      {{"-genv", "A", "1"}, [](O o) { return o.environment.size() == 1; }},
      {{"--mca", "btl", "self"}, [](O o) { return o.ignored == Words{"--mca btl self"}; }},
      {{"-rmk", "slurm"}, [](O o) { return o.ignored == Words{"-rmk slurm"}; }},
  };
  for (const Case& entry : cases) {
    INFO(entry.words[0] << " " << (entry.words.size() > 1 ? entry.words[1] : ""));
    const Options options = options_of(entry.words);
    CHECK(entry.holds(options));
    CHECK(options.notes.empty());
  }
}

TEST_CASE("what weftrun does not do is noted in a line, with the reason") {
  CHECK(options_of({"--xml"}).notes == Words{"--xml is ignored: output is text"});
  for (const Words& words :
       {Words{"--timestamp-output"}, Words{"-outfile-pattern", "x.%r"}, Words{"-genvnone"},
        Words{"-membind", "firsttouch"}, Words{"--bind-to", "core:limit=2"},
        Words{"--rank-by", "span"}, Words{"--prefix", "/dev/.."}, Words{"-launcher", "fork"},
        Words{"--stdin", "all"}, Words{"--cpu-bind", "map_cpu:0"}, Words{"--output", "timestamp"},
        Words{"--display", "allocation"}, Words{"--export", "NONE"}, Words{"--nodes", "2"},
        Words{"-bind-to", "user:0+2"}}) {
    INFO(words[0]);
    if (words[0] == "--prefix" && access("/bin/weftrun", X_OK) == 0) continue;
    const Options options = options_of(words);
    REQUIRE(options.notes.size() == 1);
    CHECK(options.notes[0].starts_with(words[0] + " "));
    CHECK(options.notes[0].find(" is ignored: ") != std::string::npos);
  }
}

TEST_CASE("ppr:N:UNIT makes so many ranks for each unit of a host") {
  int num_cores = 0;
  REQUIRE(count_units(Bind::core, {}, num_cores).ok());
  const Options one = options_of({"--map-by", "ppr:2:core"});
  CHECK(one.num_ranks == 2 * num_cores);
  CHECK(one.notes.empty());
  CHECK(one.binding.ranks_per_map_unit == 2);
  CHECK(options_of({"--ppr", "1:core"}).num_ranks == num_cores);
  // A later mapping replaces it, but for qualifiers alone.
  for (const std::string later : {"slot", "core", "socket", "node"}) {
    INFO(later);
    const Options options = options_of({"--map-by", "ppr:2:core", "--map-by", later});
    CHECK(options.num_ranks == 1);
    CHECK(options.ranks_per_host == 0);
  }
  CHECK(options_of({"--map-by", "ppr:2:core", "--map-by", ":PE=2"}).num_ranks == 2 * num_cores);
  CHECK(options_of({"--map-by", "ppr:3:core", "--cpu-set", "0"}).num_ranks == 3);
  CHECK(options_of({"-n", "1", "--map-by", "ppr:3:core"}).num_ranks == 1);
  // Other hosts are not asked.
  const Options two = options_of({"--hosts", "h1.invalid,h2.invalid", "--map-by", "ppr:1:core"});
  CHECK(two.num_ranks == 2 * num_cores);
  REQUIRE(two.notes.size() == 1);
  CHECK(two.notes[0].starts_with(fmt::format("every host is taken to have {} core", num_cores)));
}

TEST_CASE("the help has all main options, in lines of at most 100 columns") {
  const std::string help = help_text();
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.size() <= 100);
  }
  for (const char* group : {"\nProcesses:\n", "\nHosts ", "\nBinding:\n", "\nOutput:\n",
                            "\nEnvironment:\n", "\nEnds:\n", "\nOther:\n"})
    CHECK(help.find(group) != std::string::npos);
  // Every option that the help names at the beginning of a line is one.
  std::istringstream again(help);
  for (std::string line; std::getline(again, line);) {
    if (!line.starts_with("  -")) continue;
    const std::string name = line.substr(2, line.find_first_of(" ,\n", 2) - 2);
    INFO(name);
    CHECK(find_option(name) != nullptr);
  }
}
