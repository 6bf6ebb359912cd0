// Trees for groups that get a table entry of their own.
#include "mcast/routing/router_impl.hpp"

namespace weft::mcast {

namespace {
// Roots tried per group when colours run short; more seldom give a better tree.
constexpr uint32_t kRootsTried = 32;
constexpr uint32_t kRootsSearched = 1;
constexpr uint32_t kRootsOfBestPaths = 1;
constexpr uint32_t kColorsBuilt = 2;  // per root
}  // namespace

// Bits of the colours that are taken on at least one of the switches.
void Router::Impl::taken_colors(const std::vector<uint32_t>& switches,
                                std::vector<uint64_t>* bits) const {
  bits->clear();
  for (const uint32_t s : switches) {
    if (busy[s].size() > bits->size()) bits->resize(busy[s].size());
    for (size_t w = 0; w < busy[s].size(); ++w) (*bits)[w] |= busy[s][w];
  }
}

uint32_t Router::Impl::first_free(const std::vector<uint64_t>& bits) const {
  uint32_t color = static_cast<uint32_t>(bits.size()) * 64;
  for (size_t w = 0; w < bits.size(); ++w) {
    if (~bits[w] == 0) continue;
    color = static_cast<uint32_t>(w * 64 + __builtin_ctzll(~bits[w]));
    break;
  }
  return color < options.colors ? color : kNone;
}

// The switches nearest to all targets, the least loaded first; at most `most`.
std::vector<uint32_t> Router::Impl::roots(const std::vector<uint8_t>& worst, uint32_t most) const {
  const uint8_t least = *std::min_element(worst.begin(), worst.end());
  std::vector<uint32_t> found;
  for (uint32_t s = 0; s < worst.size(); ++s) {
    if (worst[s] == least && switch_load[s] < options.colors) found.push_back(s);
  }
  const auto lighter = [&](uint32_t a, uint32_t b) {
    return switch_load[a] != switch_load[b] ? switch_load[a] < switch_load[b] : a < b;
  };
  const size_t keep = std::min<size_t>(most, found.size());
  std::partial_sort(found.begin(), found.begin() + keep, found.end(), lighter);
  found.resize(keep);
  return found;
}

Router::Impl::Price Router::Impl::price(const Tree& tree) const {
  uint32_t busiest = 0;
  uint64_t sum = 0;
  for (const uint32_t link : tree.links) {
    const uint32_t l = load[cable_of(topology, link)] + 1;
    busiest = std::max(busiest, l);
    sum += uint64_t{l} * l;
  }
  return {busiest, sum};
}

bool Router::Impl::build_then_color(const std::vector<uint32_t>& targets,
                                    const std::vector<uint8_t>& worst, Tree* tree) {
  std::vector<uint64_t> bits;
  taken_colors(targets, &bits);
  if (first_free(bits) == kNone) return false;  // no root can help
  bool found = false;
  uint32_t tried = 0;
  Price best;
  const auto consider = [&](Tree* candidate) {
    taken_colors(candidate->switches, &bits);
    candidate->color = first_free(bits);
    if (candidate->color == kNone) return;
    const Price its = price(*candidate);
    if (found && its >= best) return;
    std::swap(*tree, *candidate);
    best = its;
    found = true;
  };
  Tree candidate;
  const std::vector<uint32_t> tries = roots(worst, std::max(kRootsTried, options.refine_roots));
  for (const uint32_t root : tries) {
    if (found && tried >= options.refine_roots) break;
    ++tried;
    builder.bottom_up(hops.row(root), root, targets, load, &candidate);
    consider(&candidate);
  }
  // The greedy path would use the fabric's busiest cables: compare complete paths instead.
  if (found && options.refine_roots > 1 && best.first > 2 && best.first * 4 >= highest * 3) {
    const uint32_t first_root = tree->root;
    builder.best_paths(hops.row(first_root), first_root, targets, load, &candidate);
    consider(&candidate);
    for (size_t i = 0; i < std::min<size_t>(tries.size(), kRootsOfBestPaths); ++i) {
      if (tries[i] == first_root) continue;
      builder.best_paths(hops.row(tries[i]), tries[i], targets, load, &candidate);
      consider(&candidate);
    }
  }
  return found;
}

// Carries 256 colours at once through a breadth-first search from the root: a bit goes on where its
// colour is free. True if one of the wanted colours reaches all targets within `most` hops; *height
// is the fewest hops, not less than `least`, and *found the colours that do it in so many.
bool Router::Impl::colors_that_reach(uint32_t root, const std::vector<uint32_t>& targets,
                                     uint32_t first_word, const Colors& wanted, uint32_t least,
                                     uint32_t most, uint32_t* height, Colors* found) {
  const auto free_at = [&](uint32_t s, uint32_t w) {
    return first_word + w < busy[s].size() ? ~busy[s][first_word + w] : ~0ull;
  };
  Colors start;
  for (uint32_t w = 0; w < 4; ++w) start.words[w] = wanted.words[w] & free_at(root, w);
  if (!start.any()) return false;
  reach[root].reached = reach[root].now = start;
  frontier.assign(1, root);
  touched.assign(1, root);
  bool success = false;
  for (uint32_t level = 0;; ++level) {
    if (level >= least) {
      Colors all = start;
      for (const uint32_t t : targets) {
        for (uint32_t w = 0; w < 4; ++w) all.words[w] &= reach[t].reached.words[w];
        if (!all.any()) break;
      }
      if (all.any()) {
        *height = level;
        *found = all;
        success = true;
        break;
      }
    }
    if (level == most || frontier.empty()) break;
    next_frontier.clear();
    for (const uint32_t s : frontier) {
      const Colors now = reach[s].now;
      for (uint32_t a = topology.arc_begin[s]; a < topology.arc_begin[s + 1]; ++a) {
        const uint32_t to = topology.arcs[a].to;
        Reach& there = reach[to];
        Colors fresh;
        for (uint32_t w = 0; w < 4; ++w) {
          fresh.words[w] = now.words[w] & ~there.reached.words[w] & free_at(to, w);
        }
        if (!fresh.any()) continue;
        if (!there.next.any()) next_frontier.push_back(to);
        for (uint32_t w = 0; w < 4; ++w) there.next.words[w] |= fresh.words[w];
      }
    }
    for (const uint32_t s : next_frontier) {
      Reach& here = reach[s];
      touched.push_back(s);
      for (uint32_t w = 0; w < 4; ++w) here.reached.words[w] |= here.next.words[w];
      here.now = here.next;
      here.next = Colors();
    }
    std::swap(frontier, next_frontier);
  }
  for (const uint32_t s : touched) reach[s] = Reach();
  return success;
}

// The tree of fewest hops from the root among the switches where the colour is free.
bool Router::Impl::build_in_color(uint32_t root, const std::vector<uint32_t>& targets,
                                  uint32_t color, Tree* tree) {
  color_row.assign(topology.num_switches(), Hops::kFar);
  color_row[root] = 0;
  frontier.assign(1, root);
  for (size_t head = 0; head < frontier.size(); ++head) {
    const uint32_t s = frontier[head];
    if (color_row[s] >= Hops::kFar - 1) break;
    for (uint32_t a = topology.arc_begin[s]; a < topology.arc_begin[s + 1]; ++a) {
      const uint32_t to = topology.arcs[a].to;
      if (color_row[to] != Hops::kFar || owner_at(to, color) != kNone) continue;
      color_row[to] = color_row[s] + 1;
      frontier.push_back(to);
    }
  }
  for (const uint32_t t : targets) {
    if (color_row[t] == Hops::kFar) return false;
  }
  if (options.as_paper) {
    builder.bottom_up(color_row.data(), root, targets, load, tree);
  } else {
    builder.best_paths(color_row.data(), root, targets, load, tree);
  }
  tree->color = color;
  return true;
}

bool Router::Impl::color_then_build(const std::vector<uint32_t>& targets,
                                    const std::vector<uint8_t>& worst, Tree* tree) {
  std::vector<uint64_t> bits;
  taken_colors(targets, &bits);
  const uint32_t colors = std::min<uint64_t>(options.colors, bits.size() * 64 + 1);
  std::vector<uint32_t> candidates = roots(worst, kRootsTried);
  if (!options.as_paper) candidates.push_back(targets[0]);
  const uint32_t least = candidates.empty() ? 0 : worst[candidates[0]];
  uint32_t best_height = kNone;
  Price best;
  for (uint32_t first_word = 0; first_word * 64 < colors; first_word += 4) {
    Colors wanted;
    for (uint32_t w = 0; w < 4 && (first_word + w) * 64 < colors; ++w) {
      wanted.words[w] = first_word + w < bits.size() ? ~bits[first_word + w] : ~0ull;
      const uint32_t rest = colors - (first_word + w) * 64;
      if (rest < 64) wanted.words[w] &= (1ull << rest) - 1;
    }
    uint32_t searched = 0;
    for (const uint32_t root : candidates) {
      if (searched >= kRootsSearched && best_height != kNone) break;
      const uint32_t most = options.as_paper
                                ? worst[root]
                                : std::min(best_height, worst[root] + options.extra_height);
      uint32_t height = 0;
      Colors found;
      if (worst[root] > most) continue;
      ++searched;
      if (!colors_that_reach(root, targets, first_word, wanted, worst[root], most, &height,
                             &found)) {
        continue;
      }
      uint32_t built = 0;
      for (uint32_t c = 0; c < 256 && built < kColorsBuilt; ++c) {
        if ((found.words[c / 64] >> c % 64 & 1) == 0) continue;
        Tree candidate;
        if (!build_in_color(root, targets, first_word * 64 + c, &candidate)) continue;
        ++built;
        const Price its = price(candidate);
        if (height > best_height || (height == best_height && its >= best)) continue;
        best_height = height;
        best = its;
        *tree = std::move(candidate);
      }
      if (options.as_paper && best_height != kNone) return true;
    }
    if (best_height == least) break;  // more colours would not make it lower
  }
  return best_height != kNone;
}

uint32_t Router::Impl::same_members(const std::vector<uint32_t>& members) const {
  const auto [first, last] = by_members.equal_range(hash_of(members));
  uint32_t least = kNone;
  for (auto each = first; each != last; ++each) {
    const Tree& tree = slots[each->second];
    if (tree.members != members) continue;
    if (least == kNone || tree.groups.size() < slots[least].groups.size()) least = each->second;
  }
  return least;
}

bool Router::Impl::better_shared(const Tree& tree, uint32_t same) const {
  if (ran_short) return true;
  uint32_t most = 0;
  for (const uint32_t s : tree.switches) most = std::max(most, switch_load[s]);
  if (most >= uint64_t{options.colors} * 9 / 10) return true;
  return most >= options.colors / 4 && price(slots[same]).first <= highest;
}

}  // namespace weft::mcast
