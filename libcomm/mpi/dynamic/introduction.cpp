#include "mpi/dynamic/introduction.hpp"

#include <fmt/core.h>

#include <cstring>
#include <utility>

namespace weft::mpi {
namespace {

// A member's endpoint address; its size is the most that one needs.
struct EndpointAddress {
  std::uint32_t bytes = 0;
  char text[2044] = {};
};

// The first message of a root to the other; the endpoint addresses of its members follow.
struct Greeting {
  static constexpr std::uint32_t kMagic = 0x47544657;  // "WFTG"
  std::uint32_t magic = kMagic;
  std::uint32_t context = 0;
  std::int32_t size = 0;  // 0: this side gives up
  std::int32_t root = 0;
  ProcessName name;  // of the root
};

// The most bytes of an error's text that are passed on.
constexpr std::size_t kMaxTextBytes = 400;

// The outcome at the root, for the other members of its side.
struct Outcome {
  std::int32_t code = 0;
  std::int32_t size = 0;
  Contexts contexts;
  char text[kMaxTextBytes] = {};

  Outcome(const Status& status) : code(static_cast<std::int32_t>(status.code())) {
    if (!status) status.text().copy(text, sizeof text - 1);
  }
  Status status() const { return code == 0 ? Status() : Status(static_cast<Code>(code), text); }
};

// Foreign processes that are admitted for at least as long as this lives.
class Admitted {
 public:
  explicit Admitted(std::size_t most) { numbers_.reserve(most); }
  ~Admitted() {
    for (const int number : numbers_)
      if (number >= engine->size()) engine->release_foreign(number);
  }
  Admitted(const Admitted&) = delete;
  Admitted& operator=(const Admitted&) = delete;
  Status add(const EndpointAddress& address) {
    if (address.bytes > sizeof address.text)
      return {Code::corrupt, "an endpoint address is too long"};
    int number = -1;
    Status status = engine->admit({address.text, address.bytes}, number);
    if (status) numbers_.push_back(number);
    return status;
  }
  const std::vector<int>& numbers() const noexcept { return numbers_; }

 private:
  std::vector<int> numbers_;
};

// On the root: swaps greetings and endpoint addresses with the other root.
Status swap_addresses(Pipe& pipe, const Comm& local, bool gives_up, std::uint32_t offered,
                      const std::vector<EndpointAddress>& mine,
                      std::vector<EndpointAddress>& theirs, Contexts& contexts) {
  const Members& job = engine->job();
  Greeting own, other;
  own.context = offered;
  own.size = gives_up ? 0 : local.size();
  own.root = local.rank;
  own.name = job.name_of(job.rank());
  Status status = pipe.swap(&own, sizeof own, &other, sizeof other);
  if (!status) return status;
  if (other.magic != Greeting::kMagic || other.size < 0 || other.root < 0 ||
      other.size > job.size() + kMaxForeignProcesses || (other.context & kAcrossJobs) == 0 ||
      (other.context & 1) != 0)
    return {Code::corrupt, "the other side does not greet as MPI processes of Weft do"};
  if (other.size == 0) return {Code::peer_lost, "the other side has given up"};
  if (gives_up) return {};
  theirs.resize(static_cast<std::size_t>(other.size));
  contexts = {own.name < other.name ? own.context : other.context, own.context};
  return pipe.swap(mine.data(), mine.size() * sizeof(EndpointAddress), theirs.data(),
                   theirs.size() * sizeof(EndpointAddress));
}

// The last message between the roots, once they have swapped addresses: the other side waits for
// it, whatever happens on this one.
class Confirmation {
 public:
  ~Confirmation() {
    if (pipe_ != nullptr) (void)exchange(Code::peer_lost);
  }
  void owe(Pipe& pipe) { pipe_ = &pipe; }
  // Swaps the codes. ok: both sides have succeeded.
  Status exchange(Code code) {
    const auto own = static_cast<std::int32_t>(code);
    std::int32_t other = 0;
    Status status = std::exchange(pipe_, nullptr)->swap(&own, sizeof own, &other, sizeof other);
    if (code != Code::ok) return code;
    if (status && other != 0)
      status = {Code::peer_lost, "the other side cannot reach all of this one"};
    return status;
  }

