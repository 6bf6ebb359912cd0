// What a hostile peer sends to the ofi fabric: control messages of every type, parts of rings and
// of what gets have asked for, and counts of written parts; while the victim connects, accepts and
// reads lanes, gets, puts, lends and takes back memory. Nothing outside of what it lends or has
// asked for may be touched, and whatever is under way ends with the connection, if not before.
//
// The input is a row of steps, each a byte and what belongs to it. What only chance would hit is
// put in: the job's key, the victim's lanes, the keys of its memory, and what it has told the peer
// about its gets and puts.
#include <rdma/fi_endpoint.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "fabric/ofi/endpoint.hpp"
#include "fabric/ofi/ofi.hpp"
#include "fabric/shm/shm_fabric.hpp"
#include "job/job.hpp"
#include "script.hpp"
#include "transport/lane.hpp"

using namespace weft;
using namespace weft::ofi;

namespace {

void must(bool good) {
  if (!good) std::abort();
}

std::string to_hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes)
    for (const int shift : {4, 0}) text += "0123456789abcdef"[byte >> shift & 15];
  return text;
}

std::uint64_t from_hex(std::string_view text) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    const std::size_t digit = std::string_view("0123456789abcdef").find(text[i]);
    value |= std::uint64_t{digit} << (i / 2 * 8 + (i % 2 == 0 ? 4 : 0));
  }
  return value;
}

// The peer: an endpoint that takes what comes and remembers what it was asked for.
class Peer {
 public:
  explicit Peer(weft::Job& job) : memory_(kNumReceives * kMaxPart) {
    must(Endpoint::open(job.settings(), endpoint_).ok());
    for (std::size_t i = 0; i < kNumReceives; ++i) post(i);
    must(job.board()
             .put("ofi.address", std::string(endpoint_->info().fabric_attr->prov_name) + " " +
                                     std::string(16, '0') + " " + to_hex(endpoint_->address()))
             .ok());
  }
  void poll() {
    fi_cq_data_entry entries[8];
    for (ssize_t count; (count = fi_cq_read(endpoint_->cq(), entries, 8)) > 0;)
      for (ssize_t k = 0; k < count; ++k) {
        const auto i =
            static_cast<std::size_t>(static_cast<fi_context2*>(entries[k].op_context) - contexts_);
        if (entries[k].len >= sizeof(Control)) {
          Control control;
          std::memcpy(&control, memory_.data() + i * kMaxPart, sizeof control);
          if (control.type >= Type::get && control.type <= Type::fetch_add)
            asked[num_asked++ % std::size(asked)] = control;
        }
        post(i);
      }
    fi_cq_err_entry error{};
    (void)fi_cq_readerr(endpoint_->cq(), &error, 0);
  }

  Control asked[4] = {};
  std::size_t num_asked = 0;

 private:
  static constexpr std::size_t kNumReceives = 16;
  void post(std::size_t i) {
    (void)fi_recv(endpoint_->ep(), memory_.data() + i * kMaxPart, kMaxPart, nullptr, FI_ADDR_UNSPEC,
                  &contexts_[i]);
  }
  std::vector<std::byte> memory_;
  fi_context2 contexts_[kNumReceives];
  std::unique_ptr<Endpoint> endpoint_;
};

// Two ranks in this process: 0 is the victim, 1 the peer.
struct Ranks {
  std::unique_ptr<weft::Job> jobs[2];
  std::unique_ptr<Fabric> local[2];
  std::unique_ptr<Peer> peer;

  Ranks() {
    auto boards = make_thread_boards(2);
    Settings settings;
    must(settings.set("OFI_INTERFACE", "lo").ok() && settings.set("LANE_MEMORY_BYTES", "8M").ok());
    both([&](std::size_t rank) {
      must(weft::Job::open(settings, std::move(boards[rank]), jobs[rank]).ok());
      must(make_shm_fabric(*jobs[rank], local[rank]).ok());
    });
    peer = std::make_unique<Peer>(*jobs[1]);
  }
  template <class F>
  static void both(F&& f) {
    std::thread other(f, 1);
    f(0);
    other.join();
  }
};

struct Transfer {
  std::vector<std::byte> memory;
  Completion completion;
};

struct Lent {
  std::unique_ptr<std::byte[]> memory;  // of exactly the length, so that the sanitizer guards it
  RemoteMemory name;
};

