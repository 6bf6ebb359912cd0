#pragma once
// TcpEndpoint: endpoint.cpp posts, polls and closes, receiving.cpp takes frames apart.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/os/descriptor.hpp"
#include "base/os/mapping.hpp"
#include "fabric/endpoint.hpp"
#include "fabric/interfaces.hpp"
#include "fabric/tcp/link.hpp"
#include "fabric/tcp/regions.hpp"

namespace weft::fabric::tcp {

// At once, besides a payload that is read into place: a message of 16 KiB and its frame. Of longer
// payloads most bytes are to go to their place without a copy between.
inline constexpr std::size_t kReadBytes = 20 << 10;

class TcpEndpoint final : public Endpoint {
 public:
  TcpEndpoint(Interface interface, std::uint8_t traffic_class, Descriptor listener,
              std::string address);
  ~TcpEndpoint() override;
  Status start();

  std::string_view name() const noexcept override { return "tcp"; }
  const Limits& limits() const noexcept override { return limits_; }
  std::string address() const override { return address_; }
  std::string kind() const override;
  Bytes listener_of(Bytes address) const override { return address; }
  std::string interface_address() const override { return interface_.address; }
  std::string way_to(Bytes address) const override;

  Status open(Bytes address, Bytes hello, Link*& link) override;
  void close(Link& link) override;

  Status register_memory(void* address, std::size_t bytes, std::uint32_t rights,
                         Registration& registration) override;
  void deregister(Registration& registration) override;

  Code put(Link& link, const void* from, std::size_t bytes, const Key& key, std::uint64_t offset,
           WorkRequest& request) override;
  Code get(Link& link, void* to, std::size_t bytes, const Key& key, std::uint64_t offset,
           WorkRequest& request) override;
  Code message(Link& link, Bytes head, Bytes body) override;
  Code message_in_place(Link& link, Bytes head, Bytes body, WorkRequest& request) override;

  bool poll(Events& events) override;
  bool arm() override;
  int wait_fd() const noexcept override { return epoll_.get(); }

 private:
  // Posting: under the link's mutex.
  static Code can_post(const TcpLink& link) {
    if (link.why != Code::ok) return Code::peer_lost;
    return link.state == TcpLink::State::up ? Code::ok : Code::again;
  }
  Code send(TcpLink& link, const Outgoing& out);
  void greet(TcpLink& link, const Outgoing& out);
  Code ask(TcpLink& link, Kind kind, Bytes from, std::byte* to, std::size_t bytes, const Key& key,
           std::uint64_t offset, WorkRequest& request);
  void after_send(TcpLink& link, Code code);
  bool watch(TcpLink& link);
  void list(TcpLink& link);  // for the next poll()
  void ring_in(long ns);

  // Polling.
  TcpLink* add_link(Descriptor socket, TcpLink::State state);
  bool look_at_listed(Events& events);
  void free_closed();
  bool look_at_sockets(Events& events);
  void watch_listener(bool on);
  void accept();
  void drop_old_greeting();
  void flush(TcpLink& link);
  void take_down(Events& events, TcpLink& link, Code why);
  void end_requests(TcpLink& link, Code code);
  bool is_over(const TcpLink& link) const {
    return link.is_closed || link.state == TcpLink::State::down;
  }

  // Receiving. True: something has come in.
  bool read(Events& events, TcpLink& link);
  ssize_t receive(TcpLink& link, std::byte* at, std::size_t& wanted);
  void parse(Events& events, TcpLink& link, std::byte* at, std::size_t bytes);
  static Code check(TcpLink& link, const Frame& frame);
  void begin_payload(TcpLink& link, Bytes first);
  void end_payload(Events& events, TcpLink& link);
  void take(Events& events, TcpLink& link, const Frame& frame, const Access& access, Bytes payload);
  void take_hello(Events& events, TcpLink& link, Bytes hello);
  static void take_done(TcpLink& link, const Frame& frame);
  void answer(TcpLink& link, std::uint64_t id, Code code);
  void add_answer(TcpLink& link, const Outgoing& out);
  void answer_get(TcpLink& link, const Frame& frame, const Access& access);

  Limits limits_;
  const Interface interface_;
  const std::uint8_t traffic_class_;
  const Descriptor listener_;
  const std::string address_;
  const Descriptor epoll_;
  const Descriptor bell_;  // a timer, which wakes a sleeper: who posts sets it, and accept()
  Mapping buffer_;
  Regions regions_;

  // Of the polling thread.
  TcpLink* hot_ = nullptr;  // had something last
  unsigned num_misses_ = 0, num_polls_ = 0;
  bool in_poll_ = false;
  bool is_listener_watched_ = true;               // else until the bell rings
  std::vector<TcpLink*> greeting_;                // accepted, without a hello yet; the eldest first
  std::vector<std::unique_ptr<TcpLink>> closed_;  // freed at the end of poll()
  std::size_t num_links_ = 0;

  std::atomic<TcpLink*> listed_{nullptr};  // by any thread; taken whole by poll()
  std::atomic<bool> is_armed_{false};
};

}  // namespace weft::fabric::tcp
