#pragma once
// The part of a large file that a copy did not finish (--resume): a file beside it with
// a name of its own, and digests of its blocks, by which the sender knows what it need not send
// again. Nothing in it is trusted: blocks are compared with the file as it is now, and the whole by
// its digest in the end. Threads: any.
#include <cstdint>
#include <string>
#include <vector>

#include "mcast/copy/records.hpp"

namespace weft::copy {

// Of the file with this name, in the same folder.
std::string partial_name(const std::string& name);
// Opens it, for this process alone; what has that name and is no file of this user's, or has other
// names, is replaced. -1: there is none (if it is not to be made), or another process has it.
int open_partial(int folder, const std::string& name, bool makes);
// Of the blocks of a file that will have `size` bytes, as far as it is there.
std::vector<BlockDigest> block_digests(int file, std::uint64_t size);
// Makes a range of the file read as zeros. False: see errno.
bool clear_range(int file, std::uint64_t offset, std::uint64_t length);

}  // namespace weft::copy
