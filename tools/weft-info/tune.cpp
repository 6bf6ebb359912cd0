#include "tools/weft-info/tune.hpp"

#include <fmt/core.h>
#include <stdio.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "base/wait.hpp"
#include "coll/select/model.hpp"
#include "job/members.hpp"
#include "tagged/engine.hpp"
#include "tools/weft-info/tune_offload.hpp"
#include "tools/weft-info/tune_rounds.hpp"

namespace weft {
namespace {

constexpr std::uint32_t kContext = 0;
constexpr std::int32_t kTag = 1;

// One of the two ends. Both make the same calls; times are those of the first.
class End {
 public:
  End(tagged::Engine& engine, int peer, bool is_first)
      : engine_(engine), peer_(peer), is_first_(is_first) {}

  // The time of so many bytes from one end to the other in nanoseconds: half a round trip.
  double one_way(std::size_t bytes) {
    constexpr int kTimes = 200;
    return median_of(kTimes,
                     [&] {
                       if (is_first_) send(bytes);
                       receive(bytes);
                       if (!is_first_) send(bytes);
                     }) /
           2;
  }
  // The time between messages in nanoseconds while many are in flight.
  double gap(std::size_t bytes, int num_messages) {
    return median_of(1,
                     [&] {
                       std::deque<tagged::Request> requests;
                       for (int i = 0; i < num_messages; ++i) start(requests, bytes, is_first_);
                       for (tagged::Request& request : requests) finish(request);
                       if (is_first_)
                         receive(0);
                       else
                         send(0);
                     }) /
           num_messages;
  }
  const Status& status() const { return status_; }

 private:
  template <class Step>
  double median_of(int times, const Step& step) {
    std::vector<double> each;
    for (int round = 0; round <= kRounds && status_; ++round) {
      const auto begin = now_ns();
      for (int i = 0; i < times && status_; ++i) step();
      // The first round is a warm-up.
      if (round > 0) each.push_back(static_cast<double>(now_ns() - begin) / times);
    }
    return each.empty() ? 0 : median(std::move(each));
  }
  void start(std::deque<tagged::Request>& requests, std::size_t bytes, bool sends) {
    if (data_.size() < bytes) data_.resize(bytes);
    tagged::Request& request = requests.emplace_back();
    if (sends)
      engine_.isend(request, peer_, kContext, kTag, data_.data(), bytes);
    else
      engine_.irecv(request, peer_, kContext, kTag, data_.data(), bytes);
  }
  void finish(tagged::Request& request) {
    if (const Code code = engine_.wait(request); code != Code::ok && status_)
      status_ = {code, engine_.describe(request)};
  }
  void send(std::size_t bytes) { once(bytes, true); }
  void receive(std::size_t bytes) { once(bytes, false); }
  void once(std::size_t bytes, bool sends) {
    std::deque<tagged::Request> requests;
    start(requests, bytes, sends);
    finish(requests.front());
  }

  tagged::Engine& engine_;
  const int peer_;
  const bool is_first_;
  std::vector<char> data_ = std::vector<char>(8);
  Status status_;
};

double reducing_ns_per_byte() {
  constexpr std::size_t kCount = 1 << 17;  // a vector of 1 MiB
  std::vector<double> in(kCount, 1), inout(kCount, 1), each;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = now_ns();
    for (std::size_t i = 0; i < kCount; ++i) inout[i] += in[i];
    each.push_back(static_cast<double>(now_ns() - begin) / (kCount * sizeof(double)));
    in[static_cast<std::size_t>(round)] = inout.back();  // so that every round is needed
  }
  return median(std::move(each));
}

void print_table(const coll::Network& network, const std::string& hosts, int num_processes) {
  fmt::print(
      "# between {}: a message takes {:.2f} us and {:.2f} us of a processor's time at each end, a "
      "byte {:.3f} ns, a byte reduced {:.3f} ns\n"
      "# for communicators of up to {} processes; to be set for a whole job, alike on all hosts\n"
      "export WEFT_COLL_ALGORITHMS='{}'\n",
      hosts, network.latency / 1000, network.overhead / 1000, network.per_byte,
      network.reduce_per_byte, num_processes, coll::table_for(network, num_processes));
}

// network: set on rank 0.
Status measure(Members& job, tagged::Engine& engine, int other, coll::Network& network) {
  if (job.rank() != 0 && job.rank() != other) return {};
  const bool is_first = job.rank() == 0;
  if (is_first) fputs("weft-info: measures, for some seconds\n", stderr);
  End end(engine, is_first ? other : 0, is_first);
  constexpr std::size_t kLong = 1 << 20;
  const double one_way = end.one_way(8), gap = end.gap(8, 1000), long_gap = end.gap(kLong, 16);
  if (!end.status() || !is_first) return end.status();
  // The delay of the next message is the processing time at the busier end.
  network.overhead = std::min(gap, one_way / 2);
  network.latency = one_way - 2 * network.overhead;
  network.per_byte = long_gap / static_cast<double>(kLong);
  network.reduce_per_byte = reducing_ns_per_byte();
  return {};
}

}  // namespace

int tune(const Settings& settings, int num_processes) {
  const bool has_switch = settings.text(Setting::offload) != "off";
  const auto failed = [](const Status& status) {
    fmt::print(stderr, "weft-info: {}\n", status.text());
    return 1;
  };
  std::unique_ptr<Members> job;
  if (Status opened = Members::open(settings, job); !opened) return failed(opened);
  int other = 0;
  while (other < job->size() && job->same_host(0, other)) ++other;
  if (other == job->size()) {
    if (job->rank() == 0)
      fputs(
          "weft-info: --tune measures between two hosts: weftrun --hosts a,b -n 2 weft-info "
          "--tune\n",
          stderr);
    (void)job->board().close();
    return 2;
  }
  std::unique_ptr<tagged::Engine> engine;
  if (Status created = tagged::Engine::create(*job, engine); !created) return failed(created);
  coll::Network network;
  Status measured = measure(*job, *engine, other, network);
  if (measured && has_switch) measured = tune_offload(*engine);
  Status closed = engine->close();
  if (closed) closed = job->board().close();
  if (!measured) return failed(measured);
  if (!closed) return failed(closed);
  // The other processes need not wait for this.
  if (job->rank() == 0) {
    fmt::print(stderr, "weft-info: plays the steps of up to {} processes\n", num_processes);
    print_table(network, fmt::format("{} and {}", job->member(0).host, job->member(other).host),
                num_processes);
  }
  return 0;
}

}  // namespace weft
