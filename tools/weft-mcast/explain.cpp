#include "explain.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "weft/job.hpp"
#include "weft/multicast.hpp"

namespace weft::mcast {

namespace {

using transport::Job;

struct Row {
  std::array<double, 8> us;
  double total_us;
  std::uint64_t block_bytes;
};
struct Event {
  double at_us;
  std::uint32_t block;
  int member;
  bool is_sent;
  double block_us, buffer_us, credit_us, took_us;  // if it is sent
};

void check(const Status& status) {
  if (!status) throw Error(status);
}

std::vector<Event> events_of(const MessageTimes& times) {
  std::vector<Event> events;
  for (const auto& item : times.received)
    events.push_back({item.at_us, item.block, item.from, false, 0, 0, 0, 0});
  for (const auto& item : times.sent) {
    const auto waited = [&](Spent spent) {
      return item.waited_us[static_cast<std::size_t>(spent)];
    };
    events.push_back({item.begin_us, item.block, item.to, true,
                      waited(Spent::first_block) + waited(Spent::block), waited(Spent::buffer),
                      waited(Spent::credit), item.end_us - item.begin_us});
  }
  std::ranges::stable_sort(events, {}, &Event::at_us);
  return events;
}

void print(const ExplainOptions& options, std::string_view way, const std::vector<Row>& rows,
           int shown, const std::vector<Event>& events) {
  fmt::print("{} bytes in blocks of {} by {} to {} members; microseconds at each\n", options.bytes,
             rows[0].block_bytes, way, rows.size() - 1);
  fmt::print("{:<8}", "member");
  for (const char* name :
       {"posting", "sending", "setup", "1st block", "block", "buffer", "credit", "other", "total"})
    fmt::print(" {:>10}", name);
  fmt::print("\n");
  for (std::size_t member = 0; member < rows.size(); ++member) {
    fmt::print("{:<8}", member);
    for (const double us : rows[member].us) fmt::print(" {:>10.0f}", us);
    fmt::print(" {:>10.0f}\n", rows[member].total_us);
  }
  const Row& row = rows[static_cast<std::size_t>(shown)];
  fmt::print("{:<8}", fmt::format("{}, in %", shown));
  for (const double us : row.us) fmt::print(" {:>10.1f}", 100 * us / std::max(row.total_us, 1e-3));
  fmt::print("\n\nmember {}, block by block\n", shown);
  fmt::print("{:>10} {:<8} {:>7} {:<8} {:>13} {:>13} {:>13} {:>10}\n", "at", "", "block", "member",
             "waited: block", "buffer", "credit", "there in");
  for (const Event& event : events)
    if (event.is_sent)
      fmt::print("{:>10.0f} {:<8} {:>7} to {:<5} {:>13.0f} {:>13.0f} {:>13.0f} {:>10.0f}\n",
                 event.at_us, "sends", event.block, event.member, event.block_us, event.buffer_us,
                 event.credit_us, event.took_us);
    else
      fmt::print("{:>10.0f} {:<8} {:>7} from {}\n", event.at_us, "receives", event.block,
                 event.member);
}

// The algorithm that was taken.
std::string_view taken(const ExplainOptions& options, const Group& group) {
  if (options.algorithm != "native") return options.algorithm;
  const Status native = group.native();
  if (native)
    fmt::print(
        "the network copies: of packets only setup, the 1st one, others and the rest are told\n");
  else
    fmt::print("not native: {}\n", native.text());
  return native.ok() ? "native" : "pipeline";
}

void run_member(Job& job, const ExplainOptions& options) {
  Multicast multicast(job);
  void* memory = nullptr;
  check(multicast.node().allocate(options.bytes, memory));
  std::memset(memory, job.rank() == 0 ? 1 : 0, options.bytes);  // its pages are there
  MessageTimes times;
  // Messages that are sent at once would have no blocks to tell of.
  const GroupSettings settings{.id = 1,
                               .block_bytes = options.block_bytes,
                               .algorithm = options.algorithm,
                               .small_bytes = 0};
  Group group(multicast, settings,
              {.on_incoming = [&](std::uint64_t) { return memory; },
               .on_times = [&](const MessageTimes& result) { times = result; }});
  check(group.ready());
  check(job.barrier());
  if (job.rank() == 0) check(group.send(memory, options.bytes));
  check(group.close(options.timeout_s * 1000));

  std::vector<Row> rows;
  check(job.all_gather(Row{times.us, times.total_us, times.block_bytes}, rows));
  const auto slowest = std::ranges::max_element(rows.begin() + 1, rows.end(), {}, &Row::total_us);
  const int shown = options.member >= 0 ? options.member : static_cast<int>(slowest - rows.begin());
  std::vector<Event> mine, events;
  if (job.rank() == shown) mine = events_of(times);
  std::vector<std::size_t> counts;
  check(job.all_gather(std::span(std::as_const(mine)), events, counts));
  if (job.rank() == 0) print(options, taken(options, group), rows, shown, events);
  check(job.barrier());
}

int say(const std::string& text, int status) {
  fmt::print(stderr, "weft-mcast: {}\n", text);
  return status;
}

int refuse_member(const ExplainOptions& options, int size) {
  return say(fmt::format("--member {} is not below the {} members", options.member, size), 2);
}

int run_threads(const ExplainOptions& options) {
  if (options.member >= options.members) return refuse_member(options, options.members);
  transport::LocalRanks ranks(options.members);
  std::mutex lock;
  std::set<std::string> failures;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < options.members; ++rank)
      threads.emplace_back([&, rank] {
        try {
          Job job(ranks, rank);
          run_member(job, options);
        } catch (const Error& error) {
          std::lock_guard guard(lock);
          failures.insert(error.status().text());
        }
      });
  }
  for (const std::string& text : failures) say(text, 2);
  return failures.empty() ? 0 : 2;
}

}  // namespace

int run_explain(const ExplainOptions& options) {
  try {
    if (options.members > 0) return run_threads(options);
    Job job;
    if (job.size() < 2)
      return say("one member has nobody to send to: give --members, or start it by weftrun", 2);
    if (options.member >= job.size()) return refuse_member(options, job.size());
    run_member(job, options);
    return 0;
  } catch (const Error& error) {
    return say(error.status().text(), 2);
  }
}

}  // namespace weft::mcast
