// What a receiver of weft-copy takes, and what it refuses.
#include "mcast/copy/records.hpp"

#include <catch2/catch.hpp>
#include <random>

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
