#pragma once
// Allreduce: vectors of numbers of all ranks of a Job become their sum, or the like: MPI_Allreduce
// for C++ programs, with bfloat16 besides.
//
//   weft::Allreduce allreduce(job);
//   std::vector<weft::Bfloat16> gradients = ...;
//   weft::Status status = allreduce.run(std::span(gradients), weft::Reduce::sum);
//
// Job::all_reduce takes any type and function, and goes on with those that live when a rank is
// lost. This knows what numbers are: it takes the fastest algorithm for their length, and switches
// that compute where the WEFT_OFFLOAD settings name some (docs/use/offload.md). It ends with the
// first loss: then, and in every call after it, all ranks get peer_lost, and another one, of those
// that live, can be made once a collective call of the Job has reported the loss.
//
// Threads: as collective calls of a Job, in one order with these.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include "weft/bfloat16.hpp"
#include "weft/export.hpp"
#include "weft/job.hpp"

namespace weft::transport {

// Sums and products of integers wrap. The last three are of integers alone.
enum class Reduce : std::uint8_t { sum, product, min, max, bit_and, bit_or, bit_xor };

namespace detail {

enum class Number : std::uint8_t { i8, u8, i16, u16, i32, u32, i64, u64, f32, f64, bf16 };

template <class T>
inline constexpr bool kIsNumber = std::same_as<T, float> || std::same_as<T, double> ||
                                  std::same_as<T, Bfloat16> ||
                                  (std::integral<T> && !std::same_as<T, bool> && sizeof(T) <= 8);

template <class T>
constexpr Number number_of() noexcept {
  if constexpr (std::same_as<T, float>) return Number::f32;
  if constexpr (std::same_as<T, double>) return Number::f64;
  if constexpr (std::same_as<T, Bfloat16>) return Number::bf16;
  constexpr int kSize = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 2 : sizeof(T) == 4 ? 4 : 6;
  return static_cast<Number>(kSize + (std::unsigned_integral<T> ? 1 : 0));
}

}  // namespace detail

class WEFT_API Allreduce {
 public:
  // Collective over the ranks that live; sends nothing. The Job must outlive it. Throws Error
  // (no_memory).
  explicit Allreduce(Job& job);
  // Collective. Blocks until no other rank needs anything of this one's last call.
  ~Allreduce();
  Allreduce(const Allreduce&) = delete;
  Allreduce& operator=(const Allreduce&) = delete;

  // values[i] = values[i] of all ranks together, the same bits everywhere. Collective, with as many
  // values of one type on all ranks; blocks. ok; peer_lost; no_memory; timed_out (the leader of
  // another node lives and does not answer); bad_argument: bits of numbers that are no integers.
  // After an error the values are undefined.
  template <class T, std::size_t kExtent>
  Status run(std::span<T, kExtent> values, Reduce operation) {
    static_assert(detail::kIsNumber<T>, "integers, float, double, Bfloat16");
    return run(values.data(), values.size(), detail::number_of<T>(), operation);
  }

 private:
  Status run(void* values, std::size_t count, detail::Number number, Reduce operation);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::transport
