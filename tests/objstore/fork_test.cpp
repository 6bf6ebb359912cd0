// A child by fork: it harms nothing of its parent's, and every call says what to do.
#include <sys/wait.h>

#include <functional>

#include "fixture.hpp"
#include "weft/job.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

// The store is of another process than both, as in life: a forked server thread would be missing.
struct StoreProcess {
  explicit StoreProcess(std::uint64_t memory_bytes) {
    char made[] = "/tmp/weft-store-test-XXXXXX";
    REQUIRE(::mkdtemp(made) != nullptr);
    folder = made;
    pid = ::fork();
    if (pid == 0) {
      objstore::Server server;
      objstore::ServerSettings settings;
      settings.socket_path = socket();
      settings.objects.memory_bytes = memory_bytes;
      settings.objects.piece_bytes = 1 << 20;
      if (server.open(settings)) server.run();
      ::_exit(0);
    }
    REQUIRE(wait_until([&] { return ::access(socket().c_str(), F_OK) == 0; }));
  }
  ~StoreProcess() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    ::unlink(socket().c_str());
    ::rmdir(folder.c_str());
  }
  std::string socket() const { return folder + "/socket"; }
  std::string folder;
  pid_t pid = 0;
};

// 0: all of it was as it should be.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::_exit(body());
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

std::unique_ptr<ObjectStore> open(const std::string& socket) {
  std::unique_ptr<ObjectStore> store;
  REQUIRE(wait_until([&] {
    try {
      store = std::make_unique<ObjectStore>(ObjectStoreSettings{.socket = socket});
    } catch (const Error&) {
    }
    return store != nullptr;
  }));
  return store;
}

}  // namespace

TEST_CASE("a child by fork is refused, and changes nothing of its parent's") {
  StoreProcess process(8 << 20);
  std::unique_ptr<ObjectStore> store = open(process.socket());
  const auto contents = contents_of(id_of(1), 1 << 20);
  REQUIRE(store->put(id_of(1), contents));
  Object held;
  REQUIRE(store->get(id_of(1), held));
  ObjectBuffer buffer;
  REQUIRE(store->create(id_of(2), 1000, 0, buffer));
  std::fill(buffer.data().begin(), buffer.data().end(), std::byte{7});
  ObjectMemory memory;
  REQUIRE(store->allocate(1000, memory));
  const int failed = in_child([&] {
    const auto is_refused = [](const Status& status) {
      return status.code() == Code::bad_argument &&
             status.text().find("connect anew after fork") != std::string::npos;
    };
    Object object;
    ObjectBuffer other;
    ObjectMemory more;
    ObjectCall call;
    ObjectEntry event;
    std::vector<ObjectEntry> entries;
    std::vector<ObjectPush> pushes;
    std::vector<bool> is_here;
    std::string text;
    std::uint64_t whole = 0;
    const ObjectId id = id_of(1);
    int step = 0;
    for (const Status& status :
         {store->put(id_of(3), contents_of(id, 10)), store->put(id_of(3), contents),
          store->get(id, object), store->get(id, object, 1000),
          store->create(id_of(3), 10, 0, other), store->get_into(id, 0, {}, whole),
          store->allocate(10, more), store->erase(id), store->pin(id), store->push(id, {}, pushes),
          store->wait({&id, 1}, 1, 0, is_here), store->fetch({&id, 1}, 0), store->list(entries),
          store->status(text), store->subscribe(), store->put_async(id_of(3), {}, call),
          store->get_async(id, call, 0), store->wait(call)}) {
      ++step;
      if (!is_refused(status)) return step;
    }
    if (store->contains(id) || store->next_event(event, 0) || store->arm() || store->progress())
      return 100;
    if (!equal(held.data(), contents)) return 101;
    Object copy = held;
    copy.release();
    held.release();
    if (store->seal(buffer).ok()) return 102;
    memory = {};
    store.reset();
    ObjectStore mine({.socket = process.socket()});
    const bool is_well = mine.get(id, object).ok() && equal(object.data(), contents);
    object.release();
    return is_well ? 0 : 103;
  });
  CHECK(failed == 0);
  // The parent's reference holds: the object is deleted and the memory used for others.
  REQUIRE(store->erase(id_of(1)));
  for (std::uint64_t i = 10; i < 40; ++i)
    REQUIRE(store->put(id_of(i), contents_of(id_of(i), 1 << 20)));
  CHECK(equal(held.data(), contents));
  REQUIRE(store->seal(buffer));
  Object sealed;
  REQUIRE(store->get(id_of(2), sealed));
  CHECK(std::all_of(sealed.data().begin(), sealed.data().end(),
                    [](std::byte byte) { return byte == std::byte{7}; }));
}

TEST_CASE("what a process held goes with it, whatever children it leaves") {
  StoreProcess process(8 << 20);
  std::unique_ptr<ObjectStore> store = open(process.socket());
  REQUIRE(store->put(id_of(1), contents_of(id_of(1), 5 << 20)));
  int pipes[2];
  REQUIRE(::pipe(pipes) == 0);
  CHECK(in_child([&] {
          ObjectStore mine({.socket = process.socket()});
          Object held;
          if (!mine.get(id_of(1), held)) return 1;
          // It has the socket, and lives on.
          if (::fork() == 0) {
            ::alarm(60);
            char byte;
            ::close(pipes[1]);
            [[maybe_unused]] const ssize_t got = ::read(pipes[0], &byte, 1);
            ::_exit(0);
          }
          ::_exit(0);
        }) == 0);
  const Status status =
      store->put(id_of(2), contents_of(id_of(2), 5 << 20), {}, {.timeout_ms = 20000});
  INFO(status.text());
  CHECK(status.ok());
  ::close(pipes[0]);
  ::close(pipes[1]);
}
