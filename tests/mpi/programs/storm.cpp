// storm SEED ROUNDS: a random but reproducible storm of messages between all pairs.
//
// Every process draws, from the seed, the same plan: for each pair a list of messages with tag and
// size. Senders send their lists in order with random modes and many outstanding; receivers post
// exact receives, any-source, any-tag and fully wild ones, or probe first, in random turns. The
// content of a message names its sender, its receiver and its place in the pair's list, so that
// the receiver checks content and order: among messages that one receive could match, the earliest
// sent and not yet received must come.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "expect.h"

namespace {

constexpr int kTags = 3;
constexpr int kMaxOutstanding = 40;

struct Message {
  int tag, bytes, number;
};

struct Random {
  std::uint64_t state;
  int below(int n) { return static_cast<int>(next_random(&state) % static_cast<unsigned>(n)); }
};

// Mostly small; now and then on a boundary or anywhere up to 2 MB.
int draw_size(Random& random) {
  switch (random.below(10)) {
    case 0:
      return kSizes[random.below(kNumSizes - 1)];
    case 1:
      return kSizes[random.below(kNumSizes - 4)];
    case 2:
      return random.below(200000);
    case 3:
    case 4:
      return random.below(9000);
    default:
      return 12 + random.below(100);
  }
}

std::vector<Message> plan(std::uint64_t seed, int round, int from, int to) {
  Random random{seed_of(seed, round, from * 1000 + to)};
  std::vector<Message> messages(10 + random.below(60));
  for (int i = 0; i < static_cast<int>(messages.size()); ++i)
    messages[i] = {random.below(kTags), std::max(4, draw_size(random)), i};
  return messages;
}

// The first four bytes tell which message of the pair's list this is; the rest follows from it.
void write_message(unsigned char* data, const Message& m, int round, int from, int to) {
  fill(data, m.bytes, seed_of(round, from * 1000 + to, m.number));
  memcpy(data, &m.number, 4);
}

struct Sending {
  std::vector<unsigned char> data;
  MPI_Request request;
};

struct Receiving {
  std::vector<unsigned char> data;
  MPI_Request request;
  int source, tag;  // -1: any
  int posted;
};

class Storm {
 public:
  Storm(std::uint64_t seed, int round) : round_(round) {
    random_.state = seed_of(seed, round, 7000000 + rank);
    for (int peer = 0; peer < size; ++peer) {
      outgoing_.push_back(plan(seed, round, rank, peer));
      incoming_.push_back(plan(seed, round, peer, rank));
      taken_.emplace_back(incoming_.back().size(), 0);
      posted_.emplace_back(incoming_.back().size(), 0);
      left_ += outgoing_.back().size();
      expected_ += incoming_.back().size();
      next_.push_back(0);
    }
  }

  void run() {
    while (left_ > 0 || received_ < expected_ || !sending_.empty()) {
      if (left_ > 0 && sending_.size() < kMaxOutstanding && random_.below(3) > 0) send_one();
      if (received_ + receiving_.size() < expected_ && receiving_.size() < kMaxOutstanding &&
          random_.below(2))
        receive_one();
      collect();
    }
  }

 private:
  void send_one() {
    int peer = random_.below(size);
    while (next_[peer] == outgoing_[peer].size()) peer = (peer + 1) % size;
    const Message& m = outgoing_[peer][next_[peer]++];
    left_--;
    Sending& s = sending_.emplace_back();
    s.data.resize(m.bytes);
    write_message(s.data.data(), m, round_, rank, peer);
    if (random_.below(5) == 0)
      EXPECT_OK(
          MPI_Issend(s.data.data(), m.bytes, MPI_BYTE, peer, m.tag, MPI_COMM_WORLD, &s.request));
    else
      EXPECT_OK(
          MPI_Isend(s.data.data(), m.bytes, MPI_BYTE, peer, m.tag, MPI_COMM_WORLD, &s.request));
  }

