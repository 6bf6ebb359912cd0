#pragma once
// Lists of hosts in Slurm's notation.
#include <string>
#include <string_view>
#include <vector>

namespace weft::copy {

// "a,node[01-03,7]:/data" -> a, node01:/data, node02:/data, node03:/data, node7:/data, as
// SLURM_NODELIST has them. False: invalid brackets or numbers, or over 100,000 hosts.
bool expand_hosts(std::string_view text, std::vector<std::string>& hosts);

}  // namespace weft::copy
