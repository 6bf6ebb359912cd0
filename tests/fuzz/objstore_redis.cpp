// What a Redis server answers, or somebody who may publish there. Whatever it is, only news and
// members that are what they should be come out.
#include <hiredis/hiredis.h>

#include <cstdlib>
#include <memory>

#include "objstore/directory/redis_news.hpp"

using namespace weft::objstore;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::unique_ptr<redisReader, void (*)(redisReader*)> reader(redisReaderCreate(),
                                                                    redisReaderFree);
  if (redisReaderFeed(reader.get(), reinterpret_cast<const char*>(data), size) != REDIS_OK)
    return 0;
  for (;;) {
    void* got = nullptr;
    if (redisReaderGetReply(reader.get(), &got) != REDIS_OK || got == nullptr) return 0;
    const std::unique_ptr<redisReply, void (*)(void*)> reply(static_cast<redisReply*>(got),
                                                             freeReplyObject);
    const RedisNews news = parse_news(*reply);
    if (news.kind != RedisNews::Kind::nonsense && reply->elements != 3) std::abort();
    if (parse_holders(*reply).size() > reply->elements) std::abort();
    bool was_known = false;
    std::vector<Member> members;
    if (!parse_members(*reply, was_known, members) && !members.empty()) std::abort();
    for (const Member& member : members)
      if (member.address.empty() || member.address.size() > kMaxAddressBytes) std::abort();
  }
}
