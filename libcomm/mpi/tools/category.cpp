// Categories: the parts of the library, below one for the whole library. None is added while a
// program runs.
#include <cstring>

#include "mpi/tools/tools.hpp"

namespace weft::mpi::tools {
namespace {

struct CategoryRow {
  const char* name;
  const char* meaning;
  Setting begin, end;  // its rows of the settings table, which is sorted in this order
  enum class Has : char { nothing, pvars_of_transport, pvars_of_collectives } has;
};

using Has = CategoryRow::Has;
constexpr CategoryRow kCategories[] = {
    {"weft", "all of Weft", Setting::kCount, Setting::kCount, Has::nothing},
    {"base", "logs and counters of a process", Setting::log, Setting::spin_us, Has::nothing},
    {"waiting", "how a process waits", Setting::spin_us, Setting::start_timeout_ms, Has::nothing},
    {"job", "starting, and missing others", Setting::start_timeout_ms, Setting::fabric,
     Has::nothing},
    {"transport", "the routes to other processes, and messages", Setting::fabric,
     Setting::coll_algorithms, Has::pvars_of_transport},
    {"collectives", "collective operations", Setting::coll_algorithms, Setting::offload,
     Has::pvars_of_collectives},
    {"offload", "allreduce by switches", Setting::offload, Setting::kCount, Has::nothing},
};
constexpr int kNumCategories = static_cast<int>(std::size(kCategories));

constexpr bool have_all_settings() {
  Setting next = Setting{0};
  for (int i = 1; i < kNumCategories; ++i) {
    if (kCategories[i].begin != next) return false;
    next = kCategories[i].end;
  }
  return next == Setting::kCount;
}
static_assert(have_all_settings());

const CategoryRow* category_at(int index) {
  return index >= 0 && index < kNumCategories ? &kCategories[index] : nullptr;
}
int num_cvars_of(const CategoryRow& row) {
  return static_cast<int>(row.end) - static_cast<int>(row.begin);
}
int first_pvar_of(const CategoryRow& row) {
  return row.has == Has::pvars_of_collectives ? first_pvar_of_collectives() : 0;
}
int num_pvars_of(const CategoryRow& row) {
  if (row.has == Has::nothing) return 0;
  return (row.has == Has::pvars_of_collectives ? num_pvars() : first_pvar_of_collectives()) -
         first_pvar_of(row);
}
int num_events_of(const CategoryRow& row) {
  return row.has == Has::pvars_of_transport ? num_events() : 0;
}
int num_categories_of(const CategoryRow& row) {
  return &row == &kCategories[0] ? kNumCategories - 1 : 0;
}

// Stores the indices first, first + 1 ... of so many, as far as they have room.
int give_indices(int first, int num, int len, int indices[]) {
  if (len < 0 || (len > 0 && num > 0 && indices == nullptr)) return MPI_T_ERR_INVALID;
  for (int i = 0; i < num && i < len; ++i) indices[i] = first + i;
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace weft::mpi::tools

using namespace weft::mpi;  // NOLINT: the bodies below are the C interface

MPI_FUNCTION(T_category_get_num)(int* num) {
  return tools::run([&] {
    if (num == nullptr) return MPI_T_ERR_INVALID;
    *num = tools::kNumCategories;
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_category_get_info)
(int index, char* name, int* name_len, char* desc, int* desc_len, int* num_cvars, int* num_pvars,
 int* num_categories) {
  return tools::run([&] {
    const tools::CategoryRow* row = tools::category_at(index);
    if (row == nullptr) return MPI_T_ERR_INVALID_INDEX;
    tools::give_text(row->name, name, name_len);
    tools::give_text(row->meaning, desc, desc_len);
    tools::give(num_cvars, tools::num_cvars_of(*row));
    tools::give(num_pvars, tools::num_pvars_of(*row));
    tools::give(num_categories, tools::num_categories_of(*row));
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_category_get_num_events)(int index, int* num) {
  return tools::run([&] {
    const tools::CategoryRow* row = tools::category_at(index);
    if (row == nullptr) return MPI_T_ERR_INVALID_INDEX;
    if (num == nullptr) return MPI_T_ERR_INVALID;
    *num = tools::num_events_of(*row);
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_category_get_index)(const char* name, int* index) {
  return tools::run([&] {
    if (name == nullptr || index == nullptr) return MPI_T_ERR_INVALID;
    for (int i = 0; i < tools::kNumCategories; ++i)
      if (std::strcmp(tools::kCategories[i].name, name) == 0) {
        *index = i;
        return MPI_SUCCESS;
      }
    return MPI_T_ERR_INVALID_NAME;
  });
}

MPI_FUNCTION(T_category_get_cvars)(int index, int len, int indices[]) {
  return tools::run([&] {
    const tools::CategoryRow* row = tools::category_at(index);
    return row == nullptr ? MPI_T_ERR_INVALID_INDEX
                          : tools::give_indices(static_cast<int>(row->begin),
                                                tools::num_cvars_of(*row), len, indices);
  });
}

MPI_FUNCTION(T_category_get_pvars)(int index, int len, int indices[]) {
  return tools::run([&] {
    const tools::CategoryRow* row = tools::category_at(index);
    return row == nullptr ? MPI_T_ERR_INVALID_INDEX
                          : tools::give_indices(tools::first_pvar_of(*row),
                                                tools::num_pvars_of(*row), len, indices);
  });
}

MPI_FUNCTION(T_category_get_events)(int index, int len, int indices[]) {
  return tools::run([&] {
    const tools::CategoryRow* row = tools::category_at(index);
    return row == nullptr ? MPI_T_ERR_INVALID_INDEX
                          : tools::give_indices(0, tools::num_events_of(*row), len, indices);
  });
}

MPI_FUNCTION(T_category_get_categories)(int index, int len, int indices[]) {
  return tools::run([&] {
    const tools::CategoryRow* row = tools::category_at(index);
    return row == nullptr ? MPI_T_ERR_INVALID_INDEX
                          : tools::give_indices(1, tools::num_categories_of(*row), len, indices);
  });
}

MPI_FUNCTION(T_category_changed)(int* update_number) {
  return tools::run([&] {
    if (update_number == nullptr) return MPI_T_ERR_INVALID;
    *update_number = 0;
    return MPI_SUCCESS;
  });
}
