// The model against what schedules must take, and against what is known of racks and slow links.
#include <catch2/catch.hpp>

#include "mcast/simulate/simulate.hpp"

using namespace weft::mcast;

namespace {

double time_us(const Algorithm& algorithm, int members, std::uint32_t blocks, Network network,
               const Racks& racks) {
  network.latency_us = 0;
  return simulate(algorithm, members, blocks * 1000ull, 1000, racks, network).last_us;
}

}  // namespace

TEST_CASE("without delays a transfer takes its steps") {
  const Network network{.rate = 1e6};  // a block a millisecond
  for (const int members : {2, 3, 4, 6, 7, 8, 13, 16, 31, 64}) {
    const Racks racks({}, members);
    for (const std::uint32_t blocks : {1u, 2u, 8u, 64u})
      for (const Algorithm* algorithm :
           {&kBinomialPipeline, &kChain, &kBinomialTree, &kSequential}) {
        INFO(algorithm->name << ", " << members << " members, " << blocks << " blocks");
        const double steps =
            static_cast<double>(algorithm->num_steps({members, blocks, &racks})) * 1000;
        const double took = time_us(*algorithm, members, blocks, network, racks);
        // The tree's members need not wait for a round in which they are idle.
        if (algorithm == &kBinomialTree)
          CHECK(took <= steps + 1e-6);
        else
          CHECK(took == Approx(steps));
      }
  }
}

TEST_CASE("512 members take little longer than 128") {
  const Network network{.rate = 25e6};
  const double few = time_us(kBinomialPipeline, 128, 256, network, Racks({}, 128));
  const double many = time_us(kBinomialPipeline, 512, 256, network, Racks({}, 512));
  CHECK(many < few * 1.1);
}

TEST_CASE("behind a shared link, scattered members gain by the hybrids") {
  std::vector<int> rack_of;
  for (int member = 0; member < 32; ++member) rack_of.push_back(member % 4);
  const Racks racks(rack_of, 32);
  const Network network{.rate = 25e6, .oversubscription = 4};
  const double flat = time_us(kBinomialPipeline, 32, 128, network, racks);
  const double blocks = time_us(kHybridBlocks, 32, 128, network, racks);
  const double paper = time_us(kHybrid, 32, 128, network, racks);
  INFO(flat << " " << paper << " " << blocks);
  CHECK(paper < flat);
  CHECK(blocks < flat);
}

TEST_CASE("delays are the seed's, and put the end off") {
  const Racks racks({}, 8);
  Network network{.rate = 25e6, .delay_us = 1000, .delay_probability = 0.1, .seed = 5};
  const double once = time_us(kBinomialPipeline, 8, 64, network, racks);
  CHECK(time_us(kBinomialPipeline, 8, 64, network, racks) == once);
  network.seed = 6;
  CHECK(time_us(kBinomialPipeline, 8, 64, network, racks) != once);
  network.delay_probability = 0;
  CHECK(time_us(kBinomialPipeline, 8, 64, network, racks) < once);
}

// The paper's steps: members slip by what a block's latency is, and take turns at a receiver all
// the same. Blocks are many, because lanes cost up to 25 steps at their beginning and end.
TEST_CASE("with latency and jitter the pipeline takes its steps, for every number of members") {
  constexpr double kBlockUs = 1000;
  constexpr std::uint32_t kBlocks = 800;
  struct Case {
    double latency, jitter;  // in times of a block
  };
#ifdef __SANITIZE_ADDRESS__  // ten times slower
  constexpr int kStep = 7;
#else
  constexpr int kStep = 1;
#endif
  for (const Case& item : {Case{0, 0.25}, {0.25, 0.5}, {0.45, 0.25}, {1, 0.5}, {2, 0.5}}) {
    for (int members = 2; members <= 64; members += kStep) {
      const Network network{.rate = 1e6,
                            .latency_us = item.latency * kBlockUs,
                            .jitter_us = item.jitter * kBlockUs,
                            .seed = static_cast<std::uint64_t>(members)};
      const std::uint64_t bytes = kBlocks * 1000ull;
      const double took =
          simulate(kBinomialPipeline, members, bytes, 1000, Racks({}, members), network).last_us;
      INFO(members << " members, latency " << item.latency << ", jitter " << item.jitter);
      CHECK(took <= 1.02 * pipeline_bound_us(members, bytes, 1000, network));
    }
  }
}

TEST_CASE("a latency far below a block's time costs the pipeline no step") {
  for (int members = 2; members <= 64; ++members)
    for (const double latency_us : {0.0, 0.1, 50.0}) {
      const Network network{.rate = 1e7, .latency_us = latency_us};
      const Racks racks({}, members);
      INFO(members << " members, latency " << latency_us << " us");
      const double took =
          simulate(kBinomialPipeline, members, 64'000'000, 1'000'000, racks, network).last_us;
      CHECK(took <= 1.001 * pipeline_bound_us(members, 64'000'000, 1'000'000, network));
    }
}
