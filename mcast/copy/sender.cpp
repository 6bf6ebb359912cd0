#include "mcast/copy/sender.hpp"

#include <fmt/core.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <sstream>

#include "mcast/copy/sender_impl.hpp"
#include "mcast/group/addresses.hpp"
#include "weft/job.hpp"

namespace weft::copy {

namespace {

constexpr std::size_t kWindow = 4;  // messages that some receiver has not written
constexpr int kStartMs = 60'000, kJoinMs = 15'000;
constexpr auto kProgressStep = std::chrono::milliseconds(500);

std::vector<std::string> command_of(const SendOptions& options, const Target& target) {
  if (target.listens)
    return {options.program, "--reach", target.host, "--secret-file", options.secret_file};
  std::istringstream words(options.launch);
  std::vector<std::string> command;
  for (std::string word; words >> word;) {
    if (const std::size_t at = word.find("{host}"); at != std::string::npos)
      word.replace(at, 6, target.host);
    command.push_back(word);
  }
  command.push_back(options.program);
  command.emplace_back("--receive");
  return command;
}

}  // namespace

void Sender::start() {
  unsigned char random[32];
  ::randombytes_buf(random, sizeof random);
  char salt[65];
  ::sodium_bin2hex(salt, sizeof salt, random, sizeof random);
  const std::string secret = derived_secret(options_.secret, salt);
  std::uint64_t first_id = 0;
  ::randombytes_buf(&first_id, sizeof first_id);
  group_id_ = first_id >> 16;
  multicast_ = std::make_unique<Multicast>(NodeSettings{.name = "weft-copy", .secret = secret});
  const auto near = mcast::own_addresses();
  for (const std::string& address : near)
    if (Status status = multicast_->node().listen(address + ":0"); !status)
      throw TransferFailed{status.text()};
  if (Status status = multicast_->node().address(own_); !status)
    throw TransferFailed{status.text()};
  for (std::size_t i = 0; i < kWindow + 1; ++i) {
    void* memory = nullptr;
    if (Status status = multicast_->node().allocate(kMessageBytes, memory); !status)
      throw TransferFailed{status.text()};
    free_.push_back(static_cast<std::byte*>(memory));
  }
  std::vector<std::string> hosts;
  std::vector<std::vector<std::string>> commands;
  for (const Target& target : options_.targets) {
    hosts.push_back(target.host);
    commands.push_back(command_of(options_, target));
  }
  if (Status status = remotes_.start(hosts, commands); !status) throw TransferFailed{status.text()};
  remotes_.listen();
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    Remote& remote = remotes_.all()[i];
    // The network to a listener is not trusted: send the salt instead of the secret.
    remotes_.send_line(remote, options_.targets[i].listens
                                   ? fmt::format("salt {} {}", salt, kCopyVersion)
                                   : fmt::format("secret {} {}", secret, kCopyVersion));
    for (const std::string& address : near)
      remotes_.send_line(remote, fmt::format("near {}", address));
    remotes_.send_line(remote, fmt::format("into {}", quote(options_.targets[i].folder)));
    if (options_.deletes) remotes_.send_line(remote, "delete");
    if (options_.is_dry) remotes_.send_line(remote, "dry-run");
    if (options_.resumes) remotes_.send_line(remote, "resume");
    remotes_.send_line(remote, "start");
  }
  remotes_.wait(kStartMs, [&] {
    return std::ranges::all_of(remotes_.all(), [](const Remote& remote) {
      return remote.is_gone || !remote.address.empty();
    });
  });
  for (Remote& remote : remotes_.all())
    if (const std::string why = why_unusable(remote); !why.empty()) remotes_.give_up(remote, why);
  form_group();
}

