#include "tools/weft-check/program/debug_info.hpp"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace weft::check {
namespace {

constexpr int kMostDepth = 8;
constexpr std::size_t kMostMembers = 256;

std::recursive_mutex mutex;

// Only what the files themselves contain: files elsewhere would be looked for in the network, too.
int find_nothing(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word,
                 char**) {
  return -1;
}

Dwfl* files() {
  static Dwfl* dwfl = [] {
    static Dwfl_Callbacks callbacks{};
    callbacks.find_elf = dwfl_linux_proc_find_elf;
    callbacks.find_debuginfo = find_nothing;
    Dwfl* all = dwfl_begin(&callbacks);
    if (all == nullptr) return all;
    dwfl_linux_proc_report(all, getpid());
    dwfl_report_end(all, nullptr, nullptr);
    return all;
  }();
  return dwfl;
}

Dwfl_Module* module_of(Dwarf_Addr address) {
  Dwfl* all = files();
  if (all == nullptr) return nullptr;
  if (Dwfl_Module* module = dwfl_addrmodule(all, address)) return module;
  // A library that has been loaded since.
  dwfl_report_begin_add(all);
  dwfl_linux_proc_report(all, getpid());
  dwfl_report_end(all, nullptr, nullptr);
  return dwfl_addrmodule(all, address);
}

bool type_die_of(Dwarf_Die& die, Dwarf_Die& out) {
  Dwarf_Attribute attribute;
  Dwarf_Die type;
  return dwarf_attr_integrate(&die, DW_AT_type, &attribute) != nullptr &&
         dwarf_formref_die(&attribute, &type) != nullptr && dwarf_peel_type(&type, &out) == 0;
}

Kind kind_of_encoding(Dwarf_Word encoding) {
  switch (encoding) {
    case DW_ATE_signed:
      return Kind::integer;
    case DW_ATE_unsigned:
      return Kind::natural;
    case DW_ATE_float:
      return Kind::real;
    case DW_ATE_complex_float:
      return Kind::complex;
    case DW_ATE_boolean:
      return Kind::logical;
    case DW_ATE_signed_char:
    case DW_ATE_unsigned_char:
    case DW_ATE_UTF:
      return Kind::character;
    default:
      return Kind::none;
  }
}

VariableType describe(Dwarf_Die& die, int depth) {
  VariableType type;
  if (const char* name = dwarf_diename(&die)) type.name = name;
  Dwarf_Word bytes = 0;
  if (dwarf_aggregate_size(&die, &bytes) == 0) type.bytes = bytes;
  type.is_opaque = true;
  if (depth == kMostDepth) return type;
  switch (dwarf_tag(&die)) {
    case DW_TAG_base_type: {
      Dwarf_Attribute attribute;
      Dwarf_Word encoding = 0;
      if (dwarf_attr(&die, DW_AT_encoding, &attribute) != nullptr &&
          dwarf_formudata(&attribute, &encoding) == 0)
        type.kind = kind_of_encoding(encoding);
      type.is_opaque = type.kind == Kind::none;
      break;
    }
    case DW_TAG_pointer_type:
      type.kind = Kind::pointer;
      type.bytes = sizeof(void*);
      type.name = "pointer";
      type.is_opaque = false;
      break;
    case DW_TAG_array_type: {
      Dwarf_Die element;
      if (!type_die_of(die, element)) break;
      VariableType inner = describe(element, depth + 1);
      type.is_array = true;
      type.is_opaque = inner.bytes == 0;
      type.element = inner.bytes;
      type.name = inner.name;
      type.members.push_back({0, std::move(inner)});
      break;
    }
    case DW_TAG_structure_type:
    case DW_TAG_class_type: {
      type.name = type.name.empty() ? "a structure" : "struct " + type.name;
      type.is_opaque = type.bytes == 0;
      Dwarf_Die child;
      if (dwarf_child(&die, &child) != 0) break;
      do {
        const int tag = dwarf_tag(&child);
        if (tag == DW_TAG_inheritance) type.is_opaque = true;
        if (tag != DW_TAG_member) continue;
        Dwarf_Attribute attribute;
        Dwarf_Word offset = 0;
        Dwarf_Die inner;
        if (dwarf_hasattr(&child, DW_AT_bit_size) != 0 ||
            dwarf_hasattr(&child, DW_AT_data_bit_offset) != 0 || !type_die_of(child, inner) ||
            type.members.size() == kMostMembers) {
          type.is_opaque = true;
          continue;
        }
        if (dwarf_hasattr(&child, DW_AT_data_member_location) == 0) continue;  // static
        if (dwarf_attr(&child, DW_AT_data_member_location, &attribute) == nullptr ||
            dwarf_formudata(&attribute, &offset) != 0) {
          type.is_opaque = true;
          continue;
        }
        type.members.push_back({offset, describe(inner, depth + 1)});
      } while (dwarf_siblingof(&child, &child) == 0);
      break;
    }
    default:
      break;
  }
  return type;
}

bool frame_base_of(Dwarf_Die& function, Dwarf_Addr pc, const Frame& frame, std::uintptr_t& base) {
  Dwarf_Attribute attribute;
  Dwarf_Op* expression = nullptr;
  std::size_t length = 0;
  if (dwarf_attr_integrate(&function, DW_AT_frame_base, &attribute) == nullptr ||
      dwarf_getlocation_addr(&attribute, pc, &expression, &length, 1) != 1 || length != 1)
    return false;
  switch (expression[0].atom) {
    case DW_OP_call_frame_cfa:
      base = frame.cfa;
      return true;
    case DW_OP_reg6:
      base = frame.base;
      return base != 0;
    case DW_OP_breg6:
      base = frame.base + expression[0].number;
      return frame.base != 0;
    default:
      return false;
  }
}

struct Scope {
  Dwarf_Addr pc = 0, bias = 0;  // pc: as in the file
  std::uintptr_t frame_base = 0;
  bool has_frame_base = false;
};

bool address_of(Dwarf_Die& variable, const Scope& scope, std::uintptr_t& address) {
  Dwarf_Attribute attribute;
  Dwarf_Op* expression = nullptr;
  std::size_t length = 0;
  if (dwarf_attr_integrate(&variable, DW_AT_location, &attribute) == nullptr ||
      dwarf_getlocation_addr(&attribute, scope.pc, &expression, &length, 1) != 1 || length != 1)
    return false;
  if (expression[0].atom == DW_OP_fbreg && scope.has_frame_base) {
    address = scope.frame_base + expression[0].number;
    return true;
  }
  if (expression[0].atom == DW_OP_addr) {
    address = expression[0].number + scope.bias;
    return true;
  }
  return false;
}

// Calls visit(die) for the variables of the function, or block, that are known at the pc.
template <class Visit>
void visit_variables(Dwarf_Die& die, Dwarf_Addr pc, int depth, const Visit& visit) {
  Dwarf_Die child;
  if (depth == 64 || dwarf_child(&die, &child) != 0) return;
  do {
    const int tag = dwarf_tag(&child);
    if (tag == DW_TAG_variable || tag == DW_TAG_formal_parameter)
      visit(child);
    else if ((tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine) &&
             dwarf_haspc(&child, pc) == 1)
      visit_variables(child, pc, depth + 1, visit);
  } while (dwarf_siblingof(&child, &child) == 0);
}

bool find_function(Dwarf_Die& die, Dwarf_Addr pc, int depth, Dwarf_Die& out) {
  Dwarf_Die child;
  if (depth == 8 || dwarf_child(&die, &child) != 0) return false;
  do {
    const int tag = dwarf_tag(&child);
    if (tag == DW_TAG_subprogram && dwarf_haspc(&child, pc) == 1) {
      out = child;
      return true;
    }
    if ((tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_class_type ||
         tag == DW_TAG_structure_type) &&
        find_function(child, pc, depth + 1, out))
      return true;
  } while (dwarf_siblingof(&child, &child) == 0);
  return false;
}

bool enter(const Frame& frame, Scope& scope, Dwarf_Die& function) {
  Dwfl_Module* module = module_of(frame.address);
  if (module == nullptr) return false;
  Dwarf_Die* unit = dwfl_module_addrdie(module, frame.address, &scope.bias);
  if (unit == nullptr) return false;
  scope.pc = frame.address - scope.bias;
  if (!find_function(*unit, scope.pc, 0, function)) return false;
  scope.has_frame_base = frame_base_of(function, scope.pc, frame, scope.frame_base);
  return true;
}

const char* name_of(Dwarf_Die& die) {
  Dwarf_Attribute attribute;
  if (dwarf_attr_integrate(&die, DW_AT_name, &attribute) == nullptr) return "?";
  const char* name = dwarf_formstring(&attribute);
  return name == nullptr ? "?" : name;
}

struct Global {
  std::uintptr_t begin, bytes;
  Dwarf_Die die, type;
};

void collect_globals(Dwarf_Die& die, Dwarf_Addr bias, int depth, std::vector<Global>& out) {
  Dwarf_Die child;
  if (depth == 16 || dwarf_child(&die, &child) != 0) return;
  do {
    switch (dwarf_tag(&child)) {
      case DW_TAG_variable: {
        Scope scope;
        scope.bias = bias;
        std::uintptr_t address = 0;
        Dwarf_Die type;
        Dwarf_Word bytes = 0;
        if (address_of(child, scope, address) && type_die_of(child, type) &&
            dwarf_aggregate_size(&type, &bytes) == 0 && bytes > 0)
          out.push_back({address, bytes, child, type});
        break;
      }
      case DW_TAG_subprogram:
      case DW_TAG_lexical_block:
      case DW_TAG_namespace:
      case DW_TAG_module:
      case DW_TAG_common_block:
        collect_globals(child, bias, depth + 1, out);
        break;
      default:
        break;
    }
  } while (dwarf_siblingof(&child, &child) == 0);
}

const std::vector<Global>& globals_of(Dwfl_Module* module) {
  static std::map<Dwfl_Module*, std::vector<Global>> all;
  const auto [at, is_new] = all.try_emplace(module);
  if (!is_new) return at->second;
  Dwarf_Addr bias = 0;
  for (Dwarf_Die* unit = nullptr; (unit = dwfl_module_nextcu(module, unit, &bias)) != nullptr;)
    collect_globals(*unit, bias, 0, at->second);
  std::ranges::sort(at->second, {}, &Global::begin);
  return at->second;
}

}  // namespace

