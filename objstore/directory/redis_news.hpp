#pragma once
// Checked decoding of Redis's answers. hiredis has made values of the bytes; their types and
// contents are up to anyone who may write to that Redis, so each is checked before it is used.
#include <cstdint>
#include <vector>

#include "objstore/shared/peer_wire.hpp"

struct redisReply;

namespace weft::objstore {

// A message of a manager's channel: `holder`, `deleted` or `drop`, an id in hex, a generation.
struct RedisNews {
  enum class Kind { nonsense, subscribed, holder, deleted, drop } kind = Kind::nonsense;
  ObjectId id;
  std::uint64_t member = 0;
};
RedisNews parse_news(const redisReply& reply);

// Generations, those that are numbers.
std::vector<std::uint64_t> parse_holders(const redisReply& reply);

// The heartbeat's answer: whether this manager was known, and generation and address of all in
// turn. False: it is none.
bool parse_members(const redisReply& reply, bool& was_known, std::vector<Member>& members);

}  // namespace weft::objstore
