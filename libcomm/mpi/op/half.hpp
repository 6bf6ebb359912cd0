#pragma once
// Half: a number of IEEE 754's binary16, for MPI_REAL2 and MPI_COMPLEX4; compilers here have no C++
// type for it. Arithmetic is done as float, which is wide enough that sums and products rounded
// once more are those of binary16.
#include <bit>
#include <complex>
#include <cstdint>

namespace weft::mpi {

class Half {
 public:
  Half() = default;
  explicit Half(float value) noexcept : bits_(narrow(value)) {}
  operator float() const noexcept { return widen(bits_); }

 private:
  static float widen(std::uint16_t half) noexcept {
    const std::uint32_t sign = (half & 0x8000u) << 16;
    const std::uint32_t exponent = (half >> 10) & 0x1fu;
    const std::uint32_t fraction = half & 0x3ffu;
    if (exponent == 0x1f)  // infinite, or not a number
      return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0)  // a multiple of 2^-24
      return std::bit_cast<float>(
          sign | std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24f));
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  }
  // Rounds to the nearest, halfway to even.
  static std::uint16_t narrow(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    std::uint32_t half;
    if (magnitude > 0x7f800000u) {
      half = 0x7e00;
    } else if (magnitude >= 0x477ff000u) {  // from 65520 on the nearest is infinite
      half = 0x7c00;
    } else if (magnitude < 0x38800000u) {
      // Below 2^-14: adding 0.5 leaves multiples of 2^-24 in the low bits, rounded.
      half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    } else {
      half = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23)) >> 13;
    }
    return static_cast<std::uint16_t>(sign | half);
  }

  std::uint16_t bits_;
};

struct ComplexHalf {
  Half real, imaginary;

  ComplexHalf() = default;
  explicit ComplexHalf(std::complex<float> value) noexcept
      : real(value.real()), imaginary(value.imag()) {}
  std::complex<float> wide() const noexcept { return {real, imaginary}; }
  friend std::complex<float> operator+(ComplexHalf a, ComplexHalf b) noexcept {
    return a.wide() + b.wide();
  }
  friend std::complex<float> operator*(ComplexHalf a, ComplexHalf b) noexcept {
    return a.wide() * b.wide();
  }
};

}  // namespace weft::mpi