Line line_of(const void* address) {
  const std::lock_guard lock(mutex);
  Line line;
  const auto pc = reinterpret_cast<Dwarf_Addr>(address);
  Dwfl_Module* module = module_of(pc);
  if (module == nullptr) return line;
  if (Dwfl_Line* found = dwfl_module_getsrc(module, pc))
    if (const char* file = dwfl_lineinfo(found, nullptr, &line.line, nullptr, nullptr, nullptr))
      line.file = file;
  Dwarf_Addr bias = 0;
  Dwarf_Die function;
  if (Dwarf_Die* unit = dwfl_module_addrdie(module, pc, &bias))
    if (find_function(*unit, pc - bias, 0, function)) line.function = name_of(function);
  if (line.function.empty() || line.function == "?")
    if (const char* name = dwfl_module_addrname(module, pc)) line.function = name;
  return line;
}

const VariableType* basic_at(const VariableType& type, std::size_t offset, bool& is_inside,
                             std::size_t& room) {
  is_inside = true;
  room = 0;
  const VariableType* at = &type;
  for (int depth = 0; depth < 2 * kMostDepth; ++depth) {
    if (at->kind != Kind::none) {
      room = std::max(room, at->bytes);
      return offset == 0 ? at : nullptr;
    }
    if (at->is_opaque) break;
    if (at->is_array) {
      room = at->bytes > offset ? at->bytes - offset : 0;
      offset %= at->element;
      at = &at->members.front().type;
      continue;
    }
    const VariableType* next = nullptr;
    for (const VariableType::Member& member : at->members)
      if (offset >= member.offset && offset - member.offset < member.type.bytes) {
        next = &member.type;
        room = 0;
        offset -= member.offset;
        break;
      }
    if (next == nullptr) return nullptr;  // a gap
    at = next;
  }
  is_inside = false;
  return nullptr;
}

