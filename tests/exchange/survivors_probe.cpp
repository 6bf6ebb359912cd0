// One rank of a job in which ranks die at random points, one upon the other, while all go on with
// calls of all ranks. Those that live print "ok" if every call has ended in the same way on all of
// them and was right. Started by faults_test; by hand: survivors_probe SEED [SEED ...].
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/exchange/probe.hpp"

namespace weft::testing {
namespace {

constexpr int kThreads = 2;

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {  // splitmix64
    std::uint64_t z = state_ += 0x9e37'79b9'7f4a'7c15;
    z = (z ^ z >> 30) * 0xbf58'476d'1ce4'e5b9;
    z = (z ^ z >> 27) * 0x94d0'49bb'1331'11eb;
    return z ^ z >> 31;
  }
  int below(int limit) { return static_cast<int>(next() % static_cast<std::uint64_t>(limit)); }

 private:
  std::uint64_t state_;
};

// Who dies: the first in a step, after some time; each of the others once it hears that the one
// before is dead, which is when ranks agree on that, after some time.
struct Plan {
  int step = 0;
  int pause_us = 0;
  std::vector<int> victims;
  std::vector<int> spins;

  Plan(std::uint64_t seed, int size) {
    Random random(seed);
    step = random.below(6);
    pause_us = random.below(2000);
    const int num = 1 + random.below(size / 2 + 1);
    std::set<int> chosen;
    while (static_cast<int>(victims.size()) < num) {
      // Low ranks more often: they decide.
      const int rank = random.below(2) == 0 ? static_cast<int>(victims.size()) : random.below(size);
      if (!chosen.insert(rank).second) continue;
      victims.push_back(rank);
      spins.push_back(random.below(1 << random.below(22)));
    }
  }
};

struct Message {
  int source;
  int thread;
  int phase;
  int number;
};

class Rank {
 public:
  Rank(Job& job, std::uint64_t seed)
      : job_(job), seed_(seed), plan_(seed, job.size()), own_(seed ^ std::uint64_t(job.rank())) {
    for (int rank = 0; rank < job.size(); ++rank) members_.insert(rank);
  }

  void run() {
    if (const auto at = std::ranges::find(plan_.victims, job_.rank()); at != plan_.victims.end())
      killer_ = std::thread([this, index = at - plan_.victims.begin()] { die_in_time(index); });
    Random random(seed_ * 77);
    const auto end = Clock::now() + 60s;
    // Some steps more when all are told.
    for (int more = 3; more > 0; ++step_) {
      REQUIRE(Clock::now() < end);
      if (members_.size() + plan_.victims.size() == static_cast<std::size_t>(job_.size())) --more;
      now_.store(step_);
      now_.notify_all();
      // Some come late.
      if (own_.below(8) == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(own_.below(3000)));
      make(random.below(8));
    }
    for (const int rank : members_) REQUIRE(std::ranges::count(plan_.victims, rank) == 0);
    // All of the same opinion, on every step.
    std::vector<std::uint64_t> all;
    REQUIRE(job_.all_gather(history_, all).ok());
    for (const int rank : members_) REQUIRE(all[static_cast<std::size_t>(rank)] == history_);
  }

 private:
  [[noreturn]] void die_in_time(std::ptrdiff_t index) {
    const auto i = static_cast<std::size_t>(index);
    if (i == 0) {
      for (int now = now_.load(); now < plan_.step; now = now_.load()) now_.wait(now);
      std::this_thread::sleep_for(std::chrono::microseconds(plan_.pause_us));
    } else {
      while (job_.is_alive(plan_.victims[i - 1])) std::this_thread::yield();
      // relaxed, and for the time it takes.
      for (std::atomic<int> left = plan_.spins[i]; left.load(std::memory_order_relaxed) > 0;)
        left.fetch_sub(1, std::memory_order_relaxed);
    }
    die();
  }

