#include "push_group.hpp"

#include <system_error>
#include <utility>

#include "weft/job.hpp"

namespace weft::objstore {
namespace {

constexpr int kComeMs = 15'000;  // for all members to make the group
constexpr int kSliceMs = 20;     // between two checks of is_stopped_

}  // namespace

PushGroup::PushGroup(Multicast& multicast, PushGroupSettings settings,
                     std::function<void()> arrived, std::function<void(const Status&)> ended) {
  try {
    thread_ = std::thread(
        [this, &multicast, settings = std::move(settings), arrived = std::move(arrived), ended] {
          Status status;
          try {
            status = take_part(multicast, settings, arrived);
          } catch (const Error& error) {
            status = error.status();
          }
          ended(status);
        });
  } catch (const std::system_error& error) {
    ended({Code::no_memory, std::string("no thread to be had: ") + error.what()});
  }
}

PushGroup::~PushGroup() {
  stop();
  if (thread_.joinable()) thread_.join();
}

Status PushGroup::take_part(Multicast& multicast, const PushGroupSettings& settings,
                            const std::function<void()>& arrived) {
  GroupSettings of_group;
  of_group.id = settings.group;
  of_group.members = settings.members;
  of_group.self = settings.self;
  of_group.block_bytes = settings.block_bytes;
  of_group.algorithm = "native";
  of_group.create_timeout_ms = kComeMs;
  GroupEvents events;
  // Given once: the first message may be sealed by now, and read by others.
  events.on_incoming = [&, is_given = false](std::uint64_t bytes) mutable -> void* {
    if (bytes != settings.bytes || std::exchange(is_given, true)) return nullptr;
    return settings.place;
  };
  if (settings.self != 0)
    events.on_complete = [&](void*, std::uint64_t bytes) {
      if (bytes == settings.bytes) arrived();
    };
  Group group(multicast, of_group, events);
  if (settings.self == 0)
    if (Status status = group.send(settings.place, settings.bytes); !status) return status;
  while (!is_stopped_.load(std::memory_order_relaxed)) {
    Status status = group.close(kSliceMs);
    if (status.code() != Code::timed_out || group.status().code() == Code::timed_out) return status;
  }
  return {Code::cancelled, "the push was given up"};
}

}  // namespace weft::objstore
