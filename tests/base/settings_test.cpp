// Settings: every row is well formed, values are read as written, mistakes are named.
#include "base/settings.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <tuple>
#include <vector>

using namespace weft;

namespace {

Status from(std::vector<std::string> variables, Settings& settings) {
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  return Settings::from_environment(environment.data(), settings);
}

}  // namespace

TEST_CASE("every default is a valid value, every name is unique and every row explained") {
  Settings settings;
  std::set<std::string_view> names;
  for (const SettingRow& row : setting_rows()) {
    INFO(row.name);
    Settings copy;
    const Status status = copy.set(row.name, row.default_value);
    INFO(status.text());
    CHECK(status.ok());
    CHECK(copy.number(row.id) == settings.number(row.id));
    CHECK(copy.text(row.id) == settings.text(row.id));
    CHECK(settings.is_default(row.id));
    CHECK_FALSE(copy.is_default(row.id));
    CHECK(names.insert(row.name).second);
    CHECK(row.name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
          std::string_view::npos);
    CHECK_FALSE(row.meaning.empty());
    if (row.unit == Unit::choice) CHECK(row.meaning.find(':') != std::string_view::npos);
  }
  CHECK(static_cast<int>(names.size()) == kNumSettings);
}

TEST_CASE("a file has settings, and the environment's count more") {
  char path[] = "/tmp/weft-settings-XXXXXX";
  const int descriptor = ::mkstemp(path);
  REQUIRE(descriptor >= 0);
  ::close(descriptor);
  const std::string variable = std::string("WEFT_SETTINGS_FILE=") + path;
  const auto write = [&](const std::string& text) { std::ofstream(path) << text; };
  const auto error_of = [&](const std::string& text) {
    write(text);
    Settings settings;
    const Status status = from({variable}, settings);
    CHECK(status.code() == Code::bad_setting);
    return status.text();
  };

  CHECK(error_of("WEFT_LOG = info\n").find(":1: ") != std::string::npos);
  write(
      "# of the cluster\n\n  WEFT_LOG=info\r\nexport WEFT_COLL_ALGORITHMS='bcast=chain'\n"
      "WEFT_RING_MIN_BYTES=\"128K\"\nWEFT_RING_MAX_BYTES=4M");
  Settings settings;
  const Status status = from({variable, "WEFT_RING_MIN_BYTES=256K"}, settings);
  INFO(status.text());
  REQUIRE(status.ok());
  CHECK(settings.number(Setting::log) == 2);
  CHECK(settings.text(Setting::coll_algorithms) == "bcast=chain");
  CHECK(settings.bytes(Setting::ring_min_bytes) == 256u << 10);
  CHECK(settings.bytes(Setting::ring_max_bytes) == 4u << 20);
  CHECK(settings.origin(Setting::ring_min_bytes) == Settings::Origin::environment);
  CHECK(settings.origin(Setting::ring_max_bytes) == Settings::Origin::file);
  CHECK(settings.origin(Setting::spin_us) == Settings::Origin::built_in);

  CHECK(error_of("\nWEFT_LGO=info\n").find(":2: WEFT_LGO is not a setting") != std::string::npos);
  CHECK(error_of("WEFT_LOG=loud").find("it must be one of") != std::string::npos);
  CHECK(error_of("PATH=/bin").find("'PATH=/bin'") != std::string::npos);
  CHECK(error_of("WEFT_LOG").find("no line WEFT_NAME=value") != std::string::npos);
  CHECK(error_of("WEFT_SETTINGS_FILE=/other").find("names no other") != std::string::npos);
  ::unlink(path);
  CHECK(from({variable}, settings).text().find("No such file") != std::string::npos);
  CHECK(from({"WEFT_SETTINGS_FILE=/"}, settings).code() == Code::bad_setting);
}

TEST_CASE("values are read in their units") {
  Settings settings;
  REQUIRE(from({"HOME=/", "WEFT_RING_MIN_BYTES=128K", "WEFT_RING_MAX_BYTES=3m",
                "WEFT_DIRECT_COPY=no", "WEFT_LOG=debug", "WEFT_START_TIMEOUT_MS=70", "WEFTLESS=1"},
               settings)
              .ok());
  CHECK(settings.bytes(Setting::ring_min_bytes) == 128u << 10);
  CHECK(settings.bytes(Setting::ring_max_bytes) == 3u << 20);
  CHECK_FALSE(settings.flag(Setting::direct_copy));
  CHECK_FALSE(settings.is_default(Setting::direct_copy));
  CHECK(settings.number(Setting::log) == 3);
  CHECK(settings.text(Setting::log) == "debug");
  CHECK(settings.number(Setting::start_timeout_ms) == 70);
  CHECK(settings.is_default(Setting::spin_us));
}

TEST_CASE("variables of launchers are not settings, but no mistake") {
  Settings settings;
  CHECK(from({"WEFT_RANK=1", "WEFT_SIZE=2", "WEFT_RENDEZVOUS=a:1", "WEFT_JOB_KEY=x",
              "WEFT_LAUNCHER=weftrun"},
             settings)
            .ok());
}

