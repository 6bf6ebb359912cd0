// weftrun on several hosts, which are network namespaces h1 .. h4 of tests/netns/run: placement,
// exit status, output, input, signals, and ends of every kind.
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "job/rendezvous_wire.hpp"
#include "tests/job/launch.hpp"

using namespace weft::testing;

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kLaunch = "ip netns exec {host}";

Words weftrun(Words options, const Words& command) {
  Words words{WEFTRUN, "--launch", kLaunch};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

// The agent that started the parent of this supervisor.
pid_t agent_of(pid_t supervisor) { return parent_of(parent_of(supervisor)); }

// Prints "RANK on HOST", by the address that the host has.
const std::string kWhere =
    "echo \"$WEFT_RANK on h$(ip -4 -o address show dev eth0 | sed "
    "'s/.*10.88.0.\\([0-9]*\\).*/\\1/')\"";

// A file in memory, removed with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) : fd_(memfd_create("weft-test", 0)) {
    REQUIRE(write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  ~TemporaryFile() { close(fd_); }
  std::string path() const { return fmt::format("/proc/{}/fd/{}", getpid(), fd_); }

 private:
  int fd_;
};

}  // namespace

TEST_CASE("ranks on several hosts exchange keys") {
  const int num_hosts = GENERATE(1, 2, 3, 4);
  const int size = num_hosts * GENERATE(1, 2);
  std::string hosts;
  for (int i = 1; i <= num_hosts; ++i) hosts += fmt::format("{}h{}", i > 1 ? "," : "", i);
  Process run(weftrun({"--hosts", hosts, "-n", std::to_string(size)}, {JOB_PROBE, "exchange"}));
  const int status = run.wait();
  INFO(hosts << " " << size << "\n" << run.err());
  CHECK(status == 0);
  Words expected;
  for (int rank = 0; rank < size; ++rank)
    expected.push_back(fmt::format("rank {} of {} by weftrun", rank, size));
  CHECK(sorted_lines(run.out()) == expected);
  CHECK(run.err().empty());
}

TEST_CASE("this machine can be one of the hosts") {
  Process run(weftrun({"--hosts", "localhost,h1", "-n", "3"}, {JOB_PROBE, "exchange"}));
  CHECK(run.wait() == 0);
  INFO(run.err());
  CHECK(sorted_lines(run.out()).size() == 3);
}

TEST_CASE("ranks are placed as the hosts' slots say") {
  struct Case {
    Words options;
    Words places;  // "RANK on HOST"
  };
  const TemporaryFile file("# two hosts\nh2 slots=2  # both\n\nh1:1\n");
  const Case cases[] = {
      {{"--hosts", "h1,h2"}, {"0 on h1", "1 on h2"}},
      {{"--hosts", "h1,h2", "-n", "5"}, {"0 on h1", "1 on h1", "2 on h1", "3 on h2", "4 on h2"}},
      {{"--hosts", "h2:2,h1"}, {"0 on h2", "1 on h2", "2 on h1"}},
      {{"--hosts", "h1:2,h2:2", "-n", "3"}, {"0 on h1", "1 on h1", "2 on h2"}},
      {{"--hosts", "h1,h2", "-n", "3", "--map-by", "node"}, {"0 on h1", "1 on h2", "2 on h1"}},
      {{"--hosts", "h1:1,h2:2", "-n", "3", "--map-by", "node"}, {"0 on h1", "1 on h2", "2 on h2"}},
      {{"--hosts", "h1,h2", "-ppn", "1", "-n", "2"}, {"0 on h1", "1 on h2"}},
      {{"--hosts", "h1:1,h2:1", "-n", "3", "--oversubscribe"}, {"0 on h1", "1 on h2", "2 on h1"}},
      {{"--hosts", "h1,h2,h3", "-n", "2"}, {"0 on h1", "1 on h2"}},
      {{"--hostfile", file.path()}, {"0 on h2", "1 on h2", "2 on h1"}},
  };
  for (const Case& entry : cases) {
    Process run(weftrun(entry.options, shell(kWhere)));
    INFO(entry.options[1] << "\n" << run.err());
    CHECK(run.wait() == 0);
    CHECK(sorted_lines(run.out()) == entry.places);
  }
}