  // How exact a receive is varies by round, not within one: a wild one could take the last message
  // that an exact one posted later was meant for, which would then wait for ever.
  void receive_one() {
    int kind = round_ % 4;
    if (random_.below(4) == 0 && receiving_.empty()) {  // none posted could match: probe first
      MPI_Status status;
      int flag = 0;
      if (random_.below(2)) {
        EXPECT_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status));
        if (!flag) return;
        int bytes;
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        std::vector<unsigned char> data(bytes);
        EXPECT_OK(MPI_Recv(data.data(), bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG,
                           MPI_COMM_WORLD, &status));
        check(data, status, num_posted_++);
      } else {
        MPI_Message message;
        EXPECT_OK(
            MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status));
        if (!flag) return;
        int bytes;
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        std::vector<unsigned char> data(bytes);
        EXPECT_OK(MPI_Mrecv(data.data(), bytes, MPI_BYTE, &message, &status));
        check(data, status, num_posted_++);
      }
      return;
    }
    Receiving r;
    r.source = r.tag = -1;
    r.posted = num_posted_++;
    switch (kind) {
      case 0:  // of one source and tag that still has messages no receive is posted for
      case 1:  // of one source
      case 2:  // of one tag
        if (!pick(kind, r)) return;
        break;
      default:
        break;
    }
    int source = r.source < 0 ? MPI_ANY_SOURCE : r.source;
    int tag = r.tag < 0 ? MPI_ANY_TAG : r.tag;
    r.data.resize(kSizes[kNumSizes - 2] + 1);
    receiving_.push_back(std::move(r));
    Receiving& posted = receiving_.back();
    EXPECT_OK(MPI_Irecv(posted.data.data(), static_cast<int>(posted.data.size()), MPI_BYTE, source,
                        tag, MPI_COMM_WORLD, &posted.request));
  }

  bool pick(int kind, Receiving& r) {
    int peer = random_.below(size), tag = random_.below(kTags);
    int free = 0;
    for (int p = 0; p < size; ++p)
      for (const Message& m : incoming_[p])
        if (!taken_[p][m.number] && (kind == 2 || p == peer) && (kind == 1 || m.tag == tag)) free++;
    for (const Receiving& other : receiving_)
      if ((kind == 2 || other.source == peer) && (kind == 1 || other.tag == tag)) free--;
    if (free <= 0) return false;
    if (kind != 2) r.source = peer;
    if (kind != 1) r.tag = tag;
    return true;
  }

  void collect() {
    for (std::size_t i = 0; i < receiving_.size();) {
      int flag = 0;
      MPI_Status status;
      EXPECT_OK(MPI_Test(&receiving_[i].request, &flag, &status));
      if (!flag) {
        ++i;
        continue;
      }
      Receiving done = std::move(receiving_[i]);
      receiving_.erase(receiving_.begin() + static_cast<long>(i));
      check(done.data, status, done.posted);
    }
    for (std::size_t i = 0; i < sending_.size();) {
      int flag = 0;
      EXPECT_OK(MPI_Test(&sending_[i].request, &flag, MPI_STATUS_IGNORE));
      if (flag)
        sending_.erase(sending_.begin() + static_cast<long>(i));
      else
        ++i;
    }
  }

  // Content, and order: receives are numbered as they are posted (a probed message counts as
  // posted when it was received). All receives of a round that can match a message of one pair and
  // tag can match any such message, so of two of those the earlier sent belongs to the earlier
  // posted receive.
  void check(const std::vector<unsigned char>& data, const MPI_Status& status, int posted) {
    received_++;
    int from = status.MPI_SOURCE, number = -1, bytes = -1;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (from < 0 || from >= size || bytes < 4) {
      failed(__FILE__, __LINE__, "a message from nowhere");
      return;
    }
    memcpy(&number, data.data(), 4);
    if (number < 0 || number >= static_cast<int>(incoming_[from].size()) || taken_[from][number]) {
      failed(__FILE__, __LINE__, "a message that was not sent, or twice");
      return;
    }
    const Message& m = incoming_[from][number];
    EXPECT_EQ(bytes, m.bytes);
    EXPECT_EQ(status.MPI_TAG, m.tag);
    taken_[from][number] = 1;
    posted_[from][number] = posted;
    for (const Message& other : incoming_[from])
      if (other.tag == m.tag && taken_[from][other.number] && other.number != number)
        EXPECT((other.number < number) == (posted_[from][other.number] < posted));
    std::vector<unsigned char> expected(m.bytes);
    write_message(expected.data(), m, round_, from, rank);
    EXPECT(memcmp(expected.data(), data.data(), bytes) == 0);
  }

  int round_;
  Random random_{};
  std::vector<std::vector<Message>> outgoing_, incoming_;
  std::vector<std::vector<char>> taken_;
  std::vector<std::vector<int>> posted_;
  int num_posted_ = 0;
  std::vector<std::size_t> next_;
  std::size_t left_ = 0, expected_ = 0, received_ = 0;
  std::deque<Sending> sending_;
  std::deque<Receiving> receiving_;
};

}  // namespace

int main(int argc, char** argv) {
  begin(&argc, &argv);
  std::uint64_t seed = argc > 1 ? strtoull(argv[1], nullptr, 10) : 1;
  int rounds = argc > 2 ? atoi(argv[2]) : 4;
  for (int round = 0; round < rounds; ++round) {
    Storm(seed, round).run();
    // The next round reuses the tags.
    MPI_Barrier(MPI_COMM_WORLD);
    if (num_failures) {
      fprintf(stderr, "rank %d: seed %llu, round %d\n", rank, static_cast<unsigned long long>(seed),
              round);
      break;
    }
  }
  return end();
}
