// To whom a loss is reported (engine.hpp, "Losses"): rank 0 of three loses the others by hand.
#include <catch2/catch.hpp>
#include <thread>

#include "lanes/fabrics.hpp"
#include "tagged/engine.hpp"

namespace {

using namespace weft;
using tagged::Engine;
using tagged::kAnySource;
using tagged::MessageInfo;
using tagged::Request;

constexpr std::int32_t kTag = 5;
constexpr std::uint32_t kContext = 4, kOther = 6, kWithout = 20;

// Rank 1 may not send in kWithout; of the other contexts nothing is known.
std::span<const int> senders(std::uint32_t context) noexcept {
  static constexpr int kRanks[] = {0, 2};
  return context == kWithout ? std::span<const int>(kRanks) : std::span<const int>();
}

// Rank 0 of a job whose other ranks say nothing.
class Losses {
 public:
  Losses() {
    auto boards = make_thread_boards(3);
    std::thread others[2];
    bool good[3] = {};
    for (int i = 1; i < 3; ++i)
      others[i - 1] = std::thread([this, i, &boards, &good] {
        good[i] =
            Members::open({}, std::move(boards[static_cast<std::size_t>(i)]), jobs_[i]).ok() &&
            Fabrics::open(*jobs_[i], fabrics_[i - 1]).ok();
      });
    good[0] = Members::open({}, std::move(boards[0]), jobs_[0]).ok() &&
              Engine::create(*jobs_[0], engine_).ok();
    for (std::thread& other : others) other.join();
    REQUIRE((good[0] && good[1] && good[2]));
    engine_->set_senders(senders);
  }
  Engine& engine() { return *engine_; }
  // Of a receive from any source that is posted now: whose loss it ends with; -1: it waits.
  int posted(std::uint32_t context) {
    Request request;
    char byte;
    engine_->irecv(request, kAnySource, context, kTag, &byte, 1);
    if (!request.is_complete()) {
      REQUIRE(engine_->cancel(request));
      return -1;
    }
    REQUIRE(request.code == Code::peer_lost);
    return request.peer;
  }
  int probed(std::uint32_t context) {
    MessageInfo info;
    const Code code = engine_->iprobe(kAnySource, context, kTag, info);
    if (code == Code::again) return -1;
    REQUIRE(code == Code::peer_lost);
    return info.source;
  }

 private:
  std::unique_ptr<Members> jobs_[3];
  std::unique_ptr<Fabrics> fabrics_[2];
  std::unique_ptr<Engine> engine_;
};

}  // namespace

TEST_CASE("a loss is reported to each context that may wait for it until it is acknowledged there",
          "[engine]") {
  Losses job;
  Engine& engine = job.engine();
  REQUIRE(job.posted(kContext) == -1);
  Request first, second, without;
  char bytes[3];
  engine.irecv(first, kAnySource, kContext, kTag, &bytes[0], 1);
  engine.irecv(second, kAnySource, kContext, kTag, &bytes[1], 1);
  engine.irecv(without, kAnySource, kWithout, kTag, &bytes[2], 1);
  engine.lose(1);
  // All that are posted at that moment.
  for (Request* request : {&first, &second}) {
    REQUIRE(request->is_complete());
    CHECK(request->code == Code::peer_lost);
    CHECK(request->peer == 1);
  }
  CHECK_FALSE(without.is_complete());
  const int one = 1;
  for (const std::uint32_t context : {kContext, kOther}) {
    for (int i = 0; i < 2; ++i) {
      CHECK(job.posted(context) == 1);
      CHECK(job.probed(context) == 1);
    }
    engine.acknowledge(context, {&one, 1});
    CHECK(job.posted(context) == -1);
    CHECK(job.probed(context) == -1);
  }
  CHECK(job.posted(kWithout) == -1);
  // From the lost one itself, always.
  for (int i = 0; i < 2; ++i) {
    Request named;
    engine.irecv(named, 1, kContext, kTag, bytes, 1);
    REQUIRE(named.is_complete());
    CHECK(named.code == Code::peer_lost);
  }
  // A number that is used again is another context.
  engine.close_context(kOther);
  CHECK(job.posted(kOther) == 1);

  // Once nobody else is left, each time.
  engine.lose(2);
  REQUIRE(without.is_complete());
  CHECK(without.peer == 2);
  CHECK(job.posted(kContext) == 2);
  for (int i = 0; i < 2; ++i) CHECK(job.posted(kContext) > 0);
  for (int i = 0; i < 2; ++i) CHECK(job.probed(kWithout) == 2);
}