TEST_CASE("hosts that are none are named") {
  const TemporaryFile bad("h1\nh2 slots=none\n"), empty("# nobody\n");
  const std::pair<Words, std::string> cases[] = {
      {{"--hosts", "h1,,h2"}, "\"\" is no host"},
      {{"--hosts", "h1:0"}, "\"h1:0\" is no host"},
      {{"--hosts", "-oProxyCommand=x"}, "is no host"},
      {{"--hosts", "h1:1,h2:1", "-n", "3"}, "3 processes on 2 slots"},
      {{"--hostfile", "/nonexistent"}, "cannot read the host file /nonexistent"},
      {{"--hostfile", bad.path()}, ":2: \"slots=none\""},
      {{"--hostfile", empty.path()}, "no host is named"},
      {{"--hosts", "h1", "--address", "nowhere0"}, "nowhere0: no address or interface"},
      {{"--hosts", "h1", "--port", "0"}, "--port 0"},
      {{"--hosts", "h1", "--agent", "relative"}, "--agent relative"},
  };
  for (const auto& [options, message] : cases) {
    Process run(weftrun(options, {"true"}));
    CHECK(run.wait() == 2);
    INFO(options[1] << "\n" << run.err());
    CHECK(has(run.err(), message));
  }
}

TEST_CASE("the first failing rank decides the exit status, and is named with its host") {
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
      {{"abort", "7"}, 7, "ended the job with code 7: as it was told"},
  };
  for (const Case& entry : cases) {
    Words command{JOB_PROBE};
    command.insert(command.end(), entry.action.begin(), entry.action.end());
    Process run(weftrun({"--hosts", "h1,h2,h3"}, command));
    const auto start = Clock::now();
    const int status = run.wait();
    INFO(entry.action[0] << "\n" << run.err());
    CHECK(status == entry.status);
    CHECK(has(run.err(), "weftrun: rank 2"));
    if (entry.action[0] != "abort") CHECK(has(run.err(), " on h3) "));
    CHECK(has(run.err(), entry.message));
    CHECK(Clock::now() - start < std::chrono::seconds(10));
  }
}

TEST_CASE("a rank that crashes on another host is reported with its stack") {
  Process run(weftrun({"--hosts", "h1,h2"}, {JOB_PROBE, "abort_itself"}));
  const int status = run.wait();
  const std::string err = run.err();
  INFO(err);
  CHECK(status == 128 + SIGABRT);
  const std::size_t head = err.find("on h2) crashes by signal 6 (Aborted): abort()");
  const std::size_t place = err.find("  at main (job_probe");
  const std::size_t end = err.find(" on h2) was killed by signal 6");
  REQUIRE(end != std::string::npos);
  CHECK(head < place);
  CHECK(place < end);
}

TEST_CASE("ranks that cannot be asked to end are killed within a second of a death") {
  Process run(weftrun({"--hosts", "h1,h2,h3"}, {JOB_PROBE, "stubborn"}));
  REQUIRE(run.wait_for_lines(3));
  const auto start = Clock::now();
  CHECK(run.wait() == 137);
  CHECK(Clock::now() - start < std::chrono::milliseconds(1500));
  CHECK(has(run.err(), "weftrun: ending ranks 0 and 1"));
}

TEST_CASE("a program that is not on a host is one message") {
  Process run(weftrun({"--hosts", "h1", "-n", "3"}, {"/nonexistent/program"}));
  CHECK(run.wait() == 127);
  CHECK(has(run.err(),
            "weftrun: host h1 (ranks 0, 1 and 2): cannot start /nonexistent/program: "
            "No such file"));
}

