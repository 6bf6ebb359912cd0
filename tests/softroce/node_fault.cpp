// Two Nodes on two hosts, whose link breaks. Started by tests/softroce/node_faults.
//
//   node_fault server HOST:PORT WORDS          until it is told that the client has done
//   node_fault client HOST:PORT WORDS MODE S   for S seconds of work, with puts and gets of so many
//                                              words; MODE is
//     last     the server is never lost, and everything comes once, in order and whole
//     again    the server is lost at least once, no operation ends later than the timeout and two
//              seconds after the last that was good, and it is connected to again
//     gone     the server is lost for good
// The client says "begins" on standard error once messages are under way, and "as expected" at the
// end.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/wait.hpp"
#include "weft/node.hpp"

using namespace weft;

namespace {

std::size_t num_words = 0;  // and a counter
constexpr std::uint64_t kDeadlineNs = 150'000'000'000;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}
void check(const Status& status) {
  if (!status) fail(status.text());
}

int serve(const std::string& address) {
  Node node({.name = "server", .secret = "fault", .progress_thread = false});
  std::vector<std::uint64_t> memory(num_words + 1);
  check(node.register_memory(memory.data(), memory.size() * 8));
  MemoryKey key;
  check(node.key(memory.data(), kAllRights, key));
  bool is_over = false;
  std::uint64_t expected = 0, notified = 0;
  node.on_peer([&](const Peer& peer) {
    expected = notified = 0;
    // There is room for it: nothing was sent before.
    if (node.send(peer, &key, sizeof key) != Code::ok) fail("the key was not sent");
  });
  node.on_message([&](const Peer& peer, std::span<const std::byte> bytes) {
    if (bytes.size() == 3) {
      is_over = true;
      return;
    }
    std::uint64_t number = 0;
    if (bytes.size() != sizeof number) fail("a message of another length");
    std::memcpy(&number, bytes.data(), sizeof number);
    if (number != expected++) fail("a message is out of order");
    if (notified != number + 1) fail("a message came before what was put before it");
    for (std::size_t word = 0; word < num_words; ++word)
      if (memory[word] != number * num_words + word) fail("a put is not whole");
    if (node.send(peer, &number, sizeof number) == Code::peer_lost)
      std::fprintf(stderr, "server: the client is gone\n");
  });
  node.on_notify([&](const Peer&, const NotifyTag& tag) {
    std::uint64_t number;
    std::memcpy(&number, tag.data(), sizeof number);
    if (number != notified++) fail("a notification is out of order");
  });
  check(node.listen(address));
  for (const std::uint64_t limit = now_ns() + kDeadlineNs; !is_over && now_ns() < limit;)
    node.wait_some(20);
  return 0;
}

struct Client {
  explicit Client(std::string at)
      : address(std::move(at)),
        node({.name = "client", .secret = "fault", .progress_thread = false}) {
    node.on_message([this](const Peer&, std::span<const std::byte> bytes) {
      if (bytes.size() == sizeof key) {
        std::memcpy(&key, bytes.data(), sizeof key);
        has_key = true;
        return;
      }
      std::uint64_t number = 0;
      std::memcpy(&number, bytes.data(), std::min(bytes.size(), sizeof number));
      if (number != num_echoed++) fail("an echo is out of order");
    });
  }
  // Until it works or the time is over.
  bool connect(std::uint64_t limit_ns) {
    has_key = false;
    num_echoed = 0;
    Status status;
    do {
      status = node.connect(address, peer, 2000);
      if (status) break;
      if (status == Code::not_found) ::usleep(100'000);
    } while (now_ns() < limit_ns);
    if (!status) {
      std::fprintf(stderr, "client: %s\n", status.text().c_str());
      return false;
    }
    while (!has_key && !peer.is_lost() && now_ns() < limit_ns) node.wait_some(20);
    if (has_key) memory = node.memory(peer, key);
    return has_key;
  }
  // A round trip of everything; its code.
  Code step(std::uint64_t number) {
    for (std::size_t word = 0; word < num_words; ++word) data[word] = number * num_words + word;
    NotifyTag tag{};
    std::memcpy(tag.data(), &number, sizeof number);
    Operation put, get, add;
    node.put_notify(memory, 0, data.data(), num_words * 8, tag, put);
    node.fetch_add(memory, num_words * 8, 1, add);
    Code ended = node.wait(put);
    Code code;
    while ((code = node.send(peer, &number, sizeof number)) == Code::again) node.wait_some(20);
    node.get(memory, 0, copy.data(), num_words * 8, get);
    if (ended == Code::ok)
      ended = node.wait(get);
    else if (!get.is_done())
      (void)node.wait(get);
    const Code added = node.wait(add);
    if (added == Code::outcome_unknown)
      ++num_unknown;
    else if (ended == Code::ok)
      ended = added;
    if (code != Code::ok) return code;
    if (ended != Code::ok) return ended;
    if (copy != data) fail("a get is not what was put");
    while (num_echoed <= number && !peer.is_lost()) node.wait_some(20);
    return peer.is_lost() ? Code::peer_lost : Code::ok;
  }

  const std::string address;
  Node node;
  Peer peer;
  MemoryKey key;
  PeerMemory memory;
  bool has_key = false;
  std::uint64_t num_echoed = 0, num_unknown = 0;
  std::vector<std::uint64_t> data = std::vector<std::uint64_t>(num_words), copy = data;
};

int use(const std::string& address, const std::string& mode, double seconds) {
  const char* timeout_ms = std::getenv("WEFT_PEER_TIMEOUT_MS");
  const std::uint64_t patience_ns =
      (timeout_ms != nullptr ? std::strtoull(timeout_ms, nullptr, 10) : 5000) * 1'000'000 +
      5'000'000'000 + num_words * 100'000;  // a step is several operations, and guests are slow
  const std::uint64_t limit = now_ns() + kDeadlineNs;
  Client client(address);
  if (!client.connect(limit)) fail("no connection");
  if (client.peer.fabric() != std::getenv("WEFT_FABRIC")) fail("another fabric");
  std::uint64_t number = 0, steps = 0, num_lost = 0, longest_ns = 0;
  bool is_connected = true;
  std::uint64_t left_ns = static_cast<std::uint64_t>(seconds * 1e9);
  std::uint64_t steps_before = 0, time_before_ns = 0, time_after_ns = 0;
  while (left_ns > 0 && now_ns() < limit) {
    const std::uint64_t began = now_ns();
    const Code code = client.step(number++);
    const std::uint64_t took_ns = now_ns() - began;
    longest_ns = std::max(longest_ns, took_ns);
    if (steps == 3) {
      std::fprintf(stderr, "begins\n");
      std::fflush(stderr);
    }
    if (took_ns > patience_ns) fail("an operation ended too late");
    if (code == Code::ok) {
      ++steps;
      (num_lost == 0 ? time_before_ns : time_after_ns) += took_ns;
      if (num_lost == 0) ++steps_before;
      left_ns -= std::min(left_ns, took_ns);
      continue;
    }
    if (code != Code::peer_lost) fail("an operation ended otherwise than by the peer's loss");
    ++num_lost;
    if (mode == "last") fail("the server was lost");
    if (mode == "gone") {
      std::puts("as expected");
      return 0;
    }
    is_connected = client.connect(limit);
    if (!is_connected) break;
    number = 0;
    left_ns = static_cast<std::uint64_t>(seconds * 5e8);  // as long again, to see its speed
  }
  std::fprintf(stderr, "%llu steps, %.1f ms each", static_cast<unsigned long long>(steps),
               double(time_before_ns) / 1e6 / double(std::max<std::uint64_t>(steps_before, 1)));
  if (num_lost > 0)
    std::fprintf(
        stderr, "; %.1f ms each after %llu losses",
        double(time_after_ns) / 1e6 / double(std::max<std::uint64_t>(steps - steps_before, 1)),
        static_cast<unsigned long long>(num_lost));
  std::fprintf(stderr, "; the longest took %.0f ms; %llu outcomes unknown\n",
               double(longest_ns) / 1e6, static_cast<unsigned long long>(client.num_unknown));
  if (!is_connected || steps < 10) fail("too little was done");
  if ((mode == "again") != (num_lost > 0)) fail("the server was not lost");
  Operation over;
  client.node.send(client.peer, "end", 3, over);
  (void)client.node.wait(over);
  std::puts("as expected");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (argc > 3) num_words = std::strtoull(argv[3], nullptr, 10);
  if (what == "server" && argc == 4) return serve(argv[2]);
  if (what == "client" && argc == 6) return use(argv[2], argv[4], std::atof(argv[5]));
  fail("usage: node_fault server HOST:PORT WORDS | client HOST:PORT WORDS last|again|gone SECONDS");
}
