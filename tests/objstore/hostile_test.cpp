// Clients that break the rules, or end at the worst moment: only they are harmed.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cstring>
#include <thread>

#include "fixture.hpp"

using namespace weft;
using namespace weft::objstore;
using namespace weft::testing;

namespace {

// A client without a library: what it sends is up to the test.
struct RawClient {
  explicit RawClient(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    socket = Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    const timeval limit{20, 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  void meet() {
    Hello hello{};
    hello.magic = kHelloMagic;
    hello.layout_version = kLayoutVersion;
    REQUIRE(::send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello);
    Welcome welcome{};
    iovec part{&welcome, sizeof welcome};
    alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int) * kWelcomeDescriptors)];
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = space;
    header.msg_controllen = sizeof space;
    REQUIRE(::recvmsg(socket.get(), &header, MSG_CMSG_CLOEXEC) == sizeof welcome);
    REQUIRE(welcome.code == 0);
    int fds[kWelcomeDescriptors];
    std::memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof fds);
    for (std::size_t i = 0; i < files.size(); ++i) files[i] = Descriptor(fds[i]);
    REQUIRE(memory.map(files[2], sizeof(Control), true));
    REQUIRE(extent.map(files[5], welcome.extent_bytes, true));
    capacity = welcome.segment_capacity;
  }
  Control& control() { return *reinterpret_cast<Control*>(memory.data()); }
  void submit(const Request& request) {
    control().requests[submitted % kCalls] = request;
    control().submitted.store(++submitted, std::memory_order_seq_cst);
    const std::uint64_t one = 1;
    REQUIRE(::write(files[3].get(), &one, sizeof one) == sizeof one);
  }
  // The completion of what was submitted last; false: it disconnects instead.
  bool answer(Completion& completion) {
    while (control().completed.load(std::memory_order_acquire) != submitted) {
      if (is_gone()) return false;
      ::usleep(100);
    }
    completion = control().completions[(submitted - 1) % kCalls];
    return true;
  }
  bool is_gone() {
    char byte;
    return ::recv(socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  }
  bool goes_within(int seconds) {
    for (int i = 0; i < seconds * 1000; ++i) {
      if (is_gone()) return true;
      ::usleep(1000);
    }
    return false;
  }

  Descriptor socket;
  std::array<Descriptor, kWelcomeDescriptors> files;
  Mapping memory, extent;
  std::uint64_t capacity = 0;
  std::uint32_t submitted = 0;
};

void check_serves(StoreFixture& fixture, std::uint64_t number) {
  ObjectStore store({.socket = fixture.socket()});
  const ObjectId id = id_of(number);
  REQUIRE(store.put(id, contents_of(id, 10000)));
  Object object;
  REQUIRE(store.get(id, object));
  CHECK(equal(object.data(), contents_of(id, 10000)));
}

std::size_t num_descriptors() {
  std::size_t num = 0;
  for (int fd = 0; fd < 4096; ++fd) num += ::fcntl(fd, F_GETFD) != -1;
  return num;
}

}  // namespace

TEST_CASE("a sealed object is changed by nobody") {
  StoreFixture fixture;
  ObjectStore store({.socket = fixture.socket()});
  RawClient hostile(fixture.socket());
  hostile.meet();
  const ObjectId id = id_of(1);
  const auto contents = contents_of(id, 10000);
  // Its own object, whose extent it goes on writing to after the seal.
  std::memcpy(hostile.extent.data(), contents.data(), contents.size());
  Request request{};
  request.op = Op::put;
  request.id = id;
  request.data_bytes = contents.size();
  hostile.submit(request);
  Completion completion;
  REQUIRE(hostile.answer(completion));
  REQUIRE(completion.code == 0);
  Object object;
  REQUIRE(store.get(id, object));
  std::memset(hostile.extent.data(), 0xee, contents.size());
  CHECK(equal(object.data(), contents));
  // Neither segment nor index can be written: not by mapping, nor through the descriptor, nor by
  // opening it anew, nor by changing a mapping's rights.
  for (const int which : {0, 1}) {
    const int fd = hostile.files[static_cast<std::size_t>(which)].get();
    CHECK(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    CHECK(::pwrite(fd, "x", 1, 0) == -1);
    CHECK(::ftruncate(fd, 0) == -1);
    CHECK(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == -1);
    void* read_only = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
    REQUIRE(read_only != MAP_FAILED);
    CHECK(::mprotect(read_only, 4096, PROT_READ | PROT_WRITE) == -1);
    ::munmap(read_only, 4096);
    const Descriptor again(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR));
    if (again) {
      CHECK(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again.get(), 0) ==
            MAP_FAILED);
      CHECK(::pwrite(again.get(), "x", 1, 0) == -1);
    }
  }
  // What the store reads of it, it can't shorten.
  CHECK(::ftruncate(hostile.files[2].get(), 0) == -1);
  CHECK(::ftruncate(hostile.files[5].get(), 0) == -1);
  CHECK(equal(object.data(), contents));
}

