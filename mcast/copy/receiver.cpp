#include "mcast/copy/receiver.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "mcast/copy/child.hpp"
#include "mcast/copy/partial.hpp"
#include "mcast/copy/receiver_folder.hpp"
#include "mcast/copy/records.hpp"
#include "mcast/group/addresses.hpp"
#include "weft/job.hpp"
#include "weft/multicast.hpp"

namespace weft::copy {

namespace {

constexpr std::uint64_t kMaxMessageBytes = 64 << 20;
constexpr std::size_t kMaxEntries = 50'000'000;
constexpr int kMaxErrors = 100;  // more are only counted

class Receiver {
 public:
  explicit Receiver(bool is_below) : is_below_(is_below) {}
  int run();

 private:
  struct Arrived {
    std::byte* data;
    std::uint64_t bytes;
  };

  static void report(const std::string& line) {
    if (!write_all(STDOUT_FILENO, line + "\n")) ::_exit(1);  // the sender is gone
  }
  void note(const Status& status) {
    if (status.ok()) return;
    if (++num_errors_ <= kMaxErrors) report("error " + quote(status.text()));
  }
  void read_lines();
  Status on_line(const std::string& line);
  static Status check_version(std::istringstream& words);
  Status start();
  Status join(std::istringstream& words);
  std::byte* buffer(std::uint64_t bytes);
  Status on_message(std::span<const std::byte> bytes);
  Status on_entries(Reader reader);
  bool can_resume(const Entry& entry) const;
  void report_held(std::size_t index);
  void on_plan_end();
  Status on_data(Reader reader);
  void on_end();
  void prune();

  const bool is_below_;
  std::string key_, secret_, near_, into_;
  bool deletes_ = false, is_dry_ = false, resumes_ = false, has_started_ = false, is_over_ = false;
  std::unique_ptr<Multicast> multicast_;
  std::unique_ptr<Group> group_;

  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;
  std::deque<Arrived> arrived_;
  std::vector<std::byte*> free_;
  bool is_input_over_ = false;

