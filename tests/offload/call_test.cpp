// Calls as allreduces: what all members give and keep, piece by piece, is what the collective does.
#include "coll/offload/call.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <random>

namespace weft::testing {
namespace {

using offload::Call;
using Bytes = std::vector<std::byte>;

Bytes numbers(std::size_t count, unsigned seed) {
  Bytes bytes(count);
  std::mt19937 random(seed);
  for (std::byte& one : bytes) one = static_cast<std::byte>(random());
  return bytes;
}

void add(const void* in, void* inout, std::size_t count, void*) {
  for (std::size_t i = 0; i < count; ++i)
    static_cast<std::uint8_t*>(inout)[i] = static_cast<std::uint8_t>(
        static_cast<std::uint8_t*>(inout)[i] + static_cast<const std::uint8_t*>(in)[i]);
}
const coll::Reduction kSum{add, nullptr, 1, true, innet::Element::u8, innet::Operation::sum};

// All members' calls, in pieces of so many bytes, as leaders and switches do them.
void run(const std::vector<Call>& calls, std::size_t piece_bytes) {
  for (std::size_t first = 0; first < calls[0].bytes(); first += piece_bytes) {
    const std::size_t bytes = std::min(piece_bytes, calls[0].bytes() - first);
    Bytes sum(bytes);
    write_piece(calls[0].given, first, sum);
    for (std::size_t i = 1; i < calls.size(); ++i) {
      Bytes room;
      calls[i].op.apply(piece_of(calls[i].given, first, bytes, room), sum.data(), bytes,
                        calls[i].op.argument);
    }
    for (const Call& call : calls) keep_piece(call.kept, first, sum);
  }
}

TEST_CASE("a reduce_scatter of unequal parts, in place and not, in pieces of any length") {
  for (const int size : {2, 3, 7})
    for (const std::size_t piece_bytes : {1u, 5u, 64u, 4096u})
      for (const bool in_place : {false, true}) {
        INFO(size << " members, pieces of " << piece_bytes << ", in place " << in_place);
        std::vector<std::size_t> counts;
        std::size_t total = 0;
        for (int r = 0; r < size; ++r) {
          counts.push_back(r == 1 ? 0 : static_cast<std::size_t>(r * r + 3));
          total += counts.back();
        }
        std::vector<Bytes> inputs, memory, results;
        Bytes expected(total);
        for (int r = 0; r < size; ++r) {
          inputs.push_back(numbers(total, static_cast<unsigned>(r)));
          add(inputs.back().data(), expected.data(), total, nullptr);
          memory.push_back(inputs.back());
          results.emplace_back(total, std::byte{0x5a});
        }
        std::vector<Call> calls;
        for (int r = 0; r < size; ++r) {
          const auto me = static_cast<std::size_t>(r);
          calls.push_back(offload::reduce_scatter_call(memory[me].data(),
                                                       (in_place ? memory : results)[me].data(),
                                                       counts.data(), r, size, kSum));
        }
        CHECK(calls[0].counted_bytes() == total);
        run(calls, piece_bytes);
        std::size_t begin = 0;
        for (std::size_t r = 0; r < counts.size(); begin += counts[r++]) {
          const Bytes& got = (in_place ? memory : results)[r];
          CHECK(std::memcmp(got.data(), expected.data() + begin, counts[r]) == 0);
          // Nothing else is written.
          const Bytes rest(total, std::byte{0x5a});
          CHECK(std::memcmp(got.data() + counts[r],
                            (in_place ? inputs[r] : rest).data() + counts[r],
                            total - counts[r]) == 0);
        }
      }
}

TEST_CASE("an allgather and a broadcast, in place and not, in pieces of any length") {
  for (const int size : {2, 3, 5})
    for (const std::size_t bytes : {1u, 4u, 37u})
      for (const std::size_t piece_bytes : {1u, 7u, 36u, 4096u})
        for (const bool in_place : {false, true}) {
          const Bytes expected = numbers(bytes * static_cast<std::size_t>(size), 9);
          std::vector<Bytes> all(static_cast<std::size_t>(size), numbers(expected.size(), 4));
          std::vector<Bytes> blocks;
          std::vector<Call> calls;
          for (int r = 0; r < size; ++r) {
            const auto me = static_cast<std::size_t>(r);
            const auto* own = expected.data() + me * bytes;
            blocks.emplace_back(own, own + bytes);
            if (in_place) std::memcpy(all[me].data() + me * bytes, own, bytes);
          }
          for (int r = 0; r < size; ++r) {
            const auto me = static_cast<std::size_t>(r);
            calls.push_back(offload::allgather_call(in_place ? nullptr : blocks[me].data(),
                                                    all[me].data(), bytes, r, size));
          }
          CHECK(calls[0].counted_bytes() == bytes);
          run(calls, piece_bytes);
          for (const Bytes& got : all) CHECK(got == expected);

          calls.clear();
          std::vector<Bytes> data(static_cast<std::size_t>(size), numbers(bytes, 5));
          data.back() = blocks[0];
          for (int r = 0; r < size; ++r)
            calls.push_back(offload::bcast_call(data[static_cast<std::size_t>(r)].data(), bytes,
                                                r == size - 1));
          run(calls, piece_bytes);
          for (const Bytes& got : data) CHECK(got == blocks[0]);
        }
}

}  // namespace
}  // namespace weft::testing
