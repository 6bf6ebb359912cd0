// weftrun with real processes: exchange, output, input, signals, exit status, and ends of every
// kind.
#include <fmt/core.h>
#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <map>
#include <sstream>

#include "base/os/topology.hpp"
#include "tests/job/launch.hpp"

using namespace weft::testing;

namespace {

using Clock = std::chrono::steady_clock;

Words weftrun(Words options, const Words& command) {
  options.insert(options.begin(), WEFTRUN);
  options.insert(options.end(), command.begin(), command.end());
  return options;
}

}  // namespace

TEST_CASE("ranks exchange keys, and every one is there once") {
  const int size = GENERATE(1, 2, 3, 4, 5, 8);
  Process run(weftrun({"-n", std::to_string(size)}, {JOB_PROBE, "exchange"}));
  const int status = run.wait();
  INFO(run.err());
  CHECK(status == 0);
  Words expected;
  for (int rank = 0; rank < size; ++rank)
    expected.push_back(fmt::format("rank {} of {} by weftrun", rank, size));
  CHECK(sorted_lines(run.out()) == expected);
  CHECK(run.err().empty());
}

TEST_CASE("the first failing rank decides the exit status, and is named") {
  struct Case {
    Words action;
    int status;
    const char* message;
  };
  const Case cases[] = {
      {{"exit", "0"}, 1, "exited with code 0 without finalizing"},
      {{"exit", "5"}, 5, "exited with code 5 without finalizing"},
      {{"exit-late", "6"}, 6, "exited with code 6 after it had left the job in good order"},
      {{"signal", "9"}, 137, "was killed by signal 9 (Killed)"},
      {{"signal", "15"}, 143, "was killed by signal 15 (Terminated)"},
      {{"abort", "7"}, 7, "ended the job with code 7: as it was told"},
      {{"abort", "0"}, 1, "ended the job with code 0: as it was told"},
  };
  for (const Case& entry : cases) {
    Words command{JOB_PROBE};
    command.insert(command.end(), entry.action.begin(), entry.action.end());
    Process run(weftrun({"-np", "3"}, command));
    const auto start = Clock::now();
    const int status = run.wait();
    INFO(entry.action[0] << " " << entry.action[1] << "\n" << run.err());
    CHECK(status == entry.status);
    CHECK(has(run.err(), "weftrun: rank 2"));
    CHECK(has(run.err(), entry.message));
    CHECK(Clock::now() - start < std::chrono::seconds(10));
  }
}

TEST_CASE("a rank's death counts before the end that another makes because of it") {
  Process run(weftrun({"-n", "3"}, {JOB_PROBE, "lost"}));
  CHECK(run.wait() == 137);
  INFO(run.err());
  CHECK(has(run.err(), "was killed by signal 9"));
  CHECK(!has(run.err(), "rank 0"));
}

TEST_CASE("programs that never join: their exit status counts all the same") {
  CHECK(Process(weftrun({"-n", "3"}, {"true"})).wait() == 0);
  CHECK(Process(weftrun({"-n", "3"}, shell("exit $WEFT_RANK"))).wait() > 0);
  Process missing(weftrun({"-n", "3"}, {"/nonexistent/program"}));
  CHECK(missing.wait() == 127);
  CHECK(has(missing.err(), "cannot start /nonexistent/program: No such file"));
}

TEST_CASE("ranks that cannot be asked to end are killed within a second of a death") {
  Process run(weftrun({"-n", "3"}, {JOB_PROBE, "stubborn"}));
  REQUIRE(run.wait_for_lines(3));
  const auto start = Clock::now();
  CHECK(run.wait() == 137);
  CHECK(Clock::now() - start < std::chrono::milliseconds(1000));
  CHECK(has(run.err(), "weftrun: ending ranks 0 and 1"));
}

TEST_CASE("on request the others go on after a death") {
  Process run(weftrun({"-n", "3", "--on-death", "continue"},
                      shell("[ $WEFT_RANK = 1 ] && kill -9 $$; echo done")));
  CHECK(run.wait() == 137);
  CHECK(run.out() == "done\ndone\n");
  CHECK(has(run.err(), "rank 1"));
}

