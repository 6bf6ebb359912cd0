// Topology against what the kernel says, and the report that weft-info prints.
#include "base/os/topology.hpp"

#include <sched.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "base/info.hpp"

using namespace weft;

TEST_CASE("cores hold exactly the processors this thread may use, each once") {
  cpu_set_t set;
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  Topology topology;
  REQUIRE(Topology::read(topology).ok());
  std::set<int> seen;
  for (const auto& core : topology.cores()) {
    CHECK_FALSE(core.empty());
    for (int cpu : core) {
      CHECK(CPU_ISSET(static_cast<std::size_t>(cpu), &set));
      CHECK(seen.insert(cpu).second);
    }
  }
  CHECK(static_cast<int>(seen.size()) == CPU_COUNT(&set));
  CHECK(topology.num_cpus() == CPU_COUNT(&set));
  CHECK(num_usable_cpus() == CPU_COUNT(&set));
}

TEST_CASE("a thread bound to one processor has one core") {
  std::thread([] {
    const int cpu = usable_cpus().back();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(cpu), &one);
    const bool bound = sched_setaffinity(0, sizeof one, &one) == 0;
    Topology topology;
    const bool read = Topology::read(topology).ok();
    const auto cores = topology.cores();
    const int usable = num_usable_cpus();
    CHECK(bound);
    CHECK(read);
    CHECK(usable == 1);
    CHECK(cores == std::vector<std::vector<int>>{{cpu}});
  }).join();
}

TEST_CASE("caches are ordered, and the first one's line size is the kernel's") {
  Topology topology;
  REQUIRE(Topology::read(topology).ok());
  for (std::size_t i = 1; i < topology.caches().size(); ++i)
    CHECK(topology.caches()[i - 1].level <= topology.caches()[i].level);
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size");
  std::size_t line_bytes = 0;
  if (file >> line_bytes && !topology.caches().empty())
    CHECK(topology.caches()[0].line_bytes == line_bytes);
}

TEST_CASE("sharing is symmetric, and a processor shares the core with itself") {
  Topology topology;
  REQUIRE(Topology::read(topology).ok());
  const std::vector<int> cpus = usable_cpus();
  for (int a : cpus) {
    CHECK(topology.sharing(a, a) == Sharing::core);
    for (int b : cpus) {
      CHECK(topology.sharing(a, b) == topology.sharing(b, a));
      CHECK(topology.sharing(cpus, {b}) <= topology.sharing(a, b));
    }
  }
}

TEST_CASE("a report prints what is asked for, or what is there by default") {
  InfoReport report;
  report.add({"one", "first", true, [] { return std::string("  1\n"); }});
  report.add({"two", "second", true, [] { return std::string("  2\n"); }});
  report.add({"three", "third", false, [] { return std::string("  3\n"); }});
  std::string text;
  REQUIRE(report.print({}, text).ok());
  CHECK(text == "one\n  1\n\ntwo\n  2\n");
  REQUIRE(report.print({"three"}, text).ok());
  CHECK(text == "  3\n");
  REQUIRE(report.print({"three", "one"}, text).ok());
  CHECK(text == "one\n  1\n\nthree\n  3\n");
  CHECK(report.print({"four"}, text) == Code::not_found);
}

TEST_CASE("the settings report says where a value came from") {
  Settings settings;
  REQUIRE(settings.set("RING_MAX_BYTES", "8M").ok());
  const std::string text = settings_text(settings);
  const auto line_of = [&](const std::string& name) {
    const std::size_t start = text.find("  WEFT_" + name + " ");
    return text.substr(start, text.find('\n', start) - start);
  };
  CHECK(line_of("RING_MAX_BYTES").find("8M") != std::string::npos);
  CHECK(line_of("RING_MAX_BYTES").find("environment") != std::string::npos);
  CHECK(line_of("RING_MIN_BYTES").find("default") != std::string::npos);
  const std::size_t experts = text.find("  for experts");
  REQUIRE(experts != std::string::npos);
  for (const SettingRow& row : setting_rows()) {
    INFO(row.name);
    const std::size_t line = text.find("  WEFT_" + std::string(row.name) + " ");
    REQUIRE(line != std::string::npos);
    CHECK((line > experts) == (row.audience == Audience::expert));
  }
}

TEST_CASE("on a terminal the settings report has no line beyond its width, and says as much") {
  const Settings settings;
  const auto words = [](std::string text) {
    std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
    return text;
  };
  const std::string unbroken = settings_text(settings);
  for (const std::size_t width : {1, 60, 80, 100, 132, 300}) {
    INFO("width " << width);
    const std::string text = settings_text(settings, width);
    CHECK(words(text) == words(unbroken));
    if (width < 100) continue;  // the columns before the meaning
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      CHECK(line.size() <= width);
    }
  }
}

TEST_CASE("who is bound to one processor has a last cache, or the kernel tells of none") {
  std::thread([] {
    const int cpu = usable_cpus().front();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(cpu), &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    Topology topology;
    REQUIRE(Topology::read(topology).ok());
    const std::string cache = common_cache();
    REQUIRE_FALSE(cache.empty());
    if (cache != "?")
      CHECK(std::ranges::any_of(topology.caches(), [&](const Cache& each) {
        return std::ranges::find(each.cpus, cpu) != each.cpus.end();
      }));
  }).join();
}
