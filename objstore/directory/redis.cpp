#include "redis.hpp"

#include <hiredis/hiredis.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "objstore/store/id_text.hpp"
#include "redis_news.hpp"
#include "weft/job.hpp"

namespace weft::objstore {
namespace {

constexpr std::uint64_t kHeartbeatNs = 3'000'000'000;

// KEYS are empty: the server is a single one, and the keys follow from ARGV: prefix, self, id.
// Holders that have died are removed where the scripts come upon them.
constexpr const char* kAnnounce = R"(
local prefix, self, id, what = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local holders = prefix .. ':holders:v5:' .. id
local first = 0
local seconds = tonumber(redis.call('TIME')[1])
for _, holder in ipairs(redis.call('SMEMBERS', holders)) do
  if holder ~= self then
    local seen = redis.call('ZSCORE', prefix .. ':members', holder)
    if not seen or tonumber(seen) + 10 < seconds then
      redis.call('SREM', holders, holder)
    else
      first = 1
    end
  end
end
if what == '1' and redis.call('EXISTS', prefix .. ':erased:v5:' .. id) == 1 then return 1 end
local early = prefix .. ':early:v5:' .. id
if what == '2' and first == 1 and redis.call('EXISTS', early) == 0 then return 1 end
if what == '1' and first == 0 then
  redis.call('SET', early, '1', 'EX', '60')
elseif what ~= '1' then
  redis.call('DEL', early)
end
redis.call('SADD', holders, self)
redis.call('DEL', prefix .. ':erased:v5:' .. id)
for _, watcher in ipairs(redis.call('SMEMBERS', prefix .. ':watchers:v5:' .. id)) do
  if watcher ~= self then
    redis.call('PUBLISH', prefix .. ':to:' .. watcher, 'holder ' .. id .. ' ' .. self)
  end
end
return 0)";

constexpr const char* kWatch = R"(
local prefix, self, id = ARGV[1], ARGV[2], ARGV[3]
redis.call('SADD', prefix .. ':watchers:v5:' .. id, self)
redis.call('EXPIRE', prefix .. ':watchers:v5:' .. id, 86400)
return redis.call('SMEMBERS', prefix .. ':holders:v5:' .. id))";

constexpr const char* kErase = R"(
local prefix, self, id = ARGV[1], ARGV[2], ARGV[3]
for _, holder in ipairs(redis.call('SMEMBERS', prefix .. ':holders:v5:' .. id)) do
  if holder ~= self then
    redis.call('PUBLISH', prefix .. ':to:' .. holder, 'drop ' .. id .. ' ' .. self)
  end
end
redis.call('DEL', prefix .. ':holders:v5:' .. id)
redis.call('SET', prefix .. ':erased:v5:' .. id, '1', 'EX', '60')
for _, watcher in ipairs(redis.call('SMEMBERS', prefix .. ':watchers:v5:' .. id)) do
  redis.call('PUBLISH', prefix .. ':to:' .. watcher, 'deleted ' .. id .. ' ' .. self)
end
return 0)";

// Returns whether this manager was known, and generation and address of all in turn.
constexpr const char* kHeartbeat = R"(
local prefix, self, address = ARGV[1], ARGV[2], ARGV[4]
local members, addresses = prefix .. ':members', prefix .. ':addresses'
local seconds = tonumber(redis.call('TIME')[1])
for _, member in ipairs(redis.call('ZRANGEBYSCORE', members, '-inf', seconds - 11)) do
  redis.call('HDEL', addresses, member)
  redis.call('ZREM', members, member)
end
local known = redis.call('ZADD', members, seconds, self) == 0 and 1 or 0
redis.call('HSET', addresses, self, address)
return {known, redis.call('HGETALL', addresses)})";

