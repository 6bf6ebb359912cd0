// The options of commands, as tools/cli reads them.
#include "tools/cli/cli.hpp"

#include <catch2/catch.hpp>

using namespace weft;

namespace {

struct Parsed {
  std::optional<int> status;
  std::string wrong;
};

Parsed parse(cli::Command& command, std::vector<std::string> words) {
  words.insert(words.begin(), "program");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  Parsed parsed;
  parsed.status = command.parse(static_cast<int>(pointers.size()), pointers.data(), parsed.wrong);
  return parsed;
}

enum class Shape { round, square };

struct Values {
  int count = 3;
  unsigned small = 0;
  std::uint64_t bytes = 0;
  double share = 0;
  Shape shape = Shape::round;
  std::vector<int> list;
  std::vector<std::string> again;
  std::string file;
  bool is_loud = false, is_bound = true;
};

// A command with an option of each kind.
void add(cli::Command& command, Values& values) {
  command.option("--count,-c", values.count, "how many").range(1, 10).shows_default();
  command.option("--small", values.small);
  command.option("--bytes", values.bytes).bytes();
  command.option("--share", values.share).not_negative();
  command.choice("--shape", values.shape, {{"round", Shape::round}, {"square", Shape::square}});
  command.option("--list", values.list).list();
  command.option("--again", values.again).repeated();
  command.option("FILE", values.file);
  command.flag("--loud", values.is_loud);
  command.flag("!--no-bind", values.is_bound);
}

}  // namespace

TEST_CASE("options are read in their kinds") {
  cli::Command command("test", "A test.");
  Values values;
  add(command, values);
  const Parsed parsed =
      parse(command, {"-c", "7", "--small", "4294967295", "--bytes=3GiB", "--share", "0.5",
                      "--shape", "square", "--list", "1,2", "--again", "a,b", "file", "--again",
                      "c", "--loud", "--no-bind"});
  CHECK(parsed.wrong.empty());
  CHECK_FALSE(parsed.status);
  CHECK(values.count == 7);
  CHECK(values.small == 4294967295u);
  CHECK(values.bytes == std::uint64_t{3} << 30);
  CHECK(values.share == 0.5);
  CHECK(values.shape == Shape::square);
  CHECK(values.list == std::vector<int>{1, 2});
  CHECK(values.again == std::vector<std::string>{"a,b", "c"});
  CHECK(values.file == "file");
  CHECK(values.is_loud);
  CHECK_FALSE(values.is_bound);
  CHECK(command.given() == std::set<std::string>{"--count", "--small", "--bytes", "--share",
                                                 "--shape", "--list", "--again", "FILE", "--loud",
                                                 "--no-bind"});
}

TEST_CASE("numbers are decimal") {
  cli::Command command("test", "A test.");
  Values values;
  add(command, values);
  const Parsed parsed = parse(command, {"--count", "010", "--small=0099", "--bytes", "010KiB",
                                        "--list", "010,-08,00", "--share", "00.5"});
  CHECK(parsed.wrong.empty());
  CHECK(values.count == 10);
  CHECK(values.small == 99);
  CHECK(values.bytes == 10240);
  CHECK(values.list == std::vector<int>{10, -8, 0});
  CHECK(values.share == 0.5);
}

TEST_CASE("a wrong value is named with what was expected") {
  const auto [words, text] = GENERATE(table<std::vector<std::string>, std::string>({
      {{"--count", "11"}, "--count: expected 1 to 10, found \"11\""},
      {{"--count", "many"}, "--count: expected 1 to 10, found \"many\""},
      {{"--small=-1"}, "--small: expected a number from 0, found \"-1\""},
      {{"--small", "4294967296"}, "4294967296"},
      {{"--small", "18446744073709551616"}, "expected a number from 0"},
      {{"--bytes", "-1"}, "-1"},
      {{"--bytes", "much"}, "much"},
      {{"--share", "nan"}, "expected a number from 0, found \"nan\""},
      {{"--share", "-0.1"}, "expected a number from 0, found \"-0.1\""},
      {{"--shape", "flat"}, "--shape: expected one of round, square, found \"flat\""},
      {{"--list", "1,x"}, "x"},
      {{"a", "b"}, "b is not expected here"},
      {{"--count"}, "--count"},
  }));
  cli::Command command("test", "A test.");
  Values values;
  add(command, values);
  const Parsed parsed = parse(command, words);
  CHECK(parsed.status == 2);
  INFO(parsed.wrong);
  CHECK(parsed.wrong.find(text) != std::string::npos);
}

TEST_CASE("what was probably meant is said") {
  const auto [word, meant] = GENERATE(table<std::string, std::string>({
      {"--cuont", "--count"},
      {"--Count=3", "--count"},
      {"--no_bind", "--no-bind"},
      {"--hlep", "--help"},
      {"--versoin", "--version"},
  }));
  cli::Command command("test", "A test.");
  Values values;
  add(command, values);
  const Parsed parsed = parse(command, {word});
  CHECK(parsed.status == 2);
  INFO(parsed.wrong);
  CHECK(parsed.wrong.find("did you mean " + meant + "?") != std::string::npos);
  // Nothing is near.
  CHECK(parse(command, {"--zzzzzz"}).wrong.find("did you mean") == std::string::npos);
}

TEST_CASE("commands of a command") {
  cli::Command command("test", "A test.");
  command.requires_command();
  cli::Command& put = command.command("put", "puts");
  cli::Command& get = command.command("get", "gets");
  int times = 0;
  put.option("--times", times);
  SECTION("the one that is given") {
    CHECK_FALSE(parse(command, {"put", "--times", "2"}).status);
    CHECK(times == 2);
    CHECK(put);
    CHECK_FALSE(get);
    CHECK(command.chosen() == &put);
    CHECK(put.name() == "test put");
    CHECK(put.word() == "put");
  }
  SECTION("none") {
    const Parsed parsed = parse(command, {});
    CHECK(parsed.status == 2);
    CHECK(parsed.wrong == "a command is missing: put, get");
    CHECK(command.chosen() == nullptr);
  }
  SECTION("a misspelt one") {
    const Parsed parsed = parse(command, {"putt"});
    CHECK(parsed.status == 2);
    CHECK(parsed.wrong == "putt is no command; did you mean put?");
  }
  SECTION("a misspelt option of one") {
    CHECK(parse(command, {"put", "--time", "1"}).wrong ==
          "--time is not an option; did you mean --times?");
  }
}

TEST_CASE("words for another program are left as they are") {
  cli::Command command("test", "A test.");
  std::string out;
  command.option("--out", out);
  command.passes_rest();
  CHECK_FALSE(parse(command, {"--out", "x", "program", "--out", "y"}).status);
  CHECK(out == "x");
  CHECK(command.rest() == std::vector<std::string>{"program", "--out", "y"});
  CHECK_FALSE(parse(command, {"--out", "z", "--", "-program", "--", "--out"}).status);
  CHECK(out == "z");
  CHECK(command.rest() == std::vector<std::string>{"-program", "--", "--out"});
  CHECK(parse(command, {"--outt", "x", "program"}).wrong ==
        "--outt is not an option; did you mean --out?");
}
