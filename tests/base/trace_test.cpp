#include "base/trace.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <vector>

using namespace weft;
using nlohmann::json;

namespace {

// Runs the body in a process of its own. Its exit status.
template <class Body>
int in_child(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    std::exit(0);  // with what exit does
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct Folder {
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "weft-trace.XXXXXX";
    path = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

}  // namespace

TEST_CASE("every span of every thread is in the file, in its place") {
  const Folder folder;
  constexpr int kThreads = 3, kSpans = 10'000;  // more than are kept
  REQUIRE(in_child([&] {
            { const trace::Span span("before"); }
            if (!trace::open((folder.path / "a.b" / "run.json").string(), 5, "x").ok() &&
                trace::open((folder.path / "run.json").string(), 5, "rank \"5\"\n").ok()) {
              // One after the other, so that they take over what the one before has left.
              for (int t = 0; t < kThreads; ++t)
                std::thread([] {
                  const trace::Span outer("outer");
                  for (int i = 0; i < kSpans; ++i) const trace::Span span("inner");
                }).join();
              std::vector<std::thread> threads;
              for (int t = 0; t < kThreads; ++t)
                threads.emplace_back([] {
                  for (int i = 0; i < kSpans; ++i) const trace::Span span("beside");
                });
              for (std::thread& thread : threads) thread.join();
              trace::mark("peer lost", "who said \"no\\never\"");
              const trace::Span last("last");
              // A child is another process: it writes nothing into this one's file.
              in_child([] { const trace::Span span("of the child"); });
            }
          }) == 0);
  const auto path = folder.path / "run.5.json";
  REQUIRE(std::filesystem::exists(path));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
  std::ifstream file(path);
  const json events = json::parse(file);
  std::map<std::string, int> counts;
  std::set<long> threads;
  double outer_start = 0, outer_end = 0;
  int outside = 0;
  for (const json& event : events) {
    const std::string name = event["name"];
    ++counts[name];
    if (event["ph"] != "X") continue;
    CHECK(event["dur"].get<double>() >= 0);
    threads.insert(event["tid"].get<long>());
    if (name != "outer") continue;
    outer_start = event["ts"];
    outer_end = outer_start + event["dur"].get<double>();
  }
  // The last thread's inner ones lie in its outer one, which is written behind them.
  for (const json& event : events)
    if (event["name"] == "inner" && event["ts"].get<double>() >= outer_start)
      outside += event["ts"].get<double>() + event["dur"].get<double>() > outer_end + 0.01;
  CHECK(outside == 0);
  CHECK(counts["outer"] == kThreads);
  CHECK(counts["inner"] == kThreads * kSpans);
  CHECK(counts["beside"] == kThreads * kSpans);
  CHECK(counts["peer lost"] == 1);
  CHECK(counts["last"] == 1);
  CHECK(counts["before"] == 0);
  CHECK(counts["of the child"] == 0);
  CHECK(counts["process_name"] == 1);
  CHECK(threads.size() >= kThreads + 1);
}

TEST_CASE("a file that cannot be made is told with its name") {
  REQUIRE(in_child([] {
            const Status status = trace::open("/nonexistent/run", 0, "x");
            const bool good = status.code() == Code::bad_setting &&
                              status.text().find("/nonexistent/run.0") != std::string::npos;
            _exit(good && !trace::is_on() ? 0 : 1);
          }) == 0);
}