TEST_CASE("a job that has lost a process starts again, as often as it may") {
  char name[] = "/tmp/weftrun-restart-XXXXXX";
  const int fd = mkstemp(name);
  REQUIRE(fd >= 0);
  close(fd);
  // Rank 1 kills itself in the first two starts.
  const std::string twice = fmt::format(
      "echo r$WEFT_RANK >> {0}; [ $WEFT_RANK = 1 ] && [ $(grep -c r1 {0}) -lt 3 ] && kill -9 $$; ",
      name);
  SECTION("and ends well") {
    Process run(weftrun({"-n", "2", "--restart", "2"}, shell(twice + "echo done")));
    CHECK(run.wait() == 0);
    CHECK(has(run.out(), "done\ndone\n"));
    CHECK(has(run.err(), "weftrun: starting the job again (restart 1 of 2)\n"));
    CHECK(has(run.err(), "weftrun: starting the job again (restart 2 of 2)\n"));
  }
  SECTION("or not") {
    Process run(weftrun({"-n", "2", "--restart", "1"}, shell(twice + "echo done by $WEFT_RANK")));
    CHECK(run.wait() == 137);
    CHECK(has(run.err(), "(restart 1 of 1)"));
    CHECK(!has(run.out(), "done by 1"));  // rank 0 may come to it in both starts
  }
  SECTION("with the same environment, and in the same folder") {
    Process run(weftrun({"-n", "2", "--restart", "2", "--wdir", "..", "--path", "/no/where"},
                        shell(twice + "echo $(pwd -P) $PATH")));
    CHECK(run.wait() == 0);
    CHECK(has(run.err(), "(restart 2 of 2)"));
    const std::string above = std::filesystem::current_path().parent_path();
    CHECK(has(run.out(), above + " /no/where:"));
    CHECK(!has(run.out(), "/no/where:/no/where"));
  }
  SECTION("with signals as they were, and within its time") {
    Process run(weftrun({"-n", "2", "--restart", "5", "--timeout", "3"},
                        shell(twice + "trap 'echo caught; exit 3' TERM; "
                                      "while :; do sleep 0.05; done")));
    CHECK(run.wait() == 124);
    CHECK(has(run.err(), "(restart 2 of 5)"));
    CHECK(has(run.err(), "did not end within 3 s"));
    CHECK(has(run.out(), "caught\ncaught\n"));
  }
  unlink(name);
}

TEST_CASE("a job that ended by itself or at the user's wish does not start again") {
  struct Case {
    Words action;
    int status;
    bool again;
  };
  for (const Case& entry : {Case{{"exit-late", "6"}, 6, false}, Case{{"abort", "7"}, 7, false},
                            Case{{"exit", "5"}, 5, true}, Case{{"signal", "9"}, 137, true}}) {
    Words command{JOB_PROBE};
    command.insert(command.end(), entry.action.begin(), entry.action.end());
    Process run(weftrun({"-n", "3", "--restart", "1"}, command));
    INFO(entry.action[0]);
    CHECK(run.wait() == entry.status);
    CHECK(has(run.err(), "starting the job again") == entry.again);
  }
  Process missing(weftrun({"-n", "3", "--restart", "1"}, {"/nonexistent/program"}));
  CHECK(missing.wait() == 127);
  CHECK(!has(missing.err(), "again"));
  Process ended(weftrun({"-n", "2", "--restart", "1"}, shell("echo ready; exec sleep 1000")));
  REQUIRE(ended.wait_for_lines(2));
  ended.signal(SIGTERM);
  CHECK(ended.wait() == 143);
  CHECK(!has(ended.err(), "again"));
  Process unread(shell(WEFTRUN " -n 2 --restart 1 yes | head -1 > /dev/null"));
  unread.wait();
  CHECK(!has(unread.err(), "again"));
}

TEST_CASE("a rank that never comes is named when the time to start is over") {
  Process run(weftrun({"-n", "3", "--env", "WEFT_START_TIMEOUT_MS=300"},
                      shell("[ $WEFT_RANK = 2 ] && exec sleep 1000; exec " JOB_PROBE)));
  CHECK(run.wait() == 3);
  CHECK(has(run.err(), "timed out: after 300 ms rank 2 has not started"));
}

