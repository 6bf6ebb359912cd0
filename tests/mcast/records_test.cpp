// What a receiver of weft-copy takes, and what it refuses.
#include "mcast/copy/records.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "mcast/copy/hosts.hpp"

using namespace weft::copy;

TEST_CASE("paths that lead out of a folder are refused") {
  for (const char* path : {"a", "a/b", "...", "..a/b..", "a b/\n\xff", ".hidden"})
    CHECK(is_safe_path(path));
  for (const char* path :
       {"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/../b", "./a", "a/.", "a/./b"})
    CHECK_FALSE(is_safe_path(path));
  CHECK_FALSE(is_safe_path(std::string_view("a\0b", 3)));
  CHECK_FALSE(is_safe_path(std::string(5000, 'a')));
}

TEST_CASE("entries come back as they were; shortened or changed ones do no harm") {
  Entry entry;
  entry.kind = EntryKind::file;
  entry.path = "folder/file \xff";
  entry.mode = 04755;
  entry.uid = 7;
  entry.mtime_s = -5;
  entry.mtime_ns = 999'999'999;
  entry.size = 1ull << 40;
  entry.xattrs = {{"user.a", std::string("\0b", 2)}, {"user.empty", ""}};
  std::vector<std::byte> bytes(4096);
  Writer writer(bytes);
  encode(entry, writer);
  REQUIRE(writer.size() <= encoded_bytes(entry));
  bytes.resize(writer.size());
  Entry back;
  Reader reader(bytes);
  REQUIRE(decode(reader, back));
  CHECK(reader.is_empty());
  CHECK(back.path == entry.path);
  CHECK(back.mode == entry.mode);
  CHECK(back.mtime_s == entry.mtime_s);
  CHECK(back.size == entry.size);
  CHECK(back.xattrs == entry.xattrs);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const std::vector<std::byte> part(bytes.begin(),
                                      bytes.begin() + static_cast<std::ptrdiff_t>(length));
    Reader shortened(part);
    Entry none;
    CHECK_FALSE(decode(shortened, none));
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    auto changed = bytes;
    for (int k = 0; k < 3; ++k)
      changed[random() % changed.size()] = static_cast<std::byte>(random());
    Reader other(changed);
    Entry taken;
    if (decode(other, taken)) CHECK(is_safe_path(taken.path));
  }
}

TEST_CASE("lines carry any bytes, and ranges come back") {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  const std::string quoted = quote(all);
  CHECK(quoted.find_first_of(" \n") == std::string::npos);
  std::string back;
  REQUIRE(unquote(quoted, back));
  CHECK(back == all);
  for (const char* wrong : {"%", "%4", "%zz", "a%1"}) CHECK_FALSE(unquote(wrong, back));
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    std::vector<bool> marks(random() % 50), again(marks.size());
    for (std::size_t k = 0; k < marks.size(); ++k) marks[k] = random() % 3 != 0;
    REQUIRE(from_ranges(to_ranges(marks), again));
    CHECK(again == marks);
  }
  std::vector<bool> ten(10);
  for (const char* wrong : {"10", "3-2", "x", "1-", "-1", "1-20", "1;2"})
    CHECK_FALSE(from_ranges(wrong, ten));
}

TEST_CASE("lists of hosts are those of Slurm; what makes no sense is refused") {
  const auto expanded = [](const char* text) {
    std::vector<std::string> hosts;
    if (!expand_hosts(text, hosts)) return std::vector<std::string>{"refused"};
    return hosts;
  };
  using List = std::vector<std::string>;
  CHECK(expanded("") == List{});
  CHECK(expanded("a,,b:/x") == List{"a", "b:/x"});
  CHECK(expanded("n[08-10,3]:/d") == List{"n08:/d", "n09:/d", "n10:/d", "n3:/d"});
  CHECK(expanded("r[1-2]n[0-1],z") == List{"r1n0", "r1n1", "r2n0", "r2n1", "z"});
  for (const char* text : {"a[", "a]", "a[1", "a[[1]]", "a[]", "a[x]", "a[2-1]", "a[1-]", "a[-1]",
                           "a[1-2-3]", "a[1-999999]", "a[99999999999999999999]", "a[1 ]"})
    CHECK(expanded(text) == List{"refused"});
}

TEST_CASE("the secret of a transfer depends on both of its parts") {
  const std::string one = derived_secret("s", "1");
  CHECK(one.size() == 64);
  CHECK(one == derived_secret("s", "1"));
  CHECK(one != derived_secret("s", "2"));
  CHECK(one != derived_secret("t", "1"));
  CHECK(one != derived_secret("", "s1"));
  CHECK(derived_secret(std::string(1000, 'a'), "1") != derived_secret(std::string(1001, 'a'), "1"));
}

TEST_CASE("digests of blocks survive their lines; what makes no sense is refused") {
  std::mt19937_64 random(2);
  std::vector<BlockDigest> digests;
  for (std::size_t i = 0; i < 20; ++i) {
    std::vector<std::byte> block(random() % 5000);
    for (std::byte& byte : block) byte = static_cast<std::byte>(random());
    digests.push_back(block_digest(block));
    std::vector<BlockDigest> again;
    REQUIRE(from_hex(to_hex(digests), again));
    CHECK(again == digests);
    // A line's digests are those after what is there.
    REQUIRE(from_hex(to_hex(digests[0]), again));
    CHECK(again.size() == digests.size() + 1);
  }
  const std::string one = to_hex(digests[0]);
  for (const std::string& wrong :
       {std::string(), one.substr(1), one + "0", one + ",", one + "," + one.substr(2), one + one,
        "," + one, "g" + one.substr(1)}) {
    std::vector<BlockDigest> read;
    INFO(wrong);
    CHECK_FALSE(from_hex(wrong, read));
  }
}
