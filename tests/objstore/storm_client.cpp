// One client of the storm (storm_test.py): storm_client SOCKET SEED. Does whatever comes to its
// mind until SIGTERM, also while its store is killed and started again, and looks at every byte
// that it gets. Ends with 1 at the first byte or answer that is wrong.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "weft/job.hpp"
#include "weft/object_store.hpp"

using namespace weft;

namespace {

constexpr std::uint32_t kNames = 120;
volatile sig_atomic_t is_over = 0;

ObjectId name_of(std::uint32_t number) {
  ObjectId id;
  // Some are longer than what an entry of the index has room for.
  const std::string tail(number % 3 == 0 ? 100 + number % 100 : 0, '.');
  ObjectId::make("storm-" + std::to_string(number) + tail, id);
  return id;
}
// Length and contents follow from the name: most are small, some span the threshold, some are
// large. The hosts agree without talking.
std::size_t bytes_of(const ObjectId& id) {
  const std::size_t hash = std::hash<ObjectId>()(id);
  switch (hash % 8) {
    case 0:
      return 0;
    case 1:
      return 32768 - 8 + hash / 8 % 16;
    case 2:
      return hash / 8 % (1 << 20);
    case 3:
      return hash / 8 % 3'000'000;
    default:
      return hash / 8 % 5000;
  }
}
void fill(const ObjectId& id, std::span<std::byte> data) {
  std::uint64_t state = std::hash<ObjectId>()(id);
  for (std::size_t i = 0; i < data.size(); i += 8) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(data.data() + i, &state, std::min<std::size_t>(8, data.size() - i));
  }
}

class Client {
 public:
  Client(std::string socket, std::uint64_t seed) : socket_(std::move(socket)), random_(seed) {}

  int run() {
    while (is_over == 0) {
      try {
        ObjectStore store({.socket = socket_, .name = "storm"});
        ++num_lives_;
        // Users of a store go before it does.
        std::vector<Object> held(8);
        is_lost_ = false;
        while (is_over == 0 && !is_lost_ && !is_wrong_) step(store, held);
      } catch (const Error& error) {
        // It is being started again.
        if (error.status().code() != Code::not_found && error.status().code() != Code::peer_lost &&
            error.status().code() != Code::timed_out)
          return fail(std::string("connecting: ") + error.what());
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      if (is_wrong_) return 1;
    }
    std::printf("%llu calls, %llu objects looked at, %llu lives of the store\n", num_calls_,
                num_seen_, num_lives_);
    return 0;
  }

 private:
  int fail(const std::string& what) {
    std::fprintf(stderr, "storm_client %d at %s: %s\n", ::getpid(), socket_.c_str(), what.c_str());
    is_wrong_ = true;
    return 1;
  }
  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(random_() % end); }
  ObjectId any_name() { return name_of(below(kNames)); }

  // True unless it failed in a way that a storm does not explain.
  bool well(const char* what, const Status& status) {
    ++num_calls_;
    switch (status.code()) {
      case Code::ok:
        return true;
      case Code::peer_lost:
        is_lost_ = true;
        return false;
      case Code::again:
      case Code::exists:
      case Code::not_found:
      case Code::timed_out:
      case Code::no_memory:
        return false;
      default:
        fail(std::string(what) + ": " + status.text());
        return false;
    }
  }
  void look(const ObjectId& id, const Object& object) {
    ++num_seen_;
    if (object.data().size() != bytes_of(id))
      return void(fail(id.text() + " has " + std::to_string(object.data().size()) + " bytes"));
    std::vector<std::byte> expected(object.data().size());
    fill(id, expected);
    if (!std::equal(expected.begin(), expected.end(), object.data().begin()))
      return void(fail(id.text() + " has other contents than were put"));
    if (object.metadata().size() != id.size ||
        std::memcmp(object.metadata().data(), id.bytes.data(), id.size) != 0)
      fail(id.text() + " has other metadata than were put");
  }

  void step(ObjectStore& store, std::vector<Object>& held) {
    const ObjectId id = any_name();
    const auto metadata = std::as_bytes(std::span(id.view()));
    ObjectOptions options;
    options.timeout_ms = below(50);
    if (below(20) == 0) options.ttl_ms = 1 + below(200);
    switch (below(16)) {
      case 0:
      case 1:
      case 2: {
        std::vector<std::byte> data(bytes_of(id));
        fill(id, data);
        well("put", store.put(id, data, metadata, options));
        break;
      }
      case 3:
      case 4: {  // created, written, and sealed or not
        ObjectBuffer buffer;
        if (!well("create", store.create(id, bytes_of(id), id.size, buffer, options))) break;
        fill(id, buffer.data());
        std::memcpy(buffer.metadata().data(), id.bytes.data(), id.size);
        const std::uint32_t end = below(8);
        if (end == 0) store.abort(buffer);
        if (end > 1) well("seal", store.seal(buffer));
        break;
      }
      case 5:
      case 6:
      case 7:
      case 8: {  // kept for a while
        Object& object = held[below(8)];
        object.release();
        if (well("get", store.get(id, object, below(4) == 0 ? below(60) : 0))) look(id, object);
        break;
      }
      case 9: {
        std::vector<ObjectId> ids;
        for (std::uint32_t i = 0; i < 1 + below(5); ++i) ids.push_back(any_name());
        std::vector<Object> objects(ids.size());
        well("get", store.get(ids, objects, below(30)));
        for (std::size_t i = 0; i < ids.size(); ++i)
          if (objects[i]) look(ids[i], objects[i]);
        break;
      }
      case 10: {
        std::vector<ObjectId> ids;
        for (std::uint32_t i = 0; i < 1 + below(20); ++i) ids.push_back(any_name());
        well("fetch", store.fetch(ids, below(40)));
        break;
      }
      case 11:
        well("erase", store.erase(id));
        break;
      case 12: {
        std::vector<bool> is_here;
        const std::vector<ObjectId> ids = {any_name(), any_name(), any_name()};
        well("wait", store.wait(ids, 1 + below(3), below(30), is_here, below(2) == 0));
        break;
      }
      case 13: {
        ObjectCall call;
        if (well("get_async", store.get_async(id, call, below(30)))) {
          well("get_async", store.wait(call));
          Object object;
          if (well("get", store.get(id, object))) look(id, object);
        }
        break;
      }
      case 14: {
        std::vector<ObjectEntry> entries;
        if (!well("list", store.list(entries))) break;
        for (const ObjectEntry& entry : entries)
          if (entry.data_bytes != bytes_of(entry.id)) fail(entry.id.text() + " is listed wrong");
        break;
      }
      default: {
        // Objects held by others are read again: nobody changes it under them.
        for (Object& object : held)
          if (object) {
            ObjectId its;
            const std::span<const std::byte> metadata = object.metadata();
            if (!ObjectId::make({reinterpret_cast<const char*>(metadata.data()), metadata.size()},
                                its))
              fail("an object has no id for its metadata");
            look(its, object);
          }
      }
    }
  }

  const std::string socket_;
  std::mt19937_64 random_;
  bool is_lost_ = false, is_wrong_ = false;
  unsigned long long num_calls_ = 0, num_seen_ = 0, num_lives_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: storm_client SOCKET SEED\n"), 2;
  struct sigaction end {};
  end.sa_handler = [](int) { is_over = 1; };
  ::sigaction(SIGTERM, &end, nullptr);
  return Client(argv[1], std::stoull(argv[2])).run();
}
