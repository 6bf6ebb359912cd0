// The size from which on reading is faster than sending. A Node of its own has a store keep objects
// of some sizes, then asks for each as another store would, sent and offered in turn; sent bytes
// are copied to their destination as a manager does, offered ones are read there, and FIN is sent.
#include "calibrate.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "objstore/shared/clock.hpp"
#include "objstore/shared/peer_wire.hpp"
#include "weft/job.hpp"
#include "weft/node.hpp"

namespace weft::objstore {
namespace {

constexpr std::uint64_t kFirstBytes = 1 << 10, kLastBytes = 4 << 20;
constexpr int kRounds = 41;
constexpr std::uint64_t kLimitNs = 20'000'000'000;  // for one answer

void check(const Status& status) {
  if (!status) throw Error(status);
}

class Calibration {
 public:
  Calibration(const std::string& address, const NodeSettings& settings) : node_(settings) {
    node_.on_message([this](const Peer& peer, std::span<const std::byte> bytes) {
      // A copy, as the managers make one.
      const std::vector<std::byte> copy(bytes.begin(), bytes.end());
      PeerMessage message;
      if (decode(copy, message)) received(peer, message);
    });
    check(node_.connect(address, peer_));
  }
  std::string_view fabric() const { return peer_.fabric(); }

  // Nanoseconds, sent and read: medians of rounds in turn.
  std::pair<double, double> measure(std::uint64_t bytes) {
    contents_.assign(bytes, std::byte{0x5a});
    place_.assign(bytes, std::byte{0});
    ObjectId::parse(
        "cal-" + std::to_string(node_.generation() % 1'000'000) + "-" + std::to_string(bytes), id_);
    send_kind(PeerKind::keep);
    await([&] { return answer_ == PeerKind::kept || answer_ == PeerKind::unkept; },
          "keep an object");
    if (answer_ != PeerKind::kept)
      check({Code::no_memory, "the other store has no room for an object of " +
                                  std::to_string(bytes) + " bytes to measure with"});
    std::vector<double> sent, read;
    for (int round = 0; round < kRounds; ++round) {
      sent.push_back(static_cast<double>(fetch(UINT64_MAX)));
      read.push_back(static_cast<double>(fetch(0)));
      if (place_ != contents_)
        check({Code::corrupt, "an object came with other bytes than it was sent with"});
      std::fill(place_.begin(), place_.end(), std::byte{0});
    }
    send_kind(PeerKind::drop);
    const auto median = [](std::vector<double>& times) {
      std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
      return times[kRounds / 2];
    };
    return {median(sent), median(read)};
  }

 private:
  void send(const PeerMessage& message) {
    const std::string bytes = encode(message);
    Operation operation;
    node_.send(peer_, bytes.data(), bytes.size(), operation);
    check_code(node_.wait(operation));
  }
  void check_code(Code code) {
    if (code != Code::ok) check({code, "the other store: " + std::string(code_name(code))});
  }
  void send_kind(PeerKind kind, std::uint64_t threshold = 0) {
    answer_ = PeerKind::members;
    PeerMessage message;
    message.kind = kind;
    message.id = id_;
    message.number = ++number_;
    message.threshold = threshold;
    send(message);
  }
  template <class Done>
  void await(Done&& done, const char* what) {
    const std::uint64_t limit_ns = monotonic_ns() + kLimitNs;
    while (!done()) {
      if (peer_.is_lost()) check({Code::peer_lost, "the other store has ended"});
      if (monotonic_ns() > limit_ns)
        check({Code::timed_out, std::string("the other store did not ") + what + " in time"});
      if (!node_.progress()) node_.wait_some(10);
      answer_pending();
    }
  }
  void received(const Peer& peer, const PeerMessage& message) {
    if (!(peer == peer_) || message.id != id_) return;
    if (message.kind == PeerKind::ask) {
      // The store fetches the object that it shall keep. Answered outside of the callback, which
      // may not block.
      asked_ = message.number;
      return;
    }
    if (message.number != number_) return;
    answer_ = message.kind;
    if (message.kind == PeerKind::data && message.contents.size() == place_.size() &&
        !place_.empty())
      std::memcpy(place_.data(), message.contents.data(), place_.size());
    if (message.kind == PeerKind::offer) parts_ = message.parts;
  }
  void answer_pending() {
    if (asked_ == 0) return;
    PeerMessage message;
    message.kind = PeerKind::data;
    message.id = id_;
    message.number = std::exchange(asked_, 0);
    message.stamp = (node_.generation() ^ contents_.size()) | 1;
    message.data_bytes = contents_.size();
    message.contents = contents_;
    send(message);
  }
  // One object, all of it; nanoseconds.
  std::uint64_t fetch(std::uint64_t threshold) {
    const std::uint64_t begin_ns = monotonic_ns();
    send_kind(PeerKind::ask, threshold);
    const PeerKind wanted = threshold == 0 ? PeerKind::offer : PeerKind::data;
    await([&] { return answer_ != PeerKind::members; }, "answer");
    if (answer_ != wanted)
      check({Code::not_found, "the other store has dropped the object; has it too little memory?"});
    if (threshold == 0) {
      std::vector<PeerMemory> memories;
      std::vector<Transfer> transfers;
      memories.reserve(parts_.size());
      std::byte* to = place_.data();
      for (const OfferPart& part : parts_) {
        memories.push_back(node_.memory(peer_, part.key));
        transfers.push_back({&memories.back(), part.offset, to, part.bytes});
        to += part.bytes;
      }
      Operation operation;
      node_.get_all(transfers, operation);
      check_code(node_.wait(operation));
      PeerMessage fin;
      fin.kind = PeerKind::fin;
      fin.number = number_;
      send(fin);
    }
    return monotonic_ns() - begin_ns;
  }