TEST_CASE("calls that make no sense are refused one by one") {
  StoreFixture fixture;
  RawClient client(fixture.socket());
  client.meet();
  ObjectStore honest({.socket = fixture.socket()});
  ObjectBuffer theirs;
  REQUIRE(honest.create(id_of(50), 1000, 0, theirs));
  const auto code_of = [&](const Request& request) {
    client.submit(request);
    Completion completion{};
    REQUIRE(client.answer(completion));
    return static_cast<Code>(completion.code);
  };
  Request request{};
  request.op = Op::create;
  request.id = id_of(1);
  request.data_bytes = 1000;
  REQUIRE(code_of(request) == Code::ok);
  SECTION("lengths and places") {
    request.op = Op::put;
    request.id = id_of(2);
    for (const std::uint64_t far :
         {(std::uint64_t{1} << 20) + 1, UINT64_MAX, UINT64_MAX - 100, std::uint64_t{1} << 63}) {
      Request wrong = request;
      wrong.extent_offset = far;
      CHECK(code_of(wrong) == Code::bad_argument);
      wrong = request;
      wrong.data_bytes = far;
      CHECK(code_of(wrong) != Code::ok);
      wrong = request;
      wrong.op = Op::write;
      wrong.id = id_of(1);
      wrong.bytes = 10;
      wrong.object_offset = far;
      CHECK(code_of(wrong) == Code::bad_argument);
      wrong.object_offset = 0;
      wrong.bytes = far;
      CHECK(code_of(wrong) == Code::bad_argument);
      wrong = {};
      wrong.op = Op::list;
      wrong.bytes = far;
      CHECK(code_of(wrong) != Code::ok);
      wrong.op = Op::status;
      wrong.extent_offset = far;
      wrong.bytes = 100;
      CHECK(code_of(wrong) != Code::ok);
      wrong = {};
      wrong.op = Op::wait;
      wrong.count = 100;
      wrong.least = 1;
      wrong.bytes = 200;
      wrong.extent_offset = far;
      CHECK(code_of(wrong) == Code::bad_argument);
    }
    Request wrong = request;
    wrong.extent = 1;
    CHECK(code_of(wrong) == Code::bad_argument);
    wrong.extent = UINT32_MAX;
    CHECK(code_of(wrong) == Code::bad_argument);
    wrong = {};
    wrong.op = Op::wait;
    wrong.count = UINT32_MAX;
    wrong.least = 1;
    CHECK(code_of(wrong) == Code::bad_argument);
    wrong.count = 1;
    wrong.least = 0;
    CHECK(code_of(wrong) == Code::bad_argument);
    // Ids of no bytes, cut off, more of them than are named, fewer.
    wrong.least = 1;
    for (const auto& [text, count] :
         {std::pair<std::string, std::uint32_t>{std::string(1, '\0'), 1},
          {"\3ab", 1},
          {"\1a\1b", 1},
          {"\1a", 2},
          {"", 1},
          {std::string("\1a\0", 3), 2}}) {
      std::memcpy(client.extent.data(), text.data(), text.size());
      wrong.count = count;
      wrong.bytes = text.size();
      CHECK(code_of(wrong) == Code::bad_argument);
    }
    for (const Op op : {Op::put, Op::create, Op::write, Op::seal, Op::abort, Op::erase, Op::pin,
                        Op::unpin, Op::read_into, Op::push}) {
      Request nameless{};
      nameless.op = op;
      CHECK(code_of(nameless) == Code::bad_argument);
    }
    wrong = {};
    wrong.op = Op::drop_extent;
    CHECK(code_of(wrong) == Code::bad_argument);
    wrong.extent = UINT32_MAX;
    CHECK(code_of(wrong) == Code::bad_argument);
    wrong = {};
    wrong.op = Op::list;
    wrong.bytes = 4000;
    wrong.cursor = UINT64_MAX;
    CHECK(code_of(wrong) == Code::ok);
  }
  SECTION("objects of others, sealed twice, written after the seal") {
    for (const Op op : {Op::write, Op::seal, Op::abort}) {
      Request wrong{};
      wrong.op = op;
      wrong.id = id_of(50);
      wrong.bytes = 10;
      CHECK(code_of(wrong) == Code::not_found);
    }
    request.op = Op::seal;
    request.bytes = 999;  // not the object's length
    CHECK(code_of(request) == Code::bad_argument);
    request.bytes = 1000;
    CHECK(code_of(request) == Code::ok);
    CHECK(code_of(request) == Code::not_found);
    request.op = Op::write;
    CHECK(code_of(request) == Code::not_found);
    request.op = Op::abort;
    CHECK(code_of(request) == Code::not_found);
    request.op = Op::create;
    CHECK(code_of(request) == Code::exists);
    request.op = Op::erase;
    request.id = id_of(50);
    CHECK(code_of(request) == Code::not_found);
  }
  REQUIRE(honest.seal(theirs));
  check_serves(fixture, 100);
}