TEST_CASE("a host on which no agent starts is named, and the others are ended") {
  SECTION("the launch command says why") {
    Process run(
        {WEFTRUN, "--launch", LAUNCH_SH " one {host}", "--hosts", "h1,h2", "sleep", "1000"});
    CHECK(run.wait() == 125);
    CHECK(has(run.err(), "weftrun: h2: no way to h2\n"));
    CHECK(has(run.err(), "host h2 (rank 1): no agent could be started there"));
    CHECK(has(run.err(), "ended with exit status 3"));
  }
  SECTION("it is not there") {
    Process run({WEFTRUN, "--launch", "/nonexistent/ssh", "--hosts", "h1", "true"});
    CHECK(run.wait() == 125);
    CHECK(has(run.err(), "cannot start /nonexistent/ssh: No such file"));
  }
  SECTION("something else answers") {
    Process run({WEFTRUN, "--launch", LAUNCH_SH " garbage {host}", "--hosts", "h1", "true"});
    CHECK(run.wait() == 125);
    CHECK(has(run.err(), "host h1 (rank 0): what answers is no agent of weftrun"));
  }
  SECTION("nothing answers") {
    Process run({WEFTRUN, "--launch", LAUNCH_SH " silent {host}", "--hosts", "h1", "true"},
                {{"WEFT_START_TIMEOUT_MS", "300"}});
    CHECK(run.wait() == 125);
    CHECK(has(run.err(), "host h1 (rank 0): no agent has answered in time"));
  }
}

TEST_CASE("what a login shell says before the agent starts does no harm") {
  Process run({WEFTRUN, "--launch", LAUNCH_SH " noisy", "--hosts", "h1,h2", "echo", "done"});
  CHECK(run.wait() == 0);
  CHECK(run.out() == "done\ndone\n");
  CHECK(has(run.err(), "weftrun: h1: Welcome to h1!"));
  CHECK(has(run.err(), "weftrun: h2: and mind the step"));
}

TEST_CASE("a launcher that cannot be reached is a clear message") {
  Process run(weftrun({"--hosts", "h1", "--address", "127.0.0.1"}, {JOB_PROBE}));
  CHECK(run.wait(30000) == 125);
  INFO(run.err());
  CHECK(has(run.err(), "host h1 (rank 0): weftrun cannot be reached from there at 127.0.0.1:"));
  CHECK(has(run.err(), "--address"));
}

TEST_CASE("the address can be an interface's, the port a fixed one") {
  Process run(weftrun({"--hosts", "h1,h2", "--address", "bridge", "--port", "7123"},
                      shell("echo $WEFT_RENDEZVOUS")));
  CHECK(run.wait() == 0);
  CHECK(run.out() == "10.88.0.254:7123\n10.88.0.254:7123\n");
}

TEST_CASE("the key is on no command line, and another one is refused") {
  Process run(weftrun({"--hosts", "h1,h2"}, shell("echo $WEFT_JOB_KEY; exec sleep 1000")));
  REQUIRE(run.wait_for_lines(2));
  const std::string key = run.out().substr(0, run.out().find('\n'));
  REQUIRE(key.size() == 32);
  CHECK(run.out() == key + "\n" + key + "\n");
  int num_seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    std::stringstream text;
    text << file.rdbuf();
    num_seen += has(text.str(), "--serve-host");
    CHECK_FALSE(has(text.str(), key));
  }
  CHECK(num_seen >= 2);  // the agents' command lines were among them
  run.signal(SIGTERM);
  CHECK(run.wait() == 143);

  Process guessed(
      weftrun({"--hosts", "h1,h2"}, shell("[ $WEFT_RANK = 1 ] && export WEFT_JOB_KEY=guessed; "
                                          "exec " JOB_PROBE)));
  CHECK(guessed.wait() == 3);
  CHECK(has(guessed.err(), "rank 1 was refused by the rendezvous server at 10.88.0.254:"));
  CHECK(has(guessed.err(), "WEFT_JOB_KEY"));
}

TEST_CASE("where ranks run, and are bound, is said with the names of the hosts") {
  Process run(weftrun(
      {"--hosts", "h1,h2", "-N", "1", "--display-map", "--report-bindings", "--cpu-set", "0"},
      {"true"}));
  CHECK(run.wait() == 0);
  INFO(run.err());
  CHECK(run.err().starts_with("weftrun: host h1: rank 0\nweftrun: host h2: rank 1\n"));
  CHECK(has(run.err(), "weftrun: rank 0 on host h1: core 0"));
  CHECK(has(run.err(), "weftrun: rank 1 on host h2: core 0"));
  Process absent(weftrun({"--hosts", "h1,h2", "--cpu-set", "60000"}, {"true"}));
  CHECK(absent.wait() == 125);
  CHECK(has(absent.err(), "--cpu-set 60000: this host has cores 0 to "));
  Process each(weftrun({"--hosts", "h1,h2", "-n", "2", "--map-by", "ppr:1:core"}, {"true"}));
  CHECK(each.wait() == 0);
  CHECK(has(each.err(), "weftrun: every host is taken to have "));
  Process remote(weftrun({"--hosts", "localhost,h1", "--nolocal", "--display-map"}, {"true"}));
  CHECK(remote.wait() == 0);
  CHECK(remote.err() == "weftrun: host h1: rank 0\n");
}

