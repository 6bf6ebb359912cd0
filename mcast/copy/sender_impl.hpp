#pragma once
// Sender: one run of weft-copy's sending side. sender.cpp has the receivers, the group and the
// messages; sender_files.cpp the contents of files. Threads: one, beside those of Remotes and
// Multicast, which notify it under the Remotes' lock.
#include <sodium.h>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mcast/copy/records.hpp"
#include "mcast/copy/remote.hpp"
#include "mcast/copy/sender.hpp"
#include "mcast/copy/sender_tree.hpp"
#include "weft/multicast.hpp"

namespace weft::copy {

using Clock = std::chrono::steady_clock;

inline constexpr std::size_t kMessageBytes = 8 << 20;

// Ends the transfer.
struct TransferFailed {
  std::string why;
};

class Sender {
 public:
  explicit Sender(const SendOptions& options) : options_(options) {}
  int run();

 private:
  struct PendingMessage {  // a message that some receiver has not written
    std::uint64_t number;
    std::byte* data;
    std::uint64_t bytes;
    bool is_sent = false;  // the group has completed it
  };

  void start();
  std::string why_unusable(const Remote& remote);
  void form_group();
  void send_pending(PendingMessage& pending);
  std::byte* take_buffer();
  Writer begin_message(std::byte* data, MessageKind kind);
  void submit(std::byte* data, std::uint64_t bytes);
  template <class F>
  void wait_until(F&& done);
  void retire();
  void send_plan();
  void note_held(const Remote& remote, const std::vector<bool>& lacks);
  bool send_kept_block(std::uint32_t index, int file, std::uint64_t at, std::size_t length,
                       Writer& writer, crypto_generichash_state& hash);
  void send_files();
  void send_file(std::uint32_t index, std::byte*& data, std::unique_ptr<Writer>& writer);
  void flush(std::byte*& data, std::unique_ptr<Writer>& writer);
  void show_progress(bool is_last);
  bool finish();

  const SendOptions& options_;
  std::vector<Source> sources_;
  std::vector<std::string> read_errors_;                    // of files on this host
  std::vector<bool> lacks_;                                 // at some receiver
  std::map<std::uint32_t, std::vector<BlockDigest>> held_;  // by all that lack the file
  std::uint64_t bytes_to_send_ = 0, bytes_sent_ = 0, num_files_sent_ = 0;

  std::string own_;
  Remotes remotes_;
  std::unique_ptr<Multicast> multicast_;
  std::unique_ptr<Group> group_;
  bool has_failed_ = false;  // the group; under the remotes' lock
  std::uint64_t group_id_ = 0, last_number_ = 0;
  std::deque<PendingMessage> pending_;
  std::vector<std::byte*> free_;
  Clock::time_point began_ = Clock::now(), shown_{};
};

}  // namespace weft::copy
