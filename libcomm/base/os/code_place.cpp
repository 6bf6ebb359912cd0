#include "base/os/code_place.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace weft {
namespace {

// The symbols that a file exports.
struct Symbols {
  const ElfW(Sym) * all = nullptr;
  const char* names = nullptr;
  std::size_t num = 0;
};

// The loader adds where the file lies to most of these, but not in files whose table it cannot
// write.
std::uintptr_t address_of(const link_map& file, const ElfW(Dyn) & entry) noexcept {
  const auto value = static_cast<std::uintptr_t>(entry.d_un.d_ptr);
  return value < file.l_addr ? value + file.l_addr : value;
}

// The GNU hash table has no number of symbols: the last one ends the longest chain.
std::size_t count_symbols(const std::uint32_t* table) noexcept {
  const std::uint32_t num_buckets = table[0], first = table[1], bloom_words = table[2];
  constexpr std::size_t kHead = 4;
  const std::uint32_t* buckets =
      table + kHead + bloom_words * (sizeof(ElfW(Addr)) / sizeof(std::uint32_t));
  const std::uint32_t* chains = buckets + num_buckets;
  const std::uint32_t* most = std::max_element(buckets, buckets + num_buckets);
  if (num_buckets == 0 || *most < first) return first;
  std::size_t last = *most;
  while ((chains[last - first] & 1) == 0) ++last;
  return last + 1;
}

Symbols symbols_of(const link_map& file) noexcept {
  Symbols symbols;
  if (file.l_ld == nullptr) return symbols;
  for (const ElfW(Dyn)* entry = file.l_ld; entry->d_tag != DT_NULL; ++entry) {
    const std::uintptr_t address = address_of(file, *entry);
    if (entry->d_tag == DT_SYMTAB)
      symbols.all = reinterpret_cast<const ElfW(Sym)*>(address);
    else if (entry->d_tag == DT_STRTAB)
      symbols.names = reinterpret_cast<const char*>(address);
    else if (entry->d_tag == DT_GNU_HASH)
      symbols.num = count_symbols(reinterpret_cast<const std::uint32_t*>(address));
  }
  return symbols;
}

}  // namespace

bool find_code(const void* address, CodePlace& place) noexcept {
  place = {};
  dl_find_object found{};
  if (_dl_find_object(const_cast<void*>(address), &found) != 0) return false;
  place.file = found.dlfo_link_map;
  const Symbols symbols = symbols_of(*place.file);
  if (symbols.all == nullptr || symbols.names == nullptr) return true;
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(address) - place.file->l_addr;
  for (std::size_t i = 0; i < symbols.num; ++i) {
    const ElfW(Sym)& symbol = symbols.all[i];
    const bool is_function = (symbol.st_info & 0xf) == STT_FUNC && symbol.st_shndx != SHN_UNDEF;
    if (is_function && symbol.st_value <= offset && offset - symbol.st_value < symbol.st_size) {
      place.symbol = symbols.names + symbol.st_name;
      break;
    }
  }
  return true;
}

}  // namespace weft
