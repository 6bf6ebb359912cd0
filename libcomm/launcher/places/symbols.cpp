#include "launcher/places/symbols.hpp"

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "launcher/places/readable.hpp"

namespace weft::weftrun {
namespace {

constexpr std::size_t kMostLetters = 120;  // of a function's name, with its arguments

struct Free {
  void operator()(void* memory) const { free(memory); }
};

// A program in a container has other files of the same names.
int find_elf(Dwfl_Module* module, void** data, const char* name, Dwarf_Addr base, char** file,
             Elf** elf) {
  if (name[0] == '/' && *data != nullptr) {
    const std::string path = fmt::format("{}{}", static_cast<const char*>(*data), name);
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
      *file = strdup(name);
      return fd;
    }
  }
  return dwfl_linux_proc_find_elf(module, data, name, base, file, elf);
}

const Dwfl_Callbacks kOfProcess = {find_elf, dwfl_standard_find_debuginfo, nullptr, nullptr};
const Dwfl_Callbacks kOfFile = {dwfl_build_id_find_elf, dwfl_standard_find_debuginfo,
                                dwfl_offline_section_address, nullptr};

Dwfl* begin(const Dwfl_Callbacks& callbacks) {
  unsetenv("DEBUGINFOD_URLS");  // a server would be asked for what is not here
  return dwfl_begin(&callbacks);
}

// "solve(int)" becomes "solve".
void drop_arguments(std::string& name) {
  int depth = 0;
  for (std::size_t at = name.size(); at-- > 1 && name.back() == ')';) {
    if (name[at] == ')') ++depth;
    if (name[at] == '(' && --depth == 0) return name.resize(at);
  }
}

std::string name_of_symbol(const char* name) {
  if (name == nullptr) return "";
  std::string text = name;
  if (text.starts_with("_Z")) {  // others could be taken for types: "f" for float
    int status = 0;
    const std::unique_ptr<char, Free> readable(
        abi::__cxa_demangle(name, nullptr, nullptr, &status));
    if (status == 0) drop_arguments(text = readable.get());
  }
  text = readable_of(std::move(text));
  text.erase(std::min(text.find('@'), text.size()));  // of a symbol's version
  if (text.size() > kMostLetters) text.replace(kMostLetters - 3, std::string::npos, "...");
  return text;
}

std::string name_of(Dwarf_Die& function) {
  Dwarf_Attribute attribute;
  for (const unsigned int kind : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name})
    if (dwarf_attr_integrate(&function, kind, &attribute) != nullptr)
      return name_of_symbol(dwarf_formstring(&attribute));
  return name_of_symbol(dwarf_diename(&function));
}

std::string last_part(const char* path) {
  if (path == nullptr) return "";
  const char* slash = strrchr(path, '/');
  return readable_of(slash != nullptr ? slash + 1 : path);
}

// Moves a line from an inlined function to where that was called.
void go_to_call(Dwarf_Die& unit, Dwarf_Die& inlined, Line& line) {
  Dwarf_Attribute attribute;
  Dwarf_Word number = 0, file = 0;
  Dwarf_Files* files = nullptr;
  std::size_t num_files = 0;
  line.file.clear();
  if (dwarf_formudata(dwarf_attr(&inlined, DW_AT_call_file, &attribute), &file) != 0 ||
      dwarf_formudata(dwarf_attr(&inlined, DW_AT_call_line, &attribute), &number) != 0 ||
      dwarf_getsrcfiles(&unit, &files, &num_files) != 0 || file >= num_files)
    return;
  line.file = last_part(dwarf_filesrc(files, file, nullptr, nullptr));
  line.number = static_cast<int>(number);
}

// Adds the functions around an address, from the inside out.
void add_functions(Dwarf_Die& unit, std::uint64_t address, Line line, std::vector<Line>& lines) {
  Dwarf_Die* found = nullptr;
  if (dwarf_getscopes(&unit, address, &found) <= 0) return;
  const std::unique_ptr<Dwarf_Die, Free> innermost(found);
  found = nullptr;
  const int num = dwarf_getscopes_die(innermost.get(), &found);
  const std::unique_ptr<Dwarf_Die, Free> scopes(found);
  for (int i = 0; i < num; ++i) {
    Dwarf_Die& scope = scopes.get()[i];
    const int tag = dwarf_tag(&scope);
    if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram) continue;
    line.function = name_of(scope);
    lines.push_back(line);
    if (tag == DW_TAG_subprogram) return;
    go_to_call(unit, scope, line);
  }
}

}  // namespace

std::string Line::text() const {
  if (function.empty()) return fmt::format("{}+{:#x}", module, offset);
  return file.empty() ? fmt::format("{} ({})", function, module)
                      : fmt::format("{} ({}:{})", function, file, number);
}

Symbols::Symbols(pid_t process)
    : root_(fmt::format("/proc/{}/root", process)), dwfl_(begin(kOfProcess)) {
  if (dwfl_ == nullptr) return;
  dwfl_report_begin(dwfl_);
  dwfl_linux_proc_report(dwfl_, process);
  dwfl_report_end(dwfl_, nullptr, nullptr);
  dwfl_getmodules(
      dwfl_,
      [](Dwfl_Module*, void** data, const char*, Dwarf_Addr, void* root) {
        *data = root;
        return static_cast<int>(DWARF_CB_OK);
      },
      root_.data(), 0);
}

Symbols::Symbols(const std::string& file) : dwfl_(begin(kOfFile)) {
  if (dwfl_ == nullptr) return;
  dwfl_report_begin(dwfl_);
  dwfl_report_elf(dwfl_, file.c_str(), file.c_str(), -1, 0, true);
  dwfl_report_end(dwfl_, nullptr, nullptr);
}

Symbols::~Symbols() {
  if (dwfl_ != nullptr) dwfl_end(dwfl_);
}

std::vector<Line> Symbols::lines_at(std::uint64_t address) const {
  std::vector<Line> lines;
  Dwfl_Module* module = dwfl_ == nullptr ? nullptr : dwfl_addrmodule(dwfl_, address);
  if (module == nullptr) return lines;
  Line line;
  Dwarf_Addr start = 0;
  line.module = last_part(
      dwfl_module_info(module, nullptr, &start, nullptr, nullptr, nullptr, nullptr, nullptr));
  line.offset = address - start;
  if (Dwfl_Line* found = dwfl_module_getsrc(module, address)) {
    line.file = last_part(dwfl_lineinfo(found, nullptr, &line.number, nullptr, nullptr, nullptr));
    if (line.number == 0) line.file.clear();  // code of no line
  }
  Dwarf_Addr bias = 0;
  if (Dwarf_Die* unit = dwfl_module_addrdie(module, address, &bias))
    add_functions(*unit, address - bias, line, lines);
  if (lines.empty()) {
    GElf_Off offset = 0;
    GElf_Sym symbol;
    line.function = name_of_symbol(
        dwfl_module_addrinfo(module, address, &offset, &symbol, nullptr, nullptr, nullptr));
    lines.push_back(line);
  }
  return lines;
}

}  // namespace weft::weftrun
