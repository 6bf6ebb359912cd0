// A rank of the threaded transport that does a little of everything, for tests/shortage/run. It
// says in one line how that ended, and what is left of it.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>
#include <weft/weft.hpp>

#include "left.hpp"

namespace {

using namespace weft;

// Without destructors: what the others do together is not to go on with what those do.
[[noreturn]] void fail(const char* what, std::string_view why) {
  std::printf("rank %s: told %s: %.*s\n", std::getenv("WEFT_RANK"), what,
              static_cast<int>(why.size()), why.data());
  std::fflush(stdout);
  _exit(1);
}
void must(const Status& status, const char* what) {
  if (!status) fail(what, code_name(status.code()));
}
void must(bool right, const char* what) {
  if (!right) fail(what, "wrong");
}

void work(Job& job) {
  const int next = (job.rank() + 1) % job.size(),
            before = (job.rank() + job.size() - 1) % job.size();
  const auto mine = static_cast<std::uint64_t>(job.rank());
  must(job.barrier(), "barrier");

  void* address = nullptr;
  RemoteMemory allocated, shared;
  static std::uint64_t own[1024];
  own[0] = 100 + mine;
  must(job.allocate(100'000, address, allocated), "allocate");
  auto* words = static_cast<std::uint64_t*>(address);
  words[0] = 200 + mine;
  must(job.share(own, sizeof own, shared), "share");
  std::vector<RemoteMemory> all_allocated, all_shared;
  must(job.all_gather(allocated, all_allocated), "all_gather");
  must(job.all_gather(shared, all_shared), "all_gather");
  std::uint64_t value = 0;
  const auto there = static_cast<std::size_t>(next);
  must(job.rdma_read(0, all_allocated[there].word(0), &value, 8), "read");
  must(value == 200 + static_cast<unsigned>(next), "what was read");
  must(job.rdma_read(0, all_shared[there].word(0), &value, 8), "read of shared");
  must(value == 100 + static_cast<unsigned>(next), "what was read of shared");
  must(job.fetch_add(0, all_allocated[there].word(1), 1).code, "fetch_add");
  must(job.fetch_add(0, all_shared[there].word(1), 1).code, "fetch_add of shared");
  must(job.wait(0, job.rdma_write_async(0, all_allocated[there].word(2), &mine, 8)), "write");
  must(job.barrier(), "barrier");
  must(words[1] == 1 && words[2] == static_cast<unsigned>(before), "what was written");

  {
    std::optional<Exchange<Bytes>> opened;
    try {
      opened.emplace(job, 1);
    } catch (const Error& error) {
      fail("exchange", code_name(error.status().code()));
    }
    Exchange<Bytes>& exchange = *opened;
    const std::vector<std::byte> small(100, std::byte{1}), large(200'000, std::byte{2});
    for (int phase = 0; phase < 2; ++phase) {
      int num = 0;
      const auto take = [&](Bytes message) {
        must(message[message.size() / 2] == (message.size() == 100 ? small : large)[0],
             "a message");
        ++num;
      };
      for (int i = 0; i < 20; ++i) {
        Code code = Code::no_memory;
        for (int attempt = 0; attempt < 3 && code == Code::no_memory; ++attempt)
          code = exchange.send(next, 0, i % 5 == 0 ? large : small);
        must(code, "send");
      }
      must(exchange.quiesce(0, take), "quiesce");
      must(num == 20, "how much was received");
    }
  }
  std::uint64_t sum = mine;
  must(job.all_reduce(sum, std::plus<>()), "all_reduce");
  must(job.unshare(shared), "unshare");
  must(job.release(address), "release");
}

}  // namespace

int main() {
  const char* rank = std::getenv("WEFT_RANK");
  const testing::Left left;
  std::string result = "fine";
  try {
    Job job;
    work(job);
  } catch (const Error& error) {
    result = "told " + std::string(code_name(error.status().code()));
  }
  left.print(rank, result);
  return 0;
}
