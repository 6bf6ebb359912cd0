#pragma once
// Redis: one connection that never blocks. Commands are sent in order and answered in order; each
// answer goes to its command's callback. A connection that breaks is made anew every second, and
// on_connected is called, as its user has to send everything again. A name is looked up by a thread
// of its own each time, as a name server may be silent for long.
#include <poll.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

struct redisContext;
struct redisReply;

namespace weft::objstore {

class Redis {
 public:
  using Answer = std::function<void(const redisReply&)>;
  // on_connected: send what must come first. on_push: answers that no command asked for.
  Redis(std::string host, int port, std::function<void()> on_connected, Answer on_push);
  ~Redis();
  Redis(const Redis&) = delete;
  Redis& operator=(const Redis&) = delete;

  bool is_connected() const { return is_connected_; }
  // The reason why the last connection broke, or could not be made.
  const std::string& trouble() const { return trouble_; }
  // Dropped while there is no connection. subscribe: all answers are pushes from then on.
  void command(const std::vector<std::string>& words, Answer answer = {});
  void subscribe(const std::string& channel);
  void progress(std::uint64_t now_ns);
  void await(std::vector<pollfd>& descriptors);

 private:
  struct Free {
    void operator()(redisContext* context) const;
  };
  struct Lookup;
  bool find_address(std::uint64_t now_ns, std::string& address);
  void connect(const std::string& address, std::uint64_t now_ns);
  void lose(const std::string& why, std::uint64_t now_ns);
  bool finish_connecting(std::uint64_t now_ns);
  bool read(std::uint64_t now_ns);

  const std::string host_;
  const int port_;
  const std::function<void()> on_connected_;
  const Answer on_push_;
  std::shared_ptr<Lookup> lookup_;  // under way; its thread may outlive this
  std::unique_ptr<redisContext, Free> context_;
  bool is_connected_ = false, is_subscribed_ = false, has_unsent_ = false;
  std::uint64_t next_ns_ = 0;  // another try, or the end of this one
  std::deque<Answer> expected_;
  std::string trouble_;
};

}  // namespace weft::objstore
