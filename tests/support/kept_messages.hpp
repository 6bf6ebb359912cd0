#pragma once
// Wire: an endpoint that keeps what it is to send, for tests of what lies on links.
#include <cstring>
#include <vector>

#include "fabric/endpoint.hpp"
#include "peer/messages.hpp"

namespace weft::transport {

// Keeps what is sent, of as many messages as there is room for.
class Wire final : public fabric::Endpoint {
 public:
  explicit Wire(std::size_t message_max = 1 << 20, bool breaks = true) {
    limits_.message_max = message_max;
    limits_.breaks = breaks;
  }
  std::string_view name() const noexcept override { return "wire"; }
  const fabric::Limits& limits() const noexcept override { return limits_; }
  std::string address() const override { return {}; }
  fabric::Bytes listener_of(fabric::Bytes address) const override { return address; }
  Status open(fabric::Bytes, fabric::Bytes, fabric::Link*&) override { return Code::unsupported; }
  void close(fabric::Link&) override {}
  Status register_memory(void*, std::size_t, std::uint32_t, fabric::Registration&) override {
    return Code::unsupported;
  }
  void deregister(fabric::Registration&) override {}
  Code put(fabric::Link&, const void*, std::size_t, const fabric::Key&, std::uint64_t,
           fabric::WorkRequest&) override {
    return Code::unsupported;
  }
  Code get(fabric::Link&, void*, std::size_t, const fabric::Key&, std::uint64_t,
           fabric::WorkRequest&) override {
    return Code::unsupported;
  }
  Code atomic(fabric::Link&, fabric::Atomic, const fabric::Key&, std::uint64_t, std::uint64_t,
              std::uint64_t, std::uint64_t&, fabric::WorkRequest&) override {
    return Code::unsupported;
  }
  Code message(fabric::Link&, fabric::Bytes head, fabric::Bytes body) override {
    if (sent.size() >= room) return Code::again;
    Sent& message = sent.emplace_back();
    message.bytes.assign(head.begin(), head.end());
    message.bytes.insert(message.bytes.end(), body.begin(), body.end());
    std::memcpy(static_cast<void*>(&message), head.data(), sizeof(Head));
    return Code::ok;
  }
  bool poll(fabric::Events&) override { return false; }
  bool arm() override { return true; }
  int wait_fd() const noexcept override { return -1; }

  struct Sent : Head {
    std::vector<std::byte> bytes;  // the head included
  };
  std::vector<Sent> sent;
  std::size_t room = ~std::size_t{0};

 private:
  fabric::Limits limits_;
};

}  // namespace weft::transport