constexpr int kChannels[] = {0, 1 << 16, 1 << 16 | 1, 2 << 16, 3 << 16 | 2 << 8};
constexpr std::size_t kSizes[] = {8, 1000, 5000, 200'000};

class Scene {
 public:
  explicit Scene(Ranks& ranks) : ranks_(ranks), fabric_(*ranks.jobs[0], *ranks.local[0]) {
    must(fabric_.start().ok());
    Ranks::both([&](std::size_t rank) { must(ranks.jobs[rank]->board().fence(10'000).ok()); });
    std::string text;
    must(ranks.jobs[0]->board().get(0, "ofi.address", text).ok());
    secret_ = from_hex(std::string_view(text).substr(text.find(' ') + 1));
    ranks.peer->num_asked = 0;
  }

  void step(Script& in) {
    const auto what = in.take<std::uint8_t>();
    const int channel = kChannels[what / 16 % std::size(kChannels)];
    const std::size_t bytes = kSizes[what / 16 % std::size(kSizes)];
    switch (what % 16) {
      case 0:
      case 1:
      case 2:
      case 3:
        return control(in);
      case 4: {
        const auto data = immediate_data(in);
        const auto part = in.take_bytes(in.take<std::uint16_t>());
        return fabric_.on_arrival(FI_RECV | FI_REMOTE_CQ_DATA, data, part);
      }
      case 5:
        return fabric_.on_arrival(FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, immediate_data(in), {});
      case 6:
      case 7: {
        if (transfers_.size() == 16) return;
        Transfer& transfer = transfers_.emplace_back();
        transfer.memory.resize(bytes);
        const RemoteMemory there{4096, 1 << 20, 5, 6};
        if (what % 16 == 6)
          fabric_.start_get(1, there, 0, transfer.memory.data(), bytes, transfer.completion);
        else
          fabric_.start_put(1, there, 0, transfer.memory.data(), bytes, transfer.completion);
        return;
      }
      case 8: {
        SendMemory memory;
        if (std::exchange(out_of_[what / 16 % std::size(kChannels)], true)) return;
        if (!fabric_.connect(1, channel, memory)) {
          out_of_[what / 16 % std::size(kChannels)] = false;
          return;
        }
        outs_.emplace_back().open(fabric_, memory, 4096 * 16, memory.ring_bytes);
        return;
      }
      case 9:
        return accept(channel_of(channel).client);
      case 10:
        for (SendLane& lane : outs_) (void)lane.send(1, 2, &secret_, sizeof secret_);
        return;
      case 11:
        return read_lanes();
      case 12: {
        if (lent_.size() == 4) return;
        Lent& lent = lent_.emplace_back();
        lent.memory.reset(new std::byte[bytes]());
        return must(fabric_.share(lent.memory.get(), bytes, lent.name).ok());
      }
      case 13:
        if (lent_.empty()) return;
        must(fabric_.unshare(lent_.front().name).ok());
        return lent_.pop_front();
      case 14:
        if (channel == 0) return;
        outs_.clear();
        ins_.clear();
        std::fill(std::begin(out_of_), std::end(out_of_), true);  // not twice
        return fabric_.close_client(channel_of(channel).client);
      default:
        return poll();
    }
  }

  // False: the connection has ended, and this scene with it. A new one takes long, as libfabric
  // looks through the devices of the machine.
  bool end() {
    poll();
    read_lanes();
    const bool goes_on = transfers_.empty() && fabric_.state(1) == PeerState::alive;
    if (!goes_on) fabric_.disconnect(1);
    for (Transfer& transfer : transfers_) must(transfer.completion.is_done());
    for (Lent& lent : lent_) must(fabric_.unshare(lent.name).ok());
    lent_.clear();
    outs_.clear();
    ins_.clear();
    for (const int channel : kChannels) fabric_.close_client(channel_of(channel).client);
    std::fill(std::begin(out_of_), std::end(out_of_), false);
    return goes_on;
  }

 private:
  void poll() {
    for (int i = 0; i < 4; ++i) {
      fabric_.poll();
      ranks_.peer->poll();
    }
  }

  // Which fields are put in is told by a byte, so that each may also be wrong.
  void control(Script& in) {
    const auto right = in.take<std::uint8_t>();
    Control control{};
    control.type = static_cast<Type>(in.take<std::uint8_t>() % 18);
    control.magic = kMagic;
    control.from = (right & 1) != 0 ? 1 : in.take<std::uint32_t>();
    control.secret = (right & 2) != 0 ? secret_ : in.take<std::uint64_t>();
    control.code = in.take<std::uint8_t>();
    const auto which = in.take<std::uint8_t>();
    if (control.type >= Type::written && (right & 4) != 0) {
      const Control& asked = ranks_.peer->asked[which % std::size(ranks_.peer->asked)];
      control.channel = asked.channel;
      control.lane = asked.lane;
    } else if ((right & 4) != 0) {
      control.channel = static_cast<std::uint32_t>(kChannels[which % std::size(kChannels)]);
      control.lane = in.take<std::uint8_t>();
      control.other_lane = in.take<std::uint8_t>() % 8;
    } else {
      control.channel = in.take<std::uint32_t>();
      control.lane = in.take<std::uint32_t>();
      control.other_lane = in.take<std::uint32_t>();
    }
    if ((right & 8) != 0 && !lent_.empty()) {
      const Lent& lent = lent_[which % lent_.size()];
      control.address = lent.name.address + in.take<std::uint16_t>() - 16;
      control.key = std::uint64_t{lent.name.extra} << 32 | lent.name.region;
    } else if (control.type >= Type::get) {
      control.address = in.take<std::uint64_t>();
      control.key = in.take<std::uint64_t>();
    }
    control.bytes =
        (right & 16) != 0 ? in.take<std::uint16_t>() * std::uint64_t{8} : in.take<std::uint64_t>();
    control.compare = in.take<std::uint8_t>();
    std::vector<std::byte> message(sizeof control);
    std::memcpy(message.data(), &control, sizeof control);
    const auto more = in.take_bytes((right & 32) != 0 ? in.take<std::uint16_t>() : 0);
    message.insert(message.end(), more.begin(), more.end());
    fabric_.on_arrival(FI_RECV, 0, message);
  }

  std::uint64_t immediate_data(Script& in) {
    const auto which = in.take<std::uint8_t>();
    const auto line = in.take<std::uint32_t>();
    if (which < 64 && ranks_.peer->num_asked > 0) {
      const Control& asked = ranks_.peer->asked[which % std::size(ranks_.peer->asked)];
      return immediate_of_get(asked.lane, asked.channel);
    }
    if (which < 192 && !ins_.empty()) {
      const auto* lane =
          static_cast<const ReceiveLaneState*>(ins_[which % ins_.size()].remote_lane);
      return immediate(lane->token, lane->number, line % (kMaxRing / kLine * 2) * kLine);
    }
    return std::uint64_t{which} << 32 | line;
  }

  void accept(int client) {
    int peer = -1, channel = 0;
    ReceiveMemory memory;
    if (!fabric_.accept(client, peer, channel, memory) || peer < 0) return;
    must(peer == 1 && channel_of(channel).client == client);
    ins_.emplace_back().open(fabric_, memory, 64 << 10, memory.ring_bytes);
  }

  void read_lanes() {
    unsigned sum = 0;
    for (ReceiveLane& lane : ins_) {
      Entry entry;
      for (int i = 0; i < 100 && lane.peek(entry); ++i) {
        for (std::uint32_t k = 0; k < entry.length; ++k)
          sum += static_cast<unsigned>(entry.data[k]);
        lane.ring.pop(entry.length);
        lane.return_credit(i % 2 == 0);
      }
    }
    must(sum != ~0u);  // what was received is used
  }

  Ranks& ranks_;
  std::deque<Transfer> transfers_;
  std::deque<Lent> lent_;
  std::vector<SendLane> outs_;
  bool out_of_[std::size(kChannels)] = {};  // whether there is one, by channel
  std::vector<ReceiveLane> ins_;
  std::uint64_t secret_ = 0;
  OfiFabric fabric_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Ranks* ranks = new Ranks;  // as long as the fuzzer: libfabric's threads look at it
  log::set_level(static_cast<LogLevel>(-1));
  static std::unique_ptr<Scene> scene;
  if (!scene) scene = std::make_unique<Scene>(*ranks);
  Script in{data, size};
  for (int i = 0; i < 200 && in.size > 0; ++i) scene->step(in);
  if (!scene->end()) scene.reset();
  return 0;
}
