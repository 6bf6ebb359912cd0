#include "algorithms.hpp"

#include <mutex>
#include <optional>
#include <utility>

#include "mpi.h"

namespace weft::profile {
namespace {

struct Variable {
  MPI_T_pvar_handle handle;
  std::string collective, algorithm;
  bool is_calls;  // or bytes
  unsigned long long before = 0, sum = 0;
};

struct Open {
  std::mutex mutex;
  bool is_open = false, is_counting = false;
  MPI_T_pvar_session session = MPI_T_PVAR_SESSION_NULL;
  std::vector<Variable> variables;
};

Open& state() {
  static Open* const all = new Open;
  return *all;
}

// Reads "allreduce by ring: calls".
std::optional<Variable> variable_at(int index) {
  char meaning[256] = "";
  int length = sizeof meaning, var_class = 0, bind = 0;
  MPI_Datatype type;
  if (PMPI_T_pvar_get_info(index, nullptr, nullptr, nullptr, &var_class, &type, nullptr, meaning,
                           &length, &bind, nullptr, nullptr, nullptr) != MPI_SUCCESS ||
      var_class != MPI_T_PVAR_CLASS_COUNTER || type != MPI_UNSIGNED_LONG_LONG ||
      bind != MPI_T_BIND_NO_OBJECT)
    return {};
  const std::string text = meaning;
  const std::size_t by = text.find(" by "), end = text.find(": ", by);
  if (by == std::string::npos || end == std::string::npos) return {};
  return Variable{nullptr, text.substr(0, by), text.substr(by + 4, end - by - 4),
                  text.compare(end, std::string::npos, ": calls") == 0};
}

unsigned long long value_of(const Variable& variable) {
  unsigned long long value = 0;
  PMPI_T_pvar_read(state().session, variable.handle, &value);
  return value;
}

}  // namespace

void open_algorithms() {
  Open& all = state();
  const std::lock_guard lock(all.mutex);
  int provided = 0, category = 0, num = 0;
  if (all.is_open || PMPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) return;
  all.is_open = true;
  if (PMPI_T_category_get_index("collectives", &category) != MPI_SUCCESS ||
      PMPI_T_category_get_info(category, nullptr, nullptr, nullptr, nullptr, nullptr, &num,
                               nullptr) != MPI_SUCCESS ||
      PMPI_T_pvar_session_create(&all.session) != MPI_SUCCESS)
    return;
  std::vector<int> indices(static_cast<std::size_t>(num));
  if (PMPI_T_category_get_pvars(category, num, indices.data()) != MPI_SUCCESS) return;
  for (const int index : indices) {
    std::optional<Variable> variable = variable_at(index);
    int count = 0;
    if (variable && PMPI_T_pvar_handle_alloc(all.session, index, nullptr, &variable->handle,
                                             &count) == MPI_SUCCESS)
      all.variables.push_back(*std::move(variable));
  }
}

void close_algorithms() noexcept {
  Open& all = state();
  const std::lock_guard lock(all.mutex);
  if (!all.is_open) return;
  all.is_open = all.is_counting = false;
  all.variables.clear();
  if (all.session != MPI_T_PVAR_SESSION_NULL) PMPI_T_pvar_session_free(&all.session);
  PMPI_T_finalize();
}

void resume_algorithms() noexcept {
  Open& all = state();
  const std::lock_guard lock(all.mutex);
  if (std::exchange(all.is_counting, true)) return;
  for (Variable& variable : all.variables) variable.before = value_of(variable);
}

void pause_algorithms() noexcept {
  Open& all = state();
  const std::lock_guard lock(all.mutex);
  if (!std::exchange(all.is_counting, false)) return;
  for (Variable& variable : all.variables) variable.sum += value_of(variable) - variable.before;
}

std::vector<AlgorithmUse> algorithms_used() {
  Open& all = state();
  const std::lock_guard lock(all.mutex);
  std::vector<AlgorithmUse> used;
  for (const Variable& variable : all.variables) {
    if (variable.sum == 0) continue;
    if (used.empty() || used.back().collective != variable.collective ||
        used.back().algorithm != variable.algorithm)
      used.push_back({variable.collective, variable.algorithm});
    (variable.is_calls ? used.back().calls : used.back().bytes) += variable.sum;
  }
  return used;
}

}  // namespace weft::profile
