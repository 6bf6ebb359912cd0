#pragma once
// Introduction: the processes of two groups, which may be of several jobs, admit each other, and an
// intercommunicator is made (MPI 5.0 section 11.9). The groups' roots have a pipe between them;
// over it go the endpoint addresses of all members (tagged/engine.hpp), which every member admits.
#include <cstddef>

#include "mpi/comm/comm.hpp"

namespace weft::mpi {

// Messages between the sides use a context that both know; each side's team has its own.
struct Contexts {
  std::uint32_t shared = 0;
  std::uint32_t local = 0;
};

// A connection between the roots of two groups.
class Pipe {
 public:
  virtual ~Pipe() = default;
  // Sends so many bytes and receives as many as `room` says, both at once. Makes progress
  // meanwhile. peer_lost: the other side has ended, or given up.
  virtual Status swap(const void* send, std::size_t send_bytes, void* receive,
                      std::size_t room) = 0;
};

// A pipe over messages, between processes that know each other. Each swap is a message in each
// direction.
class MessagePipe final : public Pipe {
 public:
  MessagePipe(int peer, std::uint32_t context, std::int32_t tag)
      : peer_(peer), context_(context), tag_(tag) {}
  Status swap(const void* send, std::size_t send_bytes, void* receive, std::size_t room) override;

 private:
  const int peer_;
  const std::uint32_t context_;
  const std::int32_t tag_;
};

// Collective over `local` on both sides. `pipe` is the root's, which may have failed to get one:
// null, and `failure` has the reason. On success `out` is the intercommunicator; otherwise all
// members of both sides get an error.
Status introduce(Comm& local, int root, Pipe* pipe, Comm*& out, const Status& failure = {});

}  // namespace weft::mpi
