// The copies that a message leaves in the memory of its sender and its receiver: rank 0 sends one
// of bytes that are nowhere else, and both look for it in all that they have. What a message passes
// through keeps its bytes, as nothing is sent behind it.
//
//   weftrun -n 2 exchange_copies mpi|exchange AT_SENDER AT_RECEIVER
//
// says "ok" if no message of 64 to 4096 bytes was copied more often than that on a side.
#include <mpi.h>

#include <fcntl.h>

#include <array>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/exchange/probe.hpp"

namespace weft::testing {
namespace {

// A message as the sum of two halves, so that looking for it does not add to what is found.
template <std::size_t kBytes>
struct Halves {
  using Bytes = std::array<unsigned char, kBytes>;
  Bytes one, other;

  explicit Halves(unsigned seed) {
    std::mt19937 random(seed);
    for (std::size_t i = 0; i < kBytes; ++i) {
      one[i] = static_cast<unsigned char>(random());
      other[i] = static_cast<unsigned char>(random());
    }
  }
  bool are_at(const unsigned char* at) const {
    for (std::size_t i = 0; i < kBytes; ++i)
      if (static_cast<unsigned char>(one[i] ^ other[i]) != at[i]) return false;
    return true;
  }
  void write(Bytes& to) const {
    for (std::size_t i = 0; i < kBytes; ++i) to[i] = static_cast<unsigned char>(one[i] ^ other[i]);
  }
};

// How often the message is in the writable memory of this process. Messages lie at multiples of 8.
template <std::size_t kBytes>
int count(const Halves<kBytes>& halves) {
  const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  REQUIRE(memory >= 0);
  constexpr std::size_t kPiece = 1 << 20;
  static std::vector<unsigned char> piece(kPiece + kBytes);
  const auto own = reinterpret_cast<std::uintptr_t>(piece.data());
  std::ifstream maps("/proc/self/maps");
  int found = 0;
  for (std::string line; std::getline(maps, line);) {
    unsigned long from = 0, to = 0;
    char rights[5] = {};
    REQUIRE(std::sscanf(line.c_str(), "%lx-%lx %4s", &from, &to, rights) == 3);
    if (rights[0] != 'r' || rights[1] != 'w' || line.ends_with("[stack]")) continue;
    for (unsigned long at = from; at < to; at += kPiece) {
      const std::size_t wanted = std::min(piece.size(), static_cast<std::size_t>(to - at));
      const ssize_t bytes = pread(memory, piece.data(), wanted, static_cast<off_t>(at));
      if (bytes < static_cast<ssize_t>(kBytes)) continue;
      for (std::size_t i = 0; i + kBytes <= static_cast<std::size_t>(bytes) && i < kPiece; i += 8)
        if ((at + i < own || at + i >= own + piece.size()) && halves.are_at(&piece[i])) ++found;
    }
  }
  close(memory);
  return found;
}

// Message by message: the next one leaves when the one before has arrived, so that none lies where
// it would not for want of room.
struct ByMpi {
  explicit ByMpi(Job&) {}
  template <class Message>
  void send(const Message& message) {
    REQUIRE(MPI_Send(&message, sizeof message, MPI_BYTE, 1, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
  }
  template <class Message>
  void receive(Message& message) {
    REQUIRE(MPI_Recv(&message, sizeof message, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) ==
            MPI_SUCCESS);
  }
};
template <class Message>
struct ByExchange {
  explicit ByExchange(Job& job) : exchange(job, 1) {}
  void send(const Message& message) {
    REQUIRE(exchange.send(1, 0, message) == Code::ok);
    REQUIRE(exchange.flushSend(0) == Code::ok);
  }
  void receive(Message& message) {
    const auto start = Clock::now();
    while (!exchange.receive(0, message)) REQUIRE(Clock::now() - start < kPatience);
  }
  Exchange<Message> exchange;
};

struct Most {
  int sender, receiver;
};

template <class By, std::size_t kBytes>
void pass(Job& job, Most most) {
  const Halves<kBytes> halves(4711 + kBytes);
  By by(job);
  const auto held = std::make_unique<typename Halves<kBytes>::Bytes>();
  // The lane has its ring, and devices have it registered, once some have passed.
  constexpr int kBefore = 64;
  std::vector<int> all;
  for (int i = 0; i <= kBefore; ++i) {
    if (i == kBefore && job.rank() == 0) halves.write(*held);
    if (job.rank() == 0)
      by.send(*held);
    else
      by.receive(*held);
    // Nothing follows the last one until all is counted.
    if (i < kBefore) REQUIRE(job.all_gather(i, all).ok());
  }
  REQUIRE(halves.are_at(held->data()));
  const int copies = count(halves) - 1;
  REQUIRE(job.all_gather(copies, all).ok());
  std::fprintf(stderr, "rank %d: %zu bytes: %d copies\n", job.rank(), kBytes, copies);
  REQUIRE(copies >= 0 && copies <= (job.rank() == 0 ? most.sender : most.receiver));
}

template <std::size_t kBytes>
void pass_by(std::string_view kind, Job& job, Most most) {
  if (kind == "mpi")
    pass<ByMpi, kBytes>(job, most);
  else
    pass<ByExchange<typename Halves<kBytes>::Bytes>, kBytes>(job, most);
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  using namespace weft::testing;
  REQUIRE(argc == 4);
  const std::string_view kind = argv[1];
  REQUIRE(kind == "mpi" || kind == "exchange");
  const Most most{std::atoi(argv[2]), std::atoi(argv[3])};
  REQUIRE(MPI_Init(nullptr, nullptr) == MPI_SUCCESS);
  {
    Job job;
    REQUIRE(job.size() == 2);
    pass_by<64>(kind, job, most);
    pass_by<512>(kind, job, most);
    pass_by<1024>(kind, job, most);
    pass_by<4096>(kind, job, most);
    if (job.rank() == 0) std::puts("ok");
  }
  MPI_Finalize();
}
