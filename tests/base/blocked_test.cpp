#include "base/blocked.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "base/wait.hpp"

using namespace weft;
using blocked::Record;

TEST_CASE("what a process waits for is read while it is stopped, until the wait ends") {
  int up[2], down[2];
  REQUIRE((pipe(up) == 0 && pipe(down) == 0));
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    {
      blocked::Slot first, second;
      Record record;
      record.since_ns = record.seen_ns = now_ns();
      record.rank = 3;
      blocked::set_text(record.call, "MPI_Recv");
      blocked::set_text(record.comm, std::string(200, 'x'));  // longer than there is room for
      record.num_awaited = 1;
      record.awaited[0].peer = 5;
      first.write(record);
      record.awaited[0].peer = 6;
      second.write(record);
      record.awaited[0].peer = 7;
      first.write(record);
      if (write(up[1], &byte, 1) != 1 || read(down[0], &byte, 1) != 1) _exit(1);
    }
    if (write(up[1], &byte, 1) != 1 || read(down[0], &byte, 1) != 1) _exit(1);
    _exit(0);
  }
  char byte = 0;
  REQUIRE(read(up[0], &byte, 1) == 1);
  REQUIRE(kill(child, SIGSTOP) == 0);
  blocked::Reader reader;
  REQUIRE(reader.open(child).ok());
  auto found = reader.read();
  REQUIRE(found.size() == 2);
  CHECK(found[0].record.rank == 3);
  CHECK(blocked::text_of(found[0].record.call) == "MPI_Recv");
  CHECK(blocked::text_of(found[0].record.comm) == std::string(63, 'x'));
  CHECK(found[0].record.awaited[0].peer == 7);
  CHECK(found[0].record.number == 1);
  CHECK(found[1].record.awaited[0].peer == 6);
  CHECK(found[1].record.number == 2);
  REQUIRE(kill(child, SIGCONT) == 0);
  REQUIRE(write(down[1], &byte, 1) == 1);
  REQUIRE(read(up[0], &byte, 1) == 1);
  CHECK(reader.read().empty());
  REQUIRE(write(down[1], &byte, 1) == 1);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(blocked::Reader().open(child).code() == Code::not_found);
}

TEST_CASE("more waits than there is room for are not seen") {
  std::array<blocked::Slot, blocked::kNumSlots> slots;
  Record record;
  for (auto& slot : slots) slot.write(record);
  {
    blocked::Slot one_more;
    one_more.write(record);
  }
  blocked::Reader reader;
  REQUIRE(reader.open(getpid()).ok());
  CHECK(reader.read().size() == blocked::kNumSlots);
  slots[0].clear();
  CHECK(reader.read().size() == blocked::kNumSlots - 1);
}
