// Descriptions: every file of the folder makes sense and names its source, and nonsense is told.
#include "tests/devices/description.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

using namespace weft::devices;

TEST_CASE("every description can be read, and names its source") {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(WEFT_DESCRIPTIONS)) {
    INFO(entry.path());
    std::ifstream file(entry.path());
    const std::string text(std::istreambuf_iterator<char>(file), {});
    CHECK_NOTHROW(parse(text));
    CHECK(text.find("\nsource ") != std::string::npos);
    ++count;
  }
  CHECK(count >= 10);
}

TEST_CASE("a description is what it says") {
  const Description described = parse(
      "name mlx5_0  # and more\n"
      "max_qp 0x40\n\n"
      "atomic_cap none\n"
      "gids v1:link_local v2:192.0.2.7 v2:2\n"
      "port_state init 300 active\n"
      "fails ibv_reg_mr EAGAIN 2 1\n"
      "completion 5 RETRY_EXC_ERR\n"
      "holds_posts 2\n");
  CHECK(described.name == "mlx5_0");
  CHECK(described.limit("max_qp", 1000) == 64);
  CHECK(described.limit("max_qp", 10) == 10);
  CHECK(described.limit("max_mr", 10) == 10);
  CHECK(described.atomics == IBV_ATOMIC_NONE);
  REQUIRE(described.gids.size() == 4);
  CHECK(described.gids[0].type == IBV_GID_TYPE_ROCE_V1);
  CHECK(described.gids[1].literal.raw[15] == 7);
  REQUIRE(described.port_states.size() == 2);
  CHECK(described.port_states[1].first == 300);
  CHECK(described.failures.at("ibv_reg_mr").error == EAGAIN);
  CHECK(described.completions.at(5) == IBV_WC_RETRY_EXC_ERR);
  CHECK(described.holds_posts == 2);
}

TEST_CASE("nonsense in a description is told with its line") {
  for (const char* wrong : {"max_pq 3", "max_qp", "max_qp three", "max_qp -1", "gids v3:ipv4",
                            "fails ibv_reg_mr EWHAT", "atomic_cap some", "reorders now"}) {
    INFO(wrong);
    CHECK_THROWS_WITH(parse(wrong), Catch::Contains(wrong));
  }
  CHECK_THROWS_AS(load("/nowhere"), std::runtime_error);
}
