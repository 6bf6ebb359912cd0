// One rank of a job of three, or more, in which rank 2 dies or does harm, or one that the scenario
// says. The others print one line if all is
// as it must be: "ok". Started by faults_test.
#include <atomic>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "exchange/wire.hpp"
#include "fabric/ring.hpp"
#include "tests/exchange/probe.hpp"

namespace weft::testing {
namespace {

void die_while_others_send(Job& job) {
  Exchange<std::uint64_t> exchange(job, 1);
  if (job.rank() == kVictim) {
    std::uint64_t message = 0;
    for (int i = 0; i < 100'000;) i += exchange.receive(0, message);
    die();
  }
  Code code = Code::ok;
  auto last_good = Clock::now();
  for (std::uint64_t i = 0; code == Code::ok; ++i) {
    last_good = Clock::now();
    code = exchange.send(kVictim, 0, i);
  }
  REQUIRE(code == Code::peer_lost);
  note_told(last_good);
  REQUIRE(exchange.send(kVictim, 0, 1) == Code::peer_lost);
  REQUIRE(!job.is_alive(kVictim));
  go_on(job, exchange);
}

// Ranks from the victim on stop where they are, with their sockets open, and take nothing more:
// what was under way to them stays so, and the others have room for each other all the same.
void stop_while_others_send(Job& job) {
  std::vector<pid_t> pids;
  REQUIRE(job.all_gather(getpid(), pids).ok());
  Exchange<std::uint64_t> exchange(job, 1);
  std::uint64_t message = 0;
  if (job.rank() >= kVictim) {
    for (int i = 0; i < 1000;) i += exchange.receive(0, message);
    raise(SIGSTOP);
    die();
  }
  for (int victim = kVictim; victim < job.size(); ++victim) {
    Code code = Code::ok;
    for (std::uint64_t i = 0; code == Code::ok; ++i) code = exchange.send(victim, 0, i);
    REQUIRE(code == Code::peer_lost);
  }
  constexpr std::uint64_t kNum = 300'000;
  const int other = 1 - job.rank();
  std::uint64_t next = 0;
  const auto start = Clock::now();
  const auto receive = [&] {
    while (exchange.receive(0, message)) REQUIRE(message == next++);
    REQUIRE(Clock::now() - start < kPatience);
  };
  for (std::uint64_t i = 0; i < kNum; ++i) {
    REQUIRE(exchange.send(other, 0, i) == Code::ok);
    if (i % 1000 == 0) receive();
  }
  REQUIRE(exchange.flushSend(0) == Code::ok);
  while (next < kNum) receive();
  if (job.rank() == 0)
    for (int victim = kVictim; victim < job.size(); ++victim)
      REQUIRE(kill(pids[static_cast<std::size_t>(victim)], SIGKILL) == 0);
}

// It is gone before the first message to it, and before anybody has had reason to look.
void die_before_others_connect(Job& job) {
  void* address = nullptr;
  RemoteMemory mine;
  REQUIRE(job.allocate(64, address, mine).ok());
  std::vector<RemoteMemory> all;
  REQUIRE(job.all_gather(mine, all).ok());
  std::vector<pid_t> pids;
  REQUIRE(job.all_gather(getpid(), pids).ok());
  Exchange<std::uint64_t> exchange(job, 1);
  if (job.rank() == kVictim) {
    // A word of its own would count before the answer that says so is out.
    for (std::uint64_t num_answered = 0; num_answered < 2;)
      REQUIRE(job.rdma_read(0, all[0].word(0), &num_answered, sizeof(num_answered)) == Code::ok);
    die();
  }
  REQUIRE(job.is_alive(kVictim));
  REQUIRE(job.fetch_add(0, all[kVictim].word(0), 1).code == Code::ok);
  REQUIRE(job.fetch_add(0, all[0].word(0), 1).code == Code::ok);
  wait_for_end(pids[kVictim]);
  // Told by the first of them where the ranks share memory, else by the second.
  Code code = exchange.send(kVictim, 0, 1);
  if (code == Code::ok) code = exchange.flushSend(0);
  REQUIRE(code == Code::peer_lost);
  REQUIRE(!job.is_alive(kVictim));
  go_on(job, exchange);
}

void die_while_others_receive(Job& job) {
  Exchange<std::uint64_t> exchange(job, 1);
  constexpr std::uint64_t kNum = 50'000;
  if (job.rank() == kVictim) {
    for (std::uint64_t i = 0; i < kNum; ++i)
      for (const int to : {0, 1}) REQUIRE(exchange.send(to, 0, i) == Code::ok);
    REQUIRE(exchange.flushSend(0) == Code::ok);
    std::uint64_t half = 0;
    for (int i = 0; i < 2;) i += exchange.receive(0, half);
    die();
  }
  // All that lies in this process's memory is received, in order, and what was on its way to
  // another host as far as it came; then its death is told, once.
  std::uint64_t next = 0, message = 0;
  Status status;
  auto last = Clock::now();
  bool other_came = false;
  for (;;) {
    if (exchange.receive(0, message)) {
      if (exchange.source(0) == kVictim) {
        REQUIRE(message == next++);
        if (next == kNum / 2) {
          REQUIRE(exchange.send(kVictim, 0, next) == Code::ok);
          REQUIRE(exchange.flushSend(0) == Code::ok);
        }
      } else {
        other_came = true;  // it is further than this one
      }
      last = Clock::now();
      continue;
    }
    status = exchange.wait(0, kPatience);
    if (!status) break;
  }
  REQUIRE(status == Code::peer_lost);
  REQUIRE(status.text().find("rank 2") != std::string::npos);
  REQUIRE(next == kNum || (kTimeoutMs != nullptr && next >= kNum / 2));
  note_told(last);
  go_on(job, exchange, other_came);
}

void die_while_others_access(Job& job, bool write) {
  void* address = nullptr;
  RemoteMemory mine;
  REQUIRE(job.allocate(1 << 20, address, mine).ok());
  std::vector<RemoteMemory> all;
  REQUIRE(job.all_gather(mine, all).ok());
  std::string own(1 << 20, 'x');
  RemoteMemory shared;
  REQUIRE(job.share(own.data(), own.size(), shared).ok());
  std::vector<RemoteMemory> all_shared;
  REQUIRE(job.all_gather(shared, all_shared).ok());
  Exchange<std::uint64_t> exchange(job, 1);
  if (job.rank() == kVictim) {
    while (std::atomic_ref(*static_cast<std::uint64_t*>(address)).load() < 1000) {
    }
    die();
  }
  std::string local(1 << 20, ' ');
  const auto start = Clock::now();
  auto last_good = start;
  const auto access = [&](const RemoteMemory& memory) {
    return write ? job.rdma_write(0, memory, local.data(), memory.bytes)
                 : job.rdma_read(0, memory, local.data(), memory.bytes);
  };
  const std::size_t all_but_word = local.size() - 64;
  Code code = Code::ok;
  while (code == Code::ok) {
    last_good = Clock::now();
    code = job.fetch_add(0, all[kVictim].word(0), 1).code;
    if (code == Code::ok) code = job.fetch_add(0, all_shared[kVictim].word(0), 1).code;
    if (code == Code::ok) code = access(all[kVictim].part(64, 64));
    if (code == Code::ok) code = access(all_shared[kVictim].part(64, all_but_word));
    REQUIRE(Clock::now() - start < kPatience);
  }
  REQUIRE(code == Code::peer_lost);
  note_told(last_good);
  // The kernel may know before the engine does.
  while (job.is_alive(kVictim)) REQUIRE(Clock::now() - start < kPatience);
  REQUIRE(job.rdma_read(0, all[kVictim], local.data(), 8) == Code::peer_lost);
  REQUIRE(job.rdma_write(0, all[kVictim], local.data(), 8) == Code::peer_lost);
  REQUIRE(job.wait(0, job.rdma_read_async(0, all[kVictim], local.data(), 8)) == Code::peer_lost);
  REQUIRE(job.cas(0, all[kVictim].word(0), 0, 1).code == Code::peer_lost);
  REQUIRE(job.cas(0, all_shared[kVictim].word(0), 0, 1).code == Code::peer_lost);
  const int other = 1 - job.rank();
  REQUIRE(job.rdma_read(0, all[static_cast<std::size_t>(other)], local.data(), 64) == Code::ok);
  go_on(job, exchange);
}

void die_while_others_end_a_phase(Job& job) {
  Exchange<std::uint64_t> exchange(job, 1);
  for (int phase = 0;; ++phase) {
    for (std::uint64_t i = 0; i < 3000; ++i)
      for (int to = 0; to < 3; ++to) {
        const Code code = exchange.send(to, 0, i);
        REQUIRE(code == Code::ok || code == Code::peer_lost);
      }
    if (job.rank() == kVictim && phase == 5) die();
    const auto start = Clock::now();
    const Status status = exchange.quiesce(0, [](std::uint64_t) {});
    if (status.ok()) continue;
    REQUIRE(phase == 5);
    REQUIRE(status == Code::peer_lost);
    REQUIRE(status.text().find("rank 2 (") != std::string::npos);
    note_told(start);
    break;
  }
  for (int phase = 0; phase < 3; ++phase) {
    const int other = 1 - job.rank();
    for (std::uint64_t i = 0; i < 3000; ++i) REQUIRE(exchange.send(other, 0, i) == Code::ok);
    REQUIRE(exchange.send(kVictim, 0, 1) == Code::peer_lost);
    std::uint64_t next = 0;
    REQUIRE(exchange.quiesce(0, [&](std::uint64_t i) { REQUIRE(i == next++); }).ok());
    REQUIRE(next == 3000);
  }
}

// In a job of ten, barriers make no lanes between rank 3 and ranks 0, 6 and 8. The first sends to
// it, the second waits for what it may send, the third only asks.
void die_where_only_an_exchange_leads(Job& job) {
  constexpr int kApart = 3;
  REQUIRE(job.size() == 10);
  Exchange<std::uint64_t> exchange(job, 1);
  std::uint64_t message = 0;
  REQUIRE(job.barrier().ok());
  const auto start = Clock::now();
  if (job.rank() == kApart) {
    REQUIRE(exchange.send(6, 0, 1) == Code::ok);
    REQUIRE(exchange.flushSend(0) == Code::ok);
    while (!exchange.receive(0, message)) REQUIRE(Clock::now() - start < kPatience);
    die();
  }
  if (job.rank() == 0) {
    Code code = Code::ok;
    while (code == Code::ok) code = exchange.send(kApart, 0, 1);
    REQUIRE(code == Code::peer_lost);
    REQUIRE(!job.is_alive(kApart));
  }
  if (job.rank() == 8)
    while (job.is_alive(kApart)) REQUIRE(Clock::now() - start < kPatience);
  if (job.rank() == 6) {
    Status status;
    while (status = exchange.wait(0, kPatience), status.ok()) REQUIRE(exchange.receive(0, message));
    REQUIRE(status == Code::peer_lost);
    REQUIRE(status.text().find("rank 3 (") != std::string::npos);
    REQUIRE(message == 1);
  }
  // Others have no lane to it at all, and hear of it in what they do together.
  const Status status = job.barrier();
  REQUIRE(status == Code::peer_lost);
  REQUIRE(status.text().find("rank 3 (") != std::string::npos);
  REQUIRE(job.barrier().ok());
}

void die_before_others_leave(Job& job) {
  Exchange<std::uint64_t> exchange(job, 1);
  for (std::uint64_t i = 0; i < 1000; ++i)
    REQUIRE(exchange.send((job.rank() + 1) % 3, 0, i) == Code::ok);
  REQUIRE(job.barrier().ok());
  if (job.rank() == kVictim) die();
}

// The mapped ring of this rank's only lane out: its own arena's lanes are mapped once they are
// accepted, which this rank takes care not to do.
std::byte* lane_ring() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long from = 0, to = 0;
    if (line.find("weft-arena") == std::string::npos ||
        std::sscanf(line.c_str(), "%lx-%lx", &from, &to) != 2)
      continue;
    if (to - from == (2u << 20) + 4096) return reinterpret_cast<std::byte*>(from);
  }
  return nullptr;
}

// Rank 2 writes what no exchange writes behind its first message to rank 0.
void write_garbage(Job& job, const char* what) {
  Exchange<std::uint64_t> exchange(job, 1);
  std::uint64_t message = 0;
  if (job.rank() == kVictim) {
    REQUIRE(exchange.send(0, 0, 1) == Code::ok);
    REQUIRE(exchange.flushSend(0) == Code::ok);
    std::byte* ring = lane_ring();
    REQUIRE(ring != nullptr);
    auto* head = reinterpret_cast<EntryHead*>(ring + kEntryAlign);
    const auto* first = reinterpret_cast<const EntryHead*>(ring);
    REQUIRE(first->length == 8);
    head->length = 8;
    head->immediate = first->immediate;
    std::uint32_t kind = kBlock;
    Rts rts{4096, 8, 0, 0};
    if (std::strcmp(what, "length") == 0) head->length = 0xffff'fff0;
    if (std::strcmp(what, "odd") == 0) head->length = 13;
    if (std::strcmp(what, "empty") == 0) head->length = 0;
    if (std::strcmp(what, "kind") == 0) kind = 99;
    if (std::strcmp(what, "wrong_phase") == 0) head->immediate += std::uint64_t{7} << 32;
    if (std::strcmp(what, "size") == 0) head->immediate += 1;
    if (std::strcmp(what, "turn") == 0) kind = kKindWrap, head->length = 0xffff'ffc0;
    if (std::strncmp(what, "announce", 8) == 0) {
      kind = kRts;
      head->length = sizeof rts;
      if (std::strcmp(what, "announce_far") == 0) rts = {0x7fff'0000'0000, 1 << 20, 0x0001'0003, 0};
      if (std::strcmp(what, "announce_long") == 0) rts = {4096, ~std::uint64_t{0}, 1, 1};
      if (std::strcmp(what, "announce_odd") == 0) rts = {4096, 13, 1, 1};
      std::memcpy(ring + kEntryAlign + sizeof *head, &rts, sizeof rts);
    }
    head->state.store(2u << 8 | kind, std::memory_order_release);
    REQUIRE(job.barrier().ok());
  } else {
    if (job.rank() == 0) {
      Status status = exchange.wait(0, kPatience);
      REQUIRE(status.ok());
      REQUIRE(exchange.receive(0, message) && message == 1);
      while (status.ok() && !exchange.receive(0, message)) status = exchange.wait(0, kPatience);
      REQUIRE(status == Code::corrupt);
    }
    REQUIRE(job.barrier().ok());
    go_on(job, exchange);
  }
  // Who sends into the lane hears that it is closed, and everybody at the end of the phase.
  if (job.rank() == kVictim) {
    const auto start = Clock::now();
    Code code = Code::ok;
    while (code == Code::ok) {
      code = exchange.send(0, 0, 1);
      REQUIRE(Clock::now() - start < kPatience);
    }
    REQUIRE(code == Code::corrupt);
    REQUIRE(exchange.send(0, 0, 1) == Code::corrupt);
    REQUIRE(exchange.send(1, 0, 1) == Code::ok);
  }
  for (int phase = 0; phase < 2; ++phase) {
    const Status status = exchange.quiesce(0, [](std::uint64_t) {});
    REQUIRE(status == Code::corrupt);
    REQUIRE(status.text().starts_with("rank 0 ("));
    REQUIRE(status.text().find(" of rank 2 (") != std::string::npos);
  }
  REQUIRE(job.barrier().ok());
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  using namespace weft::testing;
  std::vector<Scenario> scenarios = {
      {"connect", die_before_others_connect},
      {"send", die_while_others_send},
      {"stop", stop_while_others_send},
      {"receive", die_while_others_receive},
      {"read", [](Job& job) { die_while_others_access(job, false); }},
      {"write", [](Job& job) { die_while_others_access(job, true); }},
      {"phase", die_while_others_end_a_phase},
      {"leave", die_before_others_leave},
      {"apart", die_where_only_an_exchange_leads}};
  for (const char* what : {"length", "odd", "empty", "kind", "wrong_phase", "size", "turn",
                           "announce", "announce_far", "announce_long", "announce_odd"})
    scenarios.push_back({what, [=](Job& job) { write_garbage(job, what); }});
  return run_scenario(argc, argv, scenarios);
}
