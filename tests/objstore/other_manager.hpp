#pragma once
// A Node that says to a store what the manager of another one would, or should not.
#include <deque>
#include <optional>
#include <utility>

#include "hosts.hpp"
#include "objstore/shared/peer_wire.hpp"

namespace weft::testing {

using objstore::PeerKind;
using objstore::PeerMessage;

inline PeerMessage ask_for(const ObjectId& id, std::uint64_t number) {
  PeerMessage ask;
  ask.kind = PeerKind::ask;
  ask.id = id;
  ask.number = number;
  ask.threshold = UINT64_MAX;
  return ask;
}

class OtherManager {
 public:
  OtherManager() : node_({.name = "weft-store other", .progress_thread = false}) {
    node_.on_message([this](const Peer& peer, std::span<const std::byte> bytes) {
      PeerMessage message;
      const std::vector<std::byte> copy(bytes.begin(), bytes.end());
      if (decode(copy, message)) heard_.emplace_back(peer, message);
    });
  }
  Peer connect(const Host& host) {
    Peer peer;
    REQUIRE(node_.connect(host.peer(), peer));
    return peer;
  }
  void close(const Peer& link) { node_.close(link); }
  std::uint64_t generation() const { return node_.generation(); }
  void say(const Peer& link, const PeerMessage& message) {
    REQUIRE(send(link, encode(message)) == Code::ok);
  }
  Code send(const Peer& link, const std::string& bytes) {
    Operation operation;
    node_.send(link, bytes.data(), bytes.size(), operation);
    return node_.wait(operation);
  }
  void greet(const Peer& link, std::uint64_t number) {
    PeerMessage message;
    message.kind = PeerKind::members;
    message.number = number;
    say(link, message);
  }
  // The next message of this kind, and number if there is one, over this link, which takes out what
  // came before it.
  PeerMessage expect_message(const Peer& link, PeerKind kind,
                             std::optional<std::uint64_t> number = {}) {
    for (int tries = 0; tries < 30000; ++tries) {
      node_.progress();
      while (!heard_.empty()) {
        const auto [from, message] = heard_.front();
        heard_.pop_front();
        if (from == link && message.kind == kind &&
            message.number == number.value_or(message.number))
          return message;
      }
      ::usleep(1000);
    }
    FAIL("no message of this kind came");
    return {};
  }
  // What is answered to an ask, or a watch, of this number.
  PeerMessage hear_answer(const Peer& link, std::uint64_t number) {
    std::optional<PeerMessage> answer;
    CHECK(progress_until([&] {
      while (!answer && !heard_.empty()) {
        const auto [from, message] = heard_.front();
        heard_.pop_front();
        const bool is_answer = message.kind == PeerKind::data || message.kind == PeerKind::offer ||
                               message.kind == PeerKind::absent ||
                               message.kind == PeerKind::holders;
        if (from == link && is_answer && message.number == number) answer = message;
      }
      return answer.has_value();
    }));
    REQUIRE(answer);
    return *answer;
  }
  // Room for an object that will not come.
  void take_room(const Peer& link, std::uint64_t number) {
    PeerMessage message;
    message.kind = PeerKind::push;
    message.number = number;
    message.id = id_of(number);
    message.data_bytes = 1'000'000;
    say(link, message);
    const PeerMessage answer = expect_message(link, PeerKind::push_answer);
    CHECK(answer.number == number);
    REQUIRE(answer.code == 0);
  }
  template <class Done>
  bool progress_until(Done&& done) {
    return wait_until([&] {
      node_.progress();
      return done();
    });
  }

 private:
  Node node_;
  std::deque<std::pair<Peer, PeerMessage>> heard_;
};

inline std::uint64_t used_bytes(ObjectStore& store) { return status_number(store, "used_bytes"); }

}  // namespace weft::testing
