#include "tools/weft-info/check/check.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <stdio.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <thread>

#include "base/os/host_name.hpp"
#include "base/wait.hpp"
#include "tools/weft-info/check/host.hpp"
#include "tools/weft-info/check/member.hpp"
#include "tools/weft-info/check/pair.hpp"
#include "tools/weft-info/check/progress.hpp"
#include "tools/weft-info/check/report.hpp"

namespace weft::check {
namespace {

using Level = Finding::Level;
using Hosts = std::vector<std::unique_ptr<Host>>;

constexpr int kInterruptedStatus = 130;  // as a shell
// Agents look for weftrun for 10 s before they say that they do not reach it.
constexpr std::int64_t kMostStartMs = 20'000;

void take_signals_over() {
  struct sigaction action {};
  action.sa_handler = [](int) { is_interrupted = true; };
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);  // a host that is gone is an error of the write
}

void add_findings(const std::string& where, const Json& facts, Report& report) {
  for (const Json& one : facts.at("findings")) report.add(where, finding_of(one));
}

// Starts all, and leaves out those that do not come.
void meet(Hosts& hosts, const Settings& settings, Progress& progress, Report& report) {
  const auto missing = [&](const Host& host, const Status& why) {
    report.add(host.name(),
               {Level::error, "start", why.text(),
                fmt::format("weftrun --hosts {0} -n 1 hostname; ssh -oBatchMode=yes {0} true; is "
                            "Weft at the same path there?",
                            host.name())});
  };
  for (auto& host : hosts)
    if (const Status status = host->start(); !status) missing(*host, status);
  const std::uint64_t begin_ns = now_ns();
  const std::int64_t most_ms = std::min(kMostStartMs, settings.number(Setting::start_timeout_ms));
  for (auto& host : hosts) {
    progress.say(fmt::format("waits for {} to start weft-info there", host->name()));
    const auto spent_ms = static_cast<std::int64_t>((now_ns() - begin_ns) / 1'000'000);
    const Status status =
        host->meet(static_cast<int>(std::max<std::int64_t>(most_ms - spent_ms, 500)));
    if (is_interrupted) return;
    if (!status) {
      missing(*host, status);
      continue;
    }
    const std::string version = host->facts().value("weft", "");
    if (version != WEFT_VERSION)
      report.add(host->name(), {Level::error, "Weft",
                                fmt::format("version {}, this host has " WEFT_VERSION, version),
                                "install the same on all hosts: weft-info --version"});
    else
      report.add(host->name(), {Level::ok, "Weft", "version " + version, ""});
    try {
      add_findings(host->name(), host->facts(), report);
    } catch (const Json::exception& error) {
      report.add(host->name(), {Level::error, "answers", error.what(), "install the same Weft"});
    }
  }
  std::erase_if(hosts, [](const auto& host) { return !host->is_there(); });
}

// How far the clocks are apart, as seen from here: a question's way there and back bounds the
// error.
void compare_clocks(Hosts& hosts, Report& report) {
  constexpr int kTimes = 5;
  constexpr double kNoteMs = 100, kWarnMs = 1000;
  double least = 0, most = 0, error = 0;
  std::string slow, fast;
  for (auto& host : hosts) {
    double best_trip = std::numeric_limits<double>::max(), offset = 0;
    for (int i = 0; i < kTimes; ++i) {
      const auto now_ms = [] {
        return std::chrono::duration<double, std::milli>(
                   std::chrono::system_clock::now().time_since_epoch())
            .count();
      };
      const double begin = now_ms();
      Json answer;
      if (!host->ask({{"do", "time"}}, answer)) break;
      const double end = now_ms();
      if (end - begin >= best_trip || !answer.contains("ns") || !answer["ns"].is_number()) continue;
      best_trip = end - begin;
      offset = answer["ns"].get<double>() / 1e6 - (begin + end) / 2;
    }
    if (best_trip == std::numeric_limits<double>::max()) continue;
    error = std::max(error, best_trip / 2);
    if (slow.empty() || offset < least) least = offset, slow = host->name();
    if (fast.empty() || offset > most) most = offset, fast = host->name();
  }
  const double apart = most - least;
  const std::string text = fmt::format("at most {:.1f} ms apart (seen to {:.1f} ms)", apart, error);
  const Level level = apart - 2 * error > kWarnMs   ? Level::warning
                      : apart - 2 * error > kNoteMs ? Level::note
                                                    : Level::ok;
  report.add(level == Level::ok ? "all hosts" : slow + " <-> " + fast,
             {level, "clocks",
              level == Level::ok ? text : fmt::format("{}: {} is behind {}", text, slow, fast),
              level == Level::ok ? ""
                                 : "chronyc tracking (or timedatectl) on both; traces and logs of "
                                   "the two do not fit together"});
}

// Each with each, those of a round at the same time: the circle method of tournaments.
void check_pairs(Hosts& hosts, Progress& progress, Report& report) {
  std::vector<Host*> circle;
  for (auto& host : hosts) circle.push_back(host.get());
  if (circle.size() % 2 == 1) circle.push_back(nullptr);  // pauses
  for (std::size_t round = 0; round + 1 < circle.size() && !is_interrupted; ++round) {
    std::vector<std::jthread> threads;
    std::string text;
    for (std::size_t i = 0; i < circle.size() / 2; ++i) {
      Host *a = circle[i], *b = circle[circle.size() - 1 - i];
      if (a == nullptr || b == nullptr) continue;
      if (!a->is_there() || !b->is_there()) continue;
      text += fmt::format("{}{} <-> {}", text.empty() ? "" : ", ", a->name(), b->name());
      threads.emplace_back([a, b, &report] { check_pair(*a, *b, report); });
    }
    progress.say(fmt::format("round {} of {}: {}", round + 1, circle.size() - 1,
                             text.size() > 60 ? text.substr(0, 60) + " ..." : text));
    threads.clear();
    std::rotate(circle.begin() + 1, circle.end() - 1, circle.end());
  }
}

void check_here(const Settings& settings, const Status& environment, Report& report) {
  std::vector<std::unique_ptr<End>> ends;
  const Json facts = inspect_host(settings, environment, ends);
  report.add(host_name(), {Level::ok, "Weft", "version " WEFT_VERSION, ""});
  add_findings(host_name(), facts, report);
}

}  // namespace

