#pragma once
// Stores of several hosts, which are stores of one process.
#include <thread>

#include "fixture.hpp"
#include "objstore/manager/manager.hpp"

namespace weft::testing {

struct Host {
  // Listens; connects to `others`.
  explicit Host(std::vector<std::string> others = {}, std::uint64_t threshold = 32 << 10,
                std::uint64_t memory = 64 << 20, std::uint32_t lease_ms = 20000,
                bool spills = false, bool verifies = false, bool registers_objects = false)
      : store(memory, 0, spills) {
    settings.verifies = verifies;
    settings.registers_objects = registers_objects;
    settings.listen = {"unix:" + address()};
    settings.peers = std::move(others);
    settings.name = "host";
    settings.threshold_bytes = threshold;
    settings.lease_ms = lease_ms;
    start();
  }
  ~Host() {
    stop();
    ::unlink(address().c_str());
  }
  void start() {
    manager = std::make_unique<objstore::Manager>(store.server, settings);
    const Status status = manager->open();
    INFO(status.text());
    REQUIRE(status.ok());
    thread = std::thread([this] { manager->run(); });
  }
  void stop() {
    if (manager == nullptr) return;
    manager->stop();
    thread.join();
    manager.reset();
  }
  std::string address() const { return store.socket() + ".node"; }
  std::string peer() const { return "unix:" + address(); }

  StoreFixture store;
  objstore::ManagerSettings settings;
  std::unique_ptr<objstore::Manager> manager;
  std::thread thread;
};

inline constexpr std::int64_t kWaitMs = 30000;

inline void check_fetched(ObjectStore& to, const ObjectId& id, std::size_t bytes) {
  Object object;
  const Status status = to.get(id, object, kWaitMs);
  INFO(status.text() << ", " << bytes << " bytes");
  REQUIRE(status.ok());
  CHECK(equal(object.data(), contents_of(id, bytes)));
}

inline void wait_for_peers(ObjectStore& store, std::size_t num) {
  for (int i = 0; i < 30000; ++i) {
    std::string json;
    REQUIRE(store.status(json));
    std::size_t found = 0;
    for (auto at = json.find("\"fabric\""); at != std::string::npos;
         at = json.find("\"fabric\"", at + 1))
      ++found;
    if (found == num) return;
    ::usleep(1000);
  }
  FAIL("the stores did not meet");
}

}  // namespace weft::testing