  Folder folder_;
  std::vector<Entry> entries_;
  std::vector<bool> lacks_;
  std::uint64_t num_processed_ = 0, num_files_ = 0;
  std::size_t num_deleted_ = 0;
  std::uint32_t current_ = 0;  // the file that is open
  bool skips_current_ = false, has_current_ = false;
  bool has_folder_ = false;  // in a dry run
  int num_errors_ = 0;
};

void Receiver::read_lines() {
  std::string text;
  char bytes[65536];
  for (;;) {
    const ssize_t length = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (length < 0 && errno == EINTR) continue;
    std::lock_guard guard(lock_);
    if (length <= 0) {
      is_input_over_ = true;
      changed_.notify_all();
      return;
    }
    text.append(bytes, static_cast<std::size_t>(length));
    for (std::size_t end; (end = text.find('\n')) != std::string::npos;) {
      lines_.push_back(text.substr(0, end));
      text.erase(0, end + 1);
    }
    changed_.notify_all();
  }
}

Status Receiver::start() {
  multicast_ = std::make_unique<Multicast>(NodeSettings{.name = "weft-copy", .secret = secret_});
  std::string address;
  if (!near_.empty())
    if (Status status = multicast_->node().listen(near_ + ":0"); !status) return status;
  if (Status status = multicast_->node().address(address); !status) return status;
  // The line break ends an incomplete line that login scripts may have printed.
  report(fmt::format("\nweft-copy-address {} {}", quote(address), kCopyVersion));
  folder_.set_replaces(deletes_);
  const Status status = folder_.open(into_, is_below_, !is_dry_);
  has_folder_ = status.ok() && folder_.is_there();
  note(status);
  if (!status && !is_dry_) skips_current_ = true;  // it still forwards blocks
  has_started_ = true;
  return {};
}

std::byte* Receiver::buffer(std::uint64_t bytes) {
  if (bytes > kMaxMessageBytes) return nullptr;
  std::lock_guard guard(lock_);
  if (!free_.empty()) {
    std::byte* data = free_.back();
    free_.pop_back();
    return data;
  }
  void* data = nullptr;
  // The sender's window bounds the number of buffers.
  if (!multicast_->node().allocate(kMaxMessageBytes, data).ok()) return nullptr;
  return static_cast<std::byte*>(data);
}

Status Receiver::join(std::istringstream& words) {
  GroupSettings settings;
  words >> settings.id >> settings.self;
  std::string word, address;
  while (words >> word) {
    if (!unquote(word, address)) return {Code::corrupt, "the sender sent an invalid address"};
    settings.members.push_back(address);
  }
  settings.block_bytes = kBlockBytes;
  settings.algorithm = "native";
  settings.small_bytes = 0;
  group_.reset();
  group_ = std::make_unique<Group>(
      *multicast_, settings,
      GroupEvents{.on_incoming = [this](std::uint64_t bytes) -> void* { return buffer(bytes); },
                  .on_complete =
                      [this](void* data, std::uint64_t bytes) {
                        std::lock_guard guard(lock_);
                        arrived_.push_back({static_cast<std::byte*>(data), bytes});
                        changed_.notify_all();
                      },
                  .on_failure = {}});
  report(fmt::format("joined {}", settings.id));
  return {};
}

// The sender's version, the last word of its first line: before anything that another version may
// say in another way.
Status Receiver::check_version(std::istringstream& words) {
  const unsigned version = read_version(words);
  if (version == kCopyVersion) return {};
  return {Code::unsupported,
          fmt::format("the sender's weft-copy speaks version {}, and this receiver's version {}: "
                      "install one release of Weft on both hosts",
                      version, kCopyVersion)};
}

Status Receiver::on_line(const std::string& line) {
  std::istringstream words(line);
  std::string word, value;
  words >> word;
  if (word == "group") return has_started_ ? join(words) : Status(Code::corrupt);
  if (word == "delete") return deletes_ = true, Status();
  if (word == "dry-run") return is_dry_ = true, Status();
  if (word == "resume") return resumes_ = true, Status();
  if (word == "start") return start();
  if (word == "end") {
    is_over_ = true;
    return {};
  }
  words >> value;
  if (word == "secret") {
    secret_ = value;
    return check_version(words);
  } else if (word == "key") {
    key_ = line.substr(4);  // from the local listener
  } else if (word == "salt") {
    secret_ = derived_secret(key_, value);
    return check_version(words);
  } else if (word == "near") {
    if (near_.empty()) near_ = mcast::address_towards(value);
  } else if (word == "into") {
    if (!unquote(value, into_)) return Code::corrupt;
  } else {
    return {Code::corrupt, "the sender sent an unknown line: " + word};
  }
  return {};
}

Status Receiver::on_message(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  std::uint64_t number = 0;
  MessageKind kind{};
  if (!reader.number(number) || !reader.number(kind)) return Code::corrupt;
  // The sender repeats messages after a member's death.
  if (number <= num_processed_) return {};
  if (number != num_processed_ + 1) return {Code::corrupt, "a message is missing"};
  num_processed_ = number;
  Status status;
  if (kind == MessageKind::plan) {
    status = on_entries(reader);
  } else if (kind == MessageKind::plan_end) {
    on_plan_end();
  } else if (kind == MessageKind::data) {
    status = on_data(reader);
  } else if (kind == MessageKind::end) {
    on_end();
  } else {
    status = Code::corrupt;
  }
  if (status.ok()) report(fmt::format("wrote {}", number));
  return status;
}

Status Receiver::on_entries(Reader reader) {
  while (!reader.is_empty()) {
    Entry entry;
    if (entries_.size() >= kMaxEntries || !decode(reader, entry))
      return {Code::corrupt, "the sender sent an invalid list of files"};
    entries_.push_back(std::move(entry));
  }
  return {};
}

bool Receiver::can_resume(const Entry& entry) const {
  return resumes_ && !is_dry_ && entry.size >= kResumeFileBytes;
}

void Receiver::report_held(std::size_t index) {
  constexpr std::size_t kBlocksALine = 512;
  const std::vector<BlockDigest> digests = folder_.held(entries_[index]);
  for (std::size_t first = 0; first < digests.size(); first += kBlocksALine)
    report(fmt::format(
        "held {} {} {}", index, first,
        to_hex(std::span(digests).subspan(first, std::min(kBlocksALine, digests.size() - first)))));
}

void Receiver::on_plan_end() {
  lacks_.assign(entries_.size(), false);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.kind == EntryKind::directory && !is_dry_ && !skips_current_)
      note(folder_.make(entry));
    if (entry.kind == EntryKind::file && !skips_current_) lacks_[i] = !folder_.has(entry);
    if (lacks_[i] && can_resume(entry)) report_held(i);
  }
  report("lack " + to_ranges(lacks_));
}

Status Receiver::on_data(Reader reader) {
  while (!reader.is_empty()) {
    RecordKind kind{};
    std::uint32_t index = 0;
    if (!reader.number(kind) || !reader.number(index) || index >= entries_.size() ||
        entries_[index].kind != EntryKind::file)
      return Code::corrupt;
    const bool is_wanted = lacks_.size() > index && lacks_[index];
    if (is_wanted && (!has_current_ || current_ != index)) {
      has_current_ = true;
      current_ = index;
      if (Status status = folder_.begin(entries_[index], can_resume(entries_[index])); !status)
        note(status);
    }
    if (kind == RecordKind::part) {
      std::uint64_t offset = 0;
      std::uint32_t length = 0;
      std::span<const std::byte> data;
      if (!reader.number(offset) || !reader.number(length) || !reader.take(length, data) ||
          offset >> 62 != 0)
        return Code::corrupt;
      if (!is_wanted || !folder_.is_open()) continue;
      if (Status status = folder_.write(offset, data); !status) {
        note(status);
        folder_.abandon();
      }
    } else if (kind == RecordKind::kept) {
      std::uint64_t offset = 0;
      std::uint32_t length = 0;
      if (!reader.number(offset) || !reader.number(length) || offset >> 62 != 0)
        return Code::corrupt;
      if (!is_wanted || !folder_.is_open()) continue;
      if (Status status = folder_.keep(offset, length); !status) {
        note(status);
        folder_.abandon();
      }
    } else if (kind == RecordKind::file_end) {
      std::uint64_t size = 0;
      std::uint8_t is_whole = 0;
      std::span<const std::byte> bytes;
      Digest digest;
      if (!reader.number(size) || !reader.number(is_whole) || !reader.take(sizeof digest, bytes) ||
          size >> 62 != 0)
        return Code::corrupt;
      std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(digest.data()));
      has_current_ = false;
      if (!is_wanted || !folder_.is_open()) continue;
      if (is_whole == 0) {
        folder_.leave();  // the source changed while it was read, which the sender reports
      } else if (Status status = folder_.finish(entries_[index], size, digest); !status) {
        note(status);
        folder_.abandon();
      } else {
        ++num_files_;
      }
    } else {
      return Code::corrupt;
    }
  }
  return {};
}