TEST_CASE("a job that takes too long is ended on all hosts") {
  Process run(weftrun({"--hosts", "h1,h2,h3", "--timeout", "3"},
                      shell("echo $$; [ $WEFT_RANK = 1 ] && exit 0; exec sleep 1000")));
  CHECK(run.wait() == 124);
  CHECK(has(run.err(), "did not end within 3 s; ranks 0 and 2 still run"));
  for (pid_t pid : numbers_in(run.out())) CHECK(ends_within(pid, 1000));
}

TEST_CASE("signals go to the ranks of all hosts") {
  check_signals([](const Words& command) { return weftrun({"--hosts", "h1,h2"}, command); });
}

TEST_CASE("nothing outlives a weftrun that is killed, on no host") {
  Process run(
      weftrun({"--hosts", "h1,h2"}, shell("trap '' TERM INT HUP; (trap '' HUP; exec sleep 1000) & "
                                          "echo $$ $! $PPID; wait")));
  REQUIRE(run.wait_for_lines(2));
  auto pids = numbers_in(run.out());
  REQUIRE(pids.size() == 6);
  for (std::size_t i : {2, 5}) pids.push_back(agent_of(pids[i]));
  for (pid_t pid : pids) REQUIRE(kill(pid, 0) == 0);
  run.signal(SIGKILL);
  for (pid_t pid : pids) CHECK(ends_within(pid, 5000));
}

TEST_CASE("what ranks leave behind is ended with the job") {
  Process run(weftrun({"--hosts", "h1"}, shell("sleep 1000 & echo $!")));
  CHECK(run.wait() == 0);
  CHECK(ends_within(std::stoi(run.out()), 5000));
}

TEST_CASE("killed at any moment, weftrun or what it has started leave nothing behind on any host") {
  kill_at_any_moment([](const std::string& rank) {
    return weftrun({"--hosts", "localhost,h1,h2", "-n", "4"}, shell(rank));
  });
}

TEST_CASE("an agent that dies takes its ranks along, and ends the job") {
  Process run(weftrun({"--hosts", "h1,h2"},
                      shell("echo $WEFT_RANK $PPID $$; exec setsid sh -c 'sleep 1000'")));
  REQUIRE(run.wait_for_lines(2));
  const auto lines = sorted_lines(run.out());
  const auto first = numbers_in(lines[0]), second = numbers_in(lines[1]);
  REQUIRE(second.size() == 3);
  const pid_t supervisor = second[1];
  SECTION("the agent itself") {
    kill(agent_of(supervisor), SIGKILL);
    CHECK(run.wait() == 125);
    INFO(run.err());
    CHECK(has(run.err(), "weftrun: host h2 (rank 1): the agent there is gone"));
    CHECK(has(run.err(), "was killed by signal 9"));
  }
  SECTION("what watches over the ranks there") {
    kill(supervisor, SIGKILL);
    CHECK(run.wait() == 137);
    INFO(run.err());
    CHECK(has(run.err(), "weftrun: h2: the process that watches over the ranks is gone"));
    CHECK(has(run.err(), " on h2) was killed by signal 9"));
  }
  for (pid_t pid : {supervisor, second[2], first[2]}) CHECK(ends_within(pid, 10000));
}

TEST_CASE("ranks of other hosts hear that nobody reads their output any more") {
  Process run(shell("{ " WEFTRUN " --launch 'ip netns exec' --hosts h1,h2 yes; echo $? >&2; } | "
                    "head -n 1"));
  CHECK(run.wait() == 0);
  CHECK(run.out() == "y\n");
  CHECK(has(run.err(), "was killed by signal 13 (Broken pipe)"));
  CHECK(has(run.err(), "\n141\n"));
}

