#pragma once
// Partial files (--resume): the data of a large file that a copy did not finish, under a derived
// name beside it. The sender compares digests of its blocks and skips those that match. The data
// are not trusted: blocks are compared with the present file, and the complete file's digest is
// verified. Threads: any.
#include <cstdint>
#include <string>
#include <vector>

#include "mcast/copy/records.hpp"

namespace weft::copy {

// The name of the partial file of the file with this name, in the same folder.
std::string partial_name(const std::string& name);
// Opens and locks a partial file. An entry of that name that is no file of this user's, or has
// other links, is replaced. -1: there is none (and none is to be made), or another process has it.
int open_partial(int folder, const std::string& name, bool makes);
// Digests of the existing blocks of a file that will have `size` bytes.
std::vector<BlockDigest> block_digests(int file, std::uint64_t size);
// Zeroes a range of the file. False, with errno, on failure.
bool clear_range(int file, std::uint64_t offset, std::uint64_t length);

}  // namespace weft::copy
