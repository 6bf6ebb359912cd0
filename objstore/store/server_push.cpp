// Calls that send an object to other hosts at once. Remote does it; a call is answered when Remote
// has reported the end, so that the answer has the result of every host.
#include <algorithm>
#include <cstring>

#include "objstore/shared/clock.hpp"
#include "server.hpp"

namespace weft::objstore {

void Server::push(Client& client, const Request& request) {
  const auto refuse = [&](Code code, Reason reason) {
    complete(client, request.tag, {code, reason});
  };
  const std::byte* from = extent_bytes(client, request, request.bytes);
  if (from == nullptr || request.count > request.bytes ||
      request.count > std::uint64_t{kMostPushed} * sizeof PushedHost::name)
    return refuse(Code::bad_argument, Reason::bad_request);
  // A copy: the client can change it while it is checked.
  const std::string text(reinterpret_cast<const char*>(from), request.count);
  std::vector<std::string> hosts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\0', begin);
    if (end == std::string::npos || end == begin || end - begin >= sizeof PushedHost::name ||
        hosts.size() == kMostPushed)
      return refuse(Code::bad_argument, Reason::bad_request);
    hosts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (objects_.find_sealed(request.id) == kNoEntry) return refuse(Code::not_found, Reason::none);
  if (remote_ == nullptr) return refuse(Code::not_found, Reason::no_hosts);
  const std::uint64_t number = next_wait_++;
  pushes_.emplace(number, Push{client.serial, request, deadline_after(request.timeout_ms)});
  remote_->push(number, request.id, hosts);
}

void Server::pushed(std::uint64_t number, Outcome outcome, const std::vector<PushResult>& results,
                    std::uint64_t value) {
  const auto found = pushes_.find(number);
  if (found == pushes_.end()) return;
  const Push push = found->second;
  pushes_.erase(found);
  const auto at = clients_.find(push.client);
  if (at == clients_.end()) return;
  Client& client = *at->second;
  const std::uint64_t most =
      std::min<std::uint64_t>(push.request.bytes / sizeof(PushedHost), kMostPushed);
  std::byte* to = extent_bytes(client, push.request, push.request.bytes);
  std::uint32_t num = 0;
  for (const PushResult& result : results) {
    if (to == nullptr || num == most) break;
    PushedHost host{};
    host.code = static_cast<std::uint32_t>(result.outcome.code);
    host.reason = result.outcome.reason;
    result.host.copy(host.name, sizeof host.name - 1);
    std::memcpy(to + num++ * sizeof host, &host, sizeof host);
    if (!result.outcome.ok() && outcome.ok()) outcome = {result.outcome.code, Reason::few_hosts};
  }
  complete(client, push.request.tag, outcome, value, num);
}

// Ends pushes whose deadline has passed; Remote knows their progress.
void Server::end_pushes(std::uint64_t now_ns) {
  std::vector<std::uint64_t> due;
  for (auto& [number, push] : pushes_) {
    if (push.deadline_ns > now_ns && remote_ != nullptr) continue;
    push.deadline_ns = UINT64_MAX;
    due.push_back(number);
  }
  for (const std::uint64_t number : due) {
    if (remote_ != nullptr)
      remote_->no_more_push(number);
    else
      pushed(number, {Code::cancelled, Reason::shutting_down}, {});
  }
}

// The client is gone, so nothing is answered.
void Server::end_pushes_of(std::uint32_t client) {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, push] : pushes_)
    if (push.client == client) numbers.push_back(number);
  for (const std::uint64_t number : numbers) {
    pushes_.erase(number);
    if (remote_ != nullptr) remote_->no_more_push(number);
  }
}

}  // namespace weft::objstore