bool local_at(const Frame& frame, std::uintptr_t address, Variable& out) {
  const std::lock_guard lock(mutex);
  Scope scope;
  Dwarf_Die function;
  if (!enter(frame, scope, function)) return false;
  int num_found = 0;
  visit_variables(function, scope.pc, 0, [&](Dwarf_Die& die) {
    std::uintptr_t begin = 0;
    Dwarf_Die type;
    Dwarf_Word bytes = 0;
    if (!address_of(die, scope, begin) || begin > address || !type_die_of(die, type) ||
        dwarf_aggregate_size(&type, &bytes) != 0 || address - begin >= bytes)
      return;
    out = {name_of(die), begin, describe(type, 0)};
    ++num_found;
  });
  // An optimising compiler has several in one place, of which it is not known which one is there
  // now.
  return num_found == 1;
}

bool global_at(std::uintptr_t address, Variable& out) {
  const std::lock_guard lock(mutex);
  Dwfl_Module* module = module_of(address);
  if (module == nullptr) return false;
  const std::vector<Global>& globals = globals_of(module);
  auto at = std::ranges::upper_bound(globals, address, {}, &Global::begin);
  if (at == globals.begin()) return false;
  Global found = *--at;
  if (address - found.begin >= found.bytes) return false;
  out = {name_of(found.die), found.begin, describe(found.type, 0)};
  return true;
}

std::vector<Variable> pointers_into(const Frame& frame, std::uintptr_t begin, std::uintptr_t end) {
  const std::lock_guard lock(mutex);
  std::vector<Variable> found;
  Scope scope;
  Dwarf_Die function;
  if (!enter(frame, scope, function)) return found;
  visit_variables(function, scope.pc, 0, [&](Dwarf_Die& die) {
    std::uintptr_t at = 0, value = 0;
    Dwarf_Die type, pointee;
    if (!address_of(die, scope, at) || !type_die_of(die, type) ||
        dwarf_tag(&type) != DW_TAG_pointer_type || !type_die_of(type, pointee))
      return;
    memcpy(&value, reinterpret_cast<const void*>(at), sizeof value);
    if (value < begin || value >= end) return;
    found.push_back({name_of(die), value, describe(pointee, 0)});
  });
  return found;
}

}  // namespace weft::check
