#pragma once
// Lists of hosts as people and Slurm write them.
#include <string>
#include <string_view>
#include <vector>

namespace weft::copy {

// "a,node[01-03,7]:/data" -> a, node01:/data, node02:/data, node03:/data, node7:/data, as
// SLURM_NODELIST has them. False: brackets or numbers make no sense, or there are over 100,000.
bool expand_hosts(std::string_view text, std::vector<std::string>& hosts);

}  // namespace weft::copy
