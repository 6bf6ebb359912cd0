// MPI_Dims_create: a number of processes as a product of dimensions that are as close to each other
// as possible (MPI 5.0 section 8.5.2).
//
// The search minimises the difference between the largest dimension and the smallest; among equals
// the larger smallest dimension wins, which leaves a grid the smaller surface, then the smaller
// second one, and so on. It places dimensions in falling order, each from the root of the remaining
// product upwards, so that its first find is an even one, and leaves every branch that cannot be
// better than the best so far. A few divisors around the root remain: some ten or a hundred
// microseconds for the numbers that have the most.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "mpi/core/state.hpp"

namespace weft::mpi {
namespace {

// Returns the prime factors, falling.
std::vector<int> prime_factors(int n) {
  std::vector<int> primes;
  for (int p = 2; p <= n / p; p += p == 2 ? 1 : 2)
    for (; n % p == 0; n /= p) primes.push_back(p);
  if (n > 1) primes.push_back(n);
  std::reverse(primes.begin(), primes.end());
  return primes;
}

// Returns all divisors of a product of these, rising.
std::vector<int> divisors_of(const std::vector<int>& primes) {
  std::vector<int> divisors{1};
  std::size_t previous = 0;  // the number before the last prime
  for (std::size_t i = 0; i < primes.size(); ++i) {
    // The same prime once more only adds multiples of what it added before.
    const std::size_t begin = i > 0 && primes[i] == primes[i - 1] ? previous : 0;
    previous = divisors.size();
    for (std::size_t k = begin; k < previous; ++k) divisors.push_back(divisors[k] * primes[i]);
  }
  std::sort(divisors.begin(), divisors.end());
  return divisors;
}

// True if `base` to the power of `exponent` is more than `bound`.
bool power_exceeds(std::int64_t base, int exponent, std::int64_t bound) {
  if (base <= 1) return base > bound;
  std::int64_t power = 1;
  for (int i = 0; i < exponent; ++i)
    if ((power *= base) > bound) return true;
  return false;
}

class Search {
 public:
  Search(int n, std::vector<int> divisors, int count)
      : divisors_(std::move(divisors)),
        current_(static_cast<std::size_t>(count)),
        spread_(n),
        tried_(current_.size() * divisors_.size()) {
    place(0, n, n);
  }
  const std::vector<int>& best() const noexcept { return best_; }

 private:
  // Places the dimensions from `done` on, whose product is `rest`, none above `limit`.
  void place(std::size_t done, int rest, int limit) {
    const auto left = static_cast<int>(current_.size() - done);
    if (left == 1) {
      if (rest > limit || rest < least()) return;
      current_[done] = rest;
      best_ = current_;
      spread_ = current_.front() - rest;
      return;
    }
    // A remainder tried once under this limit or a higher one ends no better behind other
    // dimensions, as those only become larger.
    int& tried = tried_[done * divisors_.size() + index_of(rest)];
    if (limit <= tried) return;
    tried = limit;
    // Smaller dimensions than the root would not reach `rest`; the root is computed a little too
    // small, which does no harm.
    const double root = std::pow(rest, 1.0 / left);
    auto next = std::lower_bound(divisors_.begin(), divisors_.end(),
                                 static_cast<int>(std::ceil(root - 1e-6)));
    for (; next != divisors_.end() && *next <= limit; ++next) {
      if (rest % *next != 0) continue;
      current_[done] = *next;
      // The dimensions still to come must be at least least(), and larger ones here leave them
      // less.
      if (power_exceeds(std::max(1, least()), left - 1, rest / *next)) return;
      place(done + 1, rest / *next, *next);
    }
  }
  std::size_t index_of(int divisor) const {
    return static_cast<std::size_t>(std::lower_bound(divisors_.begin(), divisors_.end(), divisor) -
                                    divisors_.begin());
  }
  // The least dimension with which the result is better than the best: one with the same largest
  // dimension must be more even, one with a larger one at least as even.
  int least() const {
    const bool same = !best_.empty() && best_.front() == current_.front();
    return current_.front() - spread_ + (same ? 1 : 0);
  }

  std::vector<int> divisors_;
  std::vector<int> current_;
  std::vector<int> best_;
  int spread_;              // of the best
  std::vector<int> tried_;  // limits, by number of dimensions placed and index of the remainder
};

std::vector<int> balanced_dims(int n, int count) {
  std::vector<int> dims = prime_factors(n);
  // Every dimension that is not 1 has a prime of its own: with no more primes than dimensions, ones
  // are inevitable and the primes themselves are the smallest other dimensions.
  if (dims.size() > static_cast<std::size_t>(count))
    return Search(n, divisors_of(dims), count).best();
  dims.resize(static_cast<std::size_t>(count), 1);
  return dims;
}

}  // namespace
}  // namespace weft::mpi

using namespace weft::mpi;  // NOLINT: the bodies below are the C interface

MPI_FUNCTION(Dims_create)(int nnodes, int ndims, int* dims) {
  MPI_MUST_RUN();
  if (nnodes <= 0 || ndims < 0 || (ndims > 0 && dims == nullptr))
    return raise(nullptr, MPI_ERR_DIMS, __func__);
  int rest = nnodes;
  int open = 0;
  for (int d = 0; d < ndims; ++d) {
    if (dims[d] < 0) return raise(nullptr, MPI_ERR_DIMS, __func__, "a dimension is negative");
    if (dims[d] == 0) {
      ++open;
    } else {
      if (rest % dims[d] != 0)
        return raise(nullptr, MPI_ERR_DIMS, __func__, "the given dimensions do not divide nnodes");
      rest /= dims[d];
    }
  }
  if (open == 0) {
    if (rest != 1 && ndims > 0)
      return raise(nullptr, MPI_ERR_DIMS, __func__, "the given dimensions do not make nnodes");
    return MPI_SUCCESS;
  }
  const std::vector<int> found = balanced_dims(rest, open);
  int next = 0;
  for (int d = 0; d < ndims; ++d)
    if (dims[d] == 0) dims[d] = found[static_cast<std::size_t>(next++)];
  return MPI_SUCCESS;
}
