// hash_table: a table over the memory of all ranks, with one-sided access alone and no server.
// Threads of all ranks count the occurrences of each key, and look the counts up afterwards.
//
//   weftrun -n 2 hash_table [--threads T] [--keys N]
//
// A slot is two words: the key plus 1 (0: free), and the count. A key's slot is searched from where
// its hash points, slot by slot. A thread claims a free slot with cas; one that loses that race
// reads the winner's key. Slots are never freed, so a key stays in its slot.
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "report.hpp"
#include "weft/weft.hpp"

namespace {

class Table {
 public:
  Table(weft::Job& job, std::size_t slots_per_rank) : job_(job), slots_(slots_per_rank) {
    weft::RemoteMemory mine;
    weft::Status status = job.allocate(slots_ * kSlotBytes, memory_, mine);
    if (status) status = job.all_gather(mine, parts_);
    if (!status) throw weft::Error(status);
  }
  ~Table() {
    if (!job_.barrier().ok() || !job_.release(memory_).ok()) std::fputs("not released\n", stderr);
  }

  // Adds `value` to the key's count.
  weft::Code add(int thread, std::uint64_t key, std::uint64_t value) {
    for (std::size_t i = 0; i < slots_ * parts_.size(); ++i) {
      const weft::RemoteMemory slot = slot_of(key, i);
      // Most keys are there already, and reading is cheaper than cas.
      std::uint64_t held = 0;
      weft::Code code = job_.rdma_read(thread, slot, &held, sizeof held);
      if (code == weft::Code::ok && held == 0) {
        const weft::Fetched before = job_.cas(thread, slot, 0, key + 1);
        code = before.code;
        held = before.value == 0 ? key + 1 : before.value;
      }
      if (code != weft::Code::ok) return code;
      if (held == key + 1) return job_.fetch_add(thread, slot.word(1), value).code;
    }
    return weft::Code::no_memory;
  }

  // The key's count, 0 if it is not there.
  weft::Code find(int thread, std::uint64_t key, std::uint64_t& count) {
    for (std::size_t i = 0; i < slots_ * parts_.size(); ++i) {
      std::uint64_t slot[2];
      const weft::Code code = job_.rdma_read(thread, slot_of(key, i), slot, sizeof slot);
      count = slot[0] == key + 1 ? slot[1] : 0;
      if (code != weft::Code::ok || slot[0] == key + 1 || slot[0] == 0) return code;
    }
    count = 0;
    return weft::Code::ok;
  }

 private:
  static constexpr std::size_t kSlotBytes = 16;

  // The i-th slot to probe for a key.
  weft::RemoteMemory slot_of(std::uint64_t key, std::size_t i) const {
    const std::uint64_t hash = (key + 1) * 0x9E37'79B9'7F4A'7C15u;
    const std::size_t at = ((hash >> 20) + i) % (slots_ * parts_.size());
    return parts_[at / slots_].part(at % slots_ * kSlotBytes, kSlotBytes);
  }

  weft::Job& job_;
  const std::size_t slots_;
  void* memory_ = nullptr;
  std::vector<weft::RemoteMemory> parts_;  // by rank
};

}  // namespace

int main(int argc, char** argv) {
  const char* text = option(argc, argv, "--threads");
  const int num_threads = text != nullptr ? std::atoi(text) : 2;
  text = option(argc, argv, "--keys");
  const std::uint64_t num_keys = text != nullptr ? std::strtoull(text, nullptr, 10) : 20'000;

  weft::Job job;
  Table table(job, num_keys * 2 / static_cast<unsigned>(job.size()) + 1);
  std::atomic<int> num_wrong{0};
  const auto with_threads = [&](auto&& body) {
    std::vector<std::thread> threads;
    for (int t = 0; t < num_threads; ++t) threads.emplace_back([&body, t] { body(t); });
    for (auto& thread : threads) thread.join();
  };
  // All threads add to every key, concurrently and in different orders.
  with_threads([&](int t) {
    const auto start = static_cast<unsigned>(job.rank() * num_threads + t) * 7919u;
    for (std::uint64_t i = 0; i < num_keys; ++i) {
      const std::uint64_t key = (start + i) % num_keys;
      if (table.add(t, key, key + 1) != weft::Code::ok) ++num_wrong;
    }
  });
  if (!job.barrier().ok()) return 1;
  with_threads([&](int t) {
    for (std::uint64_t key = static_cast<unsigned>(t); key < num_keys + 100;
         key += static_cast<unsigned>(num_threads)) {
      const std::uint64_t right =
          key < num_keys ? (key + 1) * static_cast<unsigned>(job.size() * num_threads) : 0;
      std::uint64_t count = 0;
      if (table.find(t, key, count) != weft::Code::ok || count != right) ++num_wrong;
    }
  });
  int wrong = num_wrong;
  if (!job.all_reduce(wrong, std::plus<>()).ok()) wrong = 1;
  if (job.rank() == 0)
    std::printf("%llu keys counted by %d threads: %s\n", static_cast<unsigned long long>(num_keys),
                job.size() * num_threads, wrong == 0 ? "all counts are right" : "WRONG");
  return wrong == 0 ? 0 : 1;
}
