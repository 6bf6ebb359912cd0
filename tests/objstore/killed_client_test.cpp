// A client that is killed at each step of each call. A step is an instruction: the call runs under
// ptrace once to count them, then again and again up to one of them, where it is killed. The
// next client must find an object whole or not at all, its id and its room free.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cstring>
#include <functional>

#include "fixture.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

constexpr int kKills = 8;  // of each call, at instructions spread over it
constexpr std::uint64_t kMemoryBytes = 8 << 20, kAllBytes = 7 << 20;

// The work of a child: `before` undisturbed, `call` step by step.
struct Call {
  const char* name;
  std::function<bool(ObjectStore&)> before;
  std::function<bool(ObjectStore&)> call;
};

// A child that stops before the call and after it.
pid_t start(const std::string& path, const Call& call) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(120);
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(77);
  {
    ObjectStore store({.socket = path});
    if (!call.before(store)) ::_exit(3);
    ::raise(SIGSTOP);
    if (!call.call(store)) ::_exit(4);
    ::raise(SIGSTOP);
  }
  ::_exit(0);
}

// True if it stopped by itself; else its end, in `status`.
bool wait_stop(pid_t child, int& status) {
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP;
}

void kill(pid_t child) {
  ::kill(child, SIGKILL);
  int status;
  while (::waitpid(child, &status, 0) == child && !WIFSIGNALED(status) && !WIFEXITED(status)) {
  }
}

// Up to so many instructions of the call; how many it had. It stands still afterwards.
std::uint64_t step(pid_t child, std::uint64_t most) {
  int status;
  for (std::uint64_t i = 0; i < most; ++i) {
    if (::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0 ||
        ::waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
      FAIL("the child ended by itself: " << status);
    if (WSTOPSIG(status) == SIGSTOP) return i;
    if (WSTOPSIG(status) != SIGTRAP) FAIL("the child was stopped by " << WSTOPSIG(status));
  }
  return most;
}

// Nothing is left of the dead: one object takes nearly all of the memory.
void check_nothing_left(ObjectStore& store, const std::vector<ObjectId>& ids) {
  for (const ObjectId& id : ids) {
    Object object;
    if (store.get(id, object)) CHECK(equal(object.data(), contents_of(id, object.data().size())));
  }
  const ObjectId all = ids.front();
  Status status;
  for (int i = 0; i < 20000; ++i) {
    // What was sealed before the end stays; what was not is gone as soon as the end is noticed.
    for (const ObjectId& id : ids) [[maybe_unused]] const Status gone = store.erase(id);
    status = store.put(all, contents_of(all, kAllBytes), {}, {.timeout_ms = 20000});
    if (status.code() != Code::exists) break;
    ::usleep(1000);
  }
  INFO(status.text());
  REQUIRE(status.ok());
  REQUIRE(store.erase(all));
}

}  // namespace

TEST_CASE("a client that is killed at each step of each call leaves nothing") {
  StoreFixture fixture(kMemoryBytes);
  ObjectStore store({.socket = fixture.socket()});
  const ObjectId one = id_of(1), two = id_of(2), missing = id_of(3);
  const std::vector<ObjectId> ids = {one, two};
  const auto small = contents_of(one, 2000), large = contents_of(two, 140'000);
  ObjectBuffer buffer;
  Object held;
  ObjectCall under_way;
  std::vector<bool> is_here;
  std::vector<ObjectEntry> entries;
  const auto nothing = [](ObjectStore&) { return true; };
  const auto has_one = [&](ObjectStore& mine) { return mine.put(one, small).ok(); };
  const auto has_buffer = [&](ObjectStore& mine) {
    if (!mine.create(one, small.size(), 0, buffer)) return false;
    std::memcpy(buffer.data().data(), small.data(), small.size());
    return true;
  };
  const auto holds_one = [&](ObjectStore& mine) {
    return mine.put(one, small).ok() && mine.get(one, held).ok();
  };
  const Call calls[] = {
      {"connect", nothing,
       [&](ObjectStore&) {
         return ObjectStore({.socket = fixture.socket()}).contains(one) || true;
       }},
      {"put", nothing, [&](ObjectStore& mine) { return mine.put(one, small).ok(); }},
      {"put in pieces", nothing, [&](ObjectStore& mine) { return mine.put(two, large).ok(); }},
      {"create", nothing,
       [&](ObjectStore& mine) { return mine.create(one, 2'000'000, 10, buffer).ok(); }},
      {"seal", has_buffer, [&](ObjectStore& mine) { return mine.seal(buffer).ok(); }},
      {"abort", has_buffer, [&](ObjectStore& mine) { return mine.abort(buffer), true; }},
      {"get", has_one, [&](ObjectStore& mine) { return mine.get(one, held).ok(); }},
      {"get of what is not there", nothing,
       [&](ObjectStore& mine) { return mine.get(missing, held, 1) == Code::timed_out; }},
      {"release", holds_one, [&](ObjectStore&) { return held.release(), true; }},
      {"erase", has_one, [&](ObjectStore& mine) { return mine.erase(one).ok(); }},
      {"erase of what is held", holds_one, [&](ObjectStore& mine) { return mine.erase(one).ok(); }},
      {"pin", has_one,
       [&](ObjectStore& mine) { return mine.pin(one).ok() && mine.unpin(one).ok(); }},
      {"wait", has_one, [&](ObjectStore& mine) { return mine.wait(ids, 1, 1000, is_here).ok(); }},
      {"fetch", has_one,
       [&](ObjectStore& mine) { return mine.fetch(std::span(ids).first(1), 1000).ok(); }},
      {"list", has_one, [&](ObjectStore& mine) { return mine.list(entries).ok(); }},
      {"subscribe", nothing, [&](ObjectStore& mine) { return mine.subscribe().ok(); }},
      {"put_async", nothing,
       [&](ObjectStore& mine) {
         return mine.put_async(one, small, under_way).ok() && mine.wait(under_way).ok();
       }},
      {"get_async", nothing,
       [&](ObjectStore& mine) { return mine.get_async(missing, under_way, -1).ok(); }},
  };
  std::mt19937_64 random(std::random_device{}());
  for (const Call& call : calls) {
    INFO(call.name);
    int status = 0;
    pid_t child = start(fixture.socket(), call);
    const bool is_ready = wait_stop(child, status);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
      WARN("skipped: this machine allows no ptrace");
      return;
    }
    INFO("status " << status);
    REQUIRE(is_ready);
    // Waiting for the store takes more or fewer instructions each time.
    const std::uint64_t num_steps = step(child, 60'000);
    kill(child);
    check_nothing_left(store, ids);
    for (int part = 0; part <= kKills; ++part) {
      const std::uint64_t at =
          part == kKills
              ? num_steps
              : (num_steps * static_cast<std::uint64_t>(part) + random() % (num_steps + 1)) /
                    kKills;
      INFO("killed after " << at << " of " << num_steps << " instructions");
      child = start(fixture.socket(), call);
      REQUIRE(wait_stop(child, status));
      step(child, at);
      kill(child);
      check_nothing_left(store, ids);
    }
  }
}