  Node node_;
  Peer peer_;
  ObjectId id_;
  std::uint64_t number_ = 0, asked_ = 0;
  PeerKind answer_ = PeerKind::members;  // of the last number; members: none yet
  std::vector<OfferPart> parts_;
  std::vector<std::byte> contents_, place_;
};

}  // namespace

std::string default_thresholds_file() {
  const char* folder = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  if (folder != nullptr && *folder == '/') return std::string(folder) + "/weft/store-thresholds";
  return home != nullptr ? std::string(home) + "/.config/weft/store-thresholds" : std::string();
}

std::map<std::string, std::uint64_t> read_thresholds(const std::string& file) {
  std::map<std::string, std::uint64_t> thresholds;
  std::ifstream in(file);
  std::string fabric;
  std::uint64_t bytes = 0;
  while (in >> fabric >> bytes) thresholds[fabric] = bytes;
  return thresholds;
}

Status write_thresholds(const std::string& file,
                        const std::map<std::string, std::uint64_t>& thresholds) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), error);
  const std::string made = file + ".new";
  {
    std::ofstream out(made);
    for (const auto& [fabric, bytes] : thresholds) out << fabric << ' ' << bytes << '\n';
    if (!out.flush()) return {Code::not_permitted, made + " can't be written"};
  }
  std::filesystem::rename(made, file, error);
  if (error) return {Code::not_permitted, file + " can't be written: " + error.message()};
  return Code::ok;
}

// The size that makes the product of all sizes' times least: one disturbed measurement, or one that
// is about equal in both modes, does not decide for the others.
std::uint64_t crossover(const std::vector<Measured>& sizes) {
  double cost = 0, least = 0;  // logarithms, as against all sent
  std::uint64_t threshold = UINT64_MAX;
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
    cost += std::log(size->read_ns / size->sent_ns);
    if (cost > least) continue;
    least = cost;
    threshold = size->bytes;
  }
  return threshold;
}

Status calibrate(const std::string& address, const std::string& secret, const std::string& file) {
  try {
    Calibration calibration(
        address, {.name = "weft-store calibrate", .secret = secret, .progress_thread = false});
    const std::string fabric(calibration.fabric());
    std::printf("%10s %12s %12s   over %s, microseconds, medians of %d\n", "bytes", "sent", "read",
                fabric.c_str(), kRounds);
    std::vector<Measured> sizes;
    for (std::uint64_t bytes = kFirstBytes; bytes <= kLastBytes; bytes *= 2) {
      const auto [sent, read] = calibration.measure(bytes);
      sizes.push_back({bytes, sent, read});
      std::printf("%10llu %12.1f %12.1f\n", static_cast<unsigned long long>(bytes), sent / 1000,
                  read / 1000);
      std::fflush(stdout);
    }
    const std::uint64_t threshold = crossover(sizes);
    auto thresholds = read_thresholds(file);
    thresholds[fabric] = threshold;
    check(write_thresholds(file, thresholds));
    if (threshold == UINT64_MAX)
      std::printf("sending is as fast up to %llu bytes and more; noted in %s\n",
                  static_cast<unsigned long long>(kLastBytes), file.c_str());
    else
      std::printf("reading is faster from %llu bytes on; noted in %s\n",
                  static_cast<unsigned long long>(threshold), file.c_str());
    return Code::ok;
  } catch (const Error& error) {
    return error.status();
  }
}

}  // namespace weft::objstore
