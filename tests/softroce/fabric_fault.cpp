// A process on another host is killed while this one reads its memory or changes it atomically, or
// asks for what it has no right to, below MPI, on the fabric that leads there.
//   fabric_fault get|put|atomic LIMIT_S
//   fabric_fault last SECONDS
//   fabric_fault stranger|outside_read|outside_write|outside_key LIMIT_S
// Two ranks on two hosts. Rank 1 owns memory and is killed by rank 0's operations reaching a count;
// rank 0 goes on until an operation fails, which must be with peer_lost and within LIMIT_S of the
// last one that did not. `last`: nobody is killed, and rank 0 puts and gets back for SECONDS, of
// which none may fail whatever happens to the link. `stranger`: rank 1 does not know rank 0's key,
// must not get a connection and must hear of it in time. `outside_...`: what rank 0 was told as a
// rendezvous tells it is not memory that rank 1 shares, and must neither be read nor written.
#include <fmt/core.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "base/wait.hpp"
#include "job/boards.hpp"
#include "job/members.hpp"
#include "lanes/fabrics.hpp"
#include "lanes/linked/remote_lanes.hpp"
#include "tests/support/wrong_board.hpp"

extern char** environ;

namespace {

using namespace weft;

constexpr std::size_t kBytes = 1u << 20;
constexpr std::uint64_t kDieAt = 60;  // operations

int complain(std::string_view what, const Status& status) {
  fprintf(stderr, "fabric_fault: %s: %s\n", std::string(what).c_str(), status.text().c_str());
  return 3;
}

// Drives the fabric so that the peer can reach this memory, until rank 0's count comes.
void serve(transport::RemoteLanes& lanes, std::atomic<std::uint64_t>& count) {
  while (count.load(std::memory_order_acquire) < kDieAt) {
    lanes.poll();
    (void)lanes.state(0);  // looks after the link
  }
}

// Puts what no other round puts, and gets it back.
Code write_and_read(transport::RemoteLanes& lanes, const MemoryName& memory,
                    std::vector<char>& buffer, std::uint64_t round) {
  std::vector<char> expected(buffer.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] = static_cast<char>(i * 7 + i / 4096 + round * 31);
  Code code = lanes.put(1, memory, 64, expected.data(), expected.size());
  if (code == Code::ok) code = lanes.get(1, memory, 64, buffer.data(), buffer.size());
  return code == Code::ok && buffer != expected ? Code::corrupt : code;
}

int last(transport::RemoteLanes& lanes, const MemoryName& memory, double seconds) {
  fprintf(stderr, "rank 0: begins\n");
  std::vector<char> buffer(300000);
  const std::uint64_t end_ns = now_ns() + static_cast<std::uint64_t>(seconds * 1e9);
  std::uint64_t round = 0, previous = 0;
  for (; now_ns() < end_ns; ++round)
    if (const Code code = write_and_read(lanes, memory, buffer, round); code != Code::ok)
      return complain("a put or a get", code);
  fprintf(stderr, "rank 0: %llu rounds\n", static_cast<unsigned long long>(round));
  if (lanes.fetch_add(1, memory, 0, kDieAt, previous) != Code::ok || previous != 0)
    return complain("the end", Code::corrupt);
  puts("as expected");
  return 0;
}

Code operate(transport::RemoteLanes& lanes, std::string_view what, const MemoryName& memory,
             std::vector<char>& buffer, std::uint64_t& number) {
  std::uint64_t previous = 0;
  if (what == "get") {
    const Code code = lanes.get(1, memory, 64, buffer.data(), buffer.size());
    if (code != Code::ok) return code;
    for (char byte : buffer)
      if (byte != 'w') return Code::corrupt;
  } else if (what == "put") {
    const Code code = lanes.put(1, memory, 64, buffer.data(), buffer.size());
    if (code != Code::ok) return code;
  }
  const Code code = lanes.fetch_add(1, memory, 0, 1, previous);
  if (code == Code::ok && previous != number++) return Code::corrupt;
  return code;
}

Status join(bool as_stranger, const Settings& settings, std::unique_ptr<Members>& job) {
  if (!as_stranger || std::string_view(getenv(kRankVariable)) != "1")
    return Members::open(settings, job);
  RendezvousParameters place;
  std::unique_ptr<Board> board;
  Status status = read_rendezvous_parameters(place);
  if (status) status = make_rendezvous_board(place, 30000, board);
  if (!status) return status;
  return Members::open(
      settings, std::make_unique<WrongBoard>(std::move(board), settings.text(Setting::fabric)),
      job);
}

// Rank 0 is asked for a connection by somebody without its key, and must not give one.
int stranger(Members& job, transport::RemoteLanes& lanes, double limit_s) {
  const int limit_ms = static_cast<int>(limit_s * 1000) + 30000;
  if (job.rank() == 1) {
    SendMemory memory;
    Status status = Code::again;
    const std::uint64_t begin_ns = now_ns();
    while (status.code() == Code::again) {
      lanes.poll();
      status = lanes.connect(0, 0, memory);
    }
    const double late_s = static_cast<double>(now_ns() - begin_ns) * 1e-9;
    fprintf(stderr, "rank 1: after %.1f s: %s\n", late_s, status.text().c_str());
    const bool good = (status.code() == Code::peer_lost || status.code() == Code::timed_out) &&
                      status.text().find("rank 0") != std::string::npos && late_s <= limit_s;
    if (good) puts("as expected");
    fflush(stdout);
    return job.board().fence(limit_ms) && good ? 0 : 1;
  }
  // The watcher answers requests meanwhile.
  if (Status status = job.board().fence(limit_ms); !status) return complain("fence", status);
  if (lanes.connections().load() != 0) return complain("the stranger was let in", Code::corrupt);
  puts("as expected");
  return 0;
}

// Rank 1 shares the middle one of three pages. Nothing else of its memory can be got or put,
// whatever address or key is named.
int outside(Members& job, transport::RemoteLanes& lanes, std::string_view how, double limit_s) {
  constexpr std::size_t kPage = 4096;
  alignas(kPage) static unsigned char pages[3 * kPage];
  memset(pages, 's', sizeof pages);
  MemoryName memory{};
  Status status = lanes.share(pages + kPage, kPage, memory);
  std::string text(reinterpret_cast<const char*>(&memory), sizeof memory);
  if (status) status = job.board().put("fault.page", text);
  if (status) status = job.board().fence(30000);
  if (status) status = job.board().get(1, "fault.page", text);
  if (!status) return complain("exchange", status);
  if (job.rank() == 1) {
    // The watcher answers where the device does not.
    if (status = job.board().fence(static_cast<int>(limit_s * 1000) + 30000); !status)
      return complain("fence", status);
    for (const unsigned char byte : pages)
      if (byte != 's') return complain("memory that is not shared was written", Code::corrupt);
    puts("as expected");
    return 0;
  }
  memcpy(&memory, text.data(), sizeof memory);
  std::vector<unsigned char> buffer(kPage, 'u');
  if (lanes.get(1, memory, 0, buffer.data(), kPage) != Code::ok || buffer[0] != 's')
    return complain("what is shared cannot be read", Code::corrupt);
  if (how == "outside_read") memory.address -= kPage;
  if (how == "outside_write") memory.address += 8;
  if (how == "outside_key") memory.extra ^= 0x1000;
  buffer.assign(kPage, 'u');
  const std::uint64_t begin_ns = now_ns();
  const Code code = how == "outside_write" ? lanes.put(1, memory, 0, buffer.data(), kPage)
                                           : lanes.get(1, memory, 0, buffer.data(), kPage);
  const double late_s = static_cast<double>(now_ns() - begin_ns) * 1e-9;
  fprintf(stderr, "rank 0: after %.1f s: %s\n", late_s, std::string(code_name(code)).c_str());
  if (code == Code::ok) return complain("it was not refused", code);
  if (buffer != std::vector<unsigned char>(kPage, 'u'))
    return complain("bytes came from outside", Code::corrupt);
  if (late_s > limit_s) return complain("the refusal came late", code);
  puts("as expected");
  fflush(stdout);
  status = job.board().fence(30000);
  return status ? 0 : complain("fence", status);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string_view what = argv[1];
  const double limit_s = atof(argv[2]);
  Settings settings;
  std::unique_ptr<Members> job;
  Status status = Settings::from_environment(environ, settings);
  if (status) status = join(what == "stranger", settings, job);
  if (!status) return complain("job", status);
  std::unique_ptr<Fabrics> fabrics;
  status = Fabrics::open(*job, fabrics);
  if (!status) return complain("fabrics", status);
  const int peer = 1 - job->rank();
  Lanes* const way = job->size() == 2 ? fabrics->to(peer) : nullptr;
  transport::RemoteLanes* const lanes = way != nullptr ? way->remote() : nullptr;
  if (lanes == nullptr)
    return complain("no way to the peer", {Code::not_found, fabrics->explain(peer)});
  if (what == "stranger" || what.starts_with("outside_")) {
    const int result =
        what == "stranger" ? stranger(*job, *lanes, limit_s) : outside(*job, *lanes, what, limit_s);
    status = job->board().close();
    return result == 0 && !status ? complain("close", status) : result;
  }

  void* address = std::aligned_alloc(4096, kBytes);
  if (address == nullptr) return complain("allocate", Code::no_memory);
  MemoryName memory{};
  status = lanes->share(address, kBytes, memory);
  if (!status) return complain("share", status);
  memset(address, 0, 64);
  memset(static_cast<char*>(address) + 64, 'w', kBytes - 64);
  std::string text(reinterpret_cast<const char*>(&memory), sizeof memory);
  status = job->board().put("fault.memory", text);
  if (status) status = job->board().fence(30000);
  if (status) status = job->board().get(peer, "fault.memory", text);
  if (!status) return complain("exchange", status);
  memcpy(&memory, text.data(), sizeof memory);

  if (job->rank() == 1) {
    serve(*lanes, *static_cast<std::atomic<std::uint64_t>*>(address));
    if (what != "last") raise(SIGKILL);
    lanes->leave();
    return 0;
  }
  if (what == "last") {
    const int result = last(*lanes, memory, limit_s);
    lanes->leave();
    return result;
  }

  std::vector<char> buffer(what == "atomic" ? 0 : 300000, 'w');
  std::uint64_t number = 0, last_ns = now_ns();
  for (;;) {
    const Code code = operate(*lanes, what, memory, buffer, number);
    const double late_s = static_cast<double>(now_ns() - last_ns) * 1e-9;
    if (code == Code::ok) {
      last_ns = now_ns();
      if (number > 100 * kDieAt) return complain("the dead go on", code);
      continue;
    }
    fprintf(stderr, "rank 0: after %llu operations and %.1f s: %s\n",
            static_cast<unsigned long long>(number), late_s, std::string(code_name(code)).c_str());
    if (code != Code::peer_lost || late_s > limit_s || number < kDieAt) return 1;
    puts("as expected");
    fflush(stdout);
    _exit(0);
  }
}
