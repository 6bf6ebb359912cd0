#include "calls.hpp"

#include <array>

namespace weft::test {
namespace {

using Bytes = std::vector<std::byte>;

std::size_t z(int rank) { return static_cast<std::size_t>(rank); }

// The byte at `position` of what `from` sends to `to` in the call `salt`.
std::byte content(std::uint32_t salt, int from, int to, std::size_t position) {
  std::uint32_t x = salt * 2654435761u + static_cast<std::uint32_t>(from) * 40503u +
                    static_cast<std::uint32_t>(to) * 9176u + static_cast<std::uint32_t>(position);
  x ^= x >> 13;
  x *= 0x5bd1e995u;
  return static_cast<std::byte>(x >> 24);
}

void fill(std::byte* into, std::size_t bytes, std::uint32_t salt, int from, int to) {
  for (std::size_t i = 0; i < bytes; ++i) into[i] = content(salt, from, to, i);
}

bool holds(const std::byte* data, std::size_t bytes, std::uint32_t salt, int from, int to) {
  for (std::size_t i = 0; i < bytes; ++i)
    if (data[i] != content(salt, from, to, i)) return false;
  return true;
}

bool all_are(const std::byte* data, std::size_t bytes, std::byte value) {
  for (std::size_t i = 0; i < bytes; ++i)
    if (data[i] != value) return false;
  return true;
}

constexpr std::byte kUntouched{0xa5};

// Affine maps x -> a x + b modulo a prime under composition: associative, not commutative. The
// third number makes the element 12 bytes, so that pieces do not divide evenly.
struct Map {
  std::uint32_t a, b, count;
  friend bool operator==(const Map&, const Map&) = default;
};
constexpr std::uint64_t kPrime = 2147483647;

Map compose(const Map& f, const Map& g) {
  return {static_cast<std::uint32_t>(std::uint64_t{f.a} * g.a % kPrime),
          static_cast<std::uint32_t>((std::uint64_t{f.a} * g.b + f.b) % kPrime), f.count + g.count};
}

void apply_map(const void* in, void* inout, std::size_t count, void* argument) {
  ++*static_cast<int*>(argument);
  for (std::size_t i = 0; i < count; ++i)
    static_cast<Map*>(inout)[i] =
        compose(static_cast<const Map*>(in)[i], static_cast<const Map*>(inout)[i]);
}

// The same with maps that commute: b = 0.
Map operand(std::uint32_t salt, int rank, std::size_t position, bool commutative) {
  std::uint32_t x = salt * 7919u + static_cast<std::uint32_t>(rank) * 104729u +
                    static_cast<std::uint32_t>(position) * 31u + 1;
  x ^= x << 7;
  x ^= x >> 9;
  return {1 + x % 1000003u, commutative ? 0 : x % 998244353u, 1};
}

// operand(first) op ... op operand(last)
Map folded(std::uint32_t salt, int first, int last, std::size_t position, bool commutative) {
  Map result = operand(salt, first, position, commutative);
  for (int r = first + 1; r <= last; ++r)
    result = compose(result, operand(salt, r, position, commutative));
  return result;
}

const char* call_name(Call call) {
  constexpr std::array kNames = {"barrier",  "bcast",   "reduce",   "allreduce",  "reduce_scatter",
                                 "scan",     "exscan",  "gather",   "scatter",    "allgather",
                                 "alltoall", "gatherv", "scatterv", "allgatherv", "alltoallv"};
  return kNames[static_cast<std::size_t>(call)];
}

}  // namespace

void Calls::expect(bool right, Call call, const std::string& what) {
  if (right || errors_.size() > 5) return;
  errors_.push_back(std::string(call_name(call)) + " #" + std::to_string(salt_) + ": " + what);
}

std::size_t Calls::draw_size() {
  constexpr std::size_t kSizes[] = {0,     1,     3,     8,      16,     24,     47,    48,
                                    49,    64,    100,   1000,   4096,   5000,   16384, 32768,
                                    32769, 65536, 70000, 200000, 600000, 1200000};
  std::size_t size = kSizes[random_() % std::size(kSizes)];
  if (random_() % 3 == 0) size = random_() % 3000;
  return std::min(size, most_);
}

void Calls::one(Call call) {
  ++salt_;
  switch (call) {
    case Call::barrier:
      return expect(barrier(team_).ok(), call, "failed");
    case Call::reduce:
    case Call::allreduce:
    case Call::reduce_scatter:
    case Call::scan:
    case Call::exscan:
      return reductions(call);
    case Call::gatherv:
    case Call::scatterv:
    case Call::allgatherv:
    case Call::alltoallv:
      return vectors(call);
    default:
      return blocks(call);
  }
}

void Calls::reductions(Call call) {
  const int n = team_.size(), me = team_.rank();
  const std::size_t count = draw_size() / sizeof(Map);
  const int root = static_cast<int>(random_() % static_cast<unsigned>(n));
  const bool commutative = random_() % 2 == 0, in_place = random_() % 3 == 0;
  std::vector<std::size_t> counts(z(n));
  std::size_t left = count;
  for (int r = 0; r < n; ++r) {
    counts[z(r)] =
        r == n - 1 ? left : std::min<std::size_t>(left, random_() % (count / z(n) * 2 + 1));
    left -= counts[z(r)];
  }

  int applied = 0;
  const coll::Reduction op{apply_map, &applied, sizeof(Map), commutative};
  std::vector<Map> send(count + 1), receive(count + 1);
  for (std::size_t i = 0; i < count; ++i) send[i] = operand(salt_, me, i, commutative);
  const std::vector<Map> before = send;
  const Map guard{1, 2, 3};
  const bool root_only = call == Call::reduce;
  const bool in_place_here = in_place && (!root_only || me == root);
  const void* from = in_place_here ? nullptr : send.data();
  void* into = in_place_here ? send.data() : receive.data();
  std::vector<Map>& got = in_place_here ? send : receive;
  got[count] = guard;

  Status status;
  int first = 0, last = n - 1;
  std::size_t begin = 0, num = count;
  switch (call) {
    case Call::reduce:
      status = reduce(team_, from, me == root ? into : nullptr, count, op, root);
      if (me != root) num = 0;
      break;
    case Call::allreduce:
      status = allreduce(team_, from, into, count, op);
      break;
    case Call::reduce_scatter:
      status = reduce_scatter(team_, from, into, counts.data(), op);
      for (int r = 0; r < me; ++r) begin += counts[z(r)];
      num = counts[z(me)];
      break;
    case Call::scan:
      status = scan(team_, from, into, count, op);
      last = me;
      break;
    default:
      status = exscan(team_, from, into, count, op);
      last = me - 1;
      if (me == 0) num = 0;
  }
  expect(status.ok(), call, status.text());
  bool right = true;
  for (std::size_t i = 0; i < num && right; ++i)
    right = got[i] == folded(salt_, first, last, begin + i, commutative);
  expect(right, call,
         "wrong result, count " + std::to_string(count) + " of " + std::to_string(n) + " root " +
             std::to_string(root) + (commutative ? " commutative" : "") +
             (in_place ? " in place" : ""));
  expect(got[count] == guard, call, "wrote beyond the end");
  if (!in_place_here) expect(send == before, call, "changed the send buffer");
}

void Calls::blocks(Call call) {
  const int n = team_.size(), me = team_.rank();
  const std::size_t bytes = draw_size();
  const int root = static_cast<int>(random_() % static_cast<unsigned>(n));
  const bool in_place = random_() % 3 == 0;
  Bytes one(bytes + 1, kUntouched), many(bytes * z(n) + 1, kUntouched),
      more(bytes * z(n) + 1, kUntouched);
  Status status;
  bool right = true;
  const auto block = [&](Bytes& all, int r) { return all.data() + z(r) * bytes; };
  switch (call) {
    case Call::bcast:
      if (me == root) fill(one.data(), bytes, salt_, root, 0);
      status = bcast(team_, one.data(), bytes, root);
      right = holds(one.data(), bytes, salt_, root, 0);
      break;
    case Call::gather:
      fill(one.data(), bytes, salt_, me, 0);
      if (me == root && in_place) fill(block(many, me), bytes, salt_, me, 0);
      status = gather(team_, me == root && in_place ? nullptr : one.data(),
                      me == root ? many.data() : nullptr, bytes, root);
      for (int r = 0; me == root && r < n; ++r)
        right = right && holds(block(many, r), bytes, salt_, r, 0);
      break;
    case Call::scatter:
      for (int r = 0; me == root && r < n; ++r) fill(block(many, r), bytes, salt_, root, r);
      status = scatter(team_, me == root ? many.data() : nullptr,
                       me == root && in_place ? nullptr : one.data(), bytes, root);
      if (me == root && in_place)
        right = all_are(one.data(), bytes, kUntouched);
      else
        right = holds(one.data(), bytes, salt_, root, me);
      break;
    case Call::allgather:
      fill(one.data(), bytes, salt_, me, 0);
      if (in_place) fill(block(many, me), bytes, salt_, me, 0);
      status = allgather(team_, in_place ? nullptr : one.data(), many.data(), bytes);
      for (int r = 0; r < n; ++r) right = right && holds(block(many, r), bytes, salt_, r, 0);
      break;
    default:
      for (int r = 0; r < n; ++r) fill(block(in_place ? many : more, r), bytes, salt_, me, r);
      status = alltoall(team_, in_place ? nullptr : more.data(), many.data(), bytes);
      for (int r = 0; r < n; ++r) right = right && holds(block(many, r), bytes, salt_, r, me);
  }
  expect(status.ok(), call, status.text());
  expect(right, call,
         "wrong data, " + std::to_string(bytes) + " bytes of " + std::to_string(n) + " root " +
             std::to_string(root) + (in_place ? " in place" : ""));
  expect(one.back() == kUntouched && many.back() == kUntouched && more.back() == kUntouched, call,
         "wrote beyond the end");
}

void Calls::vectors(Call call) {
  const int n = team_.size(), me = team_.rank();
  const int root = static_cast<int>(random_() % static_cast<unsigned>(n));
  const bool in_place = random_() % 3 == 0;
  // length[from][to], the same on all ranks; blocks lie apart by one byte, in reverse order.
  std::vector<std::vector<std::size_t>> length(z(n), std::vector<std::size_t>(z(n)));
  for (auto& row : length)
    for (auto& bytes : row) bytes = random_() % 4 == 0 ? 0 : draw_size() / 8;
  if (call != Call::alltoallv)
    for (auto& row : length) row.assign(z(n), row[0]);
  if (call == Call::scatterv)
    for (int r = 0; r < n; ++r) length[z(root)][z(r)] = length[z(r)][0];
  if (call == Call::alltoallv && in_place)
    for (int a = 0; a < n; ++a)
      for (int b = 0; b < a; ++b) length[z(a)][z(b)] = length[z(b)][z(a)];

  const auto layout = [&](const auto& size_of, std::vector<std::size_t>& counts,
                          std::vector<std::ptrdiff_t>& displacements) {
    counts.resize(z(n));
    displacements.resize(z(n));
    std::size_t end = 1;
    for (int r = n - 1; r >= 0; --r) {
      counts[z(r)] = size_of(r);
      displacements[z(r)] = static_cast<std::ptrdiff_t>(end);
      end += counts[z(r)] + 1;
    }
    return Bytes(end, kUntouched);
  };
  std::vector<std::size_t> out, in;
  std::vector<std::ptrdiff_t> out_at, in_at;
  const int sender = call == Call::scatterv ? root : me;
  Bytes outgoing = layout([&](int r) { return length[z(sender)][z(r)]; }, out, out_at);
  Bytes incoming = layout([&](int r) { return length[z(r)][z(me)]; }, in, in_at);
  const auto mine = length[z(me)][0];
  Bytes one(std::max(mine, length[z(root)][z(me)]) + 1, kUntouched);

  Status status;
  bool right = true;
  const auto check_incoming = [&](int to) {
    for (int r = 0; r < n; ++r)
      right = right && holds(incoming.data() + in_at[z(r)], in[z(r)], salt_, r, to) &&
              incoming[static_cast<std::size_t>(in_at[z(r)]) - 1] == kUntouched;
  };
  switch (call) {
    case Call::gatherv:
    case Call::allgatherv: {
      const bool here = call == Call::allgatherv || me == root;
      fill(in_place && here ? incoming.data() + in_at[z(me)] : one.data(), mine, salt_, me, 0);
      const void* from = in_place && here ? nullptr : one.data();
      status = call == Call::gatherv
                   ? gatherv(team_, from, mine, incoming.data(), in.data(), in_at.data(), root)
                   : allgatherv(team_, from, mine, incoming.data(), in.data(), in_at.data());
      if (here) check_incoming(0);
      break;
    }
    case Call::scatterv: {
      for (int r = 0; me == root && r < n; ++r)
        fill(outgoing.data() + out_at[z(r)], out[z(r)], salt_, root, r);
      const bool here = in_place && me == root;
      const std::size_t bytes = length[z(root)][z(me)];
      status = scatterv(team_, outgoing.data(), out.data(), out_at.data(),
                        here ? nullptr : one.data(), bytes, root);
      if (!here) right = holds(one.data(), bytes, salt_, root, me) && one[bytes] == kUntouched;
      break;
    }
    default:
      for (int r = 0; r < n; ++r)
        fill(in_place ? incoming.data() + in_at[z(r)] : outgoing.data() + out_at[z(r)],
             length[z(me)][z(r)], salt_, me, r);
      status = in_place ? alltoallv(team_, nullptr, nullptr, nullptr, incoming.data(), in.data(),
                                    in_at.data())
                        : alltoallv(team_, outgoing.data(), out.data(), out_at.data(),
                                    incoming.data(), in.data(), in_at.data());
      check_incoming(me);
  }
  expect(status.ok(), call, status.text());
  expect(right, call,
         "wrong data, " + std::to_string(n) + " ranks, root " + std::to_string(root) +
             (in_place ? " in place" : ""));
}

}  // namespace weft::test
