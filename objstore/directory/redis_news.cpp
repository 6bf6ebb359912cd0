#include "redis_news.hpp"

#include <hiredis/hiredis.h>

#include <charconv>
#include <string_view>

#include "objstore/store/id_text.hpp"

namespace weft::objstore {
namespace {

std::string_view text_of(const redisReply& reply) {
  return reply.type == REDIS_REPLY_STRING ? std::string_view(reply.str, reply.len)
                                          : std::string_view();
}

bool parse_generation(std::string_view text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

RedisNews parse_news(const redisReply& reply) {
  RedisNews news;
  if (reply.type != REDIS_REPLY_ARRAY || reply.elements != 3) return news;
  const std::string_view kind = text_of(*reply.element[0]);
  if (kind == "subscribe") {
    news.kind = RedisNews::Kind::subscribed;
    return news;
  }
  const std::string_view text = text_of(*reply.element[2]);
  const auto first = text.find(' '), second = text.rfind(' ');
  if (kind != "message" || first == std::string_view::npos || second == first ||
      !id_of_hex(text.substr(first + 1, second - first - 1), news.id) ||
      !parse_generation(text.substr(second + 1), news.member))
    return news;
  const std::string_view word = text.substr(0, first);
  if (word == "holder") news.kind = RedisNews::Kind::holder;
  if (word == "deleted") news.kind = RedisNews::Kind::deleted;
  if (word == "drop") news.kind = RedisNews::Kind::drop;
  return news;
}

std::vector<std::uint64_t> parse_holders(const redisReply& reply) {
  std::vector<std::uint64_t> holders;
  if (reply.type != REDIS_REPLY_ARRAY) return holders;
  for (std::size_t i = 0; i < reply.elements; ++i) {
    std::uint64_t holder;
    if (parse_generation(text_of(*reply.element[i]), holder)) holders.push_back(holder);
  }
  return holders;
}

bool parse_members(const redisReply& reply, bool& was_known, std::vector<Member>& members) {
  members.clear();
  if (reply.type != REDIS_REPLY_ARRAY || reply.elements != 2 ||
      reply.element[0]->type != REDIS_REPLY_INTEGER || reply.element[1]->type != REDIS_REPLY_ARRAY)
    return false;
  was_known = reply.element[0]->integer != 0;
  const redisReply& rows = *reply.element[1];
  for (std::size_t i = 0; i + 1 < rows.elements && members.size() < kMaxMembers; i += 2) {
    std::uint64_t member;
    const std::string_view address = text_of(*rows.element[i + 1]);
    if (!parse_generation(text_of(*rows.element[i]), member) || address.empty() ||
        address.size() > kMaxAddressBytes)
      continue;
    members.push_back({member, std::string(address)});
  }
  return true;
}

}  // namespace weft::objstore