  // What a call came to, for the history; false: it failed, for ranks that were members so far.
  bool judge(const Status& status) {
    note(static_cast<std::uint64_t>(status.code()));
    if (status.ok()) return true;
    if (!(status == Code::peer_lost)) std::fprintf(stderr, "%s\n", status.text().c_str());
    REQUIRE(status == Code::peer_lost);
    const std::string text = " " + status.text();
    int num = 0;
    for (int rank = 0; rank < job_.size(); ++rank) {
      if (text.find(" rank " + std::to_string(rank) + " (") == std::string::npos) continue;
      if (!members_.contains(rank) || std::ranges::count(plan_.victims, rank) != 1)
        std::fprintf(stderr, "rank %d, step %d: %s\n", job_.rank(), step_, text.c_str());
      REQUIRE(members_.erase(rank) == 1);
      REQUIRE(std::ranges::count(plan_.victims, rank) == 1);
      REQUIRE(!job_.is_alive(rank));
      note(static_cast<std::uint64_t>(rank));
      ++num;
    }
    REQUIRE(num > 0);
    return false;
  }
  void note(std::uint64_t value) { history_ = Random(history_ ^ value).next(); }

  void make(int what) {
    switch (what) {
      case 0:
        judge(job_.barrier());
        return;
      case 1:
        return reduce(1);
      case 2:
        return reduce(5000);  // too long for a result to be kept
      case 3:
        return gather();
      case 4:
        return gather_spans();
      case 5:
        exchange_.reset();
        return;
      default:
        return end_phase(what == 6);
    }
  }

  void reduce(std::size_t count) {
    std::vector<std::uint64_t> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = (i + 1) << job_.rank();
    if (!judge(job_.all_reduce(std::span(values), std::plus<>()))) return;
    // Who contributed is who was not told to be lost.
    std::uint64_t mask = 0;
    for (const int rank : members_) mask |= std::uint64_t{1} << rank;
    for (std::size_t i = 0; i < count; ++i) REQUIRE(values[i] == (i + 1) * mask);
  }

  int word(int rank) const { return rank * 1000 + step_ + 1; }

  void gather() {
    std::vector<int> all;
    if (!judge(job_.all_gather(word(job_.rank()), all))) return;
    for (int rank = 0; rank < job_.size(); ++rank)
      REQUIRE(all[static_cast<std::size_t>(rank)] == (members_.contains(rank) ? word(rank) : 0));
  }

  void gather_spans() {
    const auto length = [this](int rank) {
      return members_.contains(rank) ? static_cast<std::size_t>((rank + step_) % 3 * 700) : 0;
    };
    const std::vector<int> mine(length(job_.rank()), word(job_.rank()));
    std::vector<int> all;
    std::vector<std::size_t> counts;
    if (!judge(job_.all_gather(std::span<const int>(mine), all, counts))) return;
    std::size_t at = 0;
    for (int rank = 0; rank < job_.size(); ++rank) {
      REQUIRE(counts[static_cast<std::size_t>(rank)] == length(rank));
      for (std::size_t i = 0; i < length(rank); ++i) REQUIRE(all[at++] == word(rank));
    }
    REQUIRE(at == all.size());
  }

  int num_messages(int from, int thread, int to) const {
    return Random(seed_ + static_cast<std::uint64_t>(((phase_ * 64 + from) * 4 + thread) * 64 + to))
        .below(700);
  }

  // Now and then rings that fill up, blocks that are read where they are, and a lane for each pair
  // of threads.
  ExchangeSettings settings() {
    Random random(seed_ * 99 + static_cast<std::uint64_t>(++num_exchanges_));
    ExchangeSettings settings;
    if (random.below(3) == 0) settings.pairing = Pairing::thread_to_thread;
    settings.block_bytes = std::size_t{256} << random.below(4);
    if (random.below(3) == 0) settings.rendezvous_bytes = 512;
    if (random.below(2) == 0) settings.ring_bytes = 12288;
    return settings;
  }

