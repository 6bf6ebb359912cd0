#include "redis_connection.hpp"

#include <hiredis/hiredis.h>
#include <netdb.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

namespace weft::objstore {
namespace {

constexpr std::uint64_t kRedisRetryNs = 1'000'000'000, kRedisConnectNs = 5'000'000'000;

// Numeric, of IPv4 if there is one. Returns getaddrinfo's code.
int look_up(const std::string& host, int flags, std::string& address) {
  int code = 0;
  for (const int family : {AF_INET, AF_INET6}) {
    addrinfo hints{};
    hints.ai_family = family;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags;
    addrinfo* found = nullptr;
    char text[NI_MAXHOST];
    code = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
    if (code != 0) continue;
    code = ::getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, nullptr, 0,
                         NI_NUMERICHOST);
    ::freeaddrinfo(found);
    if (code != 0) continue;
    address = text;
    break;
  }
  return code;
}

}  // namespace

struct Redis::Lookup {
  std::atomic<bool> is_done{false};  // then the other fields do not change
  int code = 0;
  std::string address;
};

void Redis::Free::operator()(redisContext* context) const { redisFree(context); }

Redis::Redis(std::string host, int port, std::function<void()> on_connected, Answer on_push)
    : host_(std::move(host)),
      port_(port),
      on_connected_(std::move(on_connected)),
      on_push_(std::move(on_push)) {}
Redis::~Redis() = default;

// False: not yet, or there is none.
bool Redis::find_address(std::uint64_t now_ns, std::string& address) {
  if (look_up(host_, AI_NUMERICHOST, address) == 0) return true;
  if (lookup_ == nullptr) {
    const auto lookup = std::make_shared<Lookup>();
    try {
      std::thread([lookup, host = host_] {
        lookup->code = look_up(host, 0, lookup->address);
        // release: what was found.
        lookup->is_done.store(true, std::memory_order_release);
      }).detach();
    } catch (const std::system_error& error) {
      lose(error.what(), now_ns);
      return false;
    }
    lookup_ = lookup;
    if (trouble_.empty()) trouble_ = "looking up " + host_;
  }
  if (!lookup_->is_done.load(std::memory_order_acquire)) return false;
  const std::shared_ptr<Lookup> lookup = std::move(lookup_);
  if (lookup->code == 0) {
    address = lookup->address;
    return true;
  }
  lose(host_ + ": " + ::gai_strerror(lookup->code), now_ns);
  return false;
}

void Redis::connect(const std::string& address, std::uint64_t now_ns) {
  context_.reset(redisConnectNonBlock(address.c_str(), port_));
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
    std::string address;
    if (now_ns < next_ns_ || !find_address(now_ns, address)) return;
    connect(address, now_ns);
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
