// One rank of a job of three that comes to its limits: memory that is not there, no room for rings,
// an end with messages under way, a death while blocks wait to be read. Started by faults_test.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "exchange/memory_key.hpp"
#include "tests/exchange/probe.hpp"

namespace weft::testing {
namespace {

// Dies with blocks announced that nobody has read yet. What is received of it has no gap: where a
// block could no longer be read, nothing that came behind it is received.
void die_with_blocks_to_be_read(Job& job) {
  constexpr std::uint32_t kNum = 40;
  Exchange<Bytes> exchange(job, 1);
  const auto length = [](std::uint32_t i) { return i % 3 == 1 ? std::size_t{200'000} : 400; };
  std::vector<pid_t> pids;
  REQUIRE(job.all_gather(getpid(), pids).ok());
  if (job.rank() == kVictim) {
    std::vector<std::byte> data(200'000);
    for (std::uint32_t i = 0; i < kNum; ++i) {
      std::memcpy(data.data(), &i, sizeof i);
      REQUIRE(exchange.send(0, 0, {data.data(), length(i)}) == Code::ok);
    }
    REQUIRE(exchange.flushSend(0) == Code::ok);
    REQUIRE(job.barrier().ok());
    die();
  }
  REQUIRE(job.barrier().ok());
  wait_for_end(pids[kVictim]);
  const auto word = std::as_bytes(std::span("go on"));
  REQUIRE(exchange.send(1 - job.rank(), 0, word) == Code::ok);
  REQUIRE(exchange.flushSend(0) == Code::ok);
  std::uint32_t next = 0;
  bool other_came = false, told = false;
  for (;;) {
    for (Bytes message; exchange.receive(0, message);) {
      if (exchange.source(0) != kVictim) {
        REQUIRE(message.size() == word.size());
        other_came = true;
        continue;
      }
      std::uint32_t number = 0;
      REQUIRE(message.size() == length(next));
      std::memcpy(&number, message.data(), sizeof number);
      REQUIRE(number == next++);
    }
    if (other_came && told) break;
    const Status status = exchange.wait(0, 30s);
    REQUIRE(status.ok() || status == Code::peer_lost);
    told |= status == Code::peer_lost;
  }
  REQUIRE(job.rank() == 1 || next >= 1);  // the first one lies in the ring
}

// The reader dies while its sender waits for staged blocks to be read.
void die_while_staged_blocks_are_out(Job& job) {
  Exchange<Bytes> exchange(job, 1);
  Exchange<std::uint64_t> words(job, 1);
  std::vector<std::byte> data(1 << 20);
  if (job.rank() == kVictim) {
    Bytes message;
    for (int i = 0; i < 3; i += exchange.receive(0, message)) {
    }
    die();
  }
  Code code = Code::ok;
  auto last_good = Clock::now();
  // Without end: far more than may be staged at once.
  while (code == Code::ok) {
    last_good = Clock::now();
    code = exchange.send(kVictim, 0, data);
  }
  REQUIRE(code == Code::peer_lost);
  note_told(last_good);
  // Staging is free again for others.
  const int other = 1 - job.rank();
  Bytes message;
  for (int sent = 0, received = 0; sent < 100 || received < 100;) {
    if (sent < 100) {
      REQUIRE(exchange.send(other, 0, data) == Code::ok);
      if (++sent == 100) REQUIRE(exchange.flushSend(0) == Code::ok);
    }
    while (exchange.receive(0, message)) {
      REQUIRE(message.size() == data.size());
      ++received;
    }
  }
  go_on(job, words);
}

// Who sends so little that the ring never fills hears of the death as well.
void die_while_others_send_little(Job& job, bool runs) {
  Exchange<std::uint64_t> exchange(job, 1);
  std::vector<std::uint64_t> run(256);
  if (job.rank() == kVictim) {
    std::uint64_t message = 0;
    for (int i = 0; i < 3; i += exchange.receive(0, message)) {
    }
    die();
  }
  Code code = Code::ok;
  const auto start = Clock::now();
  for (auto next = start; code == Code::ok; next += 10ms) {
    if (runs)
      code = exchange.send(kVictim, 0, std::span<const std::uint64_t>(run));
    else
      code = exchange.send(kVictim, 0, 1);
    if (code == Code::ok) code = exchange.flushSend(0);
    while (Clock::now() < next) {
    }
  }
  REQUIRE(code == Code::peer_lost);
  note_told(start);
  go_on(job, exchange);
}

// Waits in calls of all ranks end as well.
void die_while_others_are_in_a_barrier(Job& job) {
  Exchange<std::uint64_t> exchange(job, 1);
  REQUIRE(job.barrier().ok());
  if (job.rank() == kVictim) die();
  const auto start = Clock::now();
  REQUIRE(job.barrier() == Code::peer_lost);
  note_told(start);
  int value = 1;
  REQUIRE(job.all_reduce(value, std::plus<>()).ok());
  REQUIRE(value == 2);
  std::vector<int> all;
  REQUIRE(job.all_gather(value, all).ok());
  REQUIRE(all == std::vector<int>{2, 2, 0});
  Exchange<std::uint64_t> another(job, 1);
  REQUIRE(another.quiesce(0, [](std::uint64_t) {}).ok());
  go_on(job, exchange);
}

// Memory of another process that is not there, no longer there, or named wrongly.
void use_wrong_memory(Job& job) {
  constexpr std::uint64_t kBytes = 3 * 4096;
  void* address = nullptr;
  RemoteMemory mine[2];
  REQUIRE(job.allocate(kBytes, address, mine[0]).ok());
  static std::uint64_t own[kBytes / 8];
  REQUIRE(job.share(own, sizeof own, mine[1]).ok());
  std::vector<RemoteMemory> all[2];
  for (const int kind : {0, 1}) REQUIRE(job.all_gather(mine[kind], all[kind]).ok());
  const auto peer = static_cast<std::size_t>((job.rank() + 1) % 3);
  std::vector<std::byte> local(1 << 20);
  const auto refused = [&](const RemoteMemory& memory, std::size_t bytes) {
    for (const std::size_t length : {bytes, bytes + 8, std::size_t{1} << 20}) {
      if (job.rdma_read(0, memory, local.data(), length) != Code::bad_argument ||
          job.rdma_write(0, memory, local.data(), length) != Code::bad_argument ||
          job.wait(0, job.rdma_read_async(0, memory, local.data(), length)) != Code::bad_argument ||
          job.wait(0, job.rdma_write_async(0, memory, local.data(), length)) != Code::bad_argument)
        return false;
    }
    return job.cas(0, memory, 0, 1).code == Code::bad_argument &&
           job.fetch_add(0, memory, 1).code == Code::bad_argument;
  };
  // Of a handle; over tcp only the bytes of an access are looked at.
  const char* fabric = std::getenv("WEFT_FABRIC");
  const bool checks_length = fabric == nullptr || std::string_view(fabric) != "tcp";
  for (const int kind : {0, 1}) {
    const RemoteMemory good = all[kind][peer];
    REQUIRE(job.rdma_read(0, good, local.data(), kBytes) == Code::ok);
    REQUIRE(job.fetch_add(0, good.word(0), 1).code == Code::ok);
    REQUIRE(job.fetch_add(0, good.word(kBytes / 8 - 1), 1).code == Code::ok);
    REQUIRE(refused(good.part(kBytes - 4, 8), 8));  // no part at all
    REQUIRE(job.rdma_read(0, good, local.data(), kBytes + 1) == Code::bad_argument);
    for (const std::uint64_t away :
         {kBytes - 4, kBytes, std::uint64_t{1} << 40, ~std::uint64_t{7}, std::uint64_t{0} - 4096}) {
      RemoteMemory bad = good;
      bad.address += away;
      bad.bytes = std::uint64_t{1} << 30;
      REQUIRE(refused(bad, 8));
      bad.address = away;
      REQUIRE(refused(bad, 8));
    }
    RemoteMemory bad = good;
    if (checks_length) {
      bad.bytes = ~std::uint64_t{0};
      REQUIRE(refused(bad, 8));
      bad.bytes = kBytes + 1;
      REQUIRE(job.rdma_read(0, bad, local.data(), 8) == Code::bad_argument);
      REQUIRE(job.rdma_write(0, bad, local.data(), kBytes) == Code::bad_argument);
      REQUIRE(job.cas(0, bad, 0, 1).code == Code::bad_argument);
    }
    for (const std::uint32_t bits : {1u << 31, 1u << 20, 1u << 16, 0xffffu}) {
      bad = good;
      MemoryKey key = key_of(good);
      for (auto& name : key.names) name.region ^= bits;
      set_key(bad, key);
      REQUIRE(refused(bad, 8));
    }
    bad = good;
    MemoryKey none = key_of(good);
    for (auto& name : none.names) name.region = 0;
    set_key(bad, none);
    REQUIRE(refused(bad, 8));
    bad = good;
    bad.owner = static_cast<int>((peer + 1) % 3);  // the key of another
    bad.address += 1 << 20;
    REQUIRE(refused(bad, 8));
  }
  REQUIRE(job.barrier().ok());
  REQUIRE(std::atomic_ref(own[0]).load() == 1);
  REQUIRE(job.release(address).ok());
  REQUIRE(job.unshare(mine[1]).ok());
  REQUIRE(job.barrier().ok());
  for (const int kind : {0, 1}) REQUIRE(refused(all[kind][peer], 8));
  // What is allocated in its place is not taken for it.
  REQUIRE(job.allocate(kBytes, address, mine[0]).ok());
  REQUIRE(job.share(own, sizeof own, mine[1]).ok());
  REQUIRE(job.barrier().ok());
  for (const int kind : {0, 1}) REQUIRE(refused(all[kind][peer], 8));
  REQUIRE(job.barrier().ok());
}

// Rank 0 has room for few rings (see faults_test), and everybody wants some. Who gets none is told,
// and gets one when there is room; the receiver goes on.
void use_up_rings(Job& job) {
  std::optional<Exchange<std::uint64_t>> first(std::in_place, job, 3);
  Exchange<std::uint64_t> second(job, 1);
  int num_refused = 0;
  if (job.rank() != 0) {
    for (int t = 0; t < 3; ++t) {
      // Told by the first of them where the ranks share memory, else by the second.
      Code code = first->send(0, t, 7);
      if (code == Code::ok) code = first->flushSend(t);
      REQUIRE(code == Code::ok || code == Code::no_memory);
      num_refused += code == Code::no_memory;
    }
  }
  REQUIRE(job.all_reduce(num_refused, std::plus<>()).ok());
  REQUIRE(num_refused == 4);  // two rings of 2 MiB fit
  if (job.rank() == 0) {
    std::uint64_t message = 0;
    const auto start = Clock::now();
    for (int num = 0; num < 2;) {
      for (int t = 0; t < 3; ++t) num += first->receive(t, message);
      REQUIRE(Clock::now() - start < kPatience);
    }
  }
  first.reset();
  REQUIRE(job.barrier().ok());  // the rings are free once their reader is behind its reset()
  if (job.rank() == 2) REQUIRE(second.send(0, 0, 4711) == Code::ok);
  REQUIRE(second.flushSend(0) == Code::ok);
  std::uint64_t message = 0;
  if (job.rank() == 0) REQUIRE(second.wait(0, kPatience).ok() && second.receive(0, message));
  REQUIRE(second.quiesce(0, [](std::uint64_t) {}).ok());
}

// Rank 1 has no descriptors for what rank 0 sends. It is told, all are in quiesce, and nothing is
// lost.
void be_short_of_descriptors(Job& job) {
  Exchange<Bytes> exchange(job, 1);
  std::vector<std::byte> data(100'000, std::byte{7});
  int num_good = 0;
  const auto handle = [&](Bytes message) {
    num_good += message.size() == data.size() && message[50'000] == std::byte{7};
  };
  for (int to = 0; to < job.size(); ++to)
    REQUIRE(exchange.send(to, 0, {data.data(), 10}) == Code::ok);
  REQUIRE(exchange.quiesce(0, handle).ok());
  std::vector<int> files;
  if (job.rank() == 1)
    for (int file; (file = dup(0)) >= 0;) files.push_back(file);
  REQUIRE(job.barrier().ok());
  if (job.rank() == 0) {
    for (int i = 0; i < 2; ++i) REQUIRE(exchange.send(1, 0, data) == Code::ok);
    REQUIRE(exchange.flushSend(0) == Code::ok);
  }
  if (job.rank() == 1) {
    REQUIRE(exchange.wait(0, kPatience) == Code::no_memory);
    REQUIRE(exchange.wait(0, 0s) == Code::timed_out);  // told once
  }
  for (int i = 0; i < 2; ++i) REQUIRE(exchange.quiesce(0, handle) == Code::no_memory);
  REQUIRE(num_good == 0);
  for (const int file : files) close(file);
  REQUIRE(exchange.quiesce(0, handle).ok());
  REQUIRE(num_good == (job.rank() == 1 ? 2 : 0));
  // The next phase is like any other.
  for (int to = 0; to < job.size(); ++to) REQUIRE(exchange.send(to, 0, data) == Code::ok);
  num_good = 0;
  REQUIRE(exchange.quiesce(0, handle).ok());
  REQUIRE(num_good == job.size());
}

// Ends with messages of all kinds under way in all directions, while others still send.
void close_with_messages_under_way(Job& job) {
  ExchangeSettings small;  // rings that are full soon
  small.ring_bytes = 64 * 1024;
  small.rendezvous_bytes = 4096;
  for (int round = 0; round < 3; ++round) {
    const bool ends_early = job.rank() == round % job.size();
    {
      Exchange<std::uint64_t> words(job, 1, small);
      for (int i = 0; i < (ends_early ? 10 : 30'000); ++i)
        for (int to = 0; to < job.size(); ++to) REQUIRE(words.send(to, 0, 1) == Code::ok);
    }
    Exchange<Bytes> bytes(job, 1);
    std::vector<std::byte> data(300'000);
    for (int i = 0; i < (ends_early ? 1 : 30); ++i)
      for (int to = 0; to < job.size(); ++to) REQUIRE(bytes.send(to, 0, data) == Code::ok);
  }
}

// A rank stops in the middle of reading memory that its owner releases. Other threads of the owner
// allocate and release meanwhile.
void release_while_a_reader_has_stopped(Job& job) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  std::vector<pid_t> pids;
  REQUIRE(job.all_gather(getpid(), pids).ok());
  void* address = nullptr;
  RemoteMemory mine;
  REQUIRE(job.allocate(kBytes, address, mine).ok());
  std::memset(address, 1, kBytes);
  std::vector<RemoteMemory> all;
  REQUIRE(job.all_gather(mine, all).ok());
  std::thread releasing;
  if (job.rank() == 1) {
    std::vector<char> here(kBytes);
    const Token token = job.rdma_read_async(0, all[0], here.data(), kBytes);
    Code code = Code::again;
    while (code == Code::again && std::atomic_ref(here[0]).load() == 0) code = job.test(0, token);
    raise(SIGSTOP);
    if (code == Code::again) code = job.wait(0, token);
    REQUIRE(code == Code::ok || code == Code::bad_argument);
  } else if (job.rank() == 0) {
    const auto has_stopped = [&] {
      std::ifstream stat("/proc/" + std::to_string(pids[1]) + "/stat");
      std::string text;
      std::getline(stat, text);
      return text.find(") T ") != std::string::npos;
    };
    while (!has_stopped()) (void)job.is_alive(1);
    releasing = std::thread([&] { REQUIRE(job.release(address).ok()); });
    for (int i = 0; i < 300; ++i) {
      void* other = nullptr;
      RemoteMemory memory;
      REQUIRE(job.allocate(4096, other, memory).ok());
      REQUIRE(job.release(other).ok());
    }
    kill(pids[1], SIGCONT);
    releasing.join();
  }
  REQUIRE(job.barrier().ok());
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  using namespace weft::testing;
  const Scenario scenarios[] = {
      {"announced", die_with_blocks_to_be_read},
      {"staged", die_while_staged_blocks_are_out},
      {"little", [](Job& job) { die_while_others_send_little(job, false); }},
      {"little_runs", [](Job& job) { die_while_others_send_little(job, true); }},
      {"barrier", die_while_others_are_in_a_barrier},
      {"memory", use_wrong_memory},
      {"release", release_while_a_reader_has_stopped},
      {"rings", use_up_rings},
      {"descriptors", be_short_of_descriptors},
      {"close", close_with_messages_under_way}};
  return run_scenario(argc, argv, scenarios);
}
