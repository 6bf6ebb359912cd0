// Options that job scripts have for other launchers, each with a job of two ranks.
#include <fmt/core.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "base/os/topology.hpp"
#include "tests/job/launch.hpp"

using namespace weft::testing;

namespace {

Words weftrun(Words options, const Words& command) {
  options.insert(options.begin(), WEFTRUN);
  options.insert(options.end(), command.begin(), command.end());
  return options;
}

// A folder that is removed at the end.
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/weftrun_test_XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string content(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

const Words kExchange{"rank 0 of 2 by weftrun", "rank 1 of 2 by weftrun"};

}  // namespace

TEST_CASE("a job of two ranks runs with the options of other launchers, and silently") {
  for (const Words& options : {
           Words{"-n", "2", "--bind-to", "core:overload-allowed"},
           Words{"-n", "2", "--bind-to", "l1cache:if-supported"},
           Words{"-n", "2", "--bind-to", "l2cache:if-supported"},
           Words{"-n", "2", "--bind-to", "l3cache:if-supported"},
           Words{"-N", "2"},
           Words{"-npernode", "2"},
           Words{"-n", "2", "--map-by", "ppr:2:socket"},
           Words{"-n", "2", "--map-by", "ppr:2:core"},
           Words{"-n", "2", "--map-by", "ppr:2:node"},
           Words{"-n", "2", "--map-by", "socket"},
           Words{"-n", "2", "--use-hwthread-cpus"},
           Words{"-n", "2", "--cpu-set", "0"},
           Words{"-n", "2", "-wd", "/"},
           Words{"-n", "2", "-q", "--xml"},
           Words{"-n", "2", "--prefix", "/nonexistent"},
           Words{"--ntasks=2", "--cpu-bind=cores", "--kill-on-bad-exit=1", "--mpi=pmix"},
           Words{"-n", "2", "-launcher", "ssh", "-iface", "lo", "-rmk", "slurm", "-bind-to", "rr"},
       }) {
    INFO(options[0] << " " << options[1] << " " << options.back());
    Process run(weftrun(options, {JOB_PROBE, "exchange"}));
    CHECK(run.wait() == 0);
    CHECK(run.err().empty());
    CHECK(sorted_lines(run.out()) == kExchange);
  }
}

TEST_CASE("misspelt options end weftrun with status 2 and one line") {
  for (const auto& [word, meant] :
       {std::pair{"--np4", "--np"}, {"--tagoutput", "--tag-output"}, {"--hlep", "--help"}}) {
    Process run({WEFTRUN, word, "true"});
    CHECK(run.wait() == 2);
    CHECK(run.out().empty());
    CHECK(run.err() ==
          fmt::format("weftrun: {} is not an option; did you mean {}? (weftrun --help)\n", word,
                      meant));
  }
}

TEST_CASE("what is ignored is said, but not with -q") {
  Process run({WEFTRUN, "-n", "2", "--xml", "-membind", "firsttouch", "true"});
  CHECK(run.wait() == 0);
  CHECK(sorted_lines(run.err()) ==
        Words{"weftrun: --xml is ignored: output is text",
              "weftrun: -membind firsttouch is ignored: memory is where the rank is bound that "
              "touches it first"});
  Process quiet({WEFTRUN, "-q", "-n", "2", "--xml", "-membind", "firsttouch", "true"});
  CHECK(quiet.wait() == 0);
  CHECK(quiet.err().empty());
}

TEST_CASE("--report-bindings says where the ranks are, and they are there") {
  weft::Topology topology;
  REQUIRE(weft::Topology::read(topology).ok());
  Process run(weftrun({"-n", "2", "--report-bindings", "--cpu-set", "0"},
                      shell("taskset -pc $$ | sed 's/.*: //'")));
  CHECK(run.wait() == 0);
  const Words lines = sorted_lines(run.err());
  REQUIRE(lines.size() == 2);
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(lines[static_cast<std::size_t>(rank)].starts_with(
        fmt::format("weftrun: rank {} on host ", rank)));
    CHECK(has(lines[static_cast<std::size_t>(rank)], ": core 0"));
  }
  std::vector<int> bound = numbers_in(run.out());
  if (topology.cores()[0].size() == 1) CHECK(bound == std::vector<int>(2, topology.cores()[0][0]));
  Process none(weftrun({"-n", "2", "--report-bindings", "--bind-to", "none"}, {"true"}));
  CHECK(none.wait() == 0);
  CHECK(has(none.err(), ": not bound\n"));
  Process absent(weftrun({"-n", "2", "--cpu-set", "60000"}, {"true"}));
  CHECK(absent.wait() == 2);
  CHECK(has(absent.err(), "weftrun: --cpu-set 60000: this host has cores 0 to "));
}

