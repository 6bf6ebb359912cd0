#include "tools/weft-check/ranks/channel.hpp"

#include <time.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>

#include "tools/weft-check/lock.hpp"

#pragma GCC visibility push(default)
#include "mpi.h"
#pragma GCC visibility pop

namespace weft::check {
namespace {

constexpr int kTag = 1;
constexpr std::size_t kMostNotes = 32;   // in a message
constexpr std::uint8_t kNumAtOnce = 16;  // of each place of the program
constexpr std::uint32_t kMostUnpolled = 16;
constexpr std::uint64_t kLongNs = 50'000'000;

struct Entry {
  Note note;
  std::uint64_t topic = 0;
};

struct Slot {
  Entry entries[kMostNotes];
  MPI_Request request = MPI_REQUEST_NULL;
};

// What has not been sent to a rank yet.
struct Outbox {
  std::unique_ptr<Slot> slot;
  std::size_t number = 0;
};

struct Channel {
  Take take = nullptr;
  std::recursive_mutex mutex;
  MPI_Comm comm = MPI_COMM_NULL;
  int size = 0;
  std::deque<std::unique_ptr<Slot>> under_way;
  std::vector<std::unique_ptr<Slot>> idle;
  std::vector<Outbox> outboxes;
  std::vector<std::uint32_t> sent, received;  // notes
  std::uint64_t flushed_at_ns = 0, polled_at_ns = 0;
  std::uint32_t num_unpolled = 0;
};
Channel& channel() {
  static Channel& all = *new Channel;
  return all;
}

std::uint64_t coarse_now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// True for the first calls of a place.
bool is_new(const void* caller) {
  static std::atomic<std::uint8_t> calls[4096];
  auto& number = calls[(reinterpret_cast<std::uintptr_t>(caller) * 0x9e3779b97f4a7c15ull) >> 52];
  const std::uint8_t before = number.load(std::memory_order_relaxed);
  if (before == kNumAtOnce) return false;
  number.store(static_cast<std::uint8_t>(before + 1), std::memory_order_relaxed);
  return true;
}

std::unique_ptr<Slot> idle_slot(Channel& all) {
  while (!all.under_way.empty()) {
    int is_done = 0;
    PMPI_Test(&all.under_way.front()->request, &is_done, MPI_STATUS_IGNORE);
    if (is_done == 0) break;
    all.idle.push_back(std::move(all.under_way.front()));
    all.under_way.pop_front();
  }
  if (all.idle.empty()) return std::make_unique<Slot>();
  auto slot = std::move(all.idle.back());
  all.idle.pop_back();
  return slot;
}

void flush(Channel& all, int rank) {
  Outbox& outbox = all.outboxes[static_cast<std::size_t>(rank)];
  if (outbox.number == 0) return;
  const auto bytes = static_cast<int>(outbox.number * sizeof(Entry));
  outbox.number = 0;
  if (PMPI_Isend(outbox.slot->entries, bytes, MPI_BYTE, rank, kTag, all.comm,
                 &outbox.slot->request) == MPI_SUCCESS)
    all.under_way.push_back(std::move(outbox.slot));
}

void flush_all(Channel& all) {
  for (int rank = 0; rank < all.size; ++rank) flush(all, rank);
}

bool receive(Channel& all, int from) {
  Entry entries[kMostNotes];
  MPI_Status status;
  int bytes = 0;
  if (PMPI_Recv(entries, sizeof entries, MPI_BYTE, from, kTag, all.comm, &status) != MPI_SUCCESS ||
      PMPI_Get_count(&status, MPI_BYTE, &bytes) != MPI_SUCCESS || bytes < 0)
    return false;
  const std::size_t number = static_cast<std::size_t>(bytes) / sizeof(Entry);
  all.received[static_cast<std::size_t>(from)] += static_cast<std::uint32_t>(number);
  for (std::size_t i = 0; i < number; ++i)
    all.take(static_cast<Topic>(entries[i].topic), from, entries[i].note);
  return true;
}

void poll(Channel& all) {
  all.num_unpolled = 0;
  for (;;) {
    int is_there = 0;
    MPI_Status status;
    if (PMPI_Iprobe(MPI_ANY_SOURCE, kTag, all.comm, &is_there, &status) != MPI_SUCCESS ||
        is_there == 0 || !receive(all, status.MPI_SOURCE))
      return;
  }
}

}  // namespace

void open_channel(Take take) {
  Channel& all = channel();
  all.take = take;
  if (PMPI_Comm_dup(MPI_COMM_WORLD, &all.comm) != MPI_SUCCESS) return;
  PMPI_Comm_set_errhandler(all.comm, MPI_ERRORS_RETURN);
  PMPI_Comm_set_name(all.comm, "weft-check");
  PMPI_Comm_size(all.comm, &all.size);
  const auto size = static_cast<std::size_t>(all.size);
  all.sent.assign(size, 0);
  all.received.assign(size, 0);
  all.outboxes.resize(size);
}

bool is_channel_open() { return channel().comm != MPI_COMM_NULL; }

void send_note(Topic topic, int rank, const Note& note, const void* caller) {
  Channel& all = channel();
  if (all.comm == MPI_COMM_NULL || rank < 0 || rank >= all.size) return;
  const Lock lock(all.mutex);
  Outbox& outbox = all.outboxes[static_cast<std::size_t>(rank)];
  if (outbox.slot == nullptr) outbox.slot = idle_slot(all);
  outbox.slot->entries[outbox.number++] = {note, static_cast<std::uint64_t>(topic)};
  ++all.sent[static_cast<std::size_t>(rank)];
  if (outbox.number == kMostNotes || is_new(caller)) return flush(all, rank);
  const std::uint64_t now = coarse_now_ns();
  if (now - all.flushed_at_ns < kLongNs) return;
  all.flushed_at_ns = now;
  flush_all(all);
}

void poll_notes_at(const void* caller) {
  Channel& all = channel();
  if (all.comm == MPI_COMM_NULL) return;
  const Lock lock(all.mutex);
  if (!is_new(caller) && ++all.num_unpolled < kMostUnpolled) {
    const std::uint64_t now = coarse_now_ns();
    if (now - all.polled_at_ns < kLongNs) return;
    all.polled_at_ns = now;
  }
  poll(all);
}

bool drain_channel() {
  Channel& all = channel();
  if (all.comm == MPI_COMM_NULL) return true;
  const Lock lock(all.mutex);
  flush_all(all);
  std::vector<std::uint32_t> all_sent(all.sent.size());
  if (PMPI_Alltoall(all.sent.data(), 1, MPI_UINT32_T, all_sent.data(), 1, MPI_UINT32_T, all.comm) !=
      MPI_SUCCESS)
    return false;
  for (int rank = 0; rank < all.size; ++rank)
    while (all.received[static_cast<std::size_t>(rank)] != all_sent[static_cast<std::size_t>(rank)])
      if (!receive(all, rank)) return false;
  while (!all.under_way.empty()) {
    PMPI_Wait(&all.under_way.front()->request, MPI_STATUS_IGNORE);
    all.under_way.pop_front();
  }
  PMPI_Comm_free(&all.comm);
  return true;
}

}  // namespace weft::check
