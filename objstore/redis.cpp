#include "redis.hpp"

#include <hiredis/hiredis.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace weft::objstore {
namespace {

constexpr std::uint64_t kRedisRetryNs = 1'000'000'000, kRedisConnectNs = 5'000'000'000;

}  // namespace

void Redis::Free::operator()(redisContext* context) const { redisFree(context); }

Redis::Redis(std::string host, int port, std::function<void()> on_connected, Answer on_push)
    : host_(std::move(host)),
      port_(port),
      on_connected_(std::move(on_connected)),
      on_push_(std::move(on_push)) {}
Redis::~Redis() = default;

void Redis::connect(std::uint64_t now_ns) {
  context_.reset(redisConnectNonBlock(host_.c_str(), port_));
  if (context_ == nullptr) return lose("no memory", now_ns);
  if (context_->err != 0) return lose(context_->errstr, now_ns);
  next_ns_ = now_ns + kRedisConnectNs;
}

void Redis::lose(const std::string& why, std::uint64_t now_ns) {
  trouble_ = why;
  context_.reset();
  is_connected_ = is_subscribed_ = has_unsent_ = false;
  expected_.clear();
  next_ns_ = now_ns + kRedisRetryNs;
}

// False: not yet, or not at all.
bool Redis::finish_connecting(std::uint64_t now_ns) {
  pollfd ready{context_->fd, POLLOUT, 0};
  if (::poll(&ready, 1, 0) <= 0) {
    if (now_ns > next_ns_) lose("no answer", now_ns);
    return false;
  }
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(context_->fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0) {
    lose(std::strerror(error), now_ns);
    return false;
  }
  is_connected_ = true;
  trouble_.clear();
  on_connected_();
  return true;
}

void Redis::command(const std::vector<std::string>& words, Answer answer) {
  if (!is_connected_) return;
  std::vector<const char*> texts;
  std::vector<std::size_t> lengths;
  for (const std::string& word : words) {
    texts.push_back(word.data());
    lengths.push_back(word.size());
  }
  if (redisAppendCommandArgv(context_.get(), static_cast<int>(texts.size()), texts.data(),
                             lengths.data()) != REDIS_OK)
    return;  // seen by progress()
  has_unsent_ = true;
  expected_.push_back(std::move(answer));
}

void Redis::subscribe(const std::string& channel) {
  command({"SUBSCRIBE", channel});
  is_subscribed_ = true;
}

// False: the connection is gone.
bool Redis::read(std::uint64_t now_ns) {
  pollfd ready{context_->fd, POLLIN, 0};
  if (::poll(&ready, 1, 0) <= 0) return true;
  if (redisBufferRead(context_.get()) != REDIS_OK) {
    lose(context_->errstr, now_ns);
    return false;
  }
  for (;;) {
    void* got = nullptr;
    if (redisGetReplyFromReader(context_.get(), &got) != REDIS_OK) {
      lose(context_->errstr, now_ns);
      return false;
    }
    if (got == nullptr) return true;
    const std::unique_ptr<redisReply, void (*)(redisReply*)> reply(
        static_cast<redisReply*>(got), [](redisReply* one) { freeReplyObject(one); });
    if (reply->type == REDIS_REPLY_ERROR) {
      lose(std::string(reply->str, reply->len), now_ns);
      return false;
    }
    if (is_subscribed_) {
      on_push_(*reply);
    } else if (!expected_.empty()) {
      const Answer answer = std::move(expected_.front());
      expected_.pop_front();
      if (answer) answer(*reply);
    }
    if (context_ == nullptr) return false;
  }
}

void Redis::progress(std::uint64_t now_ns) {
  if (context_ == nullptr) {
    if (now_ns < next_ns_) return;
    connect(now_ns);
    if (context_ == nullptr) return;
  }
  if (!is_connected_ && !finish_connecting(now_ns)) return;
  if (!read(now_ns)) return;
  if (!has_unsent_) return;
  int is_done = 0;
  if (redisBufferWrite(context_.get(), &is_done) != REDIS_OK) return lose(context_->errstr, now_ns);
  has_unsent_ = is_done == 0;
}

void Redis::await(std::vector<pollfd>& descriptors) {
  if (context_ == nullptr) return;
  const bool wants_out = !is_connected_ || has_unsent_;
  descriptors.push_back(
      {context_->fd, static_cast<short>(wants_out ? POLLIN | POLLOUT : POLLIN), 0});
}

}  // namespace weft::objstore
