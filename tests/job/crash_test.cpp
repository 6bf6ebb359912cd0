#include <catch2/catch.hpp>
#include <csignal>

#include "launcher/agent_wire.hpp"
#include "launcher/crash/cause.hpp"
#include "launcher/crash/core_file.hpp"
#include "launcher/crash/report.hpp"
#include "launcher/crash/stack.hpp"

using namespace weft;
using namespace weft::weftrun;
using crash::Notice;

namespace {

Notice notice_of(int signal, int code, std::uint64_t address = 0) {
  Notice notice;
  notice.signal = signal;
  notice.code = code;
  notice.address = address;
  notice.sp = 0x7fff'0000'0000;
  return notice;
}

Crash crash_of(int rank, std::vector<std::string> stack) {
  Crash crash;
  crash.rank = rank;
  crash.process = 100 + rank;
  crash.host = "h1";
  crash.signal = SIGSEGV;
  crash.cause = "write to address 0x8, which is not mapped";
  crash.call = "MPI_Recv";
  crash.stack = std::move(stack);
  return crash;
}

}  // namespace

TEST_CASE("the cause of a signal names what was done to which address") {
  Notice notice = notice_of(SIGSEGV, SEGV_MAPERR, 0x10);
  CHECK(cause_of(notice) == "access to address 0x10, which is not mapped");
  notice.access = Notice::Access::write;
  notice.code = SEGV_ACCERR;
  CHECK(cause_of(notice) == "write to address 0x10, for which there is no permission");
  notice.address = notice.sp - 8;
  CHECK(cause_of(notice) == "write to address 0x7ffefffffff8: the stack is full (ulimit -s)");
  CHECK(cause_of(notice_of(SIGSEGV, 128)) == "an address that no memory can have");
  CHECK(cause_of(notice_of(SIGFPE, FPE_INTDIV, 0x40)) == "an integer is divided by zero at 0x40");
  CHECK(cause_of(notice_of(SIGBUS, BUS_ADRALN, 0x41)) == "address 0x41 is not aligned");
  CHECK(cause_of(notice_of(SIGILL, ILL_ILLOPC, 0x40)) == "the instruction at 0x40");
  CHECK(cause_of(notice_of(SIGBUS, 1000)).empty());
}

TEST_CASE("a signal that was sent has its sender") {
  Notice notice = notice_of(SIGABRT, SI_TKILL);
  notice.number = 17;
  notice.user = 1000;
  CHECK(cause_of(notice) == "sent by process 17 of user 1000");
  notice.is_own = 1;
  CHECK(cause_of(notice) == "abort()");
  notice.signal = SIGSEGV;
  CHECK(cause_of(notice) == "sent by the process itself");
}

TEST_CASE("ranks that crash in the same place are reported together") {
  CrashReports reports;
  CHECK(reports.lines_of({}).empty());
  const std::vector<std::string> lines = reports.lines_of(
      {crash_of(1, {"solve (a.c:4)", "main (a.c:9)"}), crash_of(2, {"main (a.c:7)"}),
       crash_of(3, {"solve (a.c:4)", "main (a.c:9)"})});
  REQUIRE(lines.size() == 6);
  CHECK(lines[0] ==
        "rank 1 (pid 101 on h1) crashes by signal 11 (Segmentation fault): write to address 0x8, "
        "which is not mapped, in MPI_Recv");
  CHECK(lines[1] == "  at solve (a.c:4)");
  CHECK(lines[2] == "  at main (a.c:9)");
  CHECK(lines[3] == "  and rank 3 in the same place");
  CHECK(lines[5] == "  at main (a.c:7)");
  // Later, on another host say.
  const std::vector<std::string> later = reports.lines_of({crash_of(4, {"main (a.c:7)"})});
  REQUIRE(later.size() == 2);
  CHECK(later[1] == "  in the same place as rank 2");
}

TEST_CASE("five stacks are shown, and a line of each other one") {
  CrashReports reports;
  std::vector<Crash> crashes;
  for (int rank = 0; rank < 7; ++rank)
    crashes.push_back(crash_of(rank, {"f" + std::to_string(rank), "main"}));
  const std::vector<std::string> lines = reports.lines_of(crashes);
  REQUIRE(lines.size() == 5 * 3 + 2 * 2);
  CHECK(lines[16] == "  at f5");
  CHECK(lines[18] == "  at f6");
}

TEST_CASE("a stack goes from process to process as text") {
  Stack stack, read;
  stack.call = "MPI_Send";
  stack.missing = "the rest is not known";
  stack.places = {"a (a.c:1)", "main (a.c:2)"};
  REQUIRE(decode(encode(stack), read));
  CHECK(read.call == stack.call);
  CHECK(read.missing == stack.missing);
  CHECK(read.places == stack.places);
  CHECK_FALSE(decode("", read));
  CHECK_FALSE(decode("MPI_Send\n", read));
  CHECK_FALSE(decode("MPI_Send\n\nmain", read));  // it ended within a line
}

TEST_CASE("a crash goes from host to host") {
  Crash crash = crash_of(3, {"solve (a.c:4)", "main (a.c:9)"}), read;
  crash.no_stack = "why";
  crash.core = "/tmp/core";
  Body body;
  append(body, crash);
  rendezvous::BodyReader reader(body.bytes());
  REQUIRE(decode(reader, read));
  CHECK(read.is_like(crash));
  CHECK(read.process == 103);
  CHECK(read.cause == crash.cause);
  CHECK(read.no_stack == "why");
  CHECK(read.core == "/tmp/core");
  rendezvous::BodyReader cut(std::string_view(body.bytes()).substr(0, body.bytes().size() - 1));
  CHECK_FALSE(decode(cut, read));
}

TEST_CASE("the name of a core file comes from the kernel's pattern") {
  CoreNames names{"core", false, 17, "solve", "h1", "/home/me"};
  CHECK(core_file_of(names) == "/home/me/core");
  names.adds_process = true;
  CHECK(core_file_of(names) == "/home/me/core.17");
  names.pattern = "/var/cores/%e.%h.%p.%t%%";
  CHECK(core_file_of(names) == "/var/cores/solve.h1.17.*%");
  names.pattern = "|/usr/lib/collect %p";
  CHECK(core_file_of(names) == "a pipe to /usr/lib/collect");
  names.pattern = "|/usr/lib/collect";
  CHECK(core_file_of(names) == "a pipe to /usr/lib/collect");
}
