// turns NODES THREADS STEPS [TIMEOUT_S]: Nodes in processes of their own that all talk to all, over
// WEFT_FABRIC, for devices that have fewer links than they have peers (tests/devices). Prints
// "as expected".
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "all_talk.hpp"

using namespace weft;
using namespace weft::test;

namespace {

struct Pipe {
  Pipe() {
    if (::pipe(ends) != 0) std::abort();
  }
  int ends[2];
};

constexpr std::size_t kLine = 4096;

bool write_line(int to, std::string text) {
  text.resize(kLine);
  return ::write(to, text.data(), kLine) == static_cast<ssize_t>(kLine);
}
std::string read_line(int from) {
  std::string text(kLine, 0);
  for (std::size_t at = 0; at < kLine;) {
    const ssize_t count = ::read(from, text.data() + at, kLine - at);
    if (count <= 0) return {};
    at += static_cast<std::size_t>(count);
  }
  return text.c_str();
}

// Lines to and from the parent, which answers each with those of all.
struct Lines final : Board {
  Lines(std::size_t count, int read_from, int write_to)
      : nodes(count), from(read_from), to(write_to) {}
  std::vector<std::string> exchange(std::size_t, const std::string& line) override {
    std::vector<std::string> all;
    if (!write_line(to, line)) std::exit(3);
    for (std::size_t i = 0; i < nodes; ++i) all.push_back(read_line(from));
    return all;
  }
  void barrier() override { exchange(0, "here"); }
  const std::size_t nodes;
  const int from, to;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 10); };
  const std::uint64_t limit_s = argc > 4 ? number(4) : 60;
  const Talk talk{.nodes = number(1),
                  .threads = number(2),
                  .steps = number(3),
                  .timeout_ms = 0,
                  .limit_ns = limit_s * 1'000'000'000};
  std::vector<Pipe> down(talk.nodes), up(talk.nodes);
  std::vector<pid_t> children;
  for (std::size_t self = 0; self < talk.nodes; ++self) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    ::alarm(static_cast<unsigned>(2 * limit_s));
    Lines lines(talk.nodes, down[self].ends[0], up[self].ends[1]);
    std::string wrong;
    {
      Talker talker(talk, self, lines);
      wrong = talker.run();
      lines.barrier();
    }
    if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
    std::exit(wrong.empty() ? 0 : 1);
  }
  ::alarm(static_cast<unsigned>(2 * limit_s));
  for (int round = 0; round < 3; ++round) {  // addresses, and two barriers
    std::vector<std::string> all;
    for (const Pipe& pipe : up) all.push_back(read_line(pipe.ends[0]));
    for (const Pipe& pipe : down)
      for (const std::string& line : all)
        if (!write_line(pipe.ends[1], line)) return 1;
  }
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    failed += status != 0 ? 1 : 0;
  }
  if (failed > 0) return 1;
  std::puts("as expected");
  return 0;
}