TEST_CASE("what breaks the rules is disconnected, and costs nobody else") {
  StoreFixture fixture;
  SECTION("garbage instead of a hello, of any length") {
    for (const std::size_t bytes : {1, 8, 47, 48, 49, 64, 1000}) {
      RawClient client(fixture.socket());
      std::vector<char> garbage(bytes, 'x');
      REQUIRE(::send(client.socket.get(), garbage.data(), bytes, MSG_NOSIGNAL) ==
              static_cast<ssize_t>(bytes));
      CHECK(client.goes_within(20));
    }
  }
  SECTION("garbage after the hello") {
    RawClient client(fixture.socket());
    client.meet();
    REQUIRE(::send(client.socket.get(), "garbage", 7, MSG_NOSIGNAL) == 7);
    CHECK(client.goes_within(20));
  }
  SECTION("an unknown call") {
    RawClient client(fixture.socket());
    client.meet();
    Request request{};
    request.op = static_cast<Op>(1000);
    client.submit(request);
    CHECK(client.goes_within(20));
  }
  SECTION("more calls than there may be") {
    RawClient client(fixture.socket());
    client.meet();
    client.submitted = 1000;
    client.submit({});
    CHECK(client.goes_within(20));
  }
  SECTION("more calls under way than there may be") {
    RawClient client(fixture.socket());
    client.meet();
    Request request{};
    request.op = Op::wait;
    request.count = request.least = 1;
    std::memcpy(client.extent.data(), "\1a", 2);
    request.bytes = 2;
    request.timeout_ms = -1;
    for (std::uint32_t i = 0; i < kCalls + 1 && !client.is_gone(); ++i) {
      client.submit(request);
      ::usleep(1000);
    }
    CHECK(client.goes_within(20));
  }
  check_serves(fixture, 1);
}