bool parse_number(std::string_view text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

RedisDirectory::Location RedisDirectory::parse(const std::string& url) {
  const auto refuse = [&] {
    throw Error(Status(Code::bad_argument,
                       "directory '" + url + "': embedded or redis://HOST[:PORT][/PREFIX]"));
  };
  constexpr std::string_view kScheme = "redis://";
  if (!url.starts_with(kScheme)) refuse();
  std::string rest = url.substr(kScheme.size());
  Location location{{}, "weft-store", 6379};
  if (const auto slash = rest.find('/'); slash != std::string::npos) {
    if (slash + 1 < rest.size()) location.prefix = rest.substr(slash + 1);
    rest.resize(slash);
  }
  if (const auto colon = rest.rfind(':'); colon != std::string::npos) {
    std::uint64_t port = 0;
    if (!parse_number(std::string_view(rest).substr(colon + 1), port) || port == 0 || port > 65535)
      refuse();
    location.port = static_cast<int>(port);
    rest.resize(colon);
  }
  if (rest.empty()) refuse();
  location.host = rest;
  return location;
}

RedisDirectory::RedisDirectory(DirectoryUser& user, std::uint64_t self, const std::string& address,
                               const std::string& url)
    : user_(user),
      self_(self),
      self_text_(std::to_string(self)),
      address_(address),
      location_(parse(url)),
      commands_(
          location_.host, location_.port, [] {}, [](const redisReply&) {}),
      pushes_(
          location_.host, location_.port, [this] { connected(); },
          [this](const redisReply& reply) { pushed(reply); }) {}

void RedisDirectory::connected() { pushes_.subscribe(location_.prefix + ":to:" + self_text_); }

void RedisDirectory::script(const char* text, const ObjectId& id, std::vector<std::string> words,
                            Redis::Answer answer) {
  std::vector<std::string> all{"EVAL", text, "0", location_.prefix, self_text_, hex_of(id)};
  all.insert(all.end(), std::make_move_iterator(words.begin()),
             std::make_move_iterator(words.end()));
  commands_.command(all, std::move(answer));
}

// --- Calls of the manager ---

void RedisDirectory::announce(const ObjectId& id, Announced kind) {
  script(kAnnounce, id, {std::to_string(static_cast<int>(kind))},
         [this, id, kind](const redisReply& is) {
           if (is.type == REDIS_REPLY_INTEGER && is.integer == 1)
             user_.must_drop(id, kind == Announced::sealed ? Dropped::second : Dropped::erased);
         });
}

std::string RedisDirectory::key(const char* kind, const ObjectId& id) const {
  return location_.prefix + ":" + kind + ":v5:" + hex_of(id);
}

void RedisDirectory::withdraw(const ObjectId& id) {
  commands_.command({"SREM", key("holders", id), self_text_});
}

// Announcements made while Redis is away are sent when it is back.
void RedisDirectory::confirm(const ObjectId&, std::uint64_t number) {
  if (!commands_.is_connected()) return user_.confirmed(number);
  commands_.command({"PING"}, [this, number](const redisReply&) { user_.confirmed(number); });
}

void RedisDirectory::watch(const ObjectId& id, const PeerMessage&) {
  watched_.insert(id);
  script(kWatch, id, {}, [this, id](const redisReply& reply) {
    if (!watched_.contains(id)) return;
    std::vector<std::uint64_t> holders = parse_holders(reply);
    std::erase(holders, self_);
    if (!holders.empty()) user_.has_holders(id, holders);
  });
}

void RedisDirectory::unwatch(const ObjectId& id) {
  watched_.erase(id);
  commands_.command({"SREM", key("watchers", id), self_text_});
}

void RedisDirectory::erase(const ObjectId& id) {
  if (!commands_.is_connected()) unsent_erased_.insert(id);
  script(kErase, id);
}

// The member's holdings are known to Redis already, and can be used only now.
void RedisDirectory::joined(std::uint64_t) {
  const std::vector<ObjectId> watched(watched_.begin(), watched_.end());
  for (const ObjectId& id : watched) watch(id, {});
}

// --- Messages from Redis ---

void RedisDirectory::pushed(const redisReply& reply) {
  const RedisNews news = parse_news(reply);
  switch (news.kind) {
    case RedisNews::Kind::nonsense:
      return;
    case RedisNews::Kind::subscribed:
      // From here on nothing is missed, so this is when all is announced and watched.
      is_new_ = true;
      return;
    case RedisNews::Kind::drop:
      return user_.must_drop(news.id, Dropped::erased);
    case RedisNews::Kind::deleted:
      if (watched_.contains(news.id)) user_.was_deleted(news.id);
      return;
    case RedisNews::Kind::holder:
      if (watched_.contains(news.id) && news.member != self_)
        user_.has_holders(news.id, {&news.member, 1});
      return;
  }
}

// Reports that this manager lives, and reads which others do.
void RedisDirectory::heartbeat(std::uint64_t now_ns) {
  if (now_ns < next_heartbeat_ns_) return;
  next_heartbeat_ns_ = now_ns + kHeartbeatNs;
  script(kHeartbeat, {}, {address_}, [this](const redisReply& reply) {
    bool was_known = false;
    std::vector<Member> members;
    if (!parse_members(reply, was_known, members)) return;
    // Forgotten, with what it holds: it was stopped for a while, or Redis was.
    if (!was_known) is_new_ = true;
    num_members_ = members.size();
    for (const Member& member : members)
      if (member.generation != self_) user_.learned(member);
  });
}

void RedisDirectory::progress(std::uint64_t now_ns) {
  commands_.progress(now_ns);
  pushes_.progress(now_ns);
  if (!commands_.is_connected()) {
    // Commands sent since may be lost.
    is_new_ = is_new_ || pushes_.is_connected();
    next_heartbeat_ns_ = 0;
    return;
  }
  heartbeat(now_ns);
  if (!is_new_) return;
  is_new_ = false;
  for (const ObjectId& id : unsent_erased_) script(kErase, id);
  unsent_erased_.clear();
  for (const ObjectId& id : user_.local_objects()) announce(id, Announced::again);
  const std::vector<ObjectId> watched(watched_.begin(), watched_.end());
  for (const ObjectId& id : watched) watch(id, {});
}

void RedisDirectory::await(std::vector<pollfd>& descriptors) {
  commands_.await(descriptors);
  pushes_.await(descriptors);
}

void RedisDirectory::status(nlohmann::json& json) {
  json["directory"] = {{"kind", "redis"},
                       {"connected", commands_.is_connected() && pushes_.is_connected() ? 1 : 0},
                       {"members", num_members_},
                       {"trouble", commands_.trouble()}};
}

}  // namespace weft::objstore