TEST_CASE("the units of a host decide how many ranks ppr makes, and where they run") {
  // Of a machine that hwloc makes up, processors 0 and 1 must be ours to use.
  const auto usable = weft::usable_cpus();
  if (usable.size() < 2 || usable[0] != 0 || usable[1] != 1) return;
  const Process::Environment two_sockets{{"HWLOC_SYNTHETIC", "pack:2 l3:1 core:1 pu:1"}};
  for (const char* unit : {"socket", "l3cache", "core", "package"}) {
    Process run({WEFTRUN, "--map-by", fmt::format("ppr:1:{}", unit), "--report-bindings", "true"},
                two_sockets);
    CHECK(run.wait() == 0);
    const Words lines = sorted_lines(run.err());
    INFO(unit << "\n" << run.err());
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].ends_with(": core 0"));
    CHECK(lines[1].ends_with(": core 1"));
  }
  Process missing({WEFTRUN, "-n", "2", "--bind-to", "l2cache", "true"}, two_sockets);
  CHECK(missing.wait() == 0);
  CHECK(missing.err() ==
        "weftrun: cannot bind processes to l2cache: this host reports no l2cache\n");
  Process no_matter({WEFTRUN, "-n", "2", "--bind-to", "l2cache:if-supported", "true"}, two_sockets);
  CHECK(no_matter.wait() == 0);
  CHECK(no_matter.err().empty());
  Process threads({WEFTRUN, "-n", "2", "--use-hwthread-cpus", "--report-bindings", "true"},
                  {{"HWLOC_SYNTHETIC", "pack:1 core:1 pu:2"}});
  CHECK(threads.wait() == 0);
  CHECK(has(threads.err(), ": processor 0\n"));
  CHECK(has(threads.err(), ": processor 1\n"));
}

TEST_CASE("--display-map says which ranks run where before they start") {
  Process run(weftrun({"-n", "2", "--display-map"}, shell("echo started >&2")));
  CHECK(run.wait() == 0);
  CHECK(run.err().starts_with("weftrun: host "));
  CHECK(has(run.err(), ": ranks 0-1\nstarted\n"));
}

TEST_CASE("--output-filename writes a file for each output of each rank") {
  const Folder folder;
  const Words program = shell("echo out $WEFT_RANK; echo err $WEFT_RANK >&2");
  Process copied(weftrun({"-n", "2", "--output-filename", folder / "a/b"}, program));
  CHECK(copied.wait() == 0);
  CHECK(sorted_lines(copied.out()) == Words{"out 0", "out 1"});
  CHECK(sorted_lines(copied.err()) == Words{"err 0", "err 1"});
  for (const char* rank : {"0", "1"}) {
    CHECK(content(folder / fmt::format("a/b/1/rank.{}/stdout", rank)) ==
          fmt::format("out {}\n", rank));
    CHECK(content(folder / fmt::format("a/b/1/rank.{}/stderr", rank)) ==
          fmt::format("err {}\n", rank));
  }
  // Files of an earlier job are replaced.
  Process alone(
      weftrun({"-n", "2", "-l", "--output-filename", folder / "a/b:nocopy"}, shell("printf x")));
  CHECK(alone.wait() == 0);
  CHECK(alone.out().empty());
  CHECK(content(folder / "a/b/1/rank.1/stdout") == "x");
  CHECK(content(folder / "a/b/1/rank.1/stderr").empty());
  Process many(
      weftrun({"-n", "11", "--output", fmt::format("dir={}:nocopy", folder / "c")}, program));
  CHECK(many.wait() == 0);
  CHECK(content(folder / "c/1/rank.09/stdout") == "out 9\n");
  CHECK(content(folder / "c/1/rank.10/stdout") == "out 10\n");
}

TEST_CASE("output that cannot be written to files is named") {
  const Folder folder;
  std::ofstream(folder / "file") << "text";
  Process in_file(weftrun({"-n", "2", "--output-filename", folder / "file"}, {"true"}));
  CHECK(in_file.wait() == 2);
  CHECK(has(in_file.err(), "weftrun: cannot make the folder " + folder / "file/1/rank.0"));
  CHECK(has(in_file.err(), "Not a directory"));
  std::filesystem::create_directories(folder / "full/1/rank.0");
  std::filesystem::create_symlink("/dev/full", folder / "full/1/rank.0/stdout");
  Process full(weftrun({"-n", "2", "--output-filename", folder / "full"}, {"echo", "text"}));
  CHECK(full.wait() == 1);
  CHECK(full.out() == "text\ntext\n");
  CHECK(full.err() == fmt::format("weftrun: cannot write {}, the rest of it is lost: No space left "
                                  "on device\n",
                                  folder / "full/1/rank.0/stdout"));
  std::filesystem::create_directories(folder / "odd/1/rank.0/stdout");
  Process odd(weftrun({"-n", "2", "--output-filename", folder / "odd"}, {"true"}));
  CHECK(odd.wait() == 2);
  CHECK(has(odd.err(), "cannot write output to " + folder / "odd/1/rank.0/stdout: Is a directory"));
}

TEST_CASE("standard error may go where standard output goes") {
  Process run(weftrun({"-n", "2", "--merge-stderr-to-stdout"}, shell("echo text >&2")));
  CHECK(run.wait() == 0);
  CHECK(run.out() == "text\ntext\n");
  CHECK(run.err().empty());
}

TEST_CASE("--prefix comes first in the paths, unless weftrun is not there") {
  Process run(weftrun({"-n", "2", "--prefix", "/nonexistent"},
                      shell("echo ${PATH%%:*} ${LD_LIBRARY_PATH%%:*}")));
  CHECK(run.wait() == 0);
  CHECK(run.out() == "/nonexistent/bin /nonexistent/lib\n/nonexistent/bin /nonexistent/lib\n");
  const Folder other;
  std::filesystem::create_directories(other / "bin");
  Process ignored(weftrun({"-n", "2", "--prefix", other / ""}, {"true"}));
  CHECK(ignored.wait() == 0);
  CHECK(has(ignored.err(), " is ignored: there is no weftrun in " + other / "bin"));
}