TEST_CASE("a rank that does not come to a fence is named") {
  Process run(weftrun({"-n", "3"}, {JOB_PROBE, "absent", "300"}));
  CHECK(run.wait() == 3);
  CHECK(has(run.err(), "timed out: after 300 ms rank 2 has not come to the fence"));
}

TEST_CASE("a rank that ends without joining is no reason to wait") {
  Process run(weftrun({"-n", "3"}, shell("[ $WEFT_RANK = 2 ] && exit 0; exec " JOB_PROBE)));
  CHECK(run.wait() == 3);
  CHECK(has(run.err(), "peer lost: rank 2 exited without joining the job"));
}

TEST_CASE("a process with another key is refused") {
  Process run(weftrun({"-n", "2"}, shell("[ $WEFT_RANK = 1 ] && export WEFT_JOB_KEY=guessed; "
                                         "exec " JOB_PROBE)));
  CHECK(run.wait() == 3);
  CHECK(has(run.err(), "rank 1 was refused"));
  CHECK(has(run.err(), "WEFT_JOB_KEY"));
}

TEST_CASE("a job that takes too long is ended, and who still runs is named") {
  Process run(weftrun({"-n", "3", "--timeout", "0.3"},
                      shell("[ $WEFT_RANK = 1 ] && exit 0; exec sleep 1000")));
  CHECK(run.wait() == 124);
  CHECK(has(run.err(), "did not end within 0.3 s; ranks 0 and 2 still run"));
}

TEST_CASE("signals go to all ranks") {
  check_signals([](const Words& command) { return weftrun({"-n", "2"}, command); });
}

TEST_CASE("nothing outlives a weftrun that is killed, not even what ranks have started") {
  Process run(weftrun({"-n", "3"}, shell("trap '' TERM INT HUP; (trap '' HUP; exec sleep 1000) & "
                                         "echo $$ $!; wait")));
  REQUIRE(run.wait_for_lines(3));
  const auto pids = numbers_in(run.out());
  REQUIRE(pids.size() == 6);
  for (pid_t pid : pids) REQUIRE(kill(pid, 0) == 0);
  const pid_t group = getpgid(pids[0]);
  for (pid_t pid : pids) CHECK(getpgid(pid) == group);
  CHECK(group != getpgid(0));
  run.signal(SIGKILL);
  for (pid_t pid : pids) CHECK(ends_within(pid, 5000));
  CHECK(ends_within(group, 5000));  // its leader, the supervisor
}

TEST_CASE("what ranks leave behind is ended with the job") {
  Process run(weftrun({"-n", "1"}, shell("sleep 1000 & echo $!")));
  CHECK(run.wait() == 0);
  CHECK(ends_within(std::stoi(run.out()), 5000));
}

TEST_CASE("lines of several ranks never mix, whatever pieces they are written in") {
  const bool tagged = GENERATE(false, true);
  constexpr int kLines = 200;
  Words options{"-n", "4"};
  if (tagged) options.push_back("--tag-output");
  Process run(weftrun(options, {JOB_PROBE, "lines", std::to_string(kLines)}));
  CHECK(run.wait() == 0);
  std::map<int, int> next;  // line of each rank
  std::istringstream stream(run.out());
  for (std::string line; std::getline(stream, line);) {
    if (has(line, " by ")) continue;
    INFO(line.substr(0, 200));
    int rank = -1, number = -1;
    const int fields = tagged ? sscanf(line.c_str(), "[%*d] %d:%d:", &rank, &number)
                              : sscanf(line.c_str(), "%d:%d:", &rank, &number);
    REQUIRE(fields == 2);
    const std::string tag = tagged ? fmt::format("[{}] ", rank) : "";
    const std::string text(static_cast<std::size_t>(number * 37 % 3000),
                           static_cast<char>('a' + rank));
    REQUIRE(line == fmt::format("{}{}:{}:{}", tag, rank, number, text));
    REQUIRE(number == next[rank]++);
  }
  for (int rank = 0; rank < 4; ++rank) CHECK(next[rank] == kLines);
}