TEST_CASE("a host that falls silent is lost, on both sides") {
  Process run(weftrun({"--hosts", "h1,h4", "--env", "WEFT_PEER_TIMEOUT_MS=2000"},
                      shell("echo $WEFT_RANK $$; exec sleep 1000")));
  REQUIRE(run.wait_for_lines(2));
  const auto lines = sorted_lines(run.out());
  REQUIRE(system("ip -n h4 link set eth0 down") == 0);
  const auto start = Clock::now();
  const int status = run.wait(30000);
  const auto took = Clock::now() - start;
  // What the silent host runs ends there without anybody telling it.
  CHECK(ends_within(numbers_in(lines[1])[1], 20000));
  REQUIRE(system("ip -n h4 link set eth0 up") == 0);
  INFO(run.err());
  CHECK(status == 125);
  CHECK(has(run.err(), "weftrun: host h4 (rank 1): "));
  CHECK(took < std::chrono::seconds(20));
}

TEST_CASE("lines of ranks on several hosts never mix, and all arrive") {
  constexpr int kLines = 400;
  Process run(weftrun({"--hosts", "h1,h2,h3", "-n", "4", "--tag-output"},
                      {JOB_PROBE, "lines", std::to_string(kLines)}));
  CHECK(run.wait() == 0);
  std::map<int, int> next;  // line of each rank
  std::istringstream stream(run.out());
  for (std::string line; std::getline(stream, line);) {
    if (has(line, " by ")) continue;
    INFO(line.substr(0, 200));
    int rank = -1, number = -1;
    REQUIRE(sscanf(line.c_str(), "[%*d] %d:%d:", &rank, &number) == 2);
    const std::string text(static_cast<std::size_t>(number * 37 % 3000),
                           static_cast<char>('a' + rank));
    REQUIRE(line == fmt::format("[{}] {}:{}:{}", rank, rank, number, text));
    REQUIRE(number == next[rank]++);
  }
  for (int rank = 0; rank < 4; ++rank) CHECK(next[rank] == kLines);
}

TEST_CASE("input goes to rank 0 alone, however much it is and however slowly it reads") {
  Process run(shell("seq 300000 | " WEFTRUN " --launch 'ip netns exec' --hosts h1,h2 sh -c '"
                    "[ $WEFT_RANK = 0 ] && sleep 0.3; md5sum | cut -c 1-32'; "
                    "seq 300000 | md5sum | cut -c 1-32; md5sum </dev/null | cut -c 1-32"));
  CHECK(run.wait() == 0);
  Words lines = sorted_lines(run.out());
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == lines[1]);
  CHECK(lines[2] == lines[3]);
}

TEST_CASE("variables and folder are those of weftrun, but what belongs to its host") {
  // As a login there would not have it either.
  Process run(weftrun({"--launch", "ip netns exec {host} env -u SSH_TTY", "--hosts", "h1", "--env",
                       "B=two words"},
                      shell("echo \"$A|$B|$SSH_TTY|$WEFT_LAUNCH|$WEFT_SPIN_US\"; pwd")),
              {{"A", "1"}, {"B", "was"}, {"SSH_TTY", "x"}, {"WEFT_SPIN_US", "7"}});
  CHECK(run.wait() == 0);
  CHECK(run.out() == "1|two words|||7\n" + std::filesystem::current_path().string() + "\n");
  Process moved(weftrun({"--hosts", "h1", "--wdir", "/usr/bin"}, {"pwd"}));
  CHECK(moved.wait() == 0);
  CHECK(moved.out() == "/usr/bin\n");
  Process nowhere(weftrun({"--hosts", "h1", "--wdir", "/nonexistent"}, {"pwd"}));
  CHECK(nowhere.wait() == 127);
  CHECK(has(nowhere.err(), "cannot go to the folder /nonexistent"));
}

