// A process of a job for tests/tcp/run. Exit status 0 if all was as the mode says.
//
//   probe storm SECONDS       everybody sends to the next rank and receives from the one before,
//                             messages of all sizes; content and order are checked
//   probe eager|in_place|rendezvous
//                             rank 0 and the last rank exchange messages without end; the others
//   probe get|atomic          use each other's memory. The last rank is lost at some time:
//   everybody
//                             else must see that in time, and still reach the rest
//
// Rank 0 prints "ready" once the exchange runs and "lost N ms TEXT" when it has seen the end, where
// N counts from the last thing that worked, and TEXT is what Weft says of the message that failed
// (of other operations only its log says anything).
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "lanes/fabrics.hpp"
#include "lanes/linked/remote_lanes.hpp"
#include "tagged/engine.hpp"

extern char** environ;

namespace {

using namespace weft;
using tagged::Engine;
using tagged::Request;

constexpr std::uint32_t kContext = 1;
enum Tag : std::int32_t { kData = 1, kEnd = 2, kRound = 3 };

int fail(const char* what) {
  fprintf(stderr, "probe: %s\n", what);
  return 1;
}

void fill(std::vector<unsigned char>& data, std::size_t bytes, unsigned seed) {
  data.resize(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<unsigned char>(i * 13 + i / 257 + seed * 101);
}

// Sizes on both sides of every limit, in an order that both ends can compute.
std::size_t size_of(unsigned number) {
  static constexpr std::size_t kSizes[] = {8,      0,    64,      1000,      5000,   16368,
                                           16369,  3000, 65536,   65537,     270320, 7,
                                           270321, 48,   300'000, 1'500'000, 20,     2'500'000};
  return kSizes[number % std::size(kSizes)];
}

int storm(Engine& engine, int seconds) {
  const int next = (engine.rank() + 1) % engine.size();
  const int before = (engine.rank() + engine.size() - 1) % engine.size();
  constexpr unsigned kWindow = 8;
  std::vector<unsigned char> out[kWindow], in[kWindow], expected;
  Request sends[kWindow];
  const std::uint64_t limit = now_ns() + static_cast<std::uint64_t>(seconds) * 1'000'000'000;
  unsigned sent = 0, taken = 0;
  bool ending = false, ended = false;
  for (auto& request : sends) request.complete.store(true);
  // One receive at a time of unknown size keeps order checkable; sends run ahead by the window.
  std::vector<unsigned char> buffer(2'500'001);
  Request receive;
  engine.irecv(receive, before, kContext, tagged::kAnyTag, buffer.data(), buffer.size());
  for (;;) {
    Request& slot = sends[sent % kWindow];
    if (!ending && slot.is_complete()) {
      if (slot.code != Code::ok) return fail("a send failed");
      ending = now_ns() > limit;
      fill(out[sent % kWindow], ending ? 0 : size_of(sent), sent);
      engine.isend(slot, next, kContext, ending ? kEnd : kData, out[sent % kWindow].data(),
                   out[sent % kWindow].size(), sent % 5 == 3);
      ++sent;
      if (sent == 20 && engine.rank() == 0) puts("ready"), fflush(stdout);
    }
    engine.wait_until([&] {
      return (!ended && receive.is_complete()) ||
             (!ending && sends[sent % kWindow].is_complete()) || (ending && ended);
    });
    if (!ended && receive.is_complete()) {
      if (receive.code != Code::ok) return fail("a receive failed");
      if (receive.tag == kEnd) {
        ended = true;
      } else {
        fill(expected, size_of(taken), taken);
        if (receive.received != expected.size() ||
            std::memcmp(buffer.data(), expected.data(), expected.size()) != 0)
          return fail("a message is altered, lost or doubled");
        ++taken;
        engine.irecv(receive, before, kContext, tagged::kAnyTag, buffer.data(), buffer.size());
      }
    }
    if (ending && ended) break;
  }
  for (Request& request : sends)
    if (engine.wait(request) != Code::ok) return fail("a send failed at the end");
  printf("%d: %u messages\n", engine.rank(), taken);
  return engine.close().ok() ? 0 : fail("close");
}

void say_lost(std::uint64_t last_ns, const std::string& text) {
  printf("lost %llu ms %s\n", static_cast<unsigned long long>((now_ns() - last_ns) / 1'000'000),
         text.c_str());
  fflush(stdout);
}

// The ranks that are left exchange one more message around a ring of their own.
int go_on(Engine& engine, int victim) {
  if (victim < 2) return 0;
  const int next = (engine.rank() + 1) % victim, before = (engine.rank() + victim - 1) % victim;
  std::vector<unsigned char> out, in(100000), expected;
  fill(out, in.size(), static_cast<unsigned>(engine.rank()));
  fill(expected, in.size(), static_cast<unsigned>(before));
  Request send, receive;
  engine.irecv(receive, before, kContext, kRound, in.data(), in.size());
  engine.isend(send, next, kContext, kRound, out.data(), out.size());
  if (engine.wait(send) != Code::ok || engine.wait(receive) != Code::ok)
    return fail("the others cannot go on");
  return in == expected ? 0 : fail("the others' message is wrong");
}

int messages(Engine& engine, std::size_t bytes) {
  const int victim = engine.size() - 1;
  if (engine.rank() != 0 && engine.rank() != victim) {
    // Waits for the victim only: sees its death without ever having heard from it.
    char byte = 0;
    Request request;
    engine.irecv(request, victim, kContext, kData, &byte, 1);
    if (engine.wait(request) != Code::peer_lost) return fail("the victim is not lost");
    if (const int status = go_on(engine, victim); status != 0) return status;
    return engine.close().ok() ? 0 : fail("close");
  }
  const int peer = engine.rank() == 0 ? victim : 0;
  std::vector<unsigned char> out(bytes), in(bytes);
  std::uint64_t last = now_ns();
  std::string text;
  for (int i = 0;; ++i) {
    Request send, receive;
    engine.irecv(receive, peer, kContext, kData, in.data(), in.size());
    engine.isend(send, peer, kContext, kData, out.data(), out.size());
    const Code received = engine.wait(receive), sent = engine.wait(send);
    if (received != Code::ok || sent != Code::ok) {
      if (received != Code::peer_lost && sent != Code::peer_lost) return fail("another error");
      text = engine.describe(received != Code::ok ? receive : send);
      break;
    }
    last = now_ns();
    if (i == 20 && engine.rank() == 0) puts("ready"), fflush(stdout);
  }
  if (engine.rank() == victim) return 3;  // the link is gone and we are the ones cut off
  say_lost(last, text);
  if (const int status = go_on(engine, victim); status != 0) return status;
  return engine.close().ok() ? 0 : fail("close");
}

int one_sided(Members& job, bool atomic) {
  std::unique_ptr<Fabrics> fabrics;
  if (Status status = Fabrics::open(job, fabrics); !status) return fail(status.text().c_str());
  const int victim = job.size() - 1;
  constexpr std::size_t kBytes = 1 << 20;
  MemoryName memory{};
  if (job.rank() == victim) {
    void* address = std::aligned_alloc(4096, kBytes);
    if (address == nullptr) return fail("no memory");
    if (Status status = fabrics->to(0)->share(address, kBytes, memory); !status)
      return fail(status.text().c_str());
    std::memset(address, 7, kBytes);
  }
  const std::string bytes(reinterpret_cast<const char*>(&memory), sizeof memory);
  std::string text;
  if (!job.board().put("probe", bytes) || !job.board().fence(20'000) ||
      !job.board().get(victim, "probe", text) || text.size() != sizeof memory)
    return fail("the board");
  std::memcpy(&memory, text.data(), sizeof memory);
  if (job.rank() == victim) {
    // The watcher serves; until the end, whatever it is.
    for (;;) {
      if (fabrics->to(0)->state(0) != PeerState::alive) return 3;
      fabrics->to(0)->remote()->poll();
      sched_yield();
    }
  }
  transport::RemoteLanes& lanes = *fabrics->to(victim)->remote();
  std::vector<char> data(kBytes);
  std::uint64_t last = now_ns(), previous = 0;
  for (int i = 0;; ++i) {
    const Code code = atomic ? lanes.fetch_add(victim, memory, 0, 1, previous)
                             : lanes.get(victim, memory, 0, data.data(), kBytes);
    if (code != Code::ok) {
      if (code != Code::peer_lost) return fail("another error");
      break;
    }
    last = now_ns();
    if (i == 20 && job.rank() == 0) puts("ready"), fflush(stdout);
  }
  if (job.rank() == 0) say_lost(last, "");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return fail("usage: probe storm|eager|in_place|rendezvous|get|atomic [SECONDS]");
  const std::string_view mode = argv[1];
  Settings settings;
  std::unique_ptr<Members> job;
  if (Status status = Settings::from_environment(environ, settings); !status)
    return fail(status.text().c_str());
  if (Status status = Members::open(settings, job); !status) return fail(status.text().c_str());
  int status = 0;
  if (mode == "get" || mode == "atomic") {
    status = one_sided(*job, mode == "atomic");
  } else {
    std::unique_ptr<Engine> engine;
    if (Status made = Engine::create(*job, engine); !made) return fail(made.text().c_str());
    status = mode == "storm" ? storm(*engine, argc > 2 ? atoi(argv[2]) : 3)
                             : messages(*engine, mode == "eager"      ? 1000
                                                 : mode == "in_place" ? std::size_t{200'000}
                                                                      : std::size_t{4} << 20);
  }
  // With a rank lost, whoever runs the rendezvous waits for it in vain, so nobody asks for more.
  if (Status closed = job->board().close(); !closed && mode == "storm")
    return fail(closed.text().c_str());
  return status;
}