TEST_CASE("a last line without an end gets one, if others could go on in it") {
  Process run(weftrun({"-n", "2", "-l"}, shell("printf \"$WEFT_RANK\"; printf e >&2")));
  CHECK(run.wait() == 0);
  CHECK(sorted_lines(run.out()) == Words{"[0] 0", "[1] 1"});
  CHECK(sorted_lines(run.err()) == Words{"[0] e", "[1] e"});
  Process one(weftrun({"-n", "1"}, {"printf", "x"}));
  CHECK(one.wait() == 0);
  CHECK(one.out() == "x");
}

TEST_CASE("what one rank alone writes leaves as it came, however many others there are") {
  Process run(weftrun({"-n", "3"}, shell("test $WEFT_RANK != 0 || printf 'a\\nb\\0c'")));
  CHECK(run.wait() == 0);
  CHECK(run.out() == std::string("a\nb\0c", 5));
}

TEST_CASE("no line has two writers, even if it is too long to be kept") {
  constexpr std::size_t kBytes = 3u << 20;
  Process run(weftrun({"-n", "3"}, shell("head -c 3145728 /dev/zero | tr '\\0' $WEFT_RANK; echo")));
  CHECK(run.wait() == 0);
  std::map<char, std::size_t> written;
  std::istringstream stream(run.out());
  for (std::string line; std::getline(stream, line);) {
    REQUIRE_FALSE(line.empty());
    written[line[0]] += line.size();
    CHECK(line.find_first_not_of(line[0]) == std::string::npos);
  }
  CHECK(written == std::map<char, std::size_t>{{'0', kBytes}, {'1', kBytes}, {'2', kBytes}});
}

TEST_CASE("where output and errors go to one place, an error does not end up in a line of output") {
  Process run(shell("exec 2>&1; exec " WEFTRUN " -n 1 sh -c 'printf begun; exit 3'"));
  CHECK(run.wait() == 3);
  CHECK(sorted_lines(run.out())[0] == "begun");
}

TEST_CASE("input goes to rank 0 alone") {
  Process run(weftrun({"-n", "3"}, shell("echo $WEFT_RANK:$(cat)")), {}, "some input\n");
  CHECK(run.wait() == 0);
  CHECK(sorted_lines(run.out()) == Words{"0:some input", "1:", "2:"});
}

TEST_CASE("variables are set, and arguments arrive as they are") {
  Process run(weftrun({"-n", "1", "--env", "A=x y=z", "-x", "PASSED", "--env=B="},
                      shell("echo \"$A|$B|$PASSED|$1|$2\"")),
              {{"PASSED", "on"}, {"B", "was"}});
  CHECK(run.wait() == 0);
  CHECK(run.out() == "x y=z||on||\n");
  Process arguments(weftrun({"--"}, {"printf", "%s;", "-n", "a b", "--timeout"}));
  CHECK(arguments.wait() == 0);
  CHECK(arguments.out() == "-n;a b;--timeout;");
}

TEST_CASE("ranks are bound to shares of the cores if there are enough") {
  const int num_cpus = weft::num_usable_cpus();
  const std::string script = "nproc";
  const auto total = [](const std::string& text) {
    int sum = 0;
    std::istringstream numbers(text);
    for (int number; numbers >> number;) sum += number;
    return sum;
  };
  Process alone(weftrun({"-n", "1"}, shell(script)));
  CHECK(alone.wait() == 0);
  CHECK(total(alone.out()) == num_cpus);
  Process none(weftrun({"-n", "2", "--bind", "none"}, shell(script)));
  CHECK(none.wait() == 0);
  CHECK(total(none.out()) == 2 * num_cpus);
  weft::Topology topology;
  REQUIRE(weft::Topology::read(topology).ok());
  if (topology.num_cores() >= 2) {
    Process two(weftrun({"-n", "2"}, shell(script)));
    CHECK(two.wait() == 0);
    CHECK(total(two.out()) == num_cpus);
  }
  Process many(weftrun({"-n", std::to_string(num_cpus + 1)}, shell(script)));
  CHECK(many.wait() == 0);
  CHECK(total(many.out()) == (num_cpus + 1) * num_cpus);
}