TEST_CASE("a client of another version is refused by number") {
  StoreFixture fixture;
  RawClient client(fixture.socket());
  Hello hello{};
  hello.magic = kHelloMagic;
  hello.layout_version = kLayoutVersion - 1;
  std::memcpy(hello.name, "old", 3);
  REQUIRE(::send(client.socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello);
  Welcome welcome{};
  REQUIRE(::recv(client.socket.get(), &welcome, sizeof welcome, 0) == sizeof welcome);
  CHECK(static_cast<Code>(welcome.code) == Code::unsupported);
  CHECK(welcome.layout_version == kLayoutVersion);
  CHECK(client.goes_within(20));
}

TEST_CASE("a store of another version is refused by its client, which names both") {
  char folder[] = "/tmp/weft-test-XXXXXX";
  REQUIRE(::mkdtemp(folder) != nullptr);
  const std::string path = std::string(folder) + "/socket";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const Descriptor listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  std::thread store([&] {
    const Descriptor client(::accept(listener.get(), nullptr, nullptr));
    Hello hello{};
    [[maybe_unused]] const auto got = ::recv(client.get(), &hello, sizeof hello, 0);
    Welcome welcome{};
    welcome.magic = kHelloMagic;
    welcome.layout_version = hello.layout_version - 1;
    welcome.code = static_cast<std::uint32_t>(Code::unsupported);
    [[maybe_unused]] const auto sent = ::send(client.get(), &welcome, sizeof welcome, MSG_NOSIGNAL);
  });
  try {
    ObjectStore connection({.socket = path});
    FAIL("the client connects");
  } catch (const Error& error) {
    CHECK(error.status().code() == Code::unsupported);
    for (const std::uint32_t version : {kLayoutVersion - 1, kLayoutVersion})
      CHECK(error.status().text().find("version " + std::to_string(version)) != std::string::npos);
  }
  store.join();
  ::unlink(path.c_str());
  ::rmdir(folder);
}

TEST_CASE("tables of references that are garbage pin nothing of others") {
  StoreFixture fixture(8 << 20);
  RawClient client(fixture.socket());
  client.meet();
  std::mt19937_64 random(1);
  Control& control = client.control();
  for (std::uint32_t i = 0; i < 10000; ++i) {
    control.slots[i].object.store(random(), std::memory_order_relaxed);
    control.slots[i].count.store(static_cast<std::uint32_t>(random()), std::memory_order_relaxed);
    control.slots[i].uses.store(static_cast<std::uint32_t>(random()), std::memory_order_relaxed);
  }
  control.slots_used.store(UINT32_MAX, std::memory_order_relaxed);
  control.events_read.store(random(), std::memory_order_relaxed);
  control.completed.store(12345, std::memory_order_relaxed);
  ObjectStore store({.socket = fixture.socket()});
  for (std::uint64_t i = 0; i < 40; ++i)
    REQUIRE(store.put(id_of(i), contents_of(id_of(i), 1 << 20)));
  check_serves(fixture, 1000);
}

TEST_CASE("a client that is killed at any step leaves nothing") {
  StoreFixture fixture(32 << 20);
  ObjectStore store({.socket = fixture.socket()});
  const std::string path = fixture.socket();
  REQUIRE(store.put(id_of(1000), contents_of(id_of(1000), 100000)));
  for (int step = 0; step < 8; ++step) {
    INFO("step " << step);
    int pipes[2];
    REQUIRE(::pipe2(pipes, O_CLOEXEC) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      // Only what is safe after fork of a process with threads: its own client, then the end.
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::alarm(60);
      ObjectStore mine({.socket = path});
      Object held;
      ObjectBuffer buffer;
      bool ok = true;
      if (step >= 1) ok &= mine.get(id_of(1000), held).ok();
      if (step >= 2) ok &= mine.create(id_of(1), 5'000'000, 0, buffer).ok();
      if (step >= 3) std::memset(buffer.data().data(), 1, buffer.data().size());
      if (step == 4) ok &= mine.seal(buffer).ok();
      ObjectCall call;
      if (step == 5) ok &= mine.get_async(id_of(77), call, -1).ok();
      if (step == 6) ok &= mine.subscribe().ok();
      if (step == 7) {
        std::vector<std::byte> data(4'000'000);
        for (std::uint64_t i = 100;; ++i) {
          if (i == 105) ok &= ::write(pipes[1], "k", 1) == 1;
          if (!mine.put(id_of(i), data)) break;
        }
      }
      if (ok) ok = ::write(pipes[1], "k", 1) == 1;
      for (;;) ::pause();
    }
    ::close(pipes[1]);
    char byte = 0;
    const bool is_there = ::read(pipes[0], &byte, 1) == 1;
    ::close(pipes[0]);
    ::kill(child, SIGKILL);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    REQUIRE(is_there);
    // Its id is free (or its object whole), its room too, and what it held can be erased.
    Status status;
    do status = store.put(id_of(1), contents_of(id_of(1), 20'000'000), {}, {.timeout_ms = 20000});
    while (status.code() == Code::exists && step == 4 && store.erase(id_of(1)).ok());
    for (int i = 0; i < 20000 && status.code() == Code::exists; ++i) {
      ::usleep(1000);
      status = store.put(id_of(1), contents_of(id_of(1), 20'000'000), {}, {.timeout_ms = 20000});
    }
    INFO(status.text());
    REQUIRE(status.ok());
    REQUIRE(store.erase(id_of(1)));
  }
  Object object;
  if (store.get(id_of(1000), object)) CHECK(equal(object.data(), contents_of(id_of(1000), 100000)));
}

TEST_CASE("many clients in turn leave no descriptor behind") {
  StoreFixture fixture;
  check_serves(fixture, 1);
  const std::size_t before = num_descriptors();
  for (int i = 0; i < 5000; ++i) {
    ObjectStore store({.socket = fixture.socket()});
    CHECK(store.contains(id_of(1)));
  }
  for (int i = 0; i < 5000; ++i) RawClient client(fixture.socket());
  check_serves(fixture, 2);
  std::size_t after = 0;
  for (int i = 0; i < 20000; ++i) {
    after = num_descriptors();
    if (after <= before) break;
    ::usleep(1000);
  }
  CHECK(after <= before);
}
