// Performance variables: the counters of WEFT_STATS, in total and by the members of a communicator,
// the messages that wait unmatched, and how often each collective took each algorithm.
#include <algorithm>
#include <cstring>
#include <string>

#include "base/stats.hpp"
#include "coll/select/counts.hpp"
#include "mpi/comm/comm.hpp"
#include "mpi/tools/tools.hpp"

namespace weft::mpi::tools {
namespace {

using Value = unsigned long long;  // of every variable: MPI_UNSIGNED_LONG_LONG

struct PvarRow {
  enum class Source : char { counter, by_member, level, peak, lost, calls, bytes };
  std::string name;
  Source source;
  stats::Counter counter;
  std::string meaning;
  const stats::Tally* tally = nullptr;  // calls, bytes

  bool is_bound() const noexcept { return source == Source::by_member; }
  // True for counters that run from the start of the process on and that no call writes.
  bool is_readonly() const noexcept { return source != Source::peak; }
  int var_class() const noexcept {
    switch (source) {
      case Source::level:
        return MPI_T_PVAR_CLASS_LEVEL;
      case Source::peak:
        return MPI_T_PVAR_CLASS_HIGHWATERMARK;
      default:
        return MPI_T_PVAR_CLASS_COUNTER;
    }
  }
};

#define WEFT_COUNTER(name, counted, meaning)                                      \
  {name, PvarRow::Source::counter, stats::Counter::counted, meaning}, {           \
    name "_by_member", PvarRow::Source::by_member, stats::Counter::counted,       \
        meaning "; by member of a communicator, whatever communicator it was for" \
  }

std::vector<PvarRow> make_rows() {
  std::vector<PvarRow> rows{
      WEFT_COUNTER("sent", sent,
                   "entries sent: messages, pieces of them, and messages of the library itself"),
      WEFT_COUNTER("sent_bytes", sent_bytes, "bytes sent in entries"),
      WEFT_COUNTER("received", received, "entries received"),
      WEFT_COUNTER("received_bytes", received_bytes, "bytes received in entries"),
      WEFT_COUNTER("copied_bytes", copied_bytes,
                   "bytes of rendezvous messages, read from their senders' memory"),
      WEFT_COUNTER("stalls", stalls, "entries that had to wait because the ring was full"),
      WEFT_COUNTER("resent", resent, "entries sent again after a link had broken"),
      {"offloaded", PvarRow::Source::counter, stats::Counter::offloaded,
       "collectives that switches computed for this process's node or socket"},
      {"offload_fallbacks", PvarRow::Source::counter, stats::Counter::fallbacks,
       "collectives that the hosts computed as the switch did not"},
      {"unexpected",
       PvarRow::Source::level,
       {},
       "messages that have come and no receive has matched yet"},
      {"unexpected_peak",
       PvarRow::Source::peak,
       {},
       "the most messages that have waited unmatched at a time since the handle was started"},
      {"lost_peers", PvarRow::Source::lost, {}, "processes that were lost, or have left"},
  };
#undef WEFT_COUNTER
  // Tools read the two names from the meaning (tools/weft-profile/algorithms.cpp).
  for (std::size_t c = 0; c < coll::kNumCollectives; ++c)
    for (int a = 0; a <= static_cast<int>(coll::Algorithm::by_switch); ++a) {
      const auto collective = static_cast<coll::Collective>(c);
      const auto algorithm = static_cast<coll::Algorithm>(a);
      if (!coll::has_algorithm(collective, algorithm)) continue;
      const std::string what(coll::name(collective)), way(coll::name(algorithm));
      const stats::Tally* tally = &coll::tally_of(collective, algorithm);
      const std::string name = what + "_" + way, meaning = what + " by " + way;
      rows.push_back({name + "_calls", PvarRow::Source::calls, {}, meaning + ": calls", tally});
      rows.push_back(
          {name + "_bytes", PvarRow::Source::bytes, {}, meaning + ": bytes of the calls", tally});
    }
  return rows;
}

// Under the mutex, as all functions here.
const std::vector<PvarRow>& rows() {
  static const auto* const made = new std::vector<PvarRow>(make_rows());
  return *made;
}
int num_rows() { return static_cast<int>(rows().size()); }

struct PvarSession : Object {
  static constexpr Type kType = Type::session;
  PvarSession() : Object(kType) {}
  std::vector<MPI_T_pvar_handle> handles;
};

struct Pvar : Object {
  static constexpr Type kType = Type::pvar;
  Pvar(const PvarRow& the_row, MPI_T_pvar_session the_session)
      : Object(kType), row(the_row), session(the_session) {}
  const PvarRow& row;
  const MPI_T_pvar_session session;
  std::vector<int> members;  // by_member: their world ranks
  // peak:
  bool is_started = false;
  Value peak = 0;
};

struct Pvars {
  std::vector<Pvar*> peaks;  // all handles of that source
  Value last_lost = 0;       // at the end of the engine
};
Immortal<Pvars> pvars;

Value unexpected_now() {
  return shared->engine == nullptr ? 0 : shared->engine->unexpected_level();
}

// Samples the engine's only peak: the value since the last sample goes to all handles that are
// started.
void sample_peak() {
  if (shared->engine == nullptr) return;
  const Value seen = shared->engine->unexpected_peak();
  shared->engine->restart_peak();
  for (Pvar* pvar : pvars->peaks)
    if (pvar->is_started) pvar->peak = std::max(pvar->peak, seen);
}

void read_value(const Pvar& pvar, void* buf) {
  const auto store = [buf](std::size_t i, Value value) {
    std::memcpy(static_cast<char*>(buf) + i * sizeof value, &value, sizeof value);
  };
  const auto counter = static_cast<std::size_t>(pvar.row.counter);
  switch (pvar.row.source) {
    case PvarRow::Source::counter:
      return store(0, stats::sum()[counter]);
    case PvarRow::Source::by_member:
      for (std::size_t i = 0; i < pvar.members.size(); ++i)
        store(i, stats::sum("rank " + std::to_string(pvar.members[i]))[counter]);
      return;
    case PvarRow::Source::level:
      return store(0, unexpected_now());
    case PvarRow::Source::peak:
      sample_peak();
      return store(0, pvar.peak);
    case PvarRow::Source::calls:
      return store(0, pvar.row.tally->calls.load(std::memory_order_relaxed));
    case PvarRow::Source::bytes:
      return store(0, pvar.row.tally->bytes.load(std::memory_order_relaxed));
    case PvarRow::Source::lost:
      return store(0, shared->engine == nullptr ? pvars->last_lost : shared->engine->num_lost());
  }
}

void restart(Pvar& pvar) {
  sample_peak();
  pvar.peak = unexpected_now();
}

void drop_pvar(MPI_T_pvar_handle handle) {
  std::erase(pvars->peaks, find<Pvar>(handle));
  drop(handle);
}

const PvarRow* pvar_at(int index) {
  return index >= 0 && index < num_rows() ? &rows()[static_cast<std::size_t>(index)] : nullptr;
}

// Returns the variable behind a handle of that session; null, and the reason in `code`.
Pvar* find_pvar(MPI_T_pvar_session session, MPI_T_pvar_handle handle, int& code) {
  if (find<PvarSession>(session) == nullptr) return code = MPI_T_ERR_INVALID_SESSION, nullptr;
  Pvar* pvar = find<Pvar>(handle);
  if (pvar == nullptr || pvar->session != session) return code = MPI_T_ERR_INVALID_HANDLE, nullptr;
  return pvar;
}

// Calls `one` for one handle, or for all handles of the session that allow it.
template <class One>
int for_one_or_all(MPI_T_pvar_session session, MPI_T_pvar_handle handle, One&& one) {
  if (handle != MPI_T_PVAR_ALL_HANDLES) {
    int code = MPI_SUCCESS;
    Pvar* pvar = find_pvar(session, handle, code);
    return pvar == nullptr ? code : one(*pvar);
  }
  const PvarSession* all = find<PvarSession>(session);
  if (all == nullptr) return MPI_T_ERR_INVALID_SESSION;
  for (const MPI_T_pvar_handle each : all->handles) (void)one(*find<Pvar>(each));
  return MPI_SUCCESS;
}

}  // namespace

int num_pvars() { return num_rows(); }

int first_pvar_of_collectives() {
  const auto first = std::ranges::find_if(
      rows(), [](const PvarRow& row) { return row.source == PvarRow::Source::calls; });
  return static_cast<int>(first - rows().begin());
}

void clear_pvars() noexcept { pvars->peaks.clear(); }

void note_end(const tagged::Engine& engine) noexcept { pvars->last_lost = engine.num_lost(); }

}  // namespace weft::mpi::tools