TEST_CASE("wrong options are named, usual ones of other launchers accepted") {
  const Words bad[] = {{"-n", "0", "true"},
                       {"-n", "x", "true"},
                       {"-n"},
                       {"-n", "2"},
                       {"--bind", "hwthread"},
                       {"--frobnicate", "true"},
                       {"--timeout", "-1"},
                       {"--timeout", "nan", "true"},
                       {"--on-death", "mourn"},
                       {"-n", "99999999999", "true"},
                       {"--env", "=x", "true"},
                       {"-x", "WEFT_NOT_SET_ANYWHERE", "true"}};
  for (const Words& options : bad) {
    Process run(weftrun(options, {}));
    INFO(options[0] << "\n" << run.err());
    CHECK(run.wait() == 2);
    CHECK(has(run.err(), "weftrun: "));
    CHECK(run.out().empty());
  }
  CHECK(Process(weftrun({"--oversubscribe", "--allow-run-as-root", "-np", "2"}, {"true"})).wait() ==
        0);
  Process help(weftrun({"--help"}, {}));
  CHECK(help.wait() == 0);
  CHECK(has(help.out(), "--on-death kill|continue"));
}

TEST_CASE("weftrun starts several programs as one job") {
  Process run({WEFTRUN, "-n", "1", "--env", "JOB_PROBE=a", JOB_PROBE, "program", ":", "-np", "2",
               "-env", "JOB_PROBE", "b", JOB_PROBE, "program"});
  CHECK(run.wait() == 0);
  CHECK(run.err().empty());
  CHECK(sorted_lines(run.out()) == Words{"rank 0 of 3 by weftrun", "rank 0 runs program 0 with a",
                                         "rank 1 of 3 by weftrun", "rank 1 runs program 1 with b",
                                         "rank 2 of 3 by weftrun", "rank 2 runs program 1 with b"});
  Process unnamed({WEFTRUN, "-n", "1", JOB_PROBE, ":", "-n", "2"});
  CHECK(unnamed.wait() == 2);
  CHECK(has(unnamed.err(), "no program is named after a colon"));
  Process missing({WEFTRUN, "true", ":", "no-such-program-anywhere"});
  CHECK(missing.wait() == 127);
}

TEST_CASE("weftrun takes the options of other launchers that scripts have") {
  const Words lines{"rank 0 of 2 by weftrun", "rank 0 runs program 0 with c",
                    "rank 1 of 2 by weftrun", "rank 1 runs program 0 with c"};
  for (const Words& options :
       {Words{"-np", "2", "-x", "JOB_PROBE=c"}, Words{"-n", "2", "-genv", "JOB_PROBE", "c"},
        Words{"-genvall", "-ppn", "2", "-genv", "JOB_PROBE=c"},
        Words{"--mca", "btl", "self", "--oversubscribe", "--map-by", "ppr:2:node", "-x",
              "JOB_PROBE=c"},
        Words{"--map-by", "slot:PE=1", "--rank-by", "core", "--bind-to", "none", "-np", "2", "-x",
              "JOB_PROBE=c"}}) {
    Words words{WEFTRUN};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {JOB_PROBE, "program"});
    Process run(words);
    CHECK(run.wait() == 0);
    CHECK(run.err().empty());
    CHECK(sorted_lines(run.out()) == lines);
  }
  Process verbose({WEFTRUN, "--verbose", "--mca", "btl", "self", "true"});
  CHECK(verbose.wait() == 0);
  CHECK(verbose.err() == "weftrun: --mca btl self means nothing here and is ignored\n");
  for (const Words& wrong : {Words{"--map-by", "moon"}, Words{"--map-by", "core:PE=0"},
                             Words{"-ppn", "0"}, Words{"--bind-to", "moon"}}) {
    Process run({WEFTRUN, wrong[0], wrong[1], "true"});
    CHECK(run.wait() == 2);
    CHECK(has(run.err(), wrong[0] + " " + wrong[1]));
  }
}

TEST_CASE("weftrun binds processes to shares of what is asked for") {
  for (const char* unit : {"core", "hwthread", "numa", "socket", "none"}) {
    Process run({WEFTRUN, "-n", "2", "--bind-to", unit, "nproc"});
    CHECK(run.wait() == 0);
    for (const std::string& line : sorted_lines(run.out())) CHECK(atoi(line.c_str()) >= 1);
    if (std::string(unit) == "hwthread" && sysconf(_SC_NPROCESSORS_ONLN) == 2)
      CHECK(run.out() == "1\n1\n");
  }
}
