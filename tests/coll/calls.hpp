#pragma once
// One random collective call after the other, each checked against what it must give, computed from
// the definition. All ranks draw the same random numbers.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "coll/coll.hpp"

namespace weft::test {

enum class Call {
  barrier,
  bcast,
  reduce,
  allreduce,
  reduce_scatter,
  scan,
  exscan,
  gather,
  scatter,
  allgather,
  alltoall,
  gatherv,
  scatterv,
  allgatherv,
  alltoallv,
  kCount
};

class Calls {
 public:
  // most: the longest block in bytes.
  Calls(coll::Team& team, std::uint32_t seed, std::size_t most)
      : team_(team), random_(seed), most_(most) {}

  // Makes one call; appends to errors().
  void one(Call call);
  // Any call.
  void any() { one(static_cast<Call>(random_() % static_cast<unsigned>(Call::kCount))); }

  const std::vector<std::string>& errors() const { return errors_; }

 private:
  std::size_t draw_size();
  void reductions(Call call);
  void blocks(Call call);
  void vectors(Call call);
  void expect(bool right, Call call, const std::string& what);

  coll::Team& team_;
  std::mt19937 random_;
  std::size_t most_;
  std::uint32_t salt_ = 0;
  std::vector<std::string> errors_;
};

}  // namespace weft::test