int check(const Settings& settings, const Status& environment, std::vector<std::string> names,
          bool json) {
  Report report;
  std::vector<std::string> unique;
  std::erase(names, "");  // what --check without a HOST gives
  for (std::string& name : names)
    if (std::ranges::find(unique, name) == unique.end()) unique.push_back(std::move(name));
  if (unique.size() == 1) unique.insert(unique.begin(), "localhost");
  if (unique.empty()) {
    check_here(settings, environment, report);
    unique.push_back(host_name());
  } else {
    take_signals_over();
    Progress progress;
    Hosts hosts;
    for (const std::string& name : unique) hosts.push_back(std::make_unique<Host>(name));
    meet(hosts, settings, progress, report);
    if (hosts.size() > 1 && !is_interrupted) compare_clocks(hosts, report);
    if (!is_interrupted) check_pairs(hosts, progress, report);
    progress.say("ends what it has started");
    for (auto& host : hosts) host->stop();  // all at once, before the first is waited for
    hosts.clear();
  }
  if (is_interrupted) {
    fputs("weft-info: interrupted; nothing of it is left on the hosts\n", stderr);
    return kInterruptedStatus;
  }
  const std::string text = json ? report.json(unique) : report.text(unique);
  if (fputs(text.c_str(), stdout) < 0 || fflush(stdout) != 0) {
    perror("weft-info: cannot write standard output");
    return 1;
  }
  return report.exit_status();
}

}  // namespace weft::check
