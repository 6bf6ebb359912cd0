#pragma once
// One connection to a Redis server, for the benchmark: one command at a time. Without hiredis there
// is none, and opening says so.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "weft/object_id.hpp"
#ifdef WEFT_HAVE_HIREDIS
#include <hiredis/hiredis.h>
#endif

namespace bench {

class Redis {
 public:
#ifdef WEFT_HAVE_HIREDIS
  // "host:port" or "unix:PATH".
  explicit Redis(const std::string& address) {
    const auto colon = address.rfind(':');
    if (address.starts_with("unix:"))
      context_.reset(redisConnectUnix(address.c_str() + 5));
    else if (colon != std::string::npos)
      context_.reset(
          redisConnect(address.substr(0, colon).c_str(), std::stoi(address.substr(colon + 1))));
    if (context_ == nullptr || context_->err != 0)
      throw std::runtime_error("no Redis at " + address);
    if (context_->connection_type == REDIS_CONN_TCP) redisEnableKeepAlive(context_.get());
  }
  void set(const weft::ObjectId& id, std::span<const std::byte> data) {
    command("SET %b %b", REDIS_REPLY_STATUS, id, data.data(), data.size());
  }
  // Returns the result of `look` for the value, which lasts during the call.
  template <class Look>
  void get(const weft::ObjectId& id, Look look) {
    const Reply reply = command("GET %b", REDIS_REPLY_STRING, id);
    look(std::span(reinterpret_cast<const std::byte*>(reply->str), reply->len));
  }
  void erase(const weft::ObjectId& id) { command("DEL %b", REDIS_REPLY_INTEGER, id); }

 private:
  struct Free {
    void operator()(redisReply* reply) const { freeReplyObject(reply); }
    void operator()(redisContext* context) const { redisFree(context); }
  };
  using Reply = std::unique_ptr<redisReply, Free>;
  template <class... Words>
  Reply command(const char* format, int type, const weft::ObjectId& id, Words... words) {
    Reply reply(static_cast<redisReply*>(
        redisCommand(context_.get(), format, id.bytes.data(), std::size_t{id.size}, words...)));
    if (reply == nullptr || reply->type != type)
      throw std::runtime_error("Redis does not answer as expected");
    return reply;
  }
  std::unique_ptr<redisContext, Free> context_;
#else
  explicit Redis(const std::string&) { throw std::runtime_error("built without hiredis"); }
  void set(const weft::ObjectId&, std::span<const std::byte>) {}
  template <class Look>
  void get(const weft::ObjectId&, Look) {}
  void erase(const weft::ObjectId&) {}
#endif
};

}  // namespace bench
