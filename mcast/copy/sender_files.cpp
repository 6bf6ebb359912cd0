// The contents of files, for receivers that lack them, and records to reuse partial ones.
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "mcast/copy/sender_impl.hpp"

namespace weft::copy {

namespace {

constexpr std::size_t kPartHead = 32;
constexpr std::size_t kEndBytes = 64;

}  // namespace

void Sender::note_held(const Remote& remote, const std::vector<bool>& lacks) {
  for (std::size_t i = 0; options_.resumes && i < lacks.size(); ++i) {
    if (!lacks[i] || sources_[i].entry.size < kResumeFileBytes) continue;
    const auto index = static_cast<std::uint32_t>(i);
    const auto theirs = remote.held.find(index);
    const auto [held, is_first] = held_.try_emplace(index);
    if (theirs == remote.held.end()) {
      held->second.clear();
    } else if (is_first) {
      held->second = theirs->second;
    } else {
      held->second.resize(std::min(held->second.size(), theirs->second.size()));
      for (std::size_t block = 0; block < held->second.size(); ++block)
        if (held->second[block] != theirs->second[block]) held->second[block] = kNoDigest;
    }
  }
}

// Sends a record to reuse a block that the receivers have. False: theirs differs.
bool Sender::send_kept_block(std::uint32_t index, int file, std::uint64_t at, std::size_t length,
                             Writer& writer, crypto_generichash_state& hash) {
  std::vector<std::byte> block(length);
  if (!read_range(file, at, block) || block_digest(block) != held_[index][at / kResumeBlockBytes])
    return false;
  crypto_generichash_update(&hash, reinterpret_cast<const unsigned char*>(block.data()), length);
  writer.number(RecordKind::kept);
  writer.number(index);
  writer.number(at);
  writer.number(static_cast<std::uint32_t>(length));
  bytes_to_send_ -= length;
  return true;
}

void Sender::flush(std::byte*& data, std::unique_ptr<Writer>& writer) {
  if (data != nullptr) submit(data, writer->size());
  data = take_buffer();
  writer = std::make_unique<Writer>(begin_message(data, MessageKind::data));
}

void Sender::send_file(std::uint32_t index, std::byte*& data, std::unique_ptr<Writer>& writer) {
  const Source& source = sources_[index];
  const bool is_input = source.from.empty();
  const int file = is_input ? STDIN_FILENO : open_source(source);
  crypto_generichash_state hash;
  crypto_generichash_init(&hash, nullptr, 0, sizeof(Digest));
  std::uint64_t at = 0;
  bool is_whole = file >= 0;
  std::string read_error = file >= 0         ? ""
                           : errno == ELOOP  ? "its path now leads through a link"
                           : errno == ESTALE ? "it is no longer a file"
                                             : std::strerror(errno);
  const std::uint64_t most = is_input ? ~std::uint64_t{0} : source.entry.size;
  const auto held = held_.find(index);
  const std::size_t num_held = held == held_.end() ? 0 : held->second.size();
  while (is_whole && at < most) {
    if (!is_input) {
      // Holes are not sent.
      const off_t next = ::lseek(file, static_cast<off_t>(at), SEEK_DATA);
      if (next < 0 && errno == ENXIO) break;
      if (next > 0) at = static_cast<std::uint64_t>(next);
      if (at >= most) break;
    }
    if (writer->left() < kPartHead + kEndBytes + 4096) flush(data, writer);
    std::size_t room = std::min<std::uint64_t>(writer->left() - kPartHead - kEndBytes, most - at);
    if (at / kResumeBlockBytes < num_held) {
      const std::uint64_t left = kResumeBlockBytes - at % kResumeBlockBytes;
      const std::size_t length = std::min<std::uint64_t>(left, most - at);
      if (left == kResumeBlockBytes && send_kept_block(index, file, at, length, *writer, hash)) {
        at += length;
        continue;
      }
      room = std::min<std::size_t>(room, left);
    }
    if (!is_input)
      if (const off_t hole = ::lseek(file, static_cast<off_t>(at), SEEK_HOLE);
          hole > static_cast<off_t>(at))
        room = std::min<std::uint64_t>(room, static_cast<std::uint64_t>(hole) - at);
    const std::size_t head = writer->size();
    writer->number(RecordKind::part);
    writer->number(index);
    writer->number(at);
    writer->number(std::uint32_t{0});
    const ssize_t length = is_input ? ::read(file, writer->at(), room)
                                    : ::pread(file, writer->at(), room, static_cast<off_t>(at));
    if (length <= 0) {
      writer->skip(head - writer->size());
      if (length < 0 && errno == EINTR) continue;
      if (length < 0) read_error = std::strerror(errno);
      if (length == 0 && !is_input) read_error = "it became shorter while it was copied";
      is_whole = read_error.empty();
      break;
    }
    writer->set(writer->size() - 4, static_cast<std::uint32_t>(length));
    crypto_generichash_update(&hash, reinterpret_cast<const unsigned char*>(writer->at()),
                              static_cast<unsigned long long>(length));
    writer->skip(static_cast<std::size_t>(length));
    at += static_cast<std::uint64_t>(length);
  }
  struct stat now;
  if (is_whole && !is_input && ::fstat(file, &now) == 0 &&
      (static_cast<std::uint64_t>(now.st_size) != source.entry.size ||
       now.st_mtim.tv_sec != source.entry.mtime_s ||
       now.st_mtim.tv_nsec != static_cast<long>(source.entry.mtime_ns))) {
    is_whole = false;
    read_error = "it changed while it was copied";
  }
  if (file >= 0 && !is_input) ::close(file);
  if (!is_whole) read_errors_.push_back(source.from + ": " + read_error);
  if (writer->left() < kEndBytes) flush(data, writer);
  Digest digest;
  crypto_generichash_final(&hash, digest.data(), digest.size());
  writer->number(RecordKind::file_end);
  writer->number(index);
  writer->number(is_input ? at : source.entry.size);
  writer->number(static_cast<std::uint8_t>(is_whole ? 1 : 0));
  std::memcpy(writer->at(), digest.data(), digest.size());
  writer->skip(digest.size());
  if (is_whole) ++num_files_sent_;
}

void Sender::send_files() {
  std::byte* data = nullptr;
  std::unique_ptr<Writer> writer;
  flush(data, writer);
  for (std::size_t i = 0; i < sources_.size(); ++i)
    if (lacks_[i]) send_file(static_cast<std::uint32_t>(i), data, writer);
  submit(data, writer->size());
}

}  // namespace weft::copy
