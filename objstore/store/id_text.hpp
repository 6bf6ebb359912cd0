#pragma once
// Ids in hexadecimal digits, two a byte: the form of ids that are no text, for people and for
// Redis.
#include <string>
#include <string_view>

#include "weft/object_id.hpp"

namespace weft::objstore {

std::string hex_of(const ObjectId& id);
// False: not digits, an odd number of them, none, or more than an id has bytes for.
bool id_of_hex(std::string_view digits, ObjectId& id);

}  // namespace weft::objstore
