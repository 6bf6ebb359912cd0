// The matcher against plain lists searched from the front: the rules of MPI 5.0 section 3.5.
#include "tagged/match.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <list>
#include <memory>
#include <random>

namespace {

using namespace weft::tagged;

bool fits(int wanted_source, std::uint32_t wanted_context, std::int32_t wanted_tag, int source,
          std::uint32_t context, std::int32_t tag) {
  if (wanted_context != context) return false;
  if (wanted_source != kAnySource && wanted_source != source) return false;
  return wanted_tag == tag || (wanted_tag == kAnyTag && tag >= 0);
}

}  // namespace

TEST_CASE("matching follows the order of posting and of arrival", "[match]") {
  const auto seed = GENERATE(range(1u, 31u));
  const bool separates_tags = GENERATE(false, true);  // as for threads
  CAPTURE(seed, separates_tags);
  std::mt19937 random(seed);
  Matcher matcher;
  if (separates_tags) matcher.separate_tags();
  std::list<std::unique_ptr<Request>> posted;
  std::list<Unexpected*> waiting;
  int matches = 0;
  for (int step = 0; step < 4000; ++step) {
    const int source = static_cast<int>(random() % 5);
    const auto context = static_cast<std::uint32_t>(random() % 3);
    const auto tag = static_cast<std::int32_t>(random() % 4) - (random() % 8 == 0 ? 7 : 0);
    if (random() % 2 == 0) {
      // A message arrives.
      const auto expected = std::find_if(posted.begin(), posted.end(), [&](const auto& r) {
        return fits(r->peer, r->context, r->tag, source, context, tag);
      });
      Request* found = matcher.take_posted(source, context, tag);
      REQUIRE(found == (expected == posted.end() ? nullptr : expected->get()));
      if (found != nullptr) {
        posted.erase(expected);
        ++matches;
        continue;
      }
      Unexpected* message = matcher.allocate();
      message->source = source;
      message->context = context;
      message->tag = tag;
      matcher.add_unexpected(*message);
      waiting.push_back(message);
    } else {
      // A receive is posted.
      const int wanted_source = random() % 3 == 0 ? kAnySource : source;
      const std::int32_t wanted_tag = random() % 3 == 0 ? kAnyTag : tag;
      const auto expected = std::find_if(waiting.begin(), waiting.end(), [&](const Unexpected* m) {
        return fits(wanted_source, context, wanted_tag, m->source, m->context, m->tag);
      });
      Unexpected* found = matcher.find_unexpected(wanted_source, context, wanted_tag);
      REQUIRE(found == (expected == waiting.end() ? nullptr : *expected));
      if (found != nullptr) {
        matcher.remove_unexpected(*found);
        matcher.release(found);
        waiting.erase(expected);
        ++matches;
        continue;
      }
      auto request = std::make_unique<Request>();
      request->peer = wanted_source;
      request->context = context;
      request->tag = wanted_tag;
      matcher.post(*request);
      posted.push_back(std::move(request));
    }
    REQUIRE(matcher.num_unexpected() == waiting.size());
    if (!posted.empty() && random() % 16 == 0) {  // one is taken back
      const auto which = std::next(posted.begin(), static_cast<long>(random() % posted.size()));
      matcher.remove_posted(**which);
      posted.erase(which);
    }
  }
  CHECK(matches > 100);
}