TEST_CASE("a bad value names the variable, the value and what would be right") {
  const char* value = GENERATE(
      "WEFT_RING_MIN_BYTES=12Q", "WEFT_RING_MIN_BYTES=-1",
      "WEFT_RING_MIN_BYTES=", "WEFT_RING_MIN_BYTES=64KB",
      "WEFT_RING_MIN_BYTES=9223372036854775807K", "WEFT_RING_MIN_BYTES=99999999999999999999",
      "WEFT_DIRECT_COPY=2", "WEFT_DIRECT_COPY=", "WEFT_LOG=loud", "WEFT_LOG=error|warn",
      "WEFT_LOG=", "WEFT_SPIN_US=1K", "WEFT_SPIN_US=1.5", "WEFT_START_TIMEOUT_MS= 5");
  Settings settings;
  const Status status = from({value}, settings);
  INFO(status.text());
  CHECK(status == Code::bad_setting);
  CHECK(status.text().find(value) == 0);
  CHECK(status.text().find("must be") != std::string::npos);
  CHECK(settings.is_default(Setting::log));
}

TEST_CASE("lengths are a choice or two numbers of bytes") {
  for (const char* good : {"auto", "force", "8-4K", "1-1", "0-1M"}) {
    Settings settings;
    REQUIRE(settings.set("OFFLOAD_WHEN", good).ok());
    CHECK(settings.text(Setting::offload_when) == good);
  }
  const auto lengths = lengths_of("8-4K");
  REQUIRE(lengths.has_value());
  CHECK(lengths->min == 8);
  CHECK(lengths->max == 4096);
  CHECK_FALSE(lengths_of("auto").has_value());
  for (const char* bad : {"", "8", "8-", "-8", "9-8", "1-2-3", "a-b", "never"}) {
    Settings settings;
    const Status status = settings.set("OFFLOAD_WHEN", bad);
    CHECK_FALSE(status.ok());
    CHECK_THAT(status.text(), Catch::Contains("one of auto|force, or two numbers of bytes"));
  }
}

TEST_CASE("a bad choice names the choices") {
  Settings settings;
  CHECK(settings.set("LOG", "x").text().find("error|warn|info|debug") != std::string::npos);
}

TEST_CASE("picks are names with one of their choices each") {
  Settings settings;
  const auto pick = [&](std::string_view name) {
    return pick_of(settings.text(Setting::coll_algorithms), name);
  };
  CHECK(pick("bcast") == "");
  REQUIRE(settings.set("COLL_ALGORITHMS", "bcast=chain,scan=shm,bcast=binomial").ok());
  CHECK(pick("bcast") == "binomial");
  CHECK(pick("scan") == "shm");
  CHECK(pick("cast") == "");
  REQUIRE(settings.set("COLL_ALGORITHMS", "bcast=chain@8:16K+shm@9+binomial:4+chain").ok());
  std::vector<std::tuple<std::string, std::int64_t, std::int64_t>> found;
  CHECK(for_each_pick(pick("bcast"), [&](const Pick& one) {
    found.emplace_back(one.name, one.max_members, one.max_bytes);
    return true;
  }));
  CHECK(found == std::vector<std::tuple<std::string, std::int64_t, std::int64_t>>{
                     {"chain", 8, 16384},
                     {"shm", 9, Pick::kAny},
                     {"binomial", Pick::kAny, 4},
                     {"chain", Pick::kAny, Pick::kAny}});
  REQUIRE(settings.set("COLL_ALGORITHMS", "bcast=chain,reproducible").ok());
  CHECK(pick("bcast") == "chain");
  CHECK(pick("reproducible") == "");
  REQUIRE(settings.set("COLL_ALGORITHMS", "").ok());
  for (const char* bad : {"bcast=chain+",
                          "bcast=+chain",
                          "bcast=chain:",
                          "bcast=chain@",
                          "bcast=chain:x",
                          "bcast=chain:8@8",
                          "bcast=chain@8K",
                          "bcast=chain:-1",
                          "bcast=chain+bruck",
                          "bcast",
                          "bcast=",
                          "bcast=bruck",
                          "=shm",
                          "cast=shm",
                          "bcast=chain;scan=shm",
                          ",",
                          "producible",
                          "reproducible=1",
                          "reproducible=",
                          "bcast=chain,,scan=shm"}) {
    INFO(bad);
    const Status status = settings.set("COLL_ALGORITHMS", bad);
    CHECK(status == Code::bad_setting);
    CHECK(status.text().find("alltoall=shm|two_level|bruck|pairwise") != std::string::npos);
  }
}

TEST_CASE("an unknown setting names the nearest one") {
  Settings settings;
  const Status status = from({"WEFT_RING_MINBYTES=1"}, settings);
  CHECK(status == Code::bad_setting);
  CHECK(status.text().find("WEFT_RING_MINBYTES is not a setting") != std::string::npos);
  CHECK(status.text().find("WEFT_RING_MIN_BYTES") != std::string::npos);
  CHECK(from({"WEFT_=1"}, settings) == Code::bad_setting);
}