// Deletes entries that the source lacks, except below entries that the sender could not read.
void Receiver::prune() {
  std::map<std::string, std::vector<std::string>> kept;
  std::set<std::string> unreadable;
  for (const Entry& entry : entries_) {
    if (entry.kind == EntryKind::directory) kept[entry.path];
    if (entry.kind == EntryKind::unreadable) unreadable.insert(entry.path);
    const std::size_t slash = entry.path.rfind('/');
    if (slash == std::string::npos) continue;
    std::vector<std::string>& names = kept[entry.path.substr(0, slash)];
    names.push_back(entry.path.substr(slash + 1));
    // A later run resumes partial files.
    if (resumes_ && entry.kind == EntryKind::file && entry.size >= kResumeFileBytes)
      names.push_back(partial_name(names.back()));
  }
  const auto is_unknown = [&unreadable](const std::string& path) {
    for (std::size_t end = path.find('/');; end = path.find('/', end + 1)) {
      if (unreadable.contains(path.substr(0, end))) return true;
      if (end == std::string::npos) return false;
    }
  };
  std::vector<std::string> found;
  if (is_dry_)
    for (const Entry& entry : entries_)
      if (folder_.conflicts_with(entry)) found.push_back(entry.path);
  for (const auto& [path, names] : kept)
    if (!is_unknown(path))
      note(folder_.prune(path, names, num_deleted_, is_dry_ ? &found : nullptr));
  for (const std::string& path : found) report("deletes " + quote(path));
}

void Receiver::on_end() {
  if (is_dry_ && deletes_ && has_folder_) prune();
  if (!is_dry_ && !skips_current_) {
    for (const Entry& entry : entries_)
      if (entry.kind == EntryKind::symlink || entry.kind == EntryKind::hard_link)
        note(folder_.make(entry));
    if (deletes_) prune();
    // Children first, because making an entry changes the time of its folder.
    for (std::size_t i = entries_.size(); i-- > 0;)
      if (entries_[i].kind != EntryKind::file || !lacks_[i]) note(folder_.dress(entries_[i]));
  }
  if (num_errors_ > kMaxErrors)
    report("error " + quote(fmt::format("and {} more errors", num_errors_ - kMaxErrors)));
  report(fmt::format("done {} {}", num_files_, num_deleted_));
}

int Receiver::run() {
  std::thread reads([this] { read_lines(); });
  reads.detach();
  Status status;
  while (status.ok() && !is_over_) {
    std::string line;
    Arrived arrived{};
    {
      std::unique_lock guard(lock_);
      changed_.wait(guard, [&] { return !lines_.empty() || !arrived_.empty() || is_input_over_; });
      if (!arrived_.empty()) {
        arrived = arrived_.front();
        arrived_.pop_front();
      } else if (!lines_.empty()) {
        line = std::move(lines_.front());
        lines_.pop_front();
      } else {
        break;  // end of the sender's lines
      }
    }
    if (arrived.data == nullptr) {
      status = on_line(line);
      continue;
    }
    status = on_message({arrived.data, arrived.bytes});
    std::lock_guard guard(lock_);
    free_.push_back(arrived.data);
  }
  if (!status.ok()) report("error " + quote(status.text()));
  if (group_ != nullptr && is_over_) note(group_->close(10'000));
  group_.reset();
  // _exit, as the reading thread may block in read().
  multicast_.reset();
  folder_.leave();
  ::_exit(status.ok() && is_over_ ? 0 : 1);
}

}  // namespace

int run_receiver(bool is_below) {
  ::signal(SIGXFSZ, SIG_IGN);  // a file beyond ulimit -f is an error of that file
  static Receiver receiver(is_below);
  try {
    return receiver.run();
  } catch (const Error& error) {
    fmt::print(stderr, "weft-copy: {}\n", error.status().text());
    return 1;
  }
}

}  // namespace weft::copy
