// weftrun's own ends and surroundings: ranks that leave its process group, its death and its
// supervisor's, streams, limits and signal dispositions that it was started with, strangers.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "tests/job/launch.hpp"

using namespace weft::testing;

namespace {

Words weftrun(const std::string& options_and_command) {
  return shell("exec " WEFTRUN " " + options_and_command);
}

void check_all_end(const std::vector<pid_t>& pids) {
  for (pid_t pid : pids) {
    INFO(pid);
    CHECK(ends_within(pid, 10000));
  }
}

// Ways to leave the process group that weftrun gives its ranks. Each prints process ids, five a
// rank, all of which must end.
const char* const kLeaver =
    "'timeout 1000 sh -c \"echo \\$\\$; exec sleep 1000\" & echo $$; "
    "setsid sh -c \"sleep 1000 & echo \\$!; sleep 1000 & echo \\$! ; exit\" & echo $!; wait'";

}  // namespace

TEST_CASE("ranks that leave the process group, with what they start, are ended like others") {
  const std::string ranks = fmt::format("-n 2 sh -c {}", kLeaver);
  SECTION("when the time is over") {
    Process run(weftrun("--timeout 1 " + ranks));
    CHECK(run.wait() == 124);
    check_all_end(numbers_in(run.out()));
  }
  SECTION("when another rank dies") {
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    Process run(
        weftrun(fmt::format("-n 2 sh -c 'test $WEFT_RANK = 0 && {{ read word <&{}; exit 3; }}; "
                            "echo $$; setsid sleep 1000 & echo $!; echo >&{}; "
                            "exec timeout 1000 sleep 1000'",
                            ready[0], ready[1])));
    CHECK(run.wait() == 3);
    check_all_end(numbers_in(run.out()));
    for (int fd : ready) close(fd);
  }
  SECTION("by a signal") {
    Process run(
        weftrun("-n 2 timeout 1000 sh -c 'trap \"echo caught; exit 5\" TERM; echo ready; "
                "while :; do sleep 0.05; done'"));
    REQUIRE(run.wait_for_lines(2));
    run.signal(SIGTERM);
    CHECK(run.wait() > 0);
    CHECK(sorted_lines(run.out()) == Words{"caught", "caught", "ready", "ready"});
  }
  SECTION("by a second one that they ignore") {
    Process run(
        weftrun("-n 2 setsid sh -c 'trap \"\" TERM INT; echo $$; "
                "while :; do sleep 1; done'"));
    REQUIRE(run.wait_for_lines(2));
    run.signal(SIGINT);
    run.signal(SIGTERM);  // two of one kind could be seen as one
    CHECK(run.wait() > 128);
    check_all_end(numbers_in(run.out()));
  }
  SECTION("when weftrun is killed") {
    Process run(weftrun(ranks));
    REQUIRE(run.wait_for_lines(10));
    run.signal(SIGKILL);
    check_all_end(numbers_in(run.out()));
  }
  SECTION("when the supervisor is killed") {
    Process run(weftrun(ranks));
    REQUIRE(run.wait_for_lines(10));
    const auto tree = tree_of(run.pid());  // weftrun, the supervisor's parent, the supervisor, ...
    kill(tree.at(2), SIGKILL);
    CHECK(run.wait() == 137);
    CHECK(has(run.err(), "weftrun: the process that watches over the ranks is gone"));
    check_all_end(numbers_in(run.out()));
  }
  SECTION("when weftrun and the supervisor are killed, or weftrun and the supervisor's parent") {
    const std::size_t second = GENERATE(1, 2);
    Process run(weftrun(ranks));
    REQUIRE(run.wait_for_lines(10));
    const auto tree = tree_of(run.pid());
    kill(tree.at(second), SIGKILL);
    run.signal(SIGKILL);
    check_all_end(numbers_in(run.out()));
  }
  SECTION("when they are left behind") {
    Process run(weftrun("-n 2 sh -c 'setsid sh -c \"sleep 1000 & echo \\$!\"'"));
    CHECK(run.wait() == 0);
    check_all_end(numbers_in(run.out()));
  }
}

TEST_CASE("killed at any moment, weftrun or what it has started leave nothing behind") {
  kill_at_any_moment([](const std::string& rank) { return weftrun("-n 3 sh -c '" + rank + "'"); });
}

TEST_CASE("weftrun may be the first process of a container") {
  const std::string isolated = "unshare --user --map-root-user --pid --fork --mount ";
  if (Process(shell(isolated + "true")).wait() != 0) {
    WARN("skipped: this machine allows no namespaces");
    return;
  }
  SECTION("with its own /proc") {
    // The kernel gives a new /proc only where nothing hides part of the one there is.
    if (Process(shell(isolated + "--mount-proc true")).wait() != 0) {
      WARN("skipped: this machine allows no /proc of a namespace's own");
      return;
    }
    Process run(shell(isolated + "--mount-proc " WEFTRUN " -n 2 " JOB_PROBE " exchange"));
    CHECK(run.wait() == 0);
    CHECK(run.err().empty());
  }
  SECTION("with another one, whose processes are not its own") {
    Process run(shell(isolated + WEFTRUN " --timeout 1 -n 2 sleep 1000"));
    CHECK(run.wait() == 124);
    CHECK(has(run.err(), "without /proc"));
  }
#ifndef __SANITIZE_ADDRESS__  // which reads its options and looks for leaks in /proc
  SECTION("without any") {
    Process run(shell(isolated + "sh -c 'mount -t tmpfs none /proc; exec " WEFTRUN
                                 " --timeout 1 -n 2 sleep 1000'"));
    CHECK(run.wait() == 124);
    CHECK(has(run.err(), "without /proc"));
  }
#endif
}

