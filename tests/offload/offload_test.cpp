// MPI programs through switches in software, as processes: the hosts' and the switches' results are
// the same bit for bit, whatever happens to the switches.
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <regex>
#include <set>
#include <thread>

#include "support/process.hpp"

namespace weft::testing {
namespace {

const std::string kRun = std::getenv("WEFTRUN"), kSwitch = std::getenv("WEFT_SWITCH"),
                  kProbe = std::getenv("PROBE"), kBackground = std::getenv("BACKGROUND"),
                  kSurvive = std::getenv("SURVIVE"), kShrunken = std::getenv("SHRUNKEN"),
                  kNumbers = std::getenv("NUMBERS"), kRefused = std::getenv("REFUSED"),
                  kShares = std::getenv("SHARES");

struct SwitchProcess {
  explicit SwitchProcess(std::vector<std::string> options) {
    options.insert(options.begin(), {kSwitch, "serve"});
    process = std::make_unique<Process>(options);
    REQUIRE(process->wait_for_lines(1));
    address = process->out().substr(10, process->out().find('\n') - 10);
  }
  void kill() {
    process->signal(SIGKILL);
    process->wait();
  }
  std::unique_ptr<Process> process;
  std::string address;
};

class File {
 public:
  explicit File(const std::string& text) {
    char name[] = "/tmp/weft-placement-XXXXXX";
    const int fd = mkstemp(name);
    REQUIRE(fd >= 0);
    ::close(fd);
    path = name;
    std::ofstream(path) << text;
  }
  ~File() { unlink(path.c_str()); }
  std::string path;
};

struct Shape {
  int nodes, per_node, sockets, tors, spines;
};

struct World {
  explicit World(const Shape& the_shape, const std::string& bad_luck = "0",
                 const std::string& host = "127.0.0.1")
      : shape(the_shape) {
    std::vector<std::string> up;
    for (int i = 0; i < shape.spines; ++i) {
      switches.push_back(std::make_unique<SwitchProcess>(std::vector<std::string>{
          "--listen", host + ":0", "--role", "spine", "--bad-luck", bad_luck}));
      up.insert(up.end(), {"--spine", switches.back()->address});
    }
    std::vector<std::string> tor_options{"--listen", host + ":0", "--bad-luck", bad_luck};
    tor_options.insert(tor_options.end(), up.begin(), up.end());
    for (int i = 0; i < shape.tors; ++i)
      switches.push_back(std::make_unique<SwitchProcess>(tor_options));
    std::string text;
    for (int rank = 0; rank < shape.nodes * shape.per_node; ++rank) {
      const int node = rank / shape.per_node;
      const int socket = rank % shape.per_node * shape.sockets / shape.per_node;
      text += fmt::format("{} {} {} {}\n", rank, node, socket, tor(node % shape.tors).address);
    }
    placement = std::make_unique<File>(text);
  }
  SwitchProcess& tor(int i) { return *switches[static_cast<std::size_t>(shape.spines + i)]; }
  std::unique_ptr<Process> start(const std::string& mode, std::vector<std::string> arguments,
                                 const std::string& log = "warn",
                                 const std::string& patience_ms = "300",
                                 const Process::Environment& more = {},
                                 const std::string& program = kProbe,
                                 const std::vector<std::string>& options = {}) {
    std::vector<std::string> command{kRun, "-n", std::to_string(shape.nodes * shape.per_node),
                                     "--timeout", "100"};
    command.insert(command.end(), options.begin(), options.end());
    command.push_back(program);
    command.insert(command.end(), arguments.begin(), arguments.end());
    Process::Environment environment{{"WEFT_OFFLOAD", mode},
                                     {"WEFT_OFFLOAD_SWITCH", placement->path},
                                     {"WEFT_OFFLOAD_WHEN", "force"},
                                     {"WEFT_OFFLOAD_TIMEOUT_MS", patience_ms},
                                     {"WEFT_LOG", log}};
    environment.insert(environment.end(), more.begin(), more.end());
    return std::make_unique<Process>(command, environment);
  }
  Shape shape;
  std::vector<std::unique_ptr<SwitchProcess>> switches;
  std::unique_ptr<File> placement;
};

long completed_at(const std::string& address) {
  Process status({kSwitch, "status", address});
  if (status.wait() != 0) return -1;
  const auto at = status.out().find("completed ");
  return at == std::string::npos ? -1 : std::atol(status.out().c_str() + at + 10);
}

std::string hash_of(Process& process) {
  const int code = process.wait(110'000);
  INFO(process.err());
  REQUIRE(code == 0);
  const auto at = process.out().find("hash ");
  REQUIRE(at != std::string::npos);
  return process.out().substr(at, 21);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("switches and hosts compute the same bits") {
  for (const Shape& shape :
       {Shape{2, 1, 1, 1, 0}, {3, 2, 2, 1, 0}, {4, 2, 1, 2, 1}, {5, 1, 1, 3, 2}}) {
    for (const std::string mode : {"node", "socket"}) {
      INFO(shape.nodes << " nodes, " << shape.tors << " switches, " << mode);
      World world(shape);
      // A busy machine is no reason to leave the switch.
      auto run = world.start(mode, {"7", "60", "20000"}, "info", "30000");
      const std::string by_switch = hash_of(*run);
      CHECK(has(run->err(), "offload: "));
      CHECK(has(run->err(), " 0 by hosts"));
      CHECK_FALSE(has(run->err(), "stays with the hosts"));
      // The same sums by the hosts, as the switches are gone.
      for (auto& one : world.switches) one->kill();
      auto again = world.start(mode, {"7", "60", "20000"});
      CHECK(hash_of(*again) == by_switch);
      CHECK(has(again->err(), "allreduce stays with the hosts"));
      if (mode == "node" && shape.sockets == 1 && shape.per_node == 1) break;
    }
  }
}

bool has_ipv6() {
  std::ifstream addresses("/proc/net/if_inet6");
  const std::string all{std::istreambuf_iterator<char>(addresses), {}};
  return has(all, "00000000000000000000000000000001");
}

TEST_CASE("switches and leaders at IPv6 addresses, also when a switch is lost") {
  if (!has_ipv6()) {
    WARN("skipped: this machine has no address ::1");
    return;
  }
  const std::vector<std::string> arguments{"9", "300", "3000", "1000"};
  std::string expected;
  {
    World world({4, 1, 1, 2, 1});
    auto run = world.start("node", arguments, "info", "30000");
    expected = hash_of(*run);
  }
  World world({4, 1, 1, 2, 1}, "0", "[::1]");
  CHECK(world.tor(0).address.rfind("[::1]:", 0) == 0);
  CHECK(completed_at(world.tor(0).address) == 0);
  Process conform({kSwitch, "conform", world.tor(0).address});
  CHECK(conform.wait(60'000) == 0);
  auto run = world.start("node", arguments, "info", "30000");
  CHECK(hash_of(*run) == expected);
  CHECK(has(run->err(), "UDP leads to the switch [::1]:"));
  CHECK_FALSE(has(run->err(), "stays with the hosts"));
  CHECK_FALSE(std::regex_search(run->err(), std::regex(" [1-9][0-9]* by hosts")));
  auto lost = world.start("node", arguments, "info");
  REQUIRE(lost->wait_for_lines(4, 60'000));
  world.tor(1).kill();
  CHECK(hash_of(*lost) == expected);
  CHECK(std::regex_search(lost->err(), std::regex(" [1-9][0-9]* by hosts")));
}

TEST_CASE("a switch at [::] is there for IPv4 too, and no group has both") {
  if (!has_ipv6()) {
    WARN("skipped: this machine has no address ::1");
    return;
  }
  World world({3, 1, 1, 1, 0}, "0", "[::]");
  const std::string port = world.tor(0).address.substr(4);
  const auto run = [&](const std::string& first, const std::string& others) {
    world.placement = std::make_unique<File>(
        fmt::format("0 0 0 {0}{2}\n1 1 0 {1}{2}\n2 2 0 {1}{2}\n", first, others, port));
    auto started = world.start("node", {"3", "30", "2000"}, "info", "30000");
    hash_of(*started);
    return started->err();
  };
  CHECK_FALSE(has(run("127.0.0.1", "127.0.0.1"), "stays with the hosts"));
  CHECK_FALSE(has(run("[::1]", "[::1]"), "stays with the hosts"));
  CHECK(has(run("127.0.0.1", "[::1]"), "have addresses of IPv4 and of IPv6"));
}

TEST_CASE("the C++ interface's sums of bfloat16 go through switches, and are the hosts'") {
  for (const Shape& shape : {Shape{2, 1, 1, 1, 0}, {2, 2, 2, 1, 0}, {4, 1, 1, 2, 1}}) {
    INFO(shape.nodes << " nodes of " << shape.per_node);
    World world(shape);
    auto run = world.start("node", {"25"}, "info", "30000", {}, kNumbers);
    const std::string by_switch = hash_of(*run);
    CHECK(std::regex_search(run->err(), std::regex("offload: [1-9][0-9]* operations by the")));
    CHECK(has(run->err(), " 0 by hosts"));
    for (auto& one : world.switches) one->kill();
    auto again = world.start("node", {"25"}, "warn", "300", {}, kNumbers);
    CHECK(hash_of(*again) == by_switch);
    auto off = world.start("off", {"25"}, "warn", "300", {}, kNumbers);
    (void)hash_of(*off);  // it checks its sums itself
  }
}

TEST_CASE("the C++ interface's allreduce ends with the loss of a rank, and another one begins") {
  for (const std::string mode : {"node", "off"})
    for (const Shape& shape : {Shape{3, 1, 1, 1, 0}, {2, 2, 1, 1, 0}}) {
      INFO(mode << ", " << shape.nodes << " nodes of " << shape.per_node);
      World world(shape);
      auto run =
          world.start(mode, {"lose"}, "error", "300", {}, kNumbers, {"--on-death", "continue"});
      CHECK(run->wait(60'000) == 128 + SIGKILL);
      CHECK_FALSE(has(run->err(), "not so"));
    }
}

// docs/design/collectives.md, Reproducible sums.
TEST_CASE(
    "reproducible sums are the same bits wherever the processes are, with switches and without") {
  const std::vector<std::string> arguments{"7", "40", "3000"};
  const auto hashes = [&](const Process::Environment& more) {
    std::set<std::string> found;
    for (const Shape& shape : {Shape{2, 2, 2, 1, 0}, {2, 2, 2, 2, 1}, {4, 1, 1, 2, 1}}) {
      World world(shape);
      auto run = world.start("node", arguments, "info", "30000", more);
      found.insert(hash_of(*run));
      // What has no rounding still goes by them.
      CHECK(std::regex_search(run->err(), std::regex("offload: [1-9][0-9]* operations by the")));
    }
    World world({4, 1, 1, 1, 0});
    auto run = world.start("off", arguments, "warn", "300", more);
    found.insert(hash_of(*run));
    return found;
  };
  CHECK(hashes({}).size() > 1);
  CHECK(hashes({{"WEFT_COLL_ALGORITHMS", "reproducible"}}).size() == 1);
}

TEST_CASE("16 processes under 4 switches and 2 spines that lose, double and reorder packets") {
  for (const Shape& shape : {Shape{16, 1, 1, 4, 2}, {4, 4, 2, 4, 2}}) {
    World world(shape, "10");
    const std::vector<std::string> arguments{"4", "25", "6000"};
    auto run = world.start("socket", arguments, "info", "60000");
    const std::string by_switch = hash_of(*run);
    CHECK_FALSE(std::regex_search(run->err(), std::regex(" [1-9][0-9]* by hosts")));
    CHECK_FALSE(has(run->err(), "stays with the hosts"));
    CHECK(std::regex_search(run->err(), std::regex(" [1-9][0-9]* of them again")));
    for (auto& one : world.switches) one->kill();
    auto again = world.start("socket", arguments, "warn", "100");
    CHECK(hash_of(*again) == by_switch);
  }
}

TEST_CASE("a switch that is killed or restarted costs no result") {
  for (const bool spine : {false, true}) {
    for (const bool again : {false, true}) {
      INFO((spine ? "spine" : "tor") << (again ? " restarted" : " killed"));
      World world({4, 1, 1, 2, 1});
      const std::vector<std::string> arguments{"9", "300", "3000", "1000"};
      auto quiet = world.start("node", arguments);
      const std::string expected = hash_of(*quiet);
      auto run = world.start("node", arguments, "info");
      REQUIRE(run->wait_for_lines(4, 60'000));
      auto& victim = spine ? world.switches[0] : world.switches[2];
      const std::string address = victim->address;
      victim->kill();
      if (again) {
        std::vector<std::string> options{"--listen", address};
        if (spine)
          options.insert(options.end(), {"--role", "spine"});
        else
          options.insert(options.end(), {"--spine", world.switches[0]->address});
        victim = std::make_unique<SwitchProcess>(options);
      }
      CHECK(hash_of(*run) == expected);
      if (!again) CHECK(std::regex_search(run->err(), std::regex(" [1-9][0-9]* by hosts")));
    }
  }
}

TEST_CASE("a switch that comes back is used again by the group that lost it") {
  for (const bool spine : {false, true}) {
    INFO((spine ? "spine" : "tor"));
    World world({3, 1, 1, 2, 1});
    auto run = world.start("node", {"4", "1000000", "64", "500"}, "info");
    auto& victim = world.switches[spine ? 0 : 1];
    const std::string address = victim->address;
    const auto wait_for_sums = [&] {
      for (int i = 0; i < 600; ++i) {
        if (completed_at(address) > 100) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      return false;
    };
    REQUIRE(wait_for_sums());
    for (int time = 0; time < 2; ++time) {
      victim->kill();
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      std::vector<std::string> options{"--listen", address};
      if (spine)
        options.insert(options.end(), {"--role", "spine"});
      else
        options.insert(options.end(), {"--spine", world.switches[0]->address});
      victim = std::make_unique<SwitchProcess>(options);
      CHECK(wait_for_sums());
    }
    run->signal(SIGTERM);
    run->wait();
  }
}

TEST_CASE("auto tries both ways, and its results are the same in every run") {
  World world({4, 2, 1, 1, 0});
  const std::vector<std::string> arguments{"9", "1000", "3000"};
  const Process::Environment by_itself{{"WEFT_OFFLOAD_WHEN", "auto"}};
  auto measured = world.start("node", arguments, "info", "30000", by_itself);
  const std::string expected = hash_of(*measured);
  measured = world.start("node", arguments, "info", "30000", by_itself);
  CHECK(hash_of(*measured) == expected);
  const std::string said = measured->err();
  CHECK(std::regex_search(said, std::regex("offload: [1-9][0-9]* operations by the switch")));
  // Among nonblocking calls, whose way is that of the time of the call.
  auto background =
      world.start("node", {"5", "200", "4000"}, "info", "30000", by_itself, kBackground);
  hash_of(*background);
}

TEST_CASE("nonblocking and persistent calls go through switches, among blocking ones") {
  for (const Shape& shape : {Shape{3, 1, 1, 1, 0}, {3, 2, 2, 2, 1}}) {
    INFO(shape.nodes << " nodes of " << shape.per_node);
    World world(shape);
    const std::vector<std::string> arguments{"5", "40", "4000"};
    auto run = world.start("node", arguments, "info", "30000", {}, kBackground);
    const std::string by_switch = hash_of(*run);
    CHECK(has(run->err(), " 0 by hosts"));
    CHECK_FALSE(std::regex_search(run->err(), std::regex(" [1-9][0-9]* by hosts")));
    CHECK_FALSE(has(run->err(), "stays with the hosts"));
    // The world, four others, and the persistent calls of one more: a group each of three leaders.
    const std::regex group("[1-9][0-9]* operations by the switch");
    const std::string said = run->err();
    CHECK(std::distance(std::sregex_iterator(said.begin(), said.end(), group), {}) == 18);
    for (auto& one : world.switches) one->kill();
    auto again = world.start("node", arguments, "warn", "100", {}, kBackground);
    CHECK(hash_of(*again) == by_switch);
    CHECK(has(again->err(), "allreduce stays with the hosts"));
  }
}

TEST_CASE("calls of every kind through switches that lose, double and reorder packets") {
  World world({3, 2, 2, 2, 1}, "10");
  auto run = world.start("socket", {"11", "40", "3000"}, "info", "60000", {}, kBackground);
  hash_of(*run);
  CHECK_FALSE(std::regex_search(run->err(), std::regex(" [1-9][0-9]* by hosts")));
  CHECK(std::regex_search(run->err(), std::regex(" [1-9][0-9]* of them again")));
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_CASE("what no switch computes is said once a communicator") {
  World world({3, 2, 1, 1, 0});
  for (const std::string when : {"force", "auto"})
    for (const std::string log : {"warn", "info"}) {
      INFO(when << ", " << log);
      auto run = world.start("node", {}, log, "30000", {{"WEFT_OFFLOAD_WHEN", when}}, kRefused);
      const int code = run->wait(110'000);
      const std::string said = run->err();
      INFO(said);
      REQUIRE(code == 0);
      CHECK(run->out() == "as expected\n");
      // Who leaves the choice to Weft sees it in the log alone.
      const int times = when == "force" || log == "info" ? 2 : 0;
      CHECK(count_of(said, "by an operation of the program stay with the hosts") == times);
      CHECK(count_of(said, "of elements of 16 bytes by sum stay with the hosts") == times);
      CHECK(count_of(said, "of complex numbers by prod stay with the hosts") == times);
      CHECK(count_of(said, "calls of blocks of several lengths stay with the hosts") == times);
      CHECK(count_of(said, "stay with the hosts") == 4 * times);
    }
}

TEST_CASE("auto tries parts of sums, gathering and broadcasts, but not long ones") {
  World world({4, 1, 1, 1, 0});
  for (const std::string what : {"allgather", "reduce_scatter", "bcast", "reduce"})
    for (const std::string bytes : {"64", "1000000"}) {
      INFO(what << " of " << bytes << " bytes");
      auto run = world.start("node", {what, "30", bytes}, "info", "30000",
                             {{"WEFT_OFFLOAD_WHEN", "auto"}, {"WEFT_STATS", "1"}}, kShares);
      const int code = run->wait(110'000);
      const std::string said = run->err();
      INFO(said);
      REQUIRE(code == 0);
      CHECK(run->out() == "as expected\n");
      // Half of the first eight.
      const std::regex tried(what + " +switch +([0-9]+) calls");
      std::smatch found;
      const bool is_tried = std::regex_search(said, found, tried);
      CHECK(is_tried == (bytes == "64"));
      if (is_tried) CHECK(std::atoi(found[1].str().c_str()) >= 4);
    }
}

TEST_CASE("floats as integers, and what WEFT_STATS counts") {
  World world({3, 2, 1, 2, 1});
  auto run = world.start("node", {"8", "80", "20000"}, "info", "30000",
                         {{"WEFT_OFFLOAD_FLOAT", "fixed"}, {"WEFT_STATS", "1"}});
  hash_of(*run);
  CHECK(has(run->err(), " 0 by hosts"));
  CHECK(std::regex_search(run->err(), std::regex("collectives computed by it: [1-9][0-9]*, by the "
                                                 "hosts instead: 0")));
  for (auto& one : world.switches) one->kill();
}

TEST_CASE("a switch that is killed or restarted among nonblocking calls costs no result") {
  for (const bool again : {false, true}) {
    World world({3, 2, 1, 1, 0});
    auto run = world.start("node", {"6", "60", "4000"}, "info", "100", {}, kBackground);
    REQUIRE(run->wait_for_lines(2, 60'000));
    const std::string address = world.tor(0).address;
    world.tor(0).kill();
    if (again)
      world.switches[0] =
          std::make_unique<SwitchProcess>(std::vector<std::string>{"--listen", address});
    hash_of(*run);
    if (!again) CHECK(std::regex_search(run->err(), std::regex(" [1-9][0-9]* by hosts")));
  }
}

TEST_CASE("a nonblocking call goes on while its processes compute") {
  char folder[] = "/tmp/weft-fifo-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  const std::string fifo = std::string(folder) + "/go";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  World world({3, 1, 1, 1, 0});
  // All but the last call.
  auto first = world.start("node", {"5", "1", "100"}, "warn", "30000", {}, kBackground);
  hash_of(*first);
  const long others = completed_at(world.tor(0).address);
  auto run = world.start("node", {"5", "1", "100", fifo}, "warn", "30000", {}, kBackground);
  // One line of a round, and one of each process that has begun the last call.
  const bool begun = run->wait_for_lines(4, 60'000);
  // 1024 packets, far more than a window: nobody calls MPI until they have gone through. A few of
  // the others come later.
  const long wanted = 2 * others + 1024 - 50;
  long now = 0;
  for (int i = 0; begun && i < 1500 && now < wanted; ++i) {
    usleep(20'000);
    now = completed_at(world.tor(0).address);
  }
  const int writer = open(fifo.c_str(), O_WRONLY | O_NONBLOCK);
  hash_of(*run);
  if (writer >= 0) close(writer);
  unlink(fifo.c_str());
  rmdir(folder);
  CHECK(begun);
  CHECK(writer >= 0);
  CHECK(others > 0);
  CHECK(now >= wanted);
}

TEST_CASE("a solver's residuals are the same bits with a switch and without") {
  // The Laplacian of a square, in MatrixMarket's form.
  constexpr int kSide = 14;
  std::string entries;
  int count = 0;
  for (int i = 0; i < kSide * kSide; ++i) {
    entries += fmt::format("{} {} 4\n", i + 1, i + 1);
    ++count;
    for (const int step : {1, kSide}) {
      if (step == 1 ? i % kSide == kSide - 1 : i + kSide >= kSide * kSide) continue;
      entries += fmt::format("{} {} -1\n", i + step + 1, i + 1);
      ++count;
    }
  }
  const File matrix(fmt::format("%%MatrixMarket matrix coordinate real symmetric\n{} {} {}\n{}",
                                kSide * kSide, kSide * kSide, count, entries));
  World world({3, 2, 1, 2, 1});
  const auto solve = [&](const std::string& patience_ms) {
    Process run({kRun, "-n", "6", "--timeout", "100", std::getenv("CG"), matrix.path},
                {{"WEFT_OFFLOAD", "node"},
                 {"WEFT_OFFLOAD_SWITCH", world.placement->path},
                 {"WEFT_OFFLOAD_WHEN", "force"},
                 {"WEFT_OFFLOAD_TIMEOUT_MS", patience_ms}});
    const int code = run.wait(110'000);
    INFO(run.err());
    REQUIRE(code == 0);
    return std::pair(run.out(), run.err());
  };
  const auto [by_switch, quiet] = solve("30000");
  CHECK_FALSE(has(quiet, "stays with the hosts"));
  CHECK(has(by_switch, "0x1."));
  for (auto& one : world.switches) one->kill();
  const auto [by_hosts, said] = solve("100");
  CHECK(has(said, "stays with the hosts"));
  CHECK(by_hosts == by_switch);
}

// A process of the probe with this in its environment; 0: none.
int one_with(const std::string& setting) {
  const auto contents = [](const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return '\0' + std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string program = '\0' + std::string(kProbe) + '\0', wanted = '\0' + setting + '\0';
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const int pid = std::atoi(entry.path().filename().c_str());
    if (pid > 0 && contents(entry.path() / "cmdline").rfind(program, 0) == 0 &&
        contents(entry.path() / "environ").find(wanted) != std::string::npos)
      return pid;
  }
  return 0;
}

TEST_CASE("a member that dies ends the job") {
  World world({4, 1, 1, 1, 0});
  auto run = world.start("node", {"9", "100000", "3000"});
  REQUIRE(run->wait_for_lines(3, 60'000));
  const int pid = one_with("WEFT_OFFLOAD_SWITCH=" + world.placement->path);
  REQUIRE(pid > 0);
  ::kill(pid, SIGKILL);
  CHECK(run->wait(20'000) != 0);
}

TEST_CASE("those who wait for one of their node hear that it has given up") {
  // Three processes of one node and one of another, which dies.
  World world({2, 1, 1, 1, 0});
  const std::string tor = world.tor(0).address;
  const File placement(fmt::format("0-2 0 0 {}\n3 1 0 {}\n", tor, tor));
  Process run({kRun, "-n", "4", "--timeout", "60", "--on-death", "continue", kSurvive},
              {{"WEFT_OFFLOAD", "node"},
               {"WEFT_OFFLOAD_SWITCH", placement.path},
               {"WEFT_OFFLOAD_WHEN", "force"}});
  const int code = run.wait(70'000);
  INFO(run.out() << run.err());
  CHECK(code == 128 + SIGKILL);  // not that of the deadline
  for (int rank = 0; rank < 3; ++rank) CHECK(has(run.out(), fmt::format("rank {}: told\n", rank)));
}

TEST_CASE("a job that has lost processes goes on through the switch") {
  // Two of the three nodes lose one of their two processes, one after the other.
  World world({3, 2, 1, 1, 0});
  auto run =
      world.start("node", {"use", "3"}, "info", "30000", {}, kShrunken, {"--on-death", "continue"});
  const int code = run->wait(110'000);
  const std::string err = run->err();
  INFO(run->out() << err);
  CHECK(code == 128 + SIGKILL);
  CHECK(run->out() == "as expected\n");
  CHECK_FALSE(has(err, "stays with the hosts"));
  // Of the whole job and of the shrunken ones, by the leaders of all nodes.
  const std::regex many("[2-9][0-9]+ operations by the switch, [0-9]+ fetched [a-z ]+, 0 by hosts");
  CHECK(std::distance(std::sregex_iterator(err.begin(), err.end(), many), {}) == 3 * 3);
}

TEST_CASE("a job has a quota of slots, all its communicators together") {
  World world({3, 1, 1, 1, 0});
  world.switches[0]->kill();
  world.switches[0] = std::make_unique<SwitchProcess>(
      std::vector<std::string>{"--listen", world.tor(0).address, "--slots-per-job", "64"});
  // The second communicator comes with round 25.
  auto run = world.start("node", {"3", "40", "2000"}, "info", "30000");
  hash_of(*run);
  CHECK(has(run->err(), "operations by the switch"));
  CHECK(has(run->err(), "stays with the hosts: the switch " + world.tor(0).address));
}

TEST_CASE("three levels of switches, that lose packets, and of which one is lost") {
  // Four switches, two under each of two spines, and one above.
  const std::string patience = "30000";
  for (const bool is_lost : {false, true}) {
    World world({8, 1, 1, 4, 0});
    const std::string bad_luck = is_lost ? "0" : "5";
    std::vector<std::unique_ptr<SwitchProcess>> above;
    const auto serve = [&](std::vector<std::string> options) {
      options.insert(options.begin(), {"--listen", "127.0.0.1:0", "--bad-luck", bad_luck});
      return std::make_unique<SwitchProcess>(options);
    };
    above.push_back(serve({"--role", "spine"}));
    for (int i = 0; i < 2; ++i)
      above.push_back(serve({"--role", "spine", "--spine", above[0]->address}));
    std::string text;
    for (std::size_t i = 0; i < 4; ++i) {
      world.switches[i]->kill();
      world.switches[i] = serve({"--spine", above[1 + i % 2]->address});
    }
    for (int rank = 0; rank < 8; ++rank)
      text += fmt::format("{} {} 0 {}\n", rank, rank, world.tor(rank % 4).address);
    world.placement = std::make_unique<File>(text);
    // Up to round 25 on one communicator, whose hosts keep the order of its group.
    const std::vector<std::string> arguments{"9", is_lost ? "24" : "60", "3000",
                                             is_lost ? "100000" : "1000"};
    auto run = world.start("node", arguments, "info", patience);
    const std::string expected = hash_of(*run);  // it checks its results itself
    const std::string lines = "8 leaders under 4 switches, 2 spines and the spine ";
    CHECK(has(run->err(), lines + above[0]->address));
    CHECK_FALSE(std::regex_search(run->err(), std::regex(" [1-9][0-9]* by hosts")));
    CHECK(completed_at(above[0]->address) > 0);
    if (!is_lost) continue;
    run = world.start("node", arguments, "info");
    REQUIRE(run->wait_for_lines(1, 60'000));
    above[0]->kill();
    CHECK(hash_of(*run) == expected);
    CHECK(std::regex_search(run->err(), std::regex(" [1-9][0-9]* by hosts")));
  }
}

TEST_CASE("a switch that takes fewer children says so, and the hosts compute for more") {
  World world({4, 1, 1, 1, 0});
  world.switches[0]->kill();
  world.switches[0] = std::make_unique<SwitchProcess>(
      std::vector<std::string>{"--listen", world.tor(0).address, "--children", "3"});
  auto run = world.start("node", {"3", "20", "2000"}, "info", "30000");
  hash_of(*run);
  CHECK(has(run->err(), "stays with the hosts: 4 leaders are more than the switch " +
                            world.tor(0).address + " takes, 3"));
  Process conform({kSwitch, "conform", world.tor(0).address});
  CHECK(conform.wait(60'000) == 0);
  CHECK(has(conform.out(), "ok     a group of more children than it takes is refused"));
}

TEST_CASE("a switch does not start under a spine that it could not hear") {
  struct Wrong {
    std::vector<std::string> options;
    const char* why;
  };
  const char* const kinds = "one is an address of IPv4, the other of IPv6";
  const char* const roce = "between Ethernet interfaces it is at ADDRESS:4791";
  for (const Wrong& wrong :
       {Wrong{{"--listen", "127.0.0.1:0", "--spine", "[::1]:9000"}, kinds},
        Wrong{{"--listen", "[::1]:0", "--spine", "[::1]:9000", "--spine", "10.0.0.1:9000"}, kinds},
        Wrong{{"--listen", "10.0.0.1:4791", "--trunk", "lo", "--spine", "[fd00::1]:4791"}, roce},
        Wrong{{"--listen", "10.0.0.1:4791", "--trunk", "lo", "--spine", "10.0.0.2:9000"}, roce}}) {
    std::vector<std::string> words{kSwitch, "serve"};
    words.insert(words.end(), wrong.options.begin(), wrong.options.end());
    Process process(words);
    CHECK(process.wait() == 2);
    INFO(process.err());
    CHECK(has(process.err(), wrong.why));
  }
  for (const char* spine : {"[::1]:9000", "127.0.0.1:9000"})
    SwitchProcess({"--listen", "[::]:0", "--spine", spine}).kill();
}

TEST_CASE("a switch sleeps when idle, and tells what it did") {
  World world({3, 1, 1, 1, 0});
  auto run = world.start("node", {"3", "30", "2000"}, "warn", "30000");
  hash_of(*run);
  Process status({kSwitch, "status", world.tor(0).address});
  REQUIRE(status.wait() == 0);
  CHECK(has(status.out(), "role tor\ngroups 0 of"));
  CHECK(has(status.out(), "\nchildren 64 a group\n"));
  CHECK_FALSE(has(status.out(), "completed 0\n"));
  Process conform({kSwitch, "conform", world.tor(0).address});
  CHECK(conform.wait(60'000) == 0);
  INFO(conform.out());
  CHECK_FALSE(has(conform.out(), "FAILED"));
  // No more processor time goes by.
  const auto used = [&] {
    std::ifstream file(fmt::format("/proc/{}/stat", world.tor(0).process->pid()));
    std::string word;
    long sum = 0;
    for (int i = 0; i < 15 && file >> word; ++i)
      if (i >= 13) sum += std::atol(word.c_str());
    return sum;
  };
  const long before = used();
  usleep(300'000);
  CHECK(used() <= before + 1);
  world.tor(0).kill();
  Process dead({kSwitch, "status", world.tor(0).address});
  CHECK(dead.wait() == 1);
  CHECK(has(dead.err(), "does not answer"));
}

}  // namespace
}  // namespace weft::testing