 private:
  Pipe* pipe_ = nullptr;
};

// Gives every member the root's outcome; an error anywhere is one of all.
Status spread_outcome(Comm& local, int root, Outcome& outcome) {
  if (Status status = coll::bcast(*local.team, &outcome, sizeof outcome, root); !status)
    return status;
  return outcome.status();
}

}  // namespace

Status introduce(Comm& local, int root, Pipe* pipe, Comm*& out, const Status& failure) {
  const bool is_root = local.rank == root;
  CommPtr made = prepare_comm(local.group->members(), local);
  EndpointAddress address;
  std::string text;
  Status own = engine->endpoint_address(text);
  if (own && text.size() > sizeof address.text)
    own = {Code::internal, "the endpoint address is too long"};
  if (own) address.bytes = static_cast<std::uint32_t>(text.copy(address.text, sizeof address.text));
  std::vector<EndpointAddress> mine(is_root ? static_cast<std::size_t>(local.size()) : 0), theirs;
  Status status = coll::gather(*local.team, &address, mine.data(), sizeof address, root);

  Confirmation confirmation;
  OfferedContext offered(is_root, true);
  Outcome outcome{Status()};
  if (is_root) {
    Status met = pipe == nullptr ? failure : !status ? status : own;
    for (std::size_t i = 0; i < mine.size() && met; ++i)
      if (mine[i].bytes == 0)
        met = {Code::unsupported,
               fmt::format("{} has no fabric over which other jobs could be reached",
                           engine->job().describe(local.group->world(static_cast<int>(i))))};
    Contexts contexts;
    if (pipe != nullptr) {
      const Status swapped =
          swap_addresses(*pipe, local, !met.ok(), offered.value(), mine, theirs, contexts);
      if (met) met = swapped;
      if (met) confirmation.owe(*pipe);
    }
    outcome = Outcome(met);
    outcome.size = static_cast<std::int32_t>(theirs.size());
    outcome.contexts = contexts;
  }
  if (status) status = spread_outcome(local, root, outcome);
  if (!status) return status;
  theirs.resize(static_cast<std::size_t>(outcome.size));
  status = coll::bcast(*local.team, theirs.data(), theirs.size() * sizeof(EndpointAddress), root);
  if (!status) return status;

  // No process may send to one that has not admitted it yet: all of both sides wait for all.
  Admitted admitted(theirs.size());
  const auto remote = std::make_shared<Group>(theirs.size());
  Status known;
  for (std::size_t i = 0; i < theirs.size() && known; ++i) known = admitted.add(theirs[i]);
  for (const int number : admitted.numbers())
    if (known && local.group->rank_of(number) != MPI_UNDEFINED)
      known = {Code::bad_argument, "the two groups overlap"};
  std::vector<int> codes;
  status = share(*local.team, static_cast<int>(known.code()), codes);
  if (!status) return status;
  Outcome agreed{known};
  if (is_root) {
    for (std::size_t i = 0; i < codes.size() && agreed.code == 0; ++i)
      if (codes[i] != 0)
        agreed =
            Outcome({static_cast<Code>(codes[i]),
                     fmt::format("{} cannot reach all of the other side",
                                 engine->job().describe(local.group->world(static_cast<int>(i))))});
    const Status confirmed = confirmation.exchange(static_cast<Code>(agreed.code));
    if (agreed.code == 0) agreed = Outcome(confirmed);
  }
  if (status = spread_outcome(local, root, agreed); !status) return known ? status : known;
  remote->assign(admitted.numbers());
  out = open_comm(std::move(made), local.group, remote, outcome.contexts.shared,
                  outcome.contexts.local + 1);
  return {};
}

}  // namespace weft::mpi
