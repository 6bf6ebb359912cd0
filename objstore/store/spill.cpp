#include "spill.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "log.hpp"
#include "objstore/shared/checksum.hpp"

namespace weft::objstore {
namespace {

constexpr std::uint64_t kFilePage = 4096;  // so that space can be given back
constexpr std::uint64_t kFullNs = 1'000'000'000;

std::uint64_t in_pages(std::uint64_t bytes) {
  return std::max<std::uint64_t>((bytes + kFilePage - 1) / kFilePage, 1) * kFilePage;
}

// Writes all of it; false: see errno.
template <class Call>
bool whole(std::byte* memory, std::uint64_t bytes, std::uint64_t offset, Call&& call) {
  while (bytes != 0) {
    const ssize_t moved = call(memory, bytes, static_cast<off_t>(offset));
    if (moved < 0 && errno == EINTR) continue;
    if (moved == 0) errno = EIO;
    if (moved <= 0) return false;
    memory += moved;
    bytes -= static_cast<std::uint64_t>(moved);
    offset += static_cast<std::uint64_t>(moved);
  }
  return true;
}

}  // namespace

Status Spill::open(const SpillSettings& settings) {
  settings_ = settings;
  const std::string what = "--spill " + settings_.folder;
  file_ = Descriptor(::open(settings_.folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file_ && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    // Some file systems can't; there it has a name for a moment.
    std::string name = settings_.folder + "/weft-spill-XXXXXX";
    file_ = Descriptor(::mkostemp(name.data(), O_CLOEXEC));
    if (file_) ::unlink(name.c_str());
  }
  if (!file_) return system_error(what);
  thread_ = std::thread([this] { run(); });
  return Code::ok;
}

void Spill::stop() {
  if (!is_open()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  wakes_.notify_one();
  thread_.join();
}

void Spill::post(const Job& job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(job);
  }
  wakes_.notify_one();
}

bool Spill::write(std::uint32_t entry, const std::byte* from, std::uint64_t bytes) {
  const std::uint64_t length = in_pages(bytes);
  auto offset = space_.allocate(length);
  if (!offset) {
    if (settings_.limit_bytes != 0 && end_ + length > settings_.limit_bytes) return false;
    space_.add(end_, length);
    end_ += length;
    offset = space_.allocate(length);
  }
  post({Job::Kind::write, entry, const_cast<std::byte*>(from), {*offset, bytes, 0}});
  return true;
}

void Spill::read(std::uint32_t entry, const FileRange& range, std::byte* to) {
  post({Job::Kind::read, entry, to, range});
}

void Spill::free(const FileRange& range) {
  space_.free(range.offset, in_pages(range.bytes));
  post({Job::Kind::free, 0, nullptr, range});
}

void Spill::note_full(const std::string& why, std::uint64_t now_ns) {
  if (trouble_.empty())
    write_log(LogSeverity::warning,
              settings_.folder + ": " + why + "; until there is room, objects are evicted for good",
              {{"event", "spill_full"}, {"folder", settings_.folder}, {"why", why}});
  trouble_ = why;
  full_until_ns_ = now_ns + kFullNs;
}

std::vector<Spill::Done> Spill::take_done() {
  const std::lock_guard lock(mutex_);
  has_done_.store(false, std::memory_order_relaxed);
  return std::exchange(done_, {});
}

Status Spill::carry_out(Job& job) {
  const FileRange& range = job.range;
  const int file = file_.get();
  switch (job.kind) {
    case Job::Kind::write:
      // Space first: no page of what does not fit is written. Not all file systems can.
      if (::fallocate(file, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(range.offset),
                      static_cast<off_t>(in_pages(range.bytes))) != 0 &&
          errno != EOPNOTSUPP)
        return system_error("spilling " + std::to_string(range.bytes) + " bytes");
      if (!whole(job.memory, range.bytes, range.offset,
                 [&](const std::byte* from, std::uint64_t bytes, off_t offset) {
                   return ::pwrite(file, from, bytes, offset);
                 }))
        return system_error("spilling " + std::to_string(range.bytes) + " bytes");
      job.range.checksum = crc32c(job.memory, range.bytes);
      return Code::ok;
    case Job::Kind::read:
      if (!whole(job.memory, range.bytes, range.offset,
                 [&](std::byte* to, std::uint64_t bytes, off_t offset) {
                   return ::pread(file, to, bytes, offset);
                 }))
        return system_error("reading back " + std::to_string(range.bytes) + " bytes");
      if (crc32c(job.memory, range.bytes) != range.checksum)
        return {Code::corrupt, "what was spilled has changed on disk"};
      return Code::ok;
    case Job::Kind::free:
      // On file systems without this the space is used again all the same.
      ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(range.offset), static_cast<off_t>(in_pages(range.bytes)));
      return Code::ok;
  }
  return Code::internal;
}

void Spill::run() {
  for (;;) {
    Job job{};
    {
      std::unique_lock lock(mutex_);
      wakes_.wait(lock, [this] { return is_over_ || !jobs_.empty(); });
      if (is_over_) return;
      job = jobs_.front();
      jobs_.pop_front();
    }
    Status status = carry_out(job);
    if (job.kind == Job::Kind::free) continue;
    {
      const std::lock_guard lock(mutex_);
      done_.push_back({job.entry, job.kind == Job::Kind::write, job.range, std::move(status)});
      has_done_.store(true, std::memory_order_relaxed);
    }
    settings_.on_done();
  }
}

}  // namespace weft::objstore
