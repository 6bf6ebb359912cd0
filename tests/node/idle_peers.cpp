// What idle peers cost the one that is busy: a Node in a process of its own answers messages of 8
// bytes, while so many other Nodes are connected to it over shared memory and silent.
//
//   node_idle_peers [NUMBER]     prints the median of half a round trip, without and with them
//
// The time decides nothing; 1 if anything else goes wrong.
#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

#include "weft/node.hpp"

using namespace weft;

namespace {

constexpr int kRounds = 21, kMessages = 2000;

NodeSettings settings() {
  NodeSettings settings;
  settings.secret = "idle";
  settings.fabrics = "shm";
  settings.progress_thread = false;
  return settings;
}

[[noreturn]] void answer(const std::string& address, int ready) {
  Node node(settings());
  node.on_message([&](const Peer& peer, std::span<const std::byte> bytes) {
    while (node.send(peer, bytes.data(), bytes.size()) == Code::again) node.progress();
  });
  if (!node.listen(address) || ::write(ready, "r", 1) != 1) _exit(1);
  for (;;) node.progress();
}

bool expect(const Status& status) {
  if (!status) fmt::print("{}\n", status.text());
  return status.ok();
}

}  // namespace

int main(int argc, char** argv) {
  const int number = argc > 1 ? std::atoi(argv[1]) : 1000;
  const std::string path = fmt::format("/tmp/weft-idle-{}", getpid());
  int ready[2];
  if (::pipe(ready) != 0) return 1;
  const pid_t server = ::fork();
  if (server == 0) answer("unix:" + path, ready[1]);
  struct Ends {
    ~Ends() {
      ::kill(server, SIGKILL);
      ::waitpid(server, nullptr, 0);
      ::unlink(path.c_str());
    }
    pid_t server;
    const std::string& path;
  } const ends{server, path};
  ::close(ready[1]);
  char byte;
  if (::read(ready[0], &byte, 1) != 1) return 1;

  Node busy(settings());
  std::size_t num_answers = 0;
  busy.on_message([&](const Peer&, std::span<const std::byte>) { ++num_answers; });
  Peer peer;
  if (!expect(busy.connect("unix:" + path, peer))) return 1;
  std::vector<std::unique_ptr<Node>> idle;
  for (const int num_idle : {0, number}) {
    while (idle.size() < static_cast<std::size_t>(num_idle)) {
      Peer silent;
      idle.push_back(std::make_unique<Node>(settings()));
      if (!expect(idle.back()->connect("unix:" + path, silent))) return 1;
    }
    std::vector<double> us;
    for (int round = 0; round < kRounds; ++round) {
      const auto start = std::chrono::steady_clock::now();
      for (std::int64_t i = 0; i < kMessages; ++i) {
        const std::size_t before = num_answers;
        Code code;
        while ((code = busy.send(peer, &i, 8)) == Code::again) busy.progress();
        while (code == Code::ok && num_answers == before && !peer.is_lost()) busy.progress();
        if (num_answers == before) return 1;
      }
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - start;
      us.push_back(took.count() / (2.0 * kMessages));
    }
    std::ranges::nth_element(us, us.begin() + kRounds / 2);
    fmt::print("{:5} idle peers: {:.3f} us\n", num_idle, us[kRounds / 2]);
  }
  return 0;
}
