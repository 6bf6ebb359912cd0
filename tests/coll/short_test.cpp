// A member of a team on several hosts that is short of memory in the middle of a call: nobody is
// left waiting, and where it says so before its first message, calling again is right.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>

#include "ranks.hpp"

namespace {

// Of this thread: each that is the so-manieth fails; 0: none.
thread_local unsigned fail_each = 0, num_gotten = 0;

bool fails() { return fail_each != 0 && ++num_gotten % fail_each == 0; }

void* get(std::size_t alignment, std::size_t bytes) {
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, bytes) == 0 ? memory : nullptr;
}

}  // namespace

void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return fails() ? nullptr : get(alignment, bytes);
}
void* operator new(std::size_t bytes) {
  void* memory = fails() ? nullptr : get(alignof(std::max_align_t), bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return fails() ? nullptr : get(alignof(std::max_align_t), bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t& nothrow) noexcept {
  return operator new(bytes, nothrow);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace weft::test {
namespace {

void add(const void* in, void* inout, std::size_t count, void*) {
  for (std::size_t i = 0; i < count; ++i)
    static_cast<int*>(inout)[i] += static_cast<const int*>(in)[i];
}

// Memory fails for this thread in f, which is called until there is enough.
template <class F>
Status in_want(unsigned each, F&& f) {
  constexpr int kTries = 1000;
  Status status = Code::no_memory;
  for (int i = 0; i < kTries && status == Code::no_memory; ++i) {
    fail_each = each;
    try {
      status = f();
    } catch (const std::bad_alloc&) {
      status = Code::no_memory;
    }
    fail_each = 0;
  }
  return status;
}

TEST_CASE("members that are short of memory where a team's segment is made") {
  for (const unsigned each : {37u, 41u, 53u}) {
    const auto errors = run_ranks(17, {{"PEER_TIMEOUT_MS", "60000"}}, [&](coll::Team& all) {
      std::vector<std::string> errors;
      std::vector<int> members(17);
      for (int r = 0; r < 17; ++r) members[static_cast<std::size_t>(r)] = r;
      // Ways are there before memory is short.
      if (!barrier(all)) errors.push_back("the first barrier");
      coll::Team team(all.engine(), members, 8);
      const Status status = in_want(team.rank() % 2 == 0 ? each : 0, [&] { return barrier(team); });
      if (!status) errors.push_back(status.text());
      return errors;
    });
    INFO("every allocation number " << each << " fails");
    CHECK(errors == std::vector<std::string>());
  }
}

TEST_CASE("members that are short of memory in calls over hosts") {
  constexpr std::size_t kNum = 3000;
  for (const std::vector<int>& hosts :
       {std::vector{0, 1, 0, 1}, {0, 0, 1, 1}, {0, 1, 1, 2, 0}, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4}})
    for (const unsigned each : {2u, 3u, 5u}) {
      const int n = static_cast<int>(hosts.size());
      INFO(n << " ranks, every allocation number " << each << " fails");
      const auto errors = run_ranks_on(
          hosts, {{"INTERFACE", "lo"}, {"PEER_TIMEOUT_MS", "60000"}}, [&](coll::Team& all) {
            std::vector<std::string> errors;
            std::vector<int> members(hosts.size());
            for (int r = 0; r < n; ++r) members[static_cast<std::size_t>(r)] = r;
            // All ways are there before memory is short: making them is not what this is about.
            std::vector<std::byte> met(hosts.size()), answers(hosts.size());
            const std::vector<std::size_t> ones(hosts.size(), 1);
            std::vector<std::ptrdiff_t> places;
            for (int r = 0; r < n; ++r) places.push_back(r);
            if (!alltoallv(all, met.data(), ones.data(), places.data(), answers.data(), ones.data(),
                           places.data()))
              errors.push_back("the first call");
            if (!barrier(all)) errors.push_back("the first barrier");
            coll::Team team(all.engine(), members, 8);
            const int me = team.rank();
            const unsigned mine = me % 2 == 0 ? each : 0;
            const coll::Reduction op{add, nullptr, sizeof(int), true};
            const std::size_t length = kNum * static_cast<std::size_t>(n),
                              block = kNum * sizeof(int);
            std::vector<int> in(length, me), out(length, -1);
            const auto expect = [&](const Status& status, bool right, const char* what) {
              if (!status || !right) errors.push_back(std::string(what) + ": " + status.text());
            };
            const int sum = n * (n - 1) / 2;
            Status status = in_want(mine, [&] { return barrier(team); });
            expect(status, true, "barrier");
            status =
                in_want(mine, [&] { return allreduce(team, in.data(), out.data(), kNum, op); });
            expect(status, out[kNum - 1] == sum, "allreduce");
            status =
                in_want(mine, [&] { return reduce(team, in.data(), out.data(), kNum, op, n - 1); });
            expect(status, me != n - 1 || out[0] == sum, "reduce");
            for (const std::size_t bytes : {std::size_t{40}, block}) {
              const std::size_t each_num = bytes / sizeof(int);
              const auto right = [&] {
                for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i)
                  if (out[(i + 1) * each_num - 1] != static_cast<int>(i)) return false;
                return true;
              };
              std::fill(out.begin(), out.end(), -1);
              status = in_want(mine, [&] { return allgather(team, in.data(), out.data(), bytes); });
              expect(status, right(), "allgather");
              std::fill(out.begin(), out.end(), -1);
              status = in_want(mine, [&] { return alltoall(team, in.data(), out.data(), bytes); });
              expect(status, right(), "alltoall");
              std::fill(out.begin(), out.end(), -1);
              status = in_want(mine, [&] { return gather(team, in.data(), out.data(), bytes, 1); });
              expect(status, me != 1 || right(), "gather");
            }
            std::fill(out.begin(), out.end(), -1);
            status = in_want(mine, [&] {
              return bcast(team, me == 1 ? in.data() : out.data(), length * sizeof(int), 1);
            });
            expect(status, me == 1 || out[length - 1] == 1, "bcast");
            if (!barrier(team)) errors.push_back("the last barrier");
            return errors;
          });
      CHECK(errors == std::vector<std::string>());
    }
}

}  // namespace
}  // namespace weft::test
