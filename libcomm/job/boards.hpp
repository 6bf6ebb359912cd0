#pragma once
// Factories of boards, one for each kind of job start. Members::open chooses among them; tests call
// them directly. Each factory blocks at most timeout_ms.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include "job/members.hpp"

namespace weft {

// The code with which MPI ends a job that has lost a process (MPI_ERR_PROC_ABORTED). The exit
// status of the lost one is more specific, and may reach the launcher a little later.
inline constexpr int kPeerLostCode = 58;

// The environment that a launcher sets for each process.
inline constexpr const char* kRankVariable = "WEFT_RANK";
inline constexpr const char* kSizeVariable = "WEFT_SIZE";
inline constexpr const char* kRendezvousVariable = "WEFT_RENDEZVOUS";  // host:port
inline constexpr const char* kJobKeyVariable = "WEFT_JOB_KEY";         // processes with it may join
inline constexpr const char* kAppNumberVariable = "WEFT_APP_NUMBER";   // may be missing
// "weftrun" when a server runs already; otherwise rank 0 is the server.
inline constexpr const char* kLauncherVariable = "WEFT_LAUNCHER";

// The port of the processes that have spawned this job, for its first rank. May be missing.
inline constexpr const char* kParentVariable = "WEFT_PARENT";
// host:port/key of a rendezvous server that jobs publish names at. May be missing: then a launcher
// of Weft has them.
inline constexpr const char* kNameServerVariable = "WEFT_NAME_SERVER";

std::unique_ptr<Board> make_alone_board();

// A rank that loses another one, after WEFT_PEER_TIMEOUT_MS, says so by way of its launcher, and
// then leaves; so the connections of the job to its server and launcher may be silent 10 s longer.
constexpr int silence_beyond(int peer_timeout_ms) noexcept {
  constexpr int kBeyondMs = 10'000, kMost = std::numeric_limits<int>::max() - kBeyondMs;
  return std::min(peer_timeout_ms, kMost) + kBeyondMs;
}

struct RendezvousParameters {
  int rank = 0;
  int size = 1;
  int app_number = 0;
  std::string address;  // host:port
  std::string key;
  bool server_is_launcher = false;
  Party party = Party::mpi;
  int silence_ms = 70'000;      // how long the server's machine may be silent
  int close_timeout_ms = 5000;  // how long rank 0, as server, waits for the others' goodbye
};

// Reads the five variables above. not_found if WEFT_RENDEZVOUS is not set, bad_setting if one of
// them is missing or wrong.
Status read_rendezvous_parameters(RendezvousParameters& parameters);
// Joins the server; as rank 0 without a launcher, runs it in a thread until close(), or until its
// other party, if that began to run it, has closed: so the party that joins last should leave first
// there.
Status make_rendezvous_board(const RendezvousParameters& parameters, int timeout_ms,
                             std::unique_ptr<Board>& board);

// True if a PMIx launcher started this process, whether or not this build can use it.
bool pmix_is_there() noexcept;
// unsupported if built without PMIx.
Status make_pmix_board(Party party, std::unique_ptr<Board>& board);

// True if a launcher gave this process a PMI server (PMI_FD, or PMI_PORT).
bool pmi_is_there() noexcept;
// unsupported if there is another kind of server, or one of neither version.
Status make_pmi_board(Party party, int timeout_ms, std::unique_ptr<Board>& board);

// "rank 3", "ranks 3 and 5", "ranks 3, 5, 7 and 12 more": the missing ranks, at a readable length.
std::string name_ranks(const std::vector<int>& ranks);

}  // namespace weft
