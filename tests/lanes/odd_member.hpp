#pragma once
// OddMember: rank 1 of a job of two. It knows the job's key, opens a link to rank 0's lanes as a
// rank does, and then says over it whatever a test wants.
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fabric/endpoint.hpp"
#include "job/members.hpp"
#include "lanes/fabrics.hpp"
#include "lanes/linked/remote_lanes.hpp"
#include "lanes/mapped/host_lanes.hpp"
#include "peer/messages.hpp"
#include "tests/lanes/remote_pair.hpp"
#include "tests/support/hex.hpp"

namespace weft::test {

class OddMember final : public fabric::Events {
 public:
  // name: of rank 0's fabric; with: the member's endpoint, of the same kind.
  OddMember(const Settings& settings, const std::string& name,
            std::unique_ptr<fabric::Endpoint> with)
      : endpoint(std::move(with)) {
    auto boards = make_thread_boards(2);
    std::thread other([&] {
      if (Members::open(settings, std::move(boards[1]), jobs_[1]).ok())
        (void)jobs_[1]->board().fence(20'000);  // of the fabric inside the host
    });
    const Status opened = Members::open(settings, std::move(boards[0]), jobs_[0]);
    const Status shared = opened.ok() ? make_host_lanes(*jobs_[0], local_) : opened;
    other.join();
    REQUIRE(shared.ok());
    REQUIRE(
        make_remote_lanes(*jobs_[0], *local_, *fabric::find_row(name), To::members, lanes).ok());
    const std::string own =
        endpoint->kind() + " " + std::string(16, '0') + " " + to_hex(endpoint->address());
    REQUIRE(jobs_[1]->board().put(name + ".address", own).ok());
    other = std::thread([&] { (void)jobs_[1]->board().fence(20'000); });
    const Status met = jobs_[0]->board().fence(20'000);
    other.join();
    REQUIRE(met.ok());
    std::string text;
    REQUIRE(jobs_[0]->board().get(0, name + ".address", text).ok());
    const std::size_t first = text.find(' '), second = text.find(' ', first + 1);
    std::memcpy(&secret_, from_hex(text.substr(first + 1, 16)).data(), sizeof secret_);
    address_ = from_hex(text.substr(second + 1));
  }
  ~OddMember() { close(); }

  // Opens the link; before it returns rank 0 has let it in.
  void open() {
    const transport::RankHello hello{
        secret_, jobs_[0]->id(), 1, transport::kLanesVersion, num_received_, 0};
    is_up = is_down = false;
    REQUIRE(endpoint
                ->open({reinterpret_cast<const std::byte*>(address_.data()), address_.size()},
                       transport::as_bytes(hello), link)
                .ok());
    REQUIRE(poll_until([&] { return is_up && has_resumed_; }));
  }
  void close() {
    if (link != nullptr) endpoint->close(*std::exchange(link, nullptr));
    has_resumed_ = false;
  }
  // Numbered: as the next message that is sent again after a break.
  template <class Message>
  void say(Message message, fabric::Bytes data = {}, bool is_numbered = false) {
    if (is_numbered) {
      message.flags |= transport::kNumbered;
      message.number = ++num_said_;
    }
    Code code = Code::again;
    REQUIRE(poll_until([&] {
      code = endpoint->message(*link, transport::as_bytes(message), data);
      return code != Code::again;
    }));
    REQUIRE(code == Code::ok);
  }
  template <class F>
  bool poll_until(F&& done) {
    return wait_for([&] {
      endpoint->poll(*this);
      lanes->poll();
      return done();
    });
  }
  // The next message of this kind from rank 0.
  template <class Message>
  Message next(transport::Kind kind) {
    Message message{};
    REQUIRE(poll_until([&] {
      for (; seen_ < messages.size(); ++seen_) {
        transport::Head head;
        fabric::Bytes data;
        if (!transport::read_message(messages[seen_], head, data) || head.kind != kind) continue;
        return transport::read_message(messages[seen_++], message, data);
      }
      return false;
    }));
    return message;
  }

  bool on_incoming(fabric::Link&, fabric::Bytes) override { return false; }
  void on_up(fabric::Link&) override { is_up = true; }
  void on_down(fabric::Link&, Code) override { is_down = true; }
  void on_message(fabric::Link&, fabric::Bytes bytes) override {
    transport::Head head;
    fabric::Bytes data;
    if (!transport::read_message(bytes, head, data)) return;
    has_resumed_ = has_resumed_ || head.kind == transport::Kind::resume;
    if ((head.flags & transport::kNumbered) != 0) num_received_ = head.number;
    messages.emplace_back(bytes.begin(), bytes.end());
  }

 private:
  std::unique_ptr<Members> jobs_[2];
  std::unique_ptr<HostLanes> local_;
  std::uint64_t secret_ = 0;
  std::string address_;
  bool has_resumed_ = false;
  std::uint32_t num_said_ = 0, num_received_ = 0;
  std::size_t seen_ = 0;

 public:
  std::unique_ptr<transport::RemoteLanes> lanes;  // rank 0's
  std::unique_ptr<fabric::Endpoint> endpoint;
  fabric::Link* link = nullptr;
  bool is_up = false, is_down = false;
  std::vector<std::vector<std::byte>> messages;
};

}  // namespace weft::test