using namespace weft::mpi;  // NOLINT: the bodies below are the C interface

MPI_FUNCTION(T_pvar_get_num)(int* num) {
  return tools::run([&] {
    if (num == nullptr) return MPI_T_ERR_INVALID;
    *num = tools::num_pvars();
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_pvar_get_info)
(int index, char* name, int* name_len, int* verbosity, int* var_class, MPI_Datatype* datatype,
 MPI_T_enum* enumtype, char* desc, int* desc_len, int* bind, int* readonly, int* continuous,
 int* atomic) {
  return tools::run([&] {
    const tools::PvarRow* row = tools::pvar_at(index);
    if (row == nullptr) return MPI_T_ERR_INVALID_INDEX;
    tools::give_text(row->name, name, name_len);
    tools::give_text(row->meaning, desc, desc_len);
    tools::give(verbosity, row->source == tools::PvarRow::Source::counter
                               ? MPI_T_VERBOSITY_USER_BASIC
                               : MPI_T_VERBOSITY_USER_DETAIL);
    tools::give(var_class, row->var_class());
    if (datatype != nullptr) *datatype = MPI_UNSIGNED_LONG_LONG;
    if (enumtype != nullptr) *enumtype = MPI_T_ENUM_NULL;
    tools::give(bind, row->is_bound() ? MPI_T_BIND_MPI_COMM : MPI_T_BIND_NO_OBJECT);
    tools::give(readonly, row->is_readonly());
    tools::give(continuous, row->is_readonly());
    tools::give(atomic, !row->is_readonly());
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_pvar_get_index)(const char* name, int var_class, int* index) {
  return tools::run([&] {
    if (name == nullptr || index == nullptr) return MPI_T_ERR_INVALID;
    for (int i = 0; i < tools::num_pvars(); ++i) {
      const tools::PvarRow& row = *tools::pvar_at(i);
      if (row.name != name || row.var_class() != var_class) continue;
      *index = i;
      return MPI_SUCCESS;
    }
    return MPI_T_ERR_INVALID_NAME;
  });
}

MPI_FUNCTION(T_pvar_session_create)(MPI_T_pvar_session* session) {
  return tools::run([&] {
    if (session == nullptr) return MPI_T_ERR_INVALID;
    const auto made = tools::add<MPI_T_pvar_session>(std::make_unique<tools::PvarSession>());
    if (made == nullptr) return MPI_T_ERR_OUT_OF_SESSIONS;
    *session = made;
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_pvar_session_free)(MPI_T_pvar_session* session) {
  return tools::run([&] {
    if (session == nullptr) return MPI_T_ERR_INVALID;
    const auto* found = tools::find<tools::PvarSession>(*session);
    if (found == nullptr) return MPI_T_ERR_INVALID_SESSION;
    for (const MPI_T_pvar_handle handle : found->handles) tools::drop_pvar(handle);
    tools::drop(*session);
    *session = MPI_T_PVAR_SESSION_NULL;
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_pvar_handle_alloc)
(MPI_T_pvar_session session, int index, void* obj_handle, MPI_T_pvar_handle* handle, int* count) {
  return tools::run([&] {
    auto* owner = tools::find<tools::PvarSession>(session);
    if (owner == nullptr) return MPI_T_ERR_INVALID_SESSION;
    const tools::PvarRow* row = tools::pvar_at(index);
    if (row == nullptr) return MPI_T_ERR_INVALID_INDEX;
    if (handle == nullptr || count == nullptr) return MPI_T_ERR_INVALID;
    auto pvar = std::make_unique<tools::Pvar>(*row, session);
    if (row->is_bound()) {
      if (obj_handle == nullptr) return MPI_T_ERR_INVALID;
      // The caller that asks for a communicator's handle ensures that MPI runs meanwhile.
      const Comm* comm = tools::shared->engine == nullptr
                             ? nullptr
                             : find_comm(*static_cast<MPI_Comm*>(obj_handle));
      if (comm == nullptr) return MPI_T_ERR_INVALID;
      for (int i = 0; i < comm->peer_group().size(); ++i) pvar->members.push_back(comm->world(i));
    }
    tools::Pvar* const made = pvar.get();
    const int elements = row->is_bound() ? static_cast<int>(made->members.size()) : 1;
    owner->handles.reserve(owner->handles.size() + 1);
    tools::pvars->peaks.reserve(tools::pvars->peaks.size() + 1);
    const auto made_handle = tools::add<MPI_T_pvar_handle>(std::move(pvar));
    if (made_handle == nullptr) return MPI_T_ERR_OUT_OF_HANDLES;
    owner->handles.push_back(made_handle);
    if (row->source == tools::PvarRow::Source::peak) tools::pvars->peaks.push_back(made);
    *handle = made_handle;
    *count = elements;
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_pvar_handle_free)(MPI_T_pvar_session session, MPI_T_pvar_handle* handle) {
  return tools::run([&] {
    if (handle == nullptr) return MPI_T_ERR_INVALID;
    int code = MPI_SUCCESS;
    if (tools::find_pvar(session, *handle, code) == nullptr) return code;
    std::erase(tools::find<tools::PvarSession>(session)->handles, *handle);
    tools::drop_pvar(*handle);
    *handle = MPI_T_PVAR_HANDLE_NULL;
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_pvar_start)(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  return tools::run([&] {
    return tools::for_one_or_all(session, handle, [](tools::Pvar& pvar) {
      if (pvar.row.is_readonly() || pvar.is_started) return MPI_T_ERR_PVAR_NO_STARTSTOP;
      tools::restart(pvar);
      pvar.is_started = true;
      return MPI_SUCCESS;
    });
  });
}

MPI_FUNCTION(T_pvar_stop)(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  return tools::run([&] {
    return tools::for_one_or_all(session, handle, [](tools::Pvar& pvar) {
      if (pvar.row.is_readonly() || !pvar.is_started) return MPI_T_ERR_PVAR_NO_STARTSTOP;
      tools::sample_peak();
      pvar.is_started = false;
      return MPI_SUCCESS;
    });
  });
}

MPI_FUNCTION(T_pvar_read)(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void* buf) {
  return tools::run([&] {
    int code = MPI_SUCCESS;
    const tools::Pvar* pvar = tools::find_pvar(session, handle, code);
    if (pvar == nullptr) return code;
    if (buf == nullptr) return MPI_T_ERR_INVALID;
    tools::read_value(*pvar, buf);
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_pvar_write)(MPI_T_pvar_session session, MPI_T_pvar_handle handle, const void* buf) {
  return tools::run([&] {
    int code = MPI_SUCCESS;
    tools::Pvar* pvar = tools::find_pvar(session, handle, code);
    if (pvar == nullptr) return code;
    if (buf == nullptr) return MPI_T_ERR_INVALID;
    if (pvar->row.is_readonly()) return MPI_T_ERR_PVAR_NO_WRITE;
    tools::sample_peak();
    std::memcpy(&pvar->peak, buf, sizeof pvar->peak);
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_pvar_reset)(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  return tools::run([&] {
    return tools::for_one_or_all(session, handle, [](tools::Pvar& pvar) {
      if (pvar.row.is_readonly()) return MPI_T_ERR_PVAR_NO_WRITE;
      tools::restart(pvar);
      return MPI_SUCCESS;
    });
  });
}

MPI_FUNCTION(T_pvar_readreset)(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void* buf) {
  return tools::run([&] {
    int code = MPI_SUCCESS;
    tools::Pvar* pvar = tools::find_pvar(session, handle, code);
    if (pvar == nullptr) return code;
    if (buf == nullptr) return MPI_T_ERR_INVALID;
    if (pvar->row.is_readonly()) return MPI_T_ERR_PVAR_NO_ATOMIC;
    tools::read_value(*pvar, buf);
    tools::restart(*pvar);
    return MPI_SUCCESS;
  });
}
