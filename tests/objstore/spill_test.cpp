// Objects that go to disk when memory is short, and come back.
#include <dirent.h>
#include <sys/stat.h>

#include <atomic>
#include <map>

#include "fixture.hpp"
#include "objstore/shared/checksum.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

constexpr std::size_t kBytes = 1 << 20;

std::string status_text(ObjectStore& store) {
  std::string json;
  REQUIRE(store.status(json));
  return json;
}

void put(ObjectStore& store, std::uint64_t number, std::size_t bytes,
         const ObjectOptions& options = {}) {
  const Status status = store.put(id_of(number), contents_of(id_of(number), bytes),
                                  contents_of(id_of(number), 7), options);
  INFO(status.text());
  REQUIRE(status.ok());
}

void check_content(ObjectStore& store, std::uint64_t number, std::size_t bytes,
                   std::int64_t timeout_ms = 0) {
  Object object;
  const Status status = store.get(id_of(number), object, timeout_ms);
  INFO(number << ": " << status.text());
  REQUIRE(status.ok());
  CHECK(equal(object.data(), contents_of(id_of(number), bytes)));
  CHECK(equal(object.metadata(), contents_of(id_of(number), 7)));
}

int num_files(const std::string& folder) {
  DIR* opened = ::opendir(folder.c_str());
  REQUIRE(opened != nullptr);
  int num = 0;
  while (const dirent* entry = ::readdir(opened)) num += entry->d_name[0] != '.';
  ::closedir(opened);
  return num;
}

}  // namespace

TEST_CASE("a checksum is CRC-32C, in one piece or several") {
  const std::string text = "123456789";
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  CHECK(objstore::crc32c(bytes, 9) == 0xe3069283u);
  const std::vector<std::byte> zeros(32);  // RFC 3720, B.4
  CHECK(objstore::crc32c(zeros.data(), 32) == 0x8a9136aau);
  const auto contents = contents_of(id_of(1), 1001);
  for (const std::size_t first : {0, 1, 8, 333, 1001})
    CHECK(objstore::crc32c(contents.data() + first, 1001 - first,
                           objstore::crc32c(contents.data(), first)) ==
          objstore::crc32c(contents.data(), 1001));
}

TEST_CASE("many times the memory is put, and all of it is got") {
  StoreFixture fixture(16 << 20, 0, true);
  ObjectStore store({.socket = fixture.socket()}), other({.socket = fixture.socket()});
  constexpr std::uint64_t kNum = 100;
  const auto size = [](std::uint64_t number) { return kBytes / 2 + number * 10'007; };
  for (std::uint64_t i = 0; i < kNum; ++i) put(store, i, size(i));
  CHECK(status_number(store, "evicted") == 0);
  CHECK(status_number(store, "objects") == kNum);
  std::vector<ObjectEntry> listed;
  REQUIRE(store.list(listed));
  CHECK(listed.size() == kNum);
  CHECK(std::count_if(listed.begin(), listed.end(),
                      [](const ObjectEntry& entry) { return entry.is_spilled; }) > 60);
  for (std::uint64_t i = 0; i < kNum; ++i) {
    CHECK(store.contains(id_of(i)));
    CHECK(store.put(id_of(i), {}) == Code::exists);
  }
  for (std::uint64_t i = 0; i < kNum; ++i) check_content(other, i * 37 % kNum, size(i * 37 % kNum));
  CHECK(status_number(store, "restored") > 60);
  CHECK(status_number(store, "unreadable") == 0);
  // A range of a spilled one, and waits that need not bring it back.
  std::vector<std::byte> into(1000);
  for (std::uint64_t i = 0; i < 3; ++i) {
    std::uint64_t whole = 0;
    REQUIRE(store.get_into(id_of(i), 500, into, whole));
    CHECK(
        equal(into, std::span<const std::byte>(contents_of(id_of(i), size(i))).subspan(500, 1000)));
  }
  std::vector<ObjectId> ids;
  for (std::uint64_t i = 0; i < kNum; ++i) ids.push_back(id_of(i));
  std::vector<bool> is_here;
  REQUIRE(store.wait(ids, kNum, 0, is_here));
  CHECK(std::count(is_here.begin(), is_here.end(), true) == kNum);
  // No file has a name, and the space of what is deleted is used again.
  CHECK(num_files(fixture.folder()) == 1);  // the socket
  const std::uint64_t file_bytes = status_number(store, "file_bytes");
  for (std::uint64_t i = 0; i < kNum; ++i) REQUIRE(store.erase(id_of(i)));
  CHECK_FALSE(store.contains(id_of(0)));
  Object object;
  CHECK(store.get(id_of(3), object) == Code::not_found);
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i < 50; ++i) put(store, i, kBytes);
    for (std::uint64_t i = 0; i < 50; ++i) REQUIRE(store.erase(id_of(i)));
  }
  CHECK(status_number(store, "file_bytes") <= file_bytes);
}