TEST_CASE("output that cannot be written is told, and is a failure") {
  const char* const closed = GENERATE(">/dev/full", ">&-");
  Process run(weftrun(fmt::format("-n 2 echo word {}", closed)));
  CHECK(run.wait() == 1);
  INFO(run.err());
  CHECK(has(run.err(), "weftrun: cannot write standard output, the rest of it is lost: "));
  Process quiet(weftrun(fmt::format("-n 2 true {}", closed)));
  CHECK(quiet.wait() == 0);
  CHECK(quiet.err().empty());
}

TEST_CASE("weftrun starts with any standard streams closed") {
  // What ranks print is lost with standard output.
  for (const auto& [closed, status] : {std::pair("<&-", 0), std::pair("2>&-", 0),
                                       std::pair(">&-", 1), std::pair("<&- >&- 2>&-", 1)}) {
    Process run(weftrun(fmt::format("-n 2 " JOB_PROBE " exchange {}", closed)));
    INFO(closed);
    CHECK(run.wait() == status);
  }
}

TEST_CASE("ranks hear that nobody reads their output any more") {
  Process run(shell("{ " WEFTRUN " -n 2 yes; echo $? >&2; } | head -n 1"));
  CHECK(run.wait() == 0);
  CHECK(run.out() == "y\n");
  CHECK(has(run.err(), "was killed by signal 13 (Broken pipe)"));
  CHECK(has(run.err(), "\n141\n"));
  Process error(shell("{ " WEFTRUN " -n 2 sh -c 'exec yes >&2' 2>&1 >/dev/null; echo $?; } | "
                      "{ head -n 1 >&2; }"));
  CHECK(error.wait() == 0);
  CHECK(error.err() == "y\n");
}

TEST_CASE("small limits are an error or enough, and never a hang") {
  SECTION("of descriptors") {
    int num_good = 0;
    for (int limit = 8; limit <= 48; limit += 2) {
      Process run(shell(fmt::format(
          "ulimit -n {}; exec " WEFTRUN " --timeout 15 -n 4 " JOB_PROBE " exchange", limit)));
      const int status = run.wait();
      INFO(limit << ": " << status << "\n" << run.err());
      CHECK((status == 0 || status == 125));
      if (status == 125) CHECK(has(run.err(), "Too many open files"));
      num_good += status == 0;
    }
    CHECK(num_good > 0);
  }
  SECTION("of the stack") {
    Process run(shell("ulimit -s 64; exec " WEFTRUN " -n 2 " JOB_PROBE " exchange"));
    CHECK(run.wait() == 0);
  }
}

TEST_CASE("signals that weftrun's parent ignored") {
  Process run(shell("exec env --ignore-signal=CHLD " WEFTRUN " -n 2 sh -c 'exit 3'"));
  CHECK(run.wait() == 3);
}

TEST_CASE("a host's name is no pattern") {
  for (const char* host : {"{host}", "a{host}"}) {
    Process run({WEFTRUN, "--launch", "echo {host}", "--hosts", host, "true"});
    CHECK(run.wait() == 125);
  }
}

TEST_CASE("strangers who come without end stop neither the job nor its timeout") {
  // Nobody reads weftrun's errors until the strangers have gone.
  int errors[2];
  REQUIRE(pipe(errors) == 0);
  fcntl(errors[0], F_SETFD, FD_CLOEXEC);
  fcntl(errors[1], F_SETPIPE_SZ, 4096);
  int done[2];
  REQUIRE(pipe(done) == 0);
  fcntl(done[1], F_SETFD, FD_CLOEXEC);
  Process run(weftrun(
      fmt::format("-n 1 sh -c 'echo $WEFT_RENDEZVOUS; read word <&{}' 2>&{}", done[0], errors[1])));
  close(errors[1]);
  REQUIRE(run.wait_for_lines(1));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(run.out().substr(run.out().rfind(':') + 1))));
  for (int i = 0; i < 2000; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    close(fd);
  }
  for (int fd : done) close(fd);
  CHECK(run.wait() == 1);  // of read, at the end of the pipe
  char text[65536];
  std::string said;
  for (ssize_t length; (length = read(errors[0], text, sizeof text)) > 0;)
    said.append(text, static_cast<std::size_t>(length));
  close(errors[0]);
  CHECK(has(said, "dropped an unidentified connection from 127.0.0.1:"));
  CHECK(std::ranges::count(said, '\n') < 100);
}
