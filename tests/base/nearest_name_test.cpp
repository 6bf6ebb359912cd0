#include "base/nearest_name.hpp"

#include <catch2/catch.hpp>

#include "base/settings.hpp"

using namespace weft;

TEST_CASE("the setting that a misspelt name stands for") {
  std::vector<std::string> names;
  for (const SettingRow& row : setting_rows()) names.emplace_back(row.name);
  const auto [word, meant] = GENERATE(table<std::string, std::string>({
      {"EAGR", "EAGER_MAX_BYTES"},
      {"SPIN", "SPIN_US"},
      {"SPIM_US", "SPIN_US"},
      {"fabrics", "FABRIC"},
      {"FABRIC_", "FABRIC"},
      {"PEER_TIMEOUT", "PEER_TIMEOUT_MS"},
      {"RING_MINBYTES", "RING_MIN_BYTES"},
  }));
  CHECK(nearest_name(word, names) == meant);
}

TEST_CASE("nothing is near") {
  CHECK(nearest_name("", {"np", "hosts"}) == std::nullopt);
  CHECK(nearest_name("x", {"np", "hosts"}) == std::nullopt);
  CHECK(nearest_name("quite-another", {"np", "hosts"}) == std::nullopt);
  CHECK(nearest_name("hosts", {}) == std::nullopt);
}

TEST_CASE("options of launchers") {
  const std::vector<std::string> names = {"np", "tag-output", "hostfile", "hosts", "timeout"};
  CHECK(nearest_name("np4", names) == "np");
  CHECK(nearest_name("--tagoutput", names) == "tag-output");
  CHECK(nearest_name("host-file", names) == "hostfile");
  CHECK(nearest_name("time", names) == "timeout");
}
