#include "base/stats.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <iterator>
#include <sstream>
#include <vector>

#include "base/tally.hpp"

using namespace weft;
using stats::Counter;

namespace {

// The words of the line of this peer, or none.
std::vector<std::string> line_of(const std::string& text, const std::string& peer) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in(line);
    std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
    if (!words.empty() && words[0] == peer) return words;
  }
  return {};
}

}  // namespace

TEST_CASE("what was counted is read from outside, and stays when the lane ends") {
  int up[2], down[2];
  REQUIRE((pipe(up) == 0 && pipe(down) == 0));
  const pid_t child = fork();
  if (child == 0) {
    stats::set_name("rank 5 of 9");
    for (int i = 0; i < 300; ++i) {  // more than one way of ending
      stats::Slot slot;
      slot.open("shm", "one");
      slot.row().add(Counter::sent, 1);
      slot.row().add(Counter::sent_bytes, 10);
    }
    stats::Slot open, moved, other;
    open.open("shm", "one");
    open.row().add(Counter::sent, 1);
    moved = std::move(open);
    moved.row().add(Counter::copied_bytes, 3 << 20);
    other.open("ofi", std::string(200, 'x'));  // longer than there is room for
    other.row().add(Counter::stalls, 7);
    stats::Tally& tally = stats::tallies()[stats::kNumTallies - 1];
    std::strcpy(tally.what, "allreduce");
    std::strcpy(tally.way, "ring");
    tally.add(5 << 20, false);
    tally.add(0, true);
    std::strcpy(stats::tallies()[0].what, "never");
    char byte = 0;
    if (write(up[1], &byte, 1) != 1 || read(down[0], &byte, 1) != 1) _exit(1);
    _exit(0);
  }
  char byte = 0;
  REQUIRE(read(up[0], &byte, 1) == 1);
  std::string text;
  const Status status = stats::read(child, text);
  INFO(text << status.text());
  REQUIRE(status.ok());
  CHECK(text.starts_with("weft: rank 5 of 9, process " + std::to_string(child)));
  CHECK(line_of(text, "one") ==
        std::vector<std::string>{"one", "shm", "301", "2.9K", "0", "0", "3.0M", "0", "0"});
  const auto other = line_of(text, std::string(55, 'x'));
  REQUIRE(other.size() == 9);
  CHECK(other[7] == "7");
  CHECK(line_of(text, "allreduce") ==
        std::vector<std::string>{"allreduce", "ring", "2", "calls", "5.0M", "bytes"});
  CHECK(line_of(text, "never").empty());
  REQUIRE(write(down[1], &byte, 1) == 1);
  int exited = 0;
  REQUIRE(waitpid(child, &exited, 0) == child);
  CHECK(exited == 0);
  CHECK(stats::read(child, text) == Code::not_found);
}

TEST_CASE("peers that come and go for ever are counted in bounded memory") {
  const pid_t child = fork();
  if (child == 0) {
    constexpr int kPeers = 100'000;  // more than there is room for
    for (int i = 0; i < kPeers; ++i) {
      stats::Slot slot;
      slot.open("shm", "client " + std::to_string(i));
      slot.row().add(Counter::sent, 1);
    }
    std::string text;
    const bool good = stats::read(getpid(), text).ok() && !line_of(text, "(others)").empty() &&
                      text.size() < (1u << 20) &&
                      stats::sum()[static_cast<std::size_t>(Counter::sent)] == kPeers;
    _exit(good ? 0 : 1);
  }
  int exited = 0;
  REQUIRE(waitpid(child, &exited, 0) == child);
  CHECK(exited == 0);
}

TEST_CASE("a file of that name that is none is told") {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{100}, std::size_t{1} << 20}) {
    const pid_t child = fork();
    if (child == 0) {
      const int fd = memfd_create("weft-stats", 0);
      const std::vector<char> junk(bytes, 'j');
      if (write(fd, junk.data(), junk.size()) != static_cast<ssize_t>(junk.size())) _exit(1);
      pause();
      _exit(0);
    }
    std::string text;
    Status status;
    for (int i = 0; i < 1000 && status.text().find("another version") == std::string::npos; ++i) {
      usleep(10'000);  // until it has made the file
      status = stats::read(child, text);
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    CHECK(status == Code::not_found);
    CHECK(status.text().find("another version") != std::string::npos);
  }
}

TEST_CASE("a process that does not run Weft is told") {
  std::string text;
  CHECK(stats::read(1 << 30, text) == Code::not_found);
  const pid_t child = fork();
  if (child == 0) {
    execlp("sleep", "sleep", "100", nullptr);
    _exit(1);
  }
  CHECK(stats::read(child, text) == Code::not_found);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}
