// Objects to other hosts at once. The store writes the result of each host into an extent.
#include <algorithm>
#include <cstring>

#include "impl.hpp"
#include "objstore/shared/clock.hpp"

namespace weft {

using namespace objstore;

namespace {

constexpr std::size_t kMostNamed = 8;  // hosts that an error names

std::string text_of(const PushedHost& host) {
  const auto code = static_cast<Code>(host.code);
  const std::string name = std::string(host.name) + " ";
  switch (host.reason) {
    case Reason::no_room:
      return name + "has no room";
    case Reason::too_large:
      return name + "has less memory than that";
    case Reason::not_listening:
      return name + "can't be reached by groups: start its weft-store with --listen";
    case Reason::exists:
      return name + "is writing it";
    case Reason::wrong_checksum:
      return name + "got bytes that its checksum is not of";
    default:
      break;
  }
  if (code == Code::peer_lost) return name + "was lost";
  if (code == Code::cancelled) return name + "gave it up, as others failed";
  if (code == Code::timed_out) return name + "did not answer in time";
  if (code == Code::not_found) return name + "is not known here";
  if (code == Code::bad_argument) return name + "is the name of several hosts";
  return name + "failed (" + std::string(code_name(code)) + ")";
}

}  // namespace

Status ObjectStoreImpl::push(const ObjectId& id, std::span<const std::string> hosts,
                             std::vector<ObjectPush>& pushes, std::int64_t timeout_ms) {
  pushes.clear();
  const std::uint64_t begin_ns = monotonic_ns();
  std::string names;
  for (const std::string& host : hosts) {
    if (host.empty() || host.size() >= sizeof PushedHost::name ||
        host.find('\0') != std::string::npos)
      return {Code::bad_argument, "'" + host + "' is no name of a host"};
    names += host;
    names += '\0';
  }
  if (hosts.size() > kMostPushed)
    return {Code::bad_argument,
            "an object is pushed to " + std::to_string(kMostPushed) + " hosts at most"};
  // The reference keeps it here, in memory, until it has been sent.
  Object object;
  if (!take(id, object))
    if (Status status = get({&id, 1}, {&object, 1}, timeout_ms); !status) return status;
  Room room;
  const std::size_t most = hosts.empty() ? kMostPushed : hosts.size();
  if (Status status = take_room(std::max(names.size(), most * sizeof(PushedHost)), room); !status)
    return {status.code(), "object " + id.text() + ": " + status.text()};
  std::memcpy(room.memory, names.data(), names.size());
  Request request{};
  request.op = Op::push;
  request.id = id;
  request.extent = room.extent;
  request.extent_offset = room.offset;
  request.bytes = room.bytes;
  request.count = static_cast<std::uint32_t>(names.size());
  request.timeout_ms = left_ms(timeout_ms, begin_ns);
  Completion completion{};
  Status status = call(request, completion);
  // The store may still write for a call that it has not answered.
  if (completion.tag == kUnanswered) return status;
  std::string failures;
  std::size_t num_there = 0, num_failed = 0;
  for (std::uint32_t i = 0; i < std::min<std::size_t>(completion.count, most); ++i) {
    PushedHost host;
    std::memcpy(&host, room.memory + i * sizeof host, sizeof host);
    host.name[sizeof host.name - 1] = '\0';
    const auto code = static_cast<Code>(host.code);
    pushes.push_back({host.name, code, code == Code::ok && host.reason == Reason::exists});
    if (code == Code::ok) {
      ++num_there;
    } else if (++num_failed <= kMostNamed) {
      failures += (num_failed == 1 ? ": " : "; ") + text_of(host);
    }
  }
  give_room(room);
  if (completion.reason == Reason::many_hosts)
    return {status.code(), status.text() + ": " + std::to_string(completion.value) +
                               " are known here, and " + std::to_string(kMostPushed) +
                               " take it at once; name those that shall have it"};
  if (num_failed > kMostNamed)
    failures += "; and " + std::to_string(num_failed - kMostNamed) + " more";
  if (completion.reason == Reason::few_hosts)
    return {static_cast<Code>(completion.code),
            "object " + id.text() + " is on " + std::to_string(num_there) + " of the " +
                std::to_string(pushes.size()) + " other hosts" + failures};
  return status;
}

}  // namespace weft
