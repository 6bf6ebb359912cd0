// Job: memory of other ranks and what all ranks do together, between ranks that are threads of this
// process.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>

#include "exchange/memory_key.hpp"
#include "tests/exchange/ranks.hpp"
#include "tests/support/loopback/loopback.hpp"

namespace weft::testing {

using namespace weft::transport;

namespace {

// As every fabric names it.
RemoteMemory with_region(RemoteMemory memory, std::uint32_t (*change)(std::uint32_t)) {
  MemoryKey key = key_of(memory);
  for (auto& name : key.names) name.region = change(name.region);
  set_key(memory, key);
  return memory;
}

}  // namespace

TEST_CASE("allocated memory of any rank is read, written and counted in", "[job]") {
  const int num_ranks = GENERATE(1, 2, 3);
  with_ranks(num_ranks, [&](Job& job) {
    constexpr std::size_t kWords = 100'000;
    void* address = nullptr;
    RemoteMemory mine;
    EXPECT(job.allocate(kWords * 8, address, mine).ok());
    auto* words = static_cast<std::uint64_t*>(address);
    for (std::size_t i = 0; i < kWords; ++i) words[i] = i * 10 + static_cast<unsigned>(job.rank());
    words[0] = words[1] = 0;
    std::vector<RemoteMemory> all;
    EXPECT(job.all_gather(mine, all).ok());
    const int peer = (job.rank() + 1) % num_ranks;
    const RemoteMemory& there = all[static_cast<std::size_t>(peer)];
    EXPECT(there.owner == peer);

    // Short and long, at an offset, waiting and not.
    std::vector<std::uint64_t> local(kWords);
    EXPECT(job.rdma_read(0, there.part(800, 80), local.data(), 80) == Code::ok);
    for (std::size_t i = 0; i < 10; ++i)
      EXPECT(local[i] == (i + 100) * 10 + static_cast<unsigned>(peer));
    std::vector<Token> tokens;
    for (std::size_t i = 0; i < 50; ++i)
      tokens.push_back(
          job.rdma_read_async(0, there.part(i * 16'000, 16'000), &local[i * 2000], 16'000));
    for (std::size_t i = 0; i < 50; ++i) {
      Code code = i % 2 == 0 ? job.wait(0, tokens[i]) : Code::again;
      while (code == Code::again) code = job.test(0, tokens[i]);
      EXPECT(code == Code::ok);
    }
    for (std::size_t i = 2; i < kWords; ++i)
      EXPECT(local[i] == i * 10 + static_cast<unsigned>(peer));
    EXPECT(job.rdma_read(0, there, local.data(), kWords * 8) == Code::ok);
    EXPECT(local[kWords - 1] == (kWords - 1) * 10 + static_cast<unsigned>(peer));

    // Everybody counts in a word of rank 0, by both operations. Without shared memory each wakes
    // the owner, which takes long on a busy machine.
    const unsigned num_counts = over_shm() ? 5000 : 500;
    for (unsigned i = 0; i < num_counts; ++i) {
      EXPECT(job.fetch_add(0, all[0].word(0), 1).code == Code::ok);
      Fetched seen = job.fetch_add(0, all[0].word(1), 0);
      for (;;) {
        const Fetched before = job.cas(0, all[0].word(1), seen.value, seen.value + 2);
        EXPECT(before.code == Code::ok);
        if (before.value == seen.value) break;
        seen = before;
      }
    }
    EXPECT(job.barrier().ok());
    if (job.rank() == 0) {
      EXPECT(std::atomic_ref(words[0]).load() == num_counts * static_cast<unsigned>(num_ranks));
      EXPECT(std::atomic_ref(words[1]).load() == 2 * num_counts * static_cast<unsigned>(num_ranks));
    }
    const std::uint64_t value = 4711;
    EXPECT(job.rdma_write(0, there.word(7), &value, 8) == Code::ok);
    EXPECT(job.wait(0, job.rdma_write_async(0, there.word(8), &value, 8)) == Code::ok);
    EXPECT(job.barrier().ok());
    EXPECT(words[7] == 4711);
    EXPECT(words[8] == 4711);
    EXPECT(job.barrier().ok());
    EXPECT(job.release(address).ok());
  });
  CHECK_NOTHING_WRONG();
}

TEST_CASE("every length is copied whole, and nothing beside it", "[job]") {
  with_ranks(2, [&](Job& job) {
    constexpr std::size_t kBytes = 1100;
    void* address = nullptr;
    RemoteMemory mine;
    EXPECT(job.allocate(kBytes + 64, address, mine).ok());
    std::vector<RemoteMemory> all;
    EXPECT(job.all_gather(mine, all).ok());
    if (job.rank() == 0) {
      std::vector<unsigned char> sent(kBytes + 64);
      for (std::size_t i = 0; i < sent.size(); ++i)
        sent[i] = static_cast<unsigned char>(i % 251 + 1);
      const std::vector<unsigned char> nothing(kBytes + 64);
      for (std::size_t bytes = 1; bytes <= kBytes; ++bytes) {
        // At any alignment, on both sides.
        const std::size_t offset = 1 + bytes % 31;
        const RemoteMemory there = all[1].part(offset, bytes);
        std::vector<unsigned char> expected = nothing;
        std::copy_n(sent.data() + offset, bytes,
                    expected.begin() + static_cast<std::ptrdiff_t>(offset));
        std::vector<unsigned char> seen(nothing.size());
        EXPECT(job.rdma_write(0, all[1], nothing.data(), nothing.size()) == Code::ok);
        EXPECT(job.rdma_write(0, there, sent.data() + offset, bytes) == Code::ok);
        EXPECT(job.rdma_read(0, all[1], seen.data(), seen.size()) == Code::ok);
        EXPECT(seen == expected);
        seen = nothing;
        EXPECT(job.rdma_read(0, there, seen.data() + offset, bytes) == Code::ok);
        EXPECT(seen == expected);
      }
    }
    EXPECT(job.barrier().ok());
    EXPECT(job.release(address).ok());
  });
  CHECK_NOTHING_WRONG();
}

TEST_CASE("memory that is not there, or no longer, is refused", "[job]") {
  const int num_ranks = GENERATE(1, 2);
  with_ranks(num_ranks, [&](Job& job) {
    RemoteMemory nobodys;
    EXPECT(job.rdma_read(0, nobodys, nullptr, 0) == Code::bad_argument);
    nobodys.bytes = 8;
    EXPECT(job.fetch_add(0, nobodys, 1).code == Code::bad_argument);
    void* address = nullptr;
    RemoteMemory mine;
    EXPECT(job.allocate(8192, address, mine).ok());
    std::vector<RemoteMemory> all;
    EXPECT(job.all_gather(mine, all).ok());
    const RemoteMemory good = all.back();
    std::uint64_t word = 0;
    const auto refused = [&](const RemoteMemory& memory, std::size_t bytes) {
      return job.rdma_read(0, memory, &word, bytes) == Code::bad_argument &&
             job.rdma_write(0, memory, &word, bytes) == Code::bad_argument &&
             job.wait(0, job.rdma_read_async(0, memory, &word, bytes)) == Code::bad_argument;
    };
    EXPECT(job.rdma_read(0, good, &word, 8) == Code::ok);
    EXPECT(job.rdma_read(0, good, &word, 0) == Code::ok);
    EXPECT(job.rdma_write(0, good.part(8192, 0), &word, 0) == Code::ok);
    EXPECT(refused(good.part(8190, 2), 3));
    EXPECT(refused(good.part(8190, 3), 3));
    EXPECT(refused(good.part(~std::uint64_t{0} - 2, 8), 8));
    EXPECT(refused(good.word(1024), 8));
    RemoteMemory bad = good;
    bad.bytes = 1 << 20;
    bad.address += 8192 - 4;
    EXPECT(refused(bad, 8));
    bad = good;
    bad.address -= 4096;  // in front of it lies what the fabric keeps there
    EXPECT(refused(bad, 8));
    EXPECT(refused(with_region(good, [](std::uint32_t region) { return region + (1 << 16); }), 8));
    EXPECT(refused(with_region(good, [](std::uint32_t) { return 0u; }), 8));
    bad = good;
    set_key(bad, {});
    EXPECT(refused(bad, 8));
    for (const int owner : {-1, num_ranks, 1 << 30}) {
      bad = good;
      bad.owner = owner;
      EXPECT(refused(bad, 8));
    }
    EXPECT(refused(RemoteMemory{}, 1));
    EXPECT(job.fetch_add(0, good.part(4, 8), 1).code == Code::bad_argument);
    EXPECT(job.fetch_add(0, good.part(0, 4), 1).code == Code::bad_argument);
    EXPECT(job.cas(0, good.word(1024), 0, 1).code == Code::bad_argument);
    EXPECT(job.fetch_add(0, good.word(5), 1).code == Code::ok);
    EXPECT(job.fetch_add(0, good.part(44, 8), 1).code == Code::bad_argument);
    bad = good.word(5);
    bad.address += 8192;
    EXPECT(job.fetch_add(0, bad, 1).code == Code::bad_argument);
    EXPECT(job.cas(0, bad, 0, 1).code == Code::bad_argument);

    EXPECT(job.barrier().ok());
    EXPECT(job.release(address).ok());
    EXPECT(job.release(address) == Code::bad_argument);
    EXPECT(job.barrier().ok());
    EXPECT(refused(good, 8));
    EXPECT(job.fetch_add(0, good.word(5), 1).code == Code::bad_argument);
    EXPECT(job.cas(0, good.word(5), 0, 1).code == Code::bad_argument);
    EXPECT(!job.allocate(0, address, mine).ok());
    EXPECT(!job.allocate(~std::size_t{0}, address, mine).ok());
    EXPECT(job.share(&word, 0, mine) == Code::bad_argument);
    EXPECT(job.share(&word, ~std::size_t{0}, mine) == Code::bad_argument);
    EXPECT(job.barrier().ok());
  });
  CHECK_NOTHING_WRONG();
}

TEST_CASE("no key is made from another one", "[job]") {
  with_ranks(2, [&](Job& job) {
    constexpr std::int64_t kPage = 4096;
    void *first = nullptr, *second = nullptr;
    std::vector<std::uint64_t> own(8), other(8);
    RemoteMemory given, kept, given_own, kept_own;
    EXPECT(job.allocate(kPage, first, given).ok());
    EXPECT(job.allocate(kPage, second, kept).ok());
    EXPECT(job.share(own.data(), 64, given_own).ok());
    EXPECT(job.share(other.data(), 64, kept_own).ok());
    const std::int64_t apart = static_cast<std::byte*>(second) - static_cast<std::byte*>(first);
    const std::int64_t apart_own =
        reinterpret_cast<std::byte*>(other.data()) - reinterpret_cast<std::byte*>(own.data());
    for (const auto& [from, distance] : {std::pair(given, apart), std::pair(given_own, apart_own)})
      for (std::uint32_t region = 0; region < 8; ++region)
        for (std::uint32_t extra = 0; extra < 8; ++extra) {
          RemoteMemory forged = from;
          forged.address += static_cast<std::uint64_t>(distance);
          forged.start = forged.address;
          MemoryKey key = key_of(forged);
          for (auto& name : key.names) name = {name.region + region - 4, name.extra + extra - 4};
          set_key(forged, key);
          std::uint64_t word = 0;
          EXPECT(job.rdma_read(0, forged, &word, 8) == Code::bad_argument);
          EXPECT(job.rdma_write(0, forged, &word, 8) == Code::bad_argument);
          EXPECT(job.fetch_add(0, forged, 1).code == Code::bad_argument);
        }
    EXPECT(job.barrier().ok());
    EXPECT(job.unshare(given_own).ok());
    EXPECT(job.unshare(kept_own).ok());
  });
  CHECK_NOTHING_WRONG();
}

TEST_CASE("numbers of threads that cannot be are refused", "[job]") {
  with_ranks(2, [&](Job& job) {
    void* address = nullptr;
    RemoteMemory mine;
    EXPECT(job.allocate(4096, address, mine).ok());
    std::uint64_t word = 0;
    for (const int thread : {-1, kMaxThreads, 1 << 30}) {
      const Token token = job.rdma_read_async(thread, mine, &word, 8);
      EXPECT(job.wait(0, token) == Code::bad_argument);
      EXPECT(job.wait(thread, job.rdma_write_async(0, mine, &word, 8)) == Code::bad_argument);
      EXPECT(job.test(thread, token) == Code::bad_argument);
    }
    EXPECT(job.barrier().ok());
  });
  CHECK_NOTHING_WRONG();
}

TEST_CASE("ranks without descriptors call nobody lost, and go on once there are some", "[job]") {
  const char* fabrics = std::getenv("WEFT_FABRIC");
  if (fabrics == nullptr ||
      (fabrics != std::string_view("ofi") && fabrics != std::string_view("tcp")))
    return;
  const char* usual = std::getenv("WEFT_PEER_TIMEOUT_MS");
  const std::string timeout = usual != nullptr ? usual : "";
  ::setenv("WEFT_PEER_TIMEOUT_MS", "2000", 1);
  std::vector<int> taken;
  const auto take_all = [&] {
    for (int fd; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken.push_back(fd);
  };
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  std::atomic<int> num_there{0};
  with_ranks(2, [&](Job& job) {
    ++num_there;
    while (num_there < 2) std::this_thread::yield();
    if (job.rank() == 0) {
      const rlimit few{std::min<rlim_t>(limit.rlim_cur, 200), limit.rlim_max};
      EXPECT(::setrlimit(RLIMIT_NOFILE, &few) == 0);
      take_all();
      ++num_there;
    }
    while (num_there < 3) std::this_thread::yield();
    std::thread gives_back;
    if (job.rank() == 0)
      gives_back = std::thread([&] {
        // Two timeouts: nobody is lost for what this process lacks.
        std::this_thread::sleep_for(std::chrono::milliseconds(4500));
        EXPECT(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
        for (const int fd : taken) ::close(fd);
      });
    EXPECT(job.barrier().ok());
    EXPECT(job.is_alive(1 - job.rank()));
    if (gives_back.joinable()) gives_back.join();
  });
  if (timeout.empty())
    ::unsetenv("WEFT_PEER_TIMEOUT_MS");
  else
    ::setenv("WEFT_PEER_TIMEOUT_MS", timeout.c_str(), 1);
  CHECK_NOTHING_WRONG();
}

TEST_CASE("a process has one Job, and says so to a second", "[job]") {
  Job job;
  try {
    const Job second;
    FAIL("a second Job");
  } catch (const Error& error) {
    CHECK(error.status() == Code::bad_argument);
    CHECK_THAT(error.what(), Catch::Contains("has a Job already"));
  }
  CHECK(job.barrier().ok());
  CHECK_THROWS_AS(Job(), Error);
}

TEST_CASE("a token is good for one transfer of its thread", "[job]") {
  with_ranks(2, [&](Job& job) {
    void* address = nullptr;
    RemoteMemory mine;
    EXPECT(job.allocate(4096, address, mine).ok());
    std::vector<RemoteMemory> all;
    EXPECT(job.all_gather(mine, all).ok());
    const RemoteMemory& there = all[static_cast<std::size_t>(1 - job.rank())];
    std::uint64_t words[2] = {};
    const auto read = [&](int i) { return job.rdma_read_async(0, there, &words[i], 8); };
    EXPECT(job.test(0, Token{}) == Code::bad_argument);
    const Token first = read(0);
    EXPECT(job.wait(0, first) == Code::ok);
    EXPECT(job.wait(0, first) == Code::bad_argument);
    EXPECT(job.test(0, first) == Code::bad_argument);
    EXPECT(job.test(0, Token{}) == Code::bad_argument);
    const Token second = read(0), third = read(1);
    EXPECT(second.slot != third.slot);
    EXPECT(job.test(0, first) == Code::bad_argument);  // its slot is another's now
    EXPECT(job.test(1, second) == Code::bad_argument);
    EXPECT(job.wait(0, third) == Code::ok);
    EXPECT(job.wait(0, second) == Code::ok);
    EXPECT(job.barrier().ok());
  });
  CHECK_NOTHING_WRONG();
}

TEST_CASE("tens of thousands of transfers may be under way", "[job]") {
  with_ranks(2, [&](Job& job) {
    constexpr std::size_t kNum = 30'000;
    void* address = nullptr;
    RemoteMemory mine;
    EXPECT(job.allocate(2 * kNum * 8, address, mine).ok());
    auto* words = static_cast<std::uint64_t*>(address);
    for (std::size_t i = 0; i < kNum; ++i) words[i] = i * 3;
    std::vector<RemoteMemory> all;
    EXPECT(job.all_gather(mine, all).ok());
    const RemoteMemory& there = all[static_cast<std::size_t>(1 - job.rank())];
    std::vector<std::uint64_t> in(kNum), out(kNum);
    std::vector<Token> reads, writes;
    for (std::size_t i = 0; i < kNum; ++i) {
      out[i] = i * 5;
      reads.push_back(job.rdma_read_async(0, there.word(i), &in[i], 8));
      writes.push_back(job.rdma_write_async(0, there.word(kNum + i), &out[i], 8));
    }
    // In another order than they were begun.
    for (std::size_t i = kNum; i-- > 0;) {
      EXPECT(job.wait(0, reads[i]) == Code::ok);
      EXPECT(job.wait(0, writes[i]) == Code::ok);
    }
    EXPECT(job.barrier().ok());
    for (std::size_t i = 0; i < kNum; ++i) {
      EXPECT(in[i] == i * 3);
      EXPECT(words[kNum + i] == i * 5);
    }
    EXPECT(job.barrier().ok());
    EXPECT(job.release(address).ok());
  });
  CHECK_NOTHING_WRONG();
}

TEST_CASE("memory of the program's own is shared by name, for as long as it says", "[job]") {
  with_ranks(2, [&](Job& job) {
    alignas(8) std::uint64_t words[100] = {};
    words[3] = static_cast<unsigned>(job.rank()) + 50;
    RemoteMemory mine;
    EXPECT(job.share(words, sizeof words, mine).ok());
    EXPECT(!job.share(nullptr, 8, mine).ok());
    std::vector<RemoteMemory> all;
    EXPECT(job.all_gather(mine, all).ok());
    const RemoteMemory there = all[static_cast<std::size_t>(1 - job.rank())];
    std::uint64_t word = 0;
    EXPECT(job.rdma_read(0, there.word(3), &word, 8) == Code::ok);
    EXPECT(word == static_cast<unsigned>(1 - job.rank()) + 50);
    for (int i = 0; i < 100; ++i) EXPECT(job.fetch_add(0, there.word(5), 2).code == Code::ok);
    RemoteMemory bad;
    for (const std::size_t number : {100, 101}) {
      bad = there;
      bad.bytes = 1000 * 8;
      EXPECT(job.rdma_read(0, bad.word(number), &word, 8) == Code::bad_argument);
      EXPECT(job.rdma_write(0, bad.word(number), &word, 8) == Code::bad_argument);
    }
    bad = with_region(there, [](std::uint32_t region) { return region ^ 1 << 13; });
    EXPECT(job.rdma_read(0, bad, &word, 8) == Code::bad_argument);
    EXPECT(job.rdma_write(0, bad, &word, 8) == Code::bad_argument);
    EXPECT(job.unshare(there) == Code::bad_argument);
    EXPECT(job.barrier().ok());
    EXPECT(std::atomic_ref(words[5]).load() == 200);
    EXPECT(job.unshare(mine).ok());
    EXPECT(job.unshare(mine) == Code::bad_argument);
    EXPECT(job.barrier().ok());
    EXPECT(job.rdma_read(0, there.word(3), &word, 8) == Code::bad_argument);
    EXPECT(job.rdma_write(0, there.word(3), &word, 8) == Code::bad_argument);
    EXPECT(job.fetch_add(0, there.word(5), 2).code == Code::bad_argument);
    EXPECT(job.barrier().ok());
    EXPECT(words[3] == static_cast<unsigned>(job.rank()) + 50);
  });
  CHECK_NOTHING_WRONG();
}

TEST_CASE("threads reach the same memory at once, and it may go away meanwhile", "[job]") {
  with_ranks(2, [&](Job& job) {
    for (int round = 0; round < 20; ++round) {
      void* address = nullptr;
      RemoteMemory mine;
      EXPECT(job.allocate(1 << 16, address, mine).ok());
      std::vector<RemoteMemory> all;
      EXPECT(job.all_gather(mine, all).ok());
      const RemoteMemory there = all[static_cast<std::size_t>(1 - job.rank())];
      with_threads(3, [&](int t) {
        std::vector<char> local(1 << 16);
        Code code = Code::ok;
        for (int i = 0; i < 200 && code == Code::ok; ++i) {
          code = job.rdma_read(t, there.part(4096, 60'000), local.data(), 60'000);
          if (code == Code::ok)
            code = job.fetch_add(t, there.word(static_cast<unsigned>(t)), 1).code;
          if (t == 0 && i == 100) EXPECT(job.release(address).ok());
        }
        EXPECT(code == Code::ok || code == Code::bad_argument);
      });
      EXPECT(job.barrier().ok());
    }
  });
  CHECK_NOTHING_WRONG();
}

TEST_CASE("what ranks do together", "[job]") {
  const int num_ranks = GENERATE(1, 2, 5);
  with_ranks(num_ranks, [&](Job& job) {
    EXPECT(job.size() == num_ranks);
    EXPECT(job.same_host(0, num_ranks - 1) == (num_ranks == 1 || over_shm()));
    EXPECT(job.host(0) == job.host(num_ranks - 1));
    EXPECT(job.is_alive(0));
    EXPECT(!job.is_alive(num_ranks));
    double sum = job.rank() + 0.5;
    EXPECT(job.all_reduce(sum, std::plus<>()).ok());
    EXPECT(sum == num_ranks * (num_ranks - 1) / 2 + num_ranks * 0.5);
    int most = job.rank(), least = job.rank();
    EXPECT(job.all_reduce(most, Max()).ok());
    EXPECT(job.all_reduce(least, Min()).ok());
    EXPECT(most == num_ranks - 1);
    EXPECT(least == 0);
    std::vector<std::uint64_t> many(10'000, 2);
    EXPECT(job.all_reduce(std::span(many), std::plus<>()).ok());
    EXPECT(std::count(many.begin(), many.end(), 2u * static_cast<unsigned>(num_ranks)) == 10'000);
    // In the order of the ranks, for operations that are not commutative: f(f(a, b), c), where each
    // is a function x -> m x + c.
    struct Line {
      double m, c;
    } line{job.rank() + 1.0, job.rank() + 0.0}, expected{1, 0};
    for (int r = 0; r < num_ranks; ++r)
      expected = r == 0 ? Line{1, 0} : Line{expected.m * (r + 1), expected.c * (r + 1) + r};
    EXPECT(job.all_reduce(line,
                          [](const Line& a, const Line& b) {
                            return Line{a.m * b.m, a.c * b.m + b.c};
                          })
               .ok());
    EXPECT(line.m == expected.m);
    EXPECT(line.c == expected.c);
    std::vector<int> ranks;
    EXPECT(job.all_gather(job.rank() * 2, ranks).ok());
    for (int r = 0; r < num_ranks; ++r) EXPECT(ranks[static_cast<std::size_t>(r)] == r * 2);
    // Rank r brings r values.
    std::vector<int> mine(static_cast<std::size_t>(job.rank()), job.rank());
    std::vector<int> all;
    std::vector<std::size_t> counts;
    EXPECT(job.all_gather(std::span(mine), all, counts).ok());
    std::size_t at = 0;
    for (int r = 0; r < num_ranks; ++r) {
      EXPECT(counts[static_cast<std::size_t>(r)] == static_cast<std::size_t>(r));
      for (int i = 0; i < r; ++i) EXPECT(all[at++] == r);
    }
    EXPECT(at == all.size());
  });
  CHECK_NOTHING_WRONG();
}

TEST_CASE("ranks that give peers no time at all wait for those that live", "[job]") {
  if (!over_shm()) return;  // silence is all that fabrics have to go by
  REQUIRE(::setenv("WEFT_PEER_TIMEOUT_MS", "0", 1) == 0);
  with_ranks(2, [](Job& job) {
    // Long enough for a look for lost peers.
    if (job.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT(job.barrier().ok());
  });
  REQUIRE(::unsetenv("WEFT_PEER_TIMEOUT_MS") == 0);
  CHECK_NOTHING_WRONG();
}

// Who is through the last barrier leaves, and is no loss to those whose messages are under way yet.
TEST_CASE("ranks end together however late the last messages come", "[job]") {
  const char* fabrics = std::getenv("WEFT_FABRIC");
  if (fabrics == nullptr || std::string_view(fabrics) != "loopback") return;  // nothing is late
  using Clock = std::chrono::steady_clock;
  const auto network = fabric::loopback::Network::of_process();
  Clock::time_point begin;
  // Links that take turns need several such messages each.
  const int num_ranks = std::getenv("LOOPBACK_LINKS") != nullptr ? 4 : 24;
  with_ranks(num_ranks, [&](Job& job) {
    for (int i = 0; i < 2; ++i) EXPECT(job.barrier().ok());
    if (job.rank() != 0) return;
    begin = Clock::now();
    network->set_faults({.seed = 1, .max_delay_us = 400'000});
  });
  network->set_faults({});
  // Else some wait for the answer of one that is gone, for WEFT_PEER_TIMEOUT_MS.
  CHECK(Clock::now() - begin < std::chrono::seconds(30));
}

// Who has heard the other's goodbye may not leave as long as its answer may be lost.
TEST_CASE("ranks end together though links break while they leave", "[job]") {
  const char* fabrics = std::getenv("WEFT_FABRIC");
  if (fabrics == nullptr || std::string_view(fabrics) != "loopback") return;  // nothing breaks
  using Clock = std::chrono::steady_clock;
  const auto network = fabric::loopback::Network::of_process();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Clock::time_point begin;
    with_ranks(4, [&](Job& job) {
      for (int i = 0; i < 2; ++i) EXPECT(job.barrier().ok());
      if (job.rank() != 0) return;
      begin = Clock::now();
      network->set_faults({.seed = seed, .cut_one_in = 8});
    });
    network->set_faults({});
    INFO("seed " << seed);
    REQUIRE(Clock::now() - begin < std::chrono::seconds(30));
  }
  CHECK_NOTHING_WRONG();
}

}  // namespace weft::testing
