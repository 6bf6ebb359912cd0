// One-sided access: reads, writes and atomic operations on memory of other ranks.
#include "base/shortage.hpp"
#include "base/trace.hpp"
#include "exchange/job_impl.hpp"
#include "weft/copy.hpp"
#include "weft/job.hpp"

namespace weft::transport {

MappingCache::~MappingCache() {
  for (MappedMemory& entry : entries_)
    if (entry.data != nullptr) lanes_->unmap(entry);
}

std::byte* MappingCache::map(HostLanes& lanes, MappedMemory& entry, const RemoteMemory& memory,
                             Code& code) noexcept {
  MappedMemory mapped;
  code = lanes.map(memory.owner, key_of(memory).memory(memory, 0), mapped);
  if (code != Code::ok) return nullptr;
  lanes_ = &lanes;
  if (entry.data != nullptr) {
    if (window_.number == entry.number) window_.bytes = 0;
    lanes.unmap(entry);
  }
  entry = mapped;
  return entry.find(key_of(memory).memory(memory, 0));
}

namespace {

// Mapped memory outlives its owner, so accesses check whether it is alive: often enough to detect
// its end within 100 ms, seldom enough to cost nothing.
constexpr unsigned kCallsPerCheck = 256;

// The checks of every access that need no knowledge of the owner.
Code check(Job::Impl& job, int thread, const RemoteMemory& memory, std::size_t bytes) noexcept {
  if (!job.has_rank(memory.owner) || bytes > memory.bytes || !Job::Impl::is_thread(thread))
    return Code::bad_argument;
  const Job::Impl::Route& route = job.route(memory.owner);
  if (route.lanes == nullptr) return Code::unsupported;
  const MemoryKey::Name name = key_of(memory).names[route.key];
  if (name.region == 0 && (route.key == 0 || name.extra == 0)) return Code::bad_argument;
  ThreadState* const state = job.find_thread(thread);
  if (state == nullptr) return Code::no_memory;
  if (++state->num_calls % kCallsPerCheck == 0) job.engine->check_for_lost();
  return job.engine->num_lost() == 0 || job.engine->is_alive(memory.owner) ? Code::ok
                                                                           : Code::peer_lost;
}

// Short copies use a mapping; long ones the fabric's own method.
constexpr std::size_t kMappedCopyBytes = 64 * 1024;

template <bool kWrite>
Code move(Job::Impl& impl, int thread, const RemoteMemory& there, void* here,
          std::size_t bytes) noexcept {
  Code code = check(impl, thread, there, bytes);
  if (code != Code::ok || bytes == 0) return code;
  Lanes& lanes = *impl.route(there.owner).lanes;
  if (bytes <= kMappedCopyBytes && lanes.is_mapped()) {
    MappingCache& mappings = impl.thread(thread).mappings;
    if (std::byte* data = mappings.find(*impl.local, there, code)) {
      mappings.show(there);
      weft::detail::copy(kWrite ? data : here, kWrite ? here : data, bytes);
      return Code::ok;
    }
    if (code != Code::unsupported) return code;
  }
  const MemoryName name = impl.memory_on_route(there);
  return kWrite ? lanes.put(there.owner, name, 0, here, bytes)
                : lanes.get(there.owner, name, 0, here, bytes);
}

}  // namespace

Code Job::read_there(int thread, const RemoteMemory& from, void* to, std::size_t bytes) noexcept {
  const trace::Span span("rdma_read");
  return move<false>(*impl_, thread, from, to, bytes);
}

Code Job::write_there(int thread, const RemoteMemory& to, const void* from,
                      std::size_t bytes) noexcept {
  return move<true>(*impl_, thread, to, const_cast<void*>(from), bytes);
}

namespace {

// The token of a transfer that failed for want of memory.
constexpr Token kNoMemory{~0u, 0};

std::uint64_t number_in(Token token) noexcept {
  return std::uint64_t{token.use} << 32 | token.slot;
}

// Returns a completion for a transfer. Null: no memory.
Completion* take_completion(Job::Impl& job, int thread, Token& token) noexcept {
  token = Job::Impl::is_thread(thread) ? kNoMemory : Token{};
  ThreadState* const state = job.find_thread(thread);
  if (state == nullptr) return nullptr;
  const Code code = or_no_memory([&] {
    state->completions.make_room();
    state->transfers.make_room();
  });
  if (code != Code::ok) return nullptr;
  Completion& completion = state->completions.take();
  completion.reset();
  const std::uint64_t number = state->transfers.add(&completion);
  token = {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32)};
  return &completion;
}

// The result for a token that no transfer has.
Code code_of_none(Token token) noexcept {
  return token.slot == kNoMemory.slot && token.use == 0 ? Code::no_memory : Code::bad_argument;
}

// Returns null if the token is another thread's, or used up.
Completion* find_completion(ThreadState* state, Token token) noexcept {
  Completion** found = state != nullptr ? state->transfers.find(number_in(token)) : nullptr;
  return found != nullptr ? *found : nullptr;
}

Code use_up(ThreadState& state, Token token) noexcept {
  Completion& completion = *state.transfers.remove(number_in(token));
  state.completions.give_back(completion);
  return completion.code();
}

Token start(Job::Impl& impl, int thread, Access access, const RemoteMemory& there, void* here,
            std::size_t bytes) {
  Token token;
  Completion* const completion = take_completion(impl, thread, token);
  if (completion == nullptr) return token;
  const Code code = check(impl, thread, there, bytes);
  if (code != Code::ok || bytes == 0)
    completion->set(code);
  else
    impl.route(there.owner)
        .lanes->begin(there.owner, {access, impl.memory_on_route(there), 0, here, bytes},
                      *completion);
  return token;
}

}  // namespace