  // A phase: all send to all, and have received everything of each other when it is over.
  void end_phase(bool together) {
    if (!exchange_) {
      phase_ = 0;
      for (auto& of_thread : received_)
        for (auto& counts : of_thread) counts.assign(static_cast<std::size_t>(job_.size()), 0);
      try {
        exchange_.emplace(job_, kThreads, settings());
      } catch (const Error& error) {
        judge(error.status());
        return;
      }
    }
    ++phase_;
    std::array<Status, kThreads> outcomes;
    std::vector<std::thread> threads;
    const auto end_together = [&](int thread) {
      send(thread);
      outcomes[static_cast<std::size_t>(thread)] =
          exchange_->quiesce(thread, [&](const Message& message) {
            REQUIRE(message.phase == phase_);
            take(thread, message);
          });
    };
    std::atomic<int> num_sent{0};
    std::atomic<bool> over{false};
    const auto receive_until_over = [&](int thread) {
      send(thread);
      const Code code = exchange_->flushSend(thread);
      REQUIRE(code == Code::ok || code == Code::peer_lost);
      for (num_sent.fetch_add(1); !over.load(); std::this_thread::yield())
        for (Message message; exchange_->receive(thread, message);) take(thread, message);
    };
    for (int thread = 0; thread < kThreads; ++thread) {
      if (together)
        threads.emplace_back(end_together, thread);
      else
        threads.emplace_back(receive_until_over, thread);
    }
    if (!together) {
      while (num_sent.load() < kThreads) std::this_thread::yield();
      outcomes.fill(exchange_->quiesce());
      over.store(true);
    }
    for (std::thread& thread : threads) thread.join();
    for (const Status& outcome : outcomes)
      REQUIRE(outcome.code() == outcomes[0].code() && outcome.text() == outcomes[0].text());
    judge(outcomes[0]);
    for (int thread = 0; thread < kThreads; ++thread) {
      auto& counts = received(thread, phase_);
      for (const int from : members_)
        REQUIRE(counts[static_cast<std::size_t>(from)] == num_messages(from, thread, job_.rank()));
      counts.assign(counts.size(), 0);
    }
  }

  void send(int thread) {
    for (int to = 0; to < job_.size(); ++to) {
      for (int i = 0; i < num_messages(job_.rank(), thread, to); ++i) {
        const Code code =
            exchange_->send(exchange_->place(to, thread), thread, {job_.rank(), thread, phase_, i});
        if (code == Code::ok) continue;
        REQUIRE(code == Code::peer_lost && !job_.is_alive(to));
        break;
      }
    }
  }

  // In order, once. Threads that receive while another one ends the phase may find the next one's.
  void take(int thread, const Message& message) {
    REQUIRE(message.source == exchange_->source(thread));
    REQUIRE(message.thread == thread);
    REQUIRE(message.phase == phase_ || message.phase == phase_ + 1);
    REQUIRE(message.number ==
            received(thread, message.phase)[static_cast<std::size_t>(message.source)]++);
  }
  std::vector<int>& received(int thread, int phase) {
    return received_[static_cast<std::size_t>(thread)][static_cast<std::size_t>(phase % 2)];
  }

  Job& job_;
  const std::uint64_t seed_;
  const Plan plan_;
  Random own_;
  std::thread killer_;
  std::atomic<int> now_{0};
  int step_ = 0;
  std::uint64_t history_ = 0;
  std::set<int> members_;
  std::optional<Exchange<Message>> exchange_;
  int phase_ = 0, num_exchanges_ = 0;
  // By thread, phase modulo 2, and source.
  std::array<std::array<std::vector<int>, 2>, kThreads> received_;
};

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  using namespace weft::testing;
  REQUIRE(argc == 2);
  {
    Job job;
    Rank(job, std::strtoull(argv[1], nullptr, 10)).run();
  }
  std::puts("ok");
  return 0;
}
