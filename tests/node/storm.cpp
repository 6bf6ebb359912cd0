// storm [SECONDS [CLIENTS [SEED [MS]]]]: clients in processes of their own connect to a server,
// put, get, add, notify and send, and are killed at any moment, for so long. The server checks what
// it gets, and that the dead leave nothing with it: descriptors, mappings, threads, memory. Prints
// "as expected". Over WEFT_FABRIC.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/wait.hpp"
#include "weft/node.hpp"

using namespace weft;

namespace {

constexpr std::size_t kSlots = 64, kSlotWords = 512;
constexpr std::size_t kBytes = kSlots * kSlotWords * 8 + 8;  // and a counter
constexpr std::uint64_t kDeadlineNs = 30'000'000'000;

[[noreturn]] void fail(const char* who, const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", who, what.c_str());
  std::exit(1);
}

struct Keys {
  MemoryKey allocated, registered;
};
struct Note {
  std::uint32_t slot, round;
  std::uint64_t sum;
};

std::uint64_t value_of(std::uint64_t slot, std::uint64_t round, std::size_t word) {
  return (slot << 48 | round << 16) + word;
}
// Whether a slot holds one round, all of it.
bool is_whole(const std::uint64_t* words, std::uint64_t slot, std::uint64_t round) {
  for (std::size_t word = 0; word < kSlotWords; ++word)
    if (words[word] != value_of(slot, round, word)) return false;
  return true;
}

int run_client(const std::string& address, std::uint32_t slot, std::uint32_t rounds) {
  Node node({.name = "client " + std::to_string(slot), .secret = "storm"});
  Keys keys{};
  bool has_keys = false;
  std::uint32_t answers = 0;
  node.on_message([&](const Peer&, std::span<const std::byte> bytes) {
    if (bytes.size() == sizeof keys) {
      std::memcpy(&keys, bytes.data(), sizeof keys);
      has_keys = true;
    } else {
      ++answers;
    }
  });
  Peer server;
  if (Status status = node.connect(address, server, 20'000); !status) fail("client", status.text());
  const std::uint64_t limit = now_ns() + kDeadlineNs;
  auto until = [&](auto&& done) {
    while (!done()) {
      node.wait_some(20);
      if (now_ns() > limit) fail("client", "waits for too long");
      if (server.is_lost()) fail("client", "the server is gone");
    }
  };
  auto send = [&](const void* message, std::size_t bytes) {
    until([&] { return node.send(server, message, bytes) == Code::ok; });
  };
  send("keys", 4);
  until([&] { return has_keys; });
  const PeerMemory memories[] = {node.memory(server, keys.allocated),
                                 node.memory(server, keys.registered)};
  std::vector<std::uint64_t> words(kSlotWords), copy(kSlotWords);
  const std::uint64_t at = slot * kSlotWords * 8;
  Operation operation;
  auto check = [&](const char* what) {
    const Code code = node.wait(operation);
    if (code != Code::ok) fail("client", std::string(what) + ": " + std::string(code_name(code)));
  };
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    const PeerMemory& memory = memories[round % 2];
    for (std::size_t word = 0; word < kSlotWords; ++word) words[word] = value_of(slot, round, word);
    NotifyTag tag{};
    const std::uint32_t parts[3] = {slot, round, round % 2};
    std::memcpy(tag.data(), parts, sizeof parts);
    node.put_notify(memory, at, words.data(), kSlotWords * 8, tag, operation);
    check("put");
    node.get(memory, at, copy.data(), kSlotWords * 8, operation);
    check("get");
    if (copy != words) fail("client", "gets what it did not put");
    node.fetch_add(memory, kBytes - 8, 1, operation);
    check("fetch_add");
    const std::uint32_t before = answers;
    const Note note{slot, round, value_of(slot, round, 7)};
    send(&note, sizeof note);
    until([&] { return answers > before; });
  }
  return 0;
}

struct Held {
  int descriptors = 0, mappings = 0, threads = 0;
  long resident_kib = 0;
};
Held held() {
  Held held;
  auto count = [](const char* path) {
    int entries = 0;
    DIR* folder = ::opendir(path);
    while (::readdir(folder) != nullptr) ++entries;
    ::closedir(folder);
    return entries;
  };
  held.descriptors = count("/proc/self/fd");
  held.threads = count("/proc/self/task");
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    held.mappings += line.find("weft-link") != line.npos;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmRSS:", 0) == 0) held.resident_kib = std::atol(line.c_str() + 6);
  return held;
}

volatile sig_atomic_t is_over = 0;

int run_server() {
  ::signal(SIGTERM, [](int) { is_over = 1; });
  Node node({.name = "server", .secret = "storm"});
  void* allocated = nullptr;
  std::vector<std::uint64_t> own(kBytes / 8);
  Keys keys;
  if (!node.allocate(kBytes, allocated) || !node.register_memory(own.data(), kBytes) ||
      !node.key(allocated, kAllRights, keys.allocated) ||
      !node.key(own.data(), kAllRights, keys.registered))
    fail("server", "has no memory");
  std::size_t peers = 0, lost = 0, notes = 0, notified = 0;
  node.on_peer([&](const Peer&) { ++peers; });
  node.on_lost([&](const Peer&, const Status&) { ++lost; });
  node.on_message([&](const Peer& peer, std::span<const std::byte> bytes) {
    if (bytes.size() == 4) {
      if (node.send(peer, &keys, sizeof keys) != Code::ok && !peer.is_lost())
        fail("server", "has no room for an answer");
      return;
    }
    Note note;
    if (bytes.size() != sizeof note) fail("server", "gets a strange message");
    std::memcpy(&note, bytes.data(), sizeof note);
    if (note.sum != value_of(note.slot, note.round, 7)) fail("server", "gets a wrong message");
    ++notes;
    [[maybe_unused]] const Code code = node.send(peer, "ok", 2);
  });
  node.on_notify([&](const Peer&, const NotifyTag& tag) {
    std::uint32_t parts[3];
    std::memcpy(parts, tag.data(), sizeof parts);
    // The client waits for an answer before it writes there again.
    const auto* memory = parts[2] == 0 ? static_cast<const std::uint64_t*>(allocated) : own.data();
    if (parts[0] >= kSlots || !is_whole(memory + parts[0] * kSlotWords, parts[0], parts[1]))
      fail("server", "is notified of data that are not there");
    ++notified;
  });
  std::string address;
  if (Status status = node.address(address); !status) fail("server", status.text());
  Held before{};
  std::printf("%s\n", address.c_str());
  std::fflush(stdout);
  std::uint64_t limit = 0;
  for (;;) {
    node.wait_some(20);
    // Counted once some have come and gone, so that what is made once is there.
    if (before.descriptors == 0 && lost >= 20 && peers == lost) before = held();
    if (!is_over) continue;
    if (limit == 0) limit = now_ns() + kDeadlineNs;
    if (peers == lost) break;
    if (now_ns() > limit) fail("server", "believes dead clients alive");
  }
  // Strangers that were half through the handshake when they died.
  Held after = held();
  // What ends their queue pairs is a thread of its own.
  const auto keeps_any = [&] {
    return before.descriptors != 0 &&
           (after.descriptors > before.descriptors || after.threads > before.threads);
  };
  while (keeps_any() && now_ns() < limit) {
    node.wait_some(20);
    after = held();
  }
  std::fprintf(stderr, "%zu peers, %zu messages, %zu notifications; %ld KiB, then %ld KiB\n", peers,
               notes, notified, before.resident_kib, after.resident_kib);
  if (before.descriptors != 0) {
    if (keeps_any()) fail("server", "keeps descriptors or threads of the dead");
    if (after.resident_kib > before.resident_kib + 4096) fail("server", "grows");
  }
  if (after.mappings != 0) fail("server", "keeps mappings of the dead");
  if (notified == 0 || notes == 0 || peers < 4) fail("server", "has not seen enough");
  std::printf("as expected\n");
  return 0;
}

pid_t spawn(const std::vector<std::string>& arguments, int output) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  if (output >= 0) ::dup2(output, 1);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv("/proc/self/exe", argv.data());
  ::_exit(127);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  if (role == "client")
    return run_client(argv[2], static_cast<std::uint32_t>(std::atoi(argv[3])),
                      static_cast<std::uint32_t>(std::atoi(argv[4])));
  if (role == "server") return run_server();
  const std::uint64_t seconds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 3;
  const std::size_t clients = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 8;
  const unsigned seed = argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : 1;
  // How long those that are killed live at most.
  const std::uint64_t life_ms = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 60;
  if (clients > kSlots || life_ms == 0) return 2;
  int out[2];
  if (::pipe2(out, O_CLOEXEC) != 0) return 2;
  const pid_t server = spawn({argv[0], "server"}, out[1]);
  ::close(out[1]);
  FILE* lines = ::fdopen(out[0], "r");
  char line[8192];
  if (std::fgets(line, sizeof line, lines) == nullptr) fail("storm", "the server does not start");
  const std::string address(line, std::strcspn(line, "\n"));

  struct Running {
    pid_t pid = 0;
    std::uint64_t kill_at = 0;
  };
  std::vector<Running> running(clients);
  std::mt19937 random(seed);
  const std::uint64_t end = now_ns() + seconds * 1'000'000'000;
  bool failed = false, is_left = true;
  while (is_left) {
    is_left = false;
    for (std::size_t slot = 0; slot < clients; ++slot) {
      Running& client = running[slot];
      if (client.pid == 0) {
        if (now_ns() > end || failed) continue;
        // A third ends by itself; the others are killed at any step.
        const bool ends = random() % 3 == 0;
        client.pid =
            spawn({argv[0], "client", address, std::to_string(slot), ends ? "20" : "1000000"}, -1);
        client.kill_at = now_ns() + (ends ? kDeadlineNs : random() % (life_ms * 1'000'000));
      }
      is_left = true;
      if (now_ns() > client.kill_at) ::kill(client.pid, SIGKILL);
      int status = 0;
      if (::waitpid(client.pid, &status, WNOHANG) != client.pid) continue;
      client.pid = 0;
      failed |= !(WIFEXITED(status) && WEXITSTATUS(status) == 0) &&
                !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    ::usleep(1000);  // only paces the loop
  }
  ::kill(server, SIGTERM);
  const bool ended = std::fgets(line, sizeof line, lines) != nullptr;
  int status = 0;
  ::waitpid(server, &status, 0);
  if (!ended || failed || status != 0) return 1;
  std::fputs(line, stdout);
  return 0;
}
