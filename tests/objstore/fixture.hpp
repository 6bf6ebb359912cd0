#pragma once
// A store that serves on a thread of the test, at a socket of its own.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "objstore/store/server.hpp"
#include "weft/object_store.hpp"

namespace weft::testing {

struct StoreFixture {
  explicit StoreFixture(std::uint64_t memory_bytes = 64 << 20, std::uint64_t quota_bytes = 0,
                        bool spills = false, std::uint64_t spill_limit_bytes = 0) {
    char folder[] = "/tmp/weft-store-test-XXXXXX";
    REQUIRE(::mkdtemp(folder) != nullptr);
    folder_ = folder;
    objstore::ServerSettings settings;
    settings.socket_path = socket();
    settings.objects.memory_bytes = memory_bytes;
    settings.objects.piece_bytes = 4 << 20;
    settings.quota_bytes = quota_bytes;
    if (spills) settings.objects.spill.folder = folder_;
    settings.objects.spill.limit_bytes = spill_limit_bytes;
    const Status status = server.open(settings);
    INFO(status.text());
    REQUIRE(status.ok());
    thread_ = std::thread([this] { server.run(); });
  }
  ~StoreFixture() {
    server.stop();
    thread_.join();
    ::unlink(socket().c_str());
    ::rmdir(folder_.c_str());
  }
  std::string socket() const { return folder_ + "/socket"; }
  const std::string& folder() const { return folder_; }

  objstore::Server server;

 private:
  std::string folder_;
  std::thread thread_;
};

// A number of the store's status.
inline std::uint64_t status_number(ObjectStore& store, const std::string& key) {
  std::string json;
  REQUIRE(store.status(json));
  const auto at = json.find("\"" + key + "\":");
  REQUIRE(at != std::string::npos);
  return std::stoull(json.substr(at + key.size() + 3));
}

// Looks every millisecond. False: it has not come about in so many seconds.
template <class Done>
bool wait_until(Done&& done, int seconds = 30) {
  for (int tries = 0; tries < seconds * 1000; ++tries) {
    if (done()) return true;
    ::usleep(1000);
  }
  return false;
}

inline ObjectId id_of(std::uint64_t number) {
  ObjectId id;
  ObjectId::parse("object-" + std::to_string(number), id);
  return id;
}

// Contents that only this id and length have.
inline std::vector<std::byte> contents_of(const ObjectId& id, std::size_t bytes) {
  std::vector<std::byte> contents(bytes);
  std::uint64_t state = std::hash<ObjectId>()(id) ^ bytes * 0x9e3779b97f4a7c15u;
  for (std::size_t i = 0; i < bytes; ++i) {
    if (i % 8 == 0) state = state * 6364136223846793005u + 1442695040888963407u;
    contents[i] = static_cast<std::byte>(state >> 8 * (i % 8));
  }
  return contents;
}

inline bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace weft::testing