TEST_CASE("who can open the other's files shares memory with it, whatever machine it is") {
  // The hosts are namespaces of one machine; what the launch command adds is what a host is to a
  // rank.
  const auto sharing = [](const std::string& launch, const std::string& hosts, int num_ranks) {
    Process run({WEFTRUN, "--launch", launch, "--hosts", hosts, "-n", std::to_string(num_ranks),
                 JOB_PROBE, "sharing"});
    const int status = run.wait();
    INFO(launch << "\n" << run.err());
    CHECK(status == 0);
    Words lines = sorted_lines(run.out());
    std::erase_if(lines, [](const std::string& line) { return has(line, " by weftrun"); });
    return lines;
  };
  const auto one_host = Words{"0: 0 1 2 3, 4 on this machine", "1: 0 1 2 3, 4 on this machine",
                              "2: 0 1 2 3, 4 on this machine", "3: 0 1 2 3, 4 on this machine"};
  const auto two_hosts = Words{"0: 0 1, 4 on this machine", "1: 0 1, 4 on this machine",
                               "2: 2 3, 4 on this machine", "3: 2 3, 4 on this machine"};
  [[maybe_unused]] const auto alone = Words{"0: 0, 4 on this machine", "1: 1, 4 on this machine",
                                            "2: 2, 4 on this machine", "3: 3, 4 on this machine"};
  CHECK(sharing("ip netns exec {host}", "h1,h2", 4) == one_host);
  // As containers are: each with a namespace of shared memory, or of processes, of its own.
  CHECK(sharing("ip netns exec {host} unshare --ipc", "h1,h2", 4) == two_hosts);
  CHECK(sharing("ip netns exec {host} unshare --pid --fork --mount-proc", "h1,h2", 4) == two_hosts);
  CHECK(sharing("ip netns exec {host} unshare --ipc", "h1,h2,h3", 6)[5] ==
        "5: 4 5, 6 on this machine");
  // Without a /proc, or with that of another namespace. The address sanitizer reads its stacks and
  // leaks there, and knows neither without.
#ifndef __SANITIZE_ADDRESS__
  CHECK(sharing("ip netns exec {host} unshare --pid --fork", "h1,h2", 4) == alone);
  CHECK(sharing(LAUNCH_SH " bare {host}", "h1,h2", 4) == alone);
#endif
}

TEST_CASE("a rank that may do less than others of its machine shares no memory with them") {
  const std::string less = "setpriv --inh-caps=-all --bounding-set=-all ";
  Process run(weftrun({"--hosts", "h1", "-n", "4"}, shell("test $WEFT_RANK = 1 && exec " + less +
                                                          JOB_PROBE " sharing; "
                                                                    "exec " JOB_PROBE " sharing")));
  REQUIRE(run.wait() == 0);
  CHECK(has(run.out(), "0: 0 2 3, 4 on this machine\n"));
  CHECK(has(run.out(), "1: 1, 4 on this machine\n"));
}

TEST_CASE("by the environment alone: rank 0 serves, at its own address") {
  const auto rank = [](int host, const std::string& number, const char* key) {
    Words words{"ip",
                "netns",
                "exec",
                fmt::format("h{}", host),
                "env",
                "WEFT_SIZE=3",
                "WEFT_RANK=" + number,
                "WEFT_RENDEZVOUS=10.88.0.2:7124",
                "WEFT_START_TIMEOUT_MS=10000"};
    if (key != nullptr) words.push_back(fmt::format("WEFT_JOB_KEY={}", key));
    words.insert(words.end(), {JOB_PROBE, "exchange"});
    return words;
  };
  SECTION("all know the key, and a stranger does no harm") {
    Process stranger(rank(3, "1", "guessed"));
    Process two(rank(4, "2", "secret"));
    Process zero(rank(2, "0", "secret"));
    CHECK(stranger.wait() == 3);
    CHECK(has(stranger.err(),
              "rank 1 was refused by the rendezvous server at 10.88.0.2:7124: the "
              "job's key (WEFT_JOB_KEY) is another one"));
    Process one(rank(3, "1", "secret"));
    for (Process* process : {&zero, &one, &two}) {
      CHECK(process->wait() == 0);
      CHECK(has(process->out(), " of 3 by rendezvous"));
    }
  }
  SECTION("no key is an error") {
    Process one(rank(3, "1", nullptr));
    CHECK(one.wait() == 3);
    CHECK(has(one.err(), "WEFT_JOB_KEY must be set to the same secret for all ranks"));
  }
}