Token Job::rdma_read_async(int thread, const RemoteMemory& from, void* to, std::size_t bytes) {
  return start(*impl_, thread, Access::get, from, to, bytes);
}

Token Job::rdma_write_async(int thread, const RemoteMemory& to, const void* from,
                            std::size_t bytes) {
  return start(*impl_, thread, Access::put, to, const_cast<void*>(from), bytes);
}

Code Job::test(int thread, Token token) noexcept {
  ThreadState* const state = impl_->find_thread(thread);
  Completion* const completion = find_completion(state, token);
  if (completion == nullptr) return code_of_none(token);
  if (!completion->is_done()) {
    impl_->engine->progress();
    if (!completion->is_done()) return Code::again;
  }
  return use_up(*state, token);
}

Code Job::wait(int thread, Token token) noexcept {
  const trace::Span span("wait for a transfer");
  ThreadState* const state = impl_->find_thread(thread);
  Completion* const completion = find_completion(state, token);
  if (completion == nullptr) return code_of_none(token);
  impl_->engine->wait_until([completion] { return completion->is_done(); });
  return use_up(*state, token);
}

namespace {

template <Access kAccess>
inline Fetched change(Job::Impl& impl, int thread, const RemoteMemory& word, std::uint64_t operand,
                      std::uint64_t compare) noexcept {
  Fetched fetched{check(impl, thread, word, 8), compare};
  if (fetched.code != Code::ok) return fetched;
  if (word.address % 8 != 0) return {Code::bad_argument, 0};
  Lanes& lanes = *impl.route(word.owner).lanes;
  if (lanes.is_mapped()) {
    MappingCache& mappings = impl.thread(thread).mappings;
    if (std::byte* there = mappings.find(*impl.local, word, fetched.code)) {
      mappings.show(word);
      fetched.value = fabric::apply(atomic_of(kAccess), there, operand, compare);
      return fetched;
    }
    if (fetched.code != Code::unsupported) return fetched;
  }
  const MemoryName name = impl.memory_on_route(word);
  fetched.code = kAccess == Access::cas
                     ? lanes.cas(word.owner, name, 0, compare, operand, fetched.value)
                     : lanes.fetch_add(word.owner, name, 0, operand, fetched.value);
  return fetched;
}

}  // namespace

Fetched Job::cas_there(int thread, const RemoteMemory& word, std::uint64_t compare,
                       std::uint64_t swap) noexcept {
  return change<Access::cas>(*impl_, thread, word, swap, compare);
}

Fetched Job::fetch_add_there(int thread, const RemoteMemory& word, std::uint64_t value) noexcept {
  return change<Access::fetch_add>(*impl_, thread, word, value, 0);
}

}  // namespace weft::transport