TEST_CASE("what is referenced or pinned stays in memory, and what is on disk has a life, too") {
  StoreFixture fixture(16 << 20, 0, true);
  ObjectStore store({.socket = fixture.socket()});
  put(store, 0, kBytes);
  put(store, 1, kBytes, {.is_pinned = true});
  Object held;
  REQUIRE(store.get(id_of(0), held));
  put(store, 2, kBytes, {.ttl_ms = 2000});
  for (std::uint64_t i = 100; i < 150; ++i) put(store, i, kBytes);
  CHECK(equal(held.data(), contents_of(id_of(0), kBytes)));
  std::vector<ObjectEntry> listed;
  REQUIRE(store.list(listed));
  for (const ObjectEntry& entry : listed)
    if (entry.id == id_of(0) || entry.id == id_of(1)) CHECK_FALSE(entry.is_spilled);
  // Pinned while it is on disk; it stays from when it is wanted.
  REQUIRE(store.pin(id_of(100)));
  check_content(store, 100, kBytes);
  held.release();
  for (std::uint64_t i = 200; i < 250; ++i) put(store, i, kBytes);
  REQUIRE(store.list(listed));
  for (const ObjectEntry& entry : listed)
    if (entry.id == id_of(100)) CHECK((entry.is_pinned && !entry.is_spilled));
  check_content(store, 0, kBytes);
  CHECK(wait_until([&] { return !store.contains(id_of(2)); }));
  CHECK(status_number(store, "expired") == 1);
}

TEST_CASE("a spill that is full is reported, and objects are evicted as without one") {
  StoreFixture fixture(16 << 20, 0, true, 8 << 20);
  ObjectStore store({.socket = fixture.socket()});
  for (std::uint64_t i = 0; i < 60; ++i) put(store, i, kBytes);
  CHECK(status_text(store).find("--spill-limit is reached") != std::string::npos);
  CHECK(status_number(store, "evicted") > 20);
  CHECK(status_number(store, "file_bytes") <= 8 << 20);
  std::uint64_t num_here = 0;
  for (std::uint64_t i = 0; i < 60; ++i) {
    Object object;
    if (!store.get(id_of(i), object)) continue;
    CHECK(equal(object.data(), contents_of(id_of(i), kBytes)));
    ++num_here;
  }
  CHECK(num_here >= 15);
  // When there is room again it goes on.
  for (std::uint64_t i = 0; i < 60; ++i)
    [[maybe_unused]] const Status status = store.erase(id_of(i));
  std::uint64_t number = 1000;
  for (int tries = 0; tries < 3000; ++tries) {
    for (int i = 0; i < 14; ++i) put(store, number + static_cast<std::uint64_t>(i), kBytes);
    for (int i = 0; i < 14; ++i)
      [[maybe_unused]] const Status status = store.erase(id_of(number++));
    if (status_text(store).find("--spill-limit") == std::string::npos) break;
  }
  CHECK(status_text(store).find("--spill-limit") == std::string::npos);
}

TEST_CASE("clients put, get and delete at once while all goes to disk and back") {
  StoreFixture fixture(16 << 20, 0, true);
  std::vector<std::thread> threads;
  std::atomic<int> num_wrong{0};
  std::atomic<int> num_got{0};
  for (std::uint64_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      ObjectStore store({.socket = fixture.socket()});
      std::mt19937_64 random(t);
      std::map<std::uint64_t, std::size_t> mine;
      for (int i = 0; i < 300; ++i) {
        const std::uint64_t number = t * 1000 + random() % 40;
        const auto found = mine.find(number);
        if (found == mine.end()) {
          const std::size_t bytes = random() % 1'500'000;
          if (!store.put(id_of(number), contents_of(id_of(number), bytes), {},
                         {.timeout_ms = 30000}))
            ++num_wrong;
          mine[number] = bytes;
        } else if (random() % 4 == 0) {
          if (!store.erase(id_of(number))) ++num_wrong;
          mine.erase(found);
        } else {
          Object object;
          if (!store.get(id_of(number), object, 30000) ||
              !equal(object.data(), contents_of(id_of(number), found->second)))
            ++num_wrong;
          ++num_got;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(num_wrong == 0);
  CHECK(num_got > 100);
  ObjectStore store({.socket = fixture.socket()});
  CHECK(status_number(store, "restored") > 0);
  CHECK(status_number(store, "evicted") == 0);
}

TEST_CASE("a folder that is none is refused") {
  objstore::Server server;
  objstore::ServerSettings settings;
  settings.socket_path = "/tmp/weft-store-test-none.sock";
  settings.objects.spill.folder = "/nonexistent/folder";
  const Status status = server.open(settings);
  CHECK(status == Code::not_found);
  CHECK(status.text().find("--spill /nonexistent/folder") != std::string::npos);
}