// For a receiver that has answered, ended, or let its time pass. Empty: it is usable.
std::string Sender::why_unusable(const Remote& remote) {
  std::lock_guard guard(remotes_.lock());
  if (!remote.address.empty() && remote.version != kCopyVersion)
    return fmt::format(
        "its receiver's weft-copy speaks version {}, and this sender's version {}: install one "
        "release of Weft on both hosts",
        remote.version, kCopyVersion);
  if (!remote.is_gone && !remote.address.empty()) return "";
  if (!remote.errors.empty()) return "its receiver has ended";
  const char* why =
      remote.is_gone ? "its receiver could not be started" : "its receiver does not answer";
  return why + (remote.banner.empty() ? "" : "; last output: " + remote.banner);
}

// Makes a group of all live receivers and repeats the messages that some have not written.
void Sender::form_group() {
  // The pipe of a dead receiver closes soon.
  if (has_failed_)
    remotes_.wait(1000, [&] {
      return std::ranges::any_of(remotes_.all(), [](const Remote& remote) {
        return remote.is_gone && !remote.is_given_up && !remote.is_done;
      });
    });
  for (;;) {
    group_.reset();
    {
      std::lock_guard guard(remotes_.lock());
      has_failed_ = false;
    }
    std::vector<Remote*> live;
    for (Remote& remote : remotes_.all()) {
      bool is_gone = false;
      {
        std::lock_guard guard(remotes_.lock());
        is_gone = remote.is_gone;
      }
      if (is_gone) remotes_.give_up(remote, "its receiver has ended");
      if (!remote.is_given_up) live.push_back(&remote);
    }
    if (live.empty()) throw TransferFailed{"the transfer failed on all hosts"};
    GroupSettings settings;
    settings.id = ++group_id_;
    settings.members.push_back(own_);
    settings.block_bytes = kBlockBytes;
    settings.algorithm = "native";
    settings.small_bytes = 0;
    std::string line;
    for (const Remote* remote : live) settings.members.push_back(remote->address);
    for (const std::string& member : settings.members) line += fmt::format(" {}", quote(member));
    for (std::size_t i = 0; i < live.size(); ++i)
      remotes_.send_line(*live[i], fmt::format("group {} {}{}", settings.id, i + 1, line));
    const bool all_joined = remotes_.wait(kJoinMs, [&] {
      return std::ranges::all_of(live, [&](const Remote* remote) {
        return remote->is_gone || remote->joined == settings.id;
      });
    });
    if (!all_joined) {
      for (Remote* remote : live)
        if (remote->joined != settings.id)
          remotes_.give_up(*remote, "its receiver does not answer");
      continue;
    }
    {
      std::lock_guard guard(remotes_.lock());
      if (std::ranges::any_of(live, [](const Remote* remote) { return remote->is_gone; })) continue;
    }
    group_ = std::make_unique<Group>(*multicast_, settings,
                                     GroupEvents{.on_incoming = {},
                                                 .on_complete =
                                                     [this](void* data, std::uint64_t) {
                                                       std::lock_guard guard(remotes_.lock());
                                                       for (PendingMessage& pending : pending_)
                                                         if (pending.data == data)
                                                           pending.is_sent = true;
                                                       remotes_.changed().notify_all();
                                                     },
                                                 .on_failure =
                                                     [this](const Status&) {
                                                       std::lock_guard guard(remotes_.lock());
                                                       has_failed_ = true;
                                                       remotes_.changed().notify_all();
                                                     }});
    if (!group_->ready()) {
      // The pipe or the join timeout identifies the failed member.
      ::usleep(100'000);
      continue;
    }
    for (PendingMessage& pending : pending_) send_pending(pending);
    return;
  }
}

void Sender::send_pending(PendingMessage& pending) {
  {
    std::lock_guard guard(remotes_.lock());
    pending.is_sent = false;
  }
  [[maybe_unused]] const Status status =
      group_->send(pending.data, pending.bytes);  // or it has failed
}

void Sender::retire() {
  std::lock_guard guard(remotes_.lock());
  std::uint64_t least = last_number_;
  for (const Remote& remote : remotes_.all())
    if (!remote.is_given_up && !remote.is_gone) least = std::min(least, remote.wrote);
  while (!pending_.empty() && pending_.front().is_sent && pending_.front().number <= least) {
    free_.push_back(pending_.front().data);
    pending_.pop_front();
  }
}

// Waits until done() holds, and makes the group anew whenever it fails.
template <class F>
void Sender::wait_until(F&& done) {
  for (;;) {
    retire();
    bool has_failed = false, is_done = false;
    {
      std::unique_lock guard(remotes_.lock());
      is_done = done();
      has_failed = has_failed_;
      if (!is_done && !has_failed)
        remotes_.changed().wait_for(guard, std::chrono::milliseconds(50));
    }
    show_progress(false);
    if (has_failed)
      form_group();
    else if (is_done)
      return;
  }
}

std::byte* Sender::take_buffer() {
  wait_until([&] { return pending_.size() < kWindow && !free_.empty(); });
  std::byte* data = free_.back();
  free_.pop_back();
  return data;
}

Writer Sender::begin_message(std::byte* data, MessageKind kind) {
  Writer writer({data, kMessageBytes});
  writer.number(last_number_ + 1);
  writer.number(kind);
  return writer;
}

void Sender::submit(std::byte* data, std::uint64_t bytes) {
  PendingMessage* pending = nullptr;
  {
    std::lock_guard guard(remotes_.lock());
    pending = &pending_.emplace_back(PendingMessage{++last_number_, data, bytes});
  }
  send_pending(*pending);
  bytes_sent_ += bytes;
  if (options_.rate > 0) {
    const std::chrono::duration<double> due(static_cast<double>(bytes_sent_) / options_.rate);
    wait_until([&] { return Clock::now() - began_ >= due; });
  }
}

void Sender::send_plan() {
  std::byte* data = take_buffer();
  Writer writer = begin_message(data, MessageKind::plan);
  for (const Source& source : sources_) {
    if (encoded_bytes(source.entry) > writer.left()) {
      submit(data, writer.size());
      data = take_buffer();
      writer = begin_message(data, MessageKind::plan);
    }
    encode(source.entry, writer);
  }
  submit(data, writer.size());
  data = take_buffer();
  submit(data, begin_message(data, MessageKind::plan_end).size());
  wait_until([&] {
    return std::ranges::all_of(remotes_.all(), [](const Remote& remote) {
      return remote.is_given_up || remote.is_gone || remote.has_lack;
    });
  });
  lacks_.assign(sources_.size(), false);
  {
    std::lock_guard guard(remotes_.lock());
    for (const Remote& remote : remotes_.all()) {
      std::vector<bool> lacks(sources_.size(), false);
      if (!from_ranges(remote.lack, lacks))
        throw TransferFailed{remote.host + ": its receiver sent an invalid list of files"};
      for (std::size_t i = 0; i < lacks.size(); ++i)
        if (lacks[i]) lacks_[i] = true;
      if (!remote.is_given_up && !remote.is_gone) note_held(remote, lacks);
    }
  }
  for (std::size_t i = 0; i < sources_.size(); ++i)
    if (lacks_[i]) bytes_to_send_ += sources_[i].entry.size;
}

void Sender::show_progress(bool is_last) {
  if (options_.is_quiet || ::isatty(STDERR_FILENO) == 0) return;
  const Clock::time_point now = Clock::now();
  if (!is_last && now - shown_ < kProgressStep) return;
  shown_ = now;
  const double seconds = std::chrono::duration<double>(now - began_).count();
  const double rate = static_cast<double>(bytes_sent_) / std::max(seconds, 1e-3);
  const auto left = bytes_to_send_ > bytes_sent_
                        ? static_cast<double>(bytes_to_send_ - bytes_sent_) / std::max(rate, 1.0)
                        : 0;
  fmt::print(stderr, "\r{:>8.1f} of {:.1f} MB, {:.1f} MB/s, {:.0f} s left    {}",
             static_cast<double>(bytes_sent_) / 1e6, static_cast<double>(bytes_to_send_) / 1e6,
             rate / 1e6, left, is_last ? "\n" : "");
}

bool Sender::finish() {
  std::byte* data = take_buffer();
  submit(data, begin_message(data, MessageKind::end).size());
  wait_until([&] {
    return pending_.empty() && std::ranges::all_of(remotes_.all(), [](const Remote& remote) {
             return remote.is_given_up || remote.is_gone || remote.is_done;
           });
  });
  for (Remote& remote : remotes_.all())
    if (!remote.is_done) remotes_.give_up(remote, "its receiver has ended");
  for (Remote& remote : remotes_.all()) remotes_.send_line(remote, "end");
  // Of one host nothing is copied or forwarded.
  const std::string way = group_->size() < 3      ? ""
                          : group_->native().ok() ? ", copied by the network"
                                                  : ", forwarded by the hosts";
  const Status closed = group_->close(10'000);
  group_.reset();
  show_progress(true);

  bool is_good = read_errors_.empty();
  for (const std::string& read_error : read_errors_)
    fmt::print(stderr, "weft-copy: not copied: {}\n", printable(read_error));
  if (options_.deletes && std::ranges::any_of(sources_, [](const Source& source) {
        return source.entry.kind == EntryKind::unreadable;
      }))
    fmt::print(stderr,
               "weft-copy: --delete has kept, on the hosts, what could not be read here and all "
               "below it\n");
  std::size_t num_good = 0, num_deleted = 0;
  std::lock_guard guard(remotes_.lock());
  for (const Remote& remote : remotes_.all()) {
    for (const std::string& path : remote.deletes)
      fmt::print("{}: {} would be deleted\n", remote.host, printable(path));
    for (const std::string& error : remote.errors)
      fmt::print(stderr, "weft-copy: {}: {}\n", remote.host, printable(error));
    if (remote.errors.empty()) ++num_good;
    num_deleted += remote.num_deleted;
  }
  is_good = is_good && num_good == remotes_.all().size();
  const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  if (!options_.is_quiet)
    fmt::print(
        "{} of {} files, {:.1f} MB, to {} of {} hosts in {:.2f} s, {:.1f} MB/s{}{}\n",
        num_files_sent_,
        std::ranges::count_if(
            sources_, [](const Source& source) { return source.entry.kind == EntryKind::file; }),
        static_cast<double>(bytes_sent_) / 1e6, num_good, remotes_.all().size(), seconds,
        static_cast<double>(bytes_sent_) / 1e6 / std::max(seconds, 1e-3), way,
        num_deleted > 0 ? fmt::format(", {} deleted", num_deleted) : "");
  return is_good;
}

int Sender::run() {
  try {
    std::vector<std::string> paths;
    for (const std::string& path : options_.paths) {
      if (!path.starts_with("-:")) {
        paths.push_back(path);
        continue;
      }
      Source input;
      input.entry.path = path.substr(2);
      input.entry.mode = 0644;
      input.entry.uid = ::geteuid();
      input.entry.gid = ::getegid();
      input.entry.mtime_s = ::time(nullptr);
      if (!is_safe_path(input.entry.path)) throw TransferFailed{"--name is not a valid file name"};
      sources_.push_back(input);
    }
    if (Status status = scan(paths, sources_, read_errors_); !status)
      throw TransferFailed{status.text()};
    start();
    send_plan();
    if (options_.is_dry) {
      for (std::size_t i = 0; i < sources_.size(); ++i)
        if (lacks_[i]) fmt::print("{}\n", printable(sources_[i].entry.path));
    } else {
      send_files();
    }
    return finish() ? 0 : 1;
  } catch (const TransferFailed& failure) {
    {
      std::lock_guard guard(remotes_.lock());
      for (const Remote& remote : remotes_.all())
        for (const std::string& error : remote.errors)
          fmt::print(stderr, "weft-copy: {}: {}\n", remote.host, printable(error));
    }
    fmt::print(stderr, "weft-copy: {}\n", printable(failure.why));
  } catch (const Error& error) {
    fmt::print(stderr, "weft-copy: {}\n", error.status().text());
  }
  group_.reset();
  return 1;
}

int run_sender(const SendOptions& options) {
  Sender sender(options);
  return sender.run();
}

}  // namespace weft::copy
