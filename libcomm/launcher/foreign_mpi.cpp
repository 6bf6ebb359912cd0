#include "launcher/foreign_mpi.hpp"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

namespace weft::weftrun {
namespace {

constexpr std::uint64_t kMostBytes = 1 << 20;  // of a table; larger ones are not read

// Opening a pipe would wait.
bool is_file(const std::string& place) {
  struct stat file {};
  return stat(place.c_str(), &file) == 0 && S_ISREG(file.st_mode);
}

std::string find_program(const std::string& program, const std::string& path) {
  if (program.find('/') != std::string::npos) return program;
  const char* own = std::getenv("PATH");
  std::istringstream folders(path + ":" + (own != nullptr ? own : ""));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string place = (folder.empty() ? "." : folder) + "/" + program;
    if (is_file(place) && access(place.c_str(), X_OK) == 0) return place;
  }
  return program;
}

// Items of a table in the file. Fewer if the file ends before.
template <class Item>
std::vector<Item> read_items(std::ifstream& file, std::uint64_t offset, std::uint64_t number) {
  std::vector<Item> items(std::min(number, kMostBytes / sizeof(Item)));
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(items.data()),
            static_cast<std::streamsize>(items.size() * sizeof(Item)));
  items.resize(static_cast<std::size_t>(file.gcount()) / sizeof(Item));
  return items;
}

bool is_foreign_mpi(std::string_view library) {
  constexpr std::string_view kNames[] = {"libmpi.so",    "libmpi_cxx.so",  "libmpi_mpifh.so",
                                         "libmpich.so",  "libmpichcxx.so", "libmpichfort.so",
                                         "libmpicxx.so", "libmpifort.so",  "libmpi_usempif08.so"};
  for (const std::string_view name : kNames)
    if (library.starts_with(name)) return true;
  return false;
}

}  // namespace

std::string foreign_mpi_of(const std::string& program, const std::string& path) {
  const std::string place = find_program(program, path);
  if (!is_file(place)) return {};
  std::ifstream file(place, std::ios::binary);
  const auto heads = read_items<Elf64_Ehdr>(file, 0, 1);
  if (heads.empty() || std::memcmp(heads[0].e_ident, ELFMAG, SELFMAG) != 0 ||
      heads[0].e_ident[EI_CLASS] != ELFCLASS64 || heads[0].e_phentsize != sizeof(Elf64_Phdr))
    return {};
  const auto segments = read_items<Elf64_Phdr>(file, heads[0].e_phoff, heads[0].e_phnum);
  // Returns the offset in the file of an address of the running program; 0: none.
  const auto offset_of = [&segments](std::uint64_t address) -> std::uint64_t {
    for (const Elf64_Phdr& segment : segments)
      if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
          address - segment.p_vaddr < segment.p_filesz)
        return segment.p_offset + (address - segment.p_vaddr);
    return 0;
  };
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    const auto entries =
        read_items<Elf64_Dyn>(file, segment.p_offset, segment.p_filesz / sizeof(Elf64_Dyn));
    std::uint64_t names = 0, names_bytes = 0;
    for (const Elf64_Dyn& entry : entries) {
      if (entry.d_tag == DT_STRTAB) names = offset_of(entry.d_un.d_ptr);
      if (entry.d_tag == DT_STRSZ) names_bytes = entry.d_un.d_val;
    }
    if (names == 0) return {};
    auto text = read_items<char>(file, names, names_bytes);
    text.push_back('\0');
    for (const Elf64_Dyn& entry : entries)
      if (entry.d_tag == DT_NEEDED && entry.d_un.d_val < text.size())
        if (const char* library = text.data() + entry.d_un.d_val; is_foreign_mpi(library))
          return library;
  }
  return {};
}

}  // namespace weft::weftrun