TEST_CASE("a receive from any source that stays posted pauses until losses are acknowledged",
          "[engine]") {
  Losses job;
  Engine& engine = job.engine();
  const int one = 1, two = 2;
  char sent = 'x', bytes[2] = {};
  Request first, second;
  for (Request* request : {&first, &second}) request->stays_posted = true;
  engine.irecv(first, kAnySource, kContext, kTag, &bytes[0], 1);
  engine.lose(1);
  engine.irecv(second, kAnySource, kContext, kTag, &bytes[1], 1);
  for (Request* request : {&first, &second}) {
    REQUIRE(request->is_complete());
    CHECK_FALSE(request->is_over());
  }
  // The first one still gets the message.
  Request send;
  engine.isend(send, 0, kContext, kTag, &sent, 1);
  engine.progress();
  CHECK(first.is_over());
  CHECK(first.code == Code::ok);
  CHECK(bytes[0] == 'x');
  engine.acknowledge(kContext, {&two, 1});
  CHECK(second.is_complete());
  engine.acknowledge(kContext, {&one, 1});
  CHECK_FALSE(second.is_complete());
  Request again;
  engine.isend(again, 0, kContext, kTag, &sent, 1);
  engine.progress();
  CHECK(second.is_over());
  CHECK(second.code == Code::ok);
}

TEST_CASE("a revoked context ends what is pending there and nothing else", "[engine]") {
  Losses job;
  Engine& engine = job.engine();
  char byte = 'x', bytes[3] = {};
  Request named, any, other, send, late;
  engine.irecv(named, 1, kContext, kTag, &bytes[0], 1);
  engine.irecv(any, kAnySource, kContext, kTag, &bytes[1], 1);
  engine.irecv(other, kAnySource, kOther, kTag, &bytes[2], 1);
  engine.isend(send, 0, kContext, kTag + 1, &byte, 1);
  engine.progress();
  engine.revoke(kContext);
  for (Request* request : {&named, &any}) {
    REQUIRE(request->is_complete());
    CHECK(request->code == Code::peer_lost);
  }
  CHECK_FALSE(other.is_complete());
  // What was there is dropped.
  engine.irecv(late, 0, kContext, kTag + 1, bytes, 1);
  REQUIRE(late.is_complete());
  CHECK(late.code == Code::peer_lost);
  CHECK(job.probed(kContext) == 0);
  // The number is used again.
  engine.close_context(kContext);
  CHECK(job.posted(kContext) == -1);
  engine.isend(send, 0, kOther, kTag, &byte, 1);
  engine.progress();
  CHECK(other.code == Code::ok);
  CHECK(bytes[2] == 'x');
}

TEST_CASE("a message that is there is received before a loss is reported", "[engine]") {
  Losses job;
  Engine& engine = job.engine();
  char sent = 'x', received = 0;
  Request send, receive;
  engine.isend(send, 0, kContext, kTag, &sent, 1);
  engine.lose(1);
  engine.progress();
  engine.irecv(receive, kAnySource, kContext, kTag, &received, 1);
  engine.progress();
  REQUIRE(receive.is_complete());
  CHECK(receive.code == Code::ok);
  CHECK(received == 'x');
  CHECK(job.posted(kContext) == 1);
}

TEST_CASE("losses that were not seen are reported as one, by the name of the first", "[engine]") {
  Losses job;
  job.engine().lose(2);
  job.engine().lose(1);
  CHECK(job.probed(kContext) == 2);
}
