// MPI functions without memory, in a job: what the short rank (the argument) does is done again and
// again, and each time the next allocation of its thread fails. The function then returns
// MPI_ERR_NO_MEM, once, or does without; called once more it succeeds, and the other ranks, who
// call once, notice nothing: it had changed nothing. Nothing is left behind.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>
#include <vector>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);
}

namespace {

// Of the thread that calls MPI; what threads of the library get is not counted.
thread_local long countdown = 0;    // the allocation that fails; 0: none
thread_local bool in_call = false;  // of MPI
thread_local long live = 0;         // allocations by new that are there

bool fails() noexcept { return in_call && countdown > 0 && --countdown == 0; }

void* get(std::size_t bytes, std::size_t align) noexcept {
  if (fails()) return nullptr;
  void* memory = __libc_memalign(align, bytes == 0 ? 1 : bytes);
  live += memory != nullptr;
  return memory;
}
void* get_or_throw(std::size_t bytes, std::size_t align = alignof(std::max_align_t)) {
  void* memory = get(bytes, align);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void put(void* memory) noexcept {
  live -= memory != nullptr;
  __libc_free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) { return get_or_throw(bytes); }
void* operator new[](std::size_t bytes) { return get_or_throw(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return get(bytes, alignof(std::max_align_t));
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return get(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t align) {
  return get_or_throw(bytes, static_cast<std::size_t>(align));
}
void* operator new[](std::size_t bytes, std::align_val_t align) {
  return get_or_throw(bytes, static_cast<std::size_t>(align));
}
void operator delete(void* memory) noexcept { put(memory); }
void operator delete[](void* memory) noexcept { put(memory); }
void operator delete(void* memory, std::size_t) noexcept { put(memory); }
void operator delete[](void* memory, std::size_t) noexcept { put(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { put(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { put(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { put(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { put(memory); }

extern "C" void* malloc(std::size_t bytes) { return fails() ? nullptr : __libc_malloc(bytes); }

namespace {

int rank, size, next, before;
const char* scene = "";
long at = 0;  // the allocation that fails in this round

[[noreturn]] void fail(const char* what, const char* why) {
  std::printf("rank %d: %s, allocation %ld: %s: %s\n", rank, scene, at, what, why);
  std::fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}
void must(bool right, const char* what) {
  if (!right) fail(what, "wrong");
}

template <class Call>
void call_again(int code, const char* what, Call&& call) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  if (error_class != MPI_ERR_NO_MEM || countdown != 0) fail(what, "another error");
  if (call() != MPI_SUCCESS) fail(what, "fails once more");
}
#define MUST(call)                                                   \
  do {                                                               \
    const auto must_call = [&] {                                     \
      in_call = true;                                                \
      const int must_code = (call);                                  \
      in_call = false;                                               \
      return must_code;                                              \
    };                                                               \
    if (const int must_code = must_call(); must_code != MPI_SUCCESS) \
      call_again(must_code, #call, must_call);                       \
  } while (false)

// Ints with gaps.
MPI_Datatype make_gaps() {
  MPI_Datatype column, type;
  MUST(MPI_Type_vector(3, 1, 2, MPI_INT, &column));
  MUST(MPI_Type_create_resized(column, 0, 6 * sizeof(int), &type));
  MUST(MPI_Type_commit(&type));
  MUST(MPI_Type_free(&column));
  return type;
}

// An operation that does not commute on such triples: a permutation after another.
void compose(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* a = static_cast<const int*>(in);
  auto* b = static_cast<int*>(inout);
  for (int i = 0; i < *count; ++i, a += 6, b += 6) {
    const int old[3] = {b[0], b[2], b[4]};
    for (int k = 0; k < 3; ++k) b[2 * k] = old[a[2 * k]];
  }
}

void communicators() {
  MPI_Comm dup, half, created, of_group, cart, row, graph, with_info;
  MPI_Info info;
  MUST(MPI_Info_create(&info));
  MUST(MPI_Info_set(info, "a key that is longer than any inline string", "a value of that kind"));
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
  MUST(MPI_Comm_dup_with_info(dup, info, &with_info));
  MUST(MPI_Comm_split(dup, rank % 2, -rank, &half));
  MPI_Group group, few;
  MUST(MPI_Comm_group(dup, &group));
  const int first[] = {0, size - 1};
  MUST(MPI_Group_incl(group, 2, first, &few));
  MUST(MPI_Comm_create(dup, few, &created));
  of_group = MPI_COMM_NULL;
  if (rank == 0 || rank == size - 1) MUST(MPI_Comm_create_group(dup, few, 3, &of_group));
  const int dims[] = {size, 1}, periods[] = {1, 0}, remain[] = {1, 0};
  MUST(MPI_Cart_create(dup, 2, dims, periods, 0, &cart));
  MUST(MPI_Cart_sub(cart, remain, &row));
  MUST(MPI_Dist_graph_create_adjacent(dup, 1, &before, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED,
                                      info, 0, &graph));
  MPI_Comm all[] = {dup, half, created, of_group, cart, row, graph, with_info};
  for (MPI_Comm& comm : all) {
    if (comm == MPI_COMM_NULL) continue;
    int members, one = 1, sum = 0;
    MUST(MPI_Comm_size(comm, &members));
    MUST(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    must(sum == members, "a sum in a new communicator");
  }
  int in[1], out = rank;
  MUST(MPI_Neighbor_allgather(&out, 1, MPI_INT, in, 1, MPI_INT, graph));
  must(in[0] == before, "what a neighbour said");
  MPI_Comm background;
  MPI_Request request;
  MUST(MPI_Comm_idup(dup, &background, &request));
  MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
  MUST(MPI_Barrier(background));
  MUST(MPI_Comm_free(&background));
  for (MPI_Comm& comm : all)
    if (comm != MPI_COMM_NULL) MUST(MPI_Comm_free(&comm));
  MUST(MPI_Group_free(&few));
  MUST(MPI_Group_free(&group));
  MUST(MPI_Info_free(&info));
}

void intercommunicators() {
  MPI_Comm half, inter, dup, merged, split;
  MUST(MPI_Comm_split(MPI_COMM_WORLD, rank == 0, 0, &half));
  MUST(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0 ? 1 : 0, 5, &inter));
  MUST(MPI_Comm_dup(inter, &dup));
  MUST(MPI_Comm_split(dup, 0, rank, &split));
  MUST(MPI_Intercomm_merge(split, rank == 0, &merged));
  int mine = rank, sum = 0;
  MUST(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, inter));
  must(sum == (rank == 0 ? size * (size - 1) / 2 : 0), "a sum of the other side");
  MUST(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, merged));
  must(sum == size * (size - 1) / 2, "a sum of both sides");
  for (MPI_Comm* comm : {&half, &inter, &dup, &merged, &split}) MUST(MPI_Comm_free(comm));
}

int copy_attribute(MPI_Comm, int, void*, void* value, void* copy, int* flag) {
  *static_cast<void**>(copy) = value;
  ++*static_cast<int*>(value);
  *flag = 1;
  return MPI_SUCCESS;
}
int delete_attribute(MPI_Comm, int, void* value, void*) {
  --*static_cast<int*>(value);
  return MPI_SUCCESS;
}
void handler(MPI_Comm*, int*, ...) {}

void objects() {
  MPI_Info info, other;
  MUST(MPI_Info_create(&info));
  MUST(MPI_Info_set(info, "a key that is longer than any inline string", "a value of that kind"));
  MUST(MPI_Info_dup(info, &other));
  MUST(MPI_Info_free(&other));
  MUST(MPI_Info_free(&info));

  MPI_Group group, odd, rest;
  MUST(MPI_Comm_group(MPI_COMM_WORLD, &group));
  int range[1][3] = {{size - 1, 0, -1}};
  MUST(MPI_Group_range_incl(group, 1, range, &odd));
  MUST(MPI_Group_difference(group, odd, &rest));
  must(rest == MPI_GROUP_EMPTY, "a difference");
  MUST(MPI_Group_free(&odd));
  MUST(MPI_Group_free(&group));

  int keys[3], uses = 0;
  for (int& key : keys)
    MUST(MPI_Comm_create_keyval(copy_attribute, delete_attribute, &key, nullptr));
  MPI_Comm dup;
  MUST(MPI_Comm_dup(MPI_COMM_SELF, &dup));
  for (const int key : keys) {
    ++uses;
    MUST(MPI_Comm_set_attr(dup, key, &uses));
  }
  MPI_Comm copy;
  MUST(MPI_Comm_dup(dup, &copy));
  must(uses == 6, "copies of attributes");
  MUST(MPI_Comm_free(&copy));
  MUST(MPI_Comm_set_name(dup, "a name that is longer than any inline string"));
  MUST(MPI_Comm_free(&dup));
  must(uses == 0, "attributes that were deleted");
  for (int& key : keys) MUST(MPI_Comm_free_keyval(&key));

  MPI_Errhandler made;
  MUST(MPI_Comm_create_errhandler(handler, &made));
  MUST(MPI_Errhandler_free(&made));
  int error_class, code;
  MUST(MPI_Add_error_class(&error_class));
  MUST(MPI_Add_error_code(error_class, &code));
  MUST(MPI_Add_error_string(code, "a text that is longer than any inline string"));
  MUST(MPI_Remove_error_string(code));
  MUST(MPI_Remove_error_code(code));
  MUST(MPI_Remove_error_class(error_class));
  MPI_Op op;
  MUST(MPI_Op_create(compose, 0, &op));
  MUST(MPI_Op_free(&op));
}

void datatypes() {
  std::vector<MPI_Datatype> types;
  MPI_Datatype type = make_gaps();
  types.push_back(type);
  const int lengths[] = {1, 2, 1}, places[] = {0, 3, 9};
  const MPI_Aint bytes[] = {0, 100, 200};
  MUST(MPI_Type_contiguous(3, types[0], &type));
  types.push_back(type);
  MUST(MPI_Type_indexed(3, lengths, places, types[0], &type));
  types.push_back(type);
  MUST(MPI_Type_create_hindexed(3, lengths, bytes, types[0], &type));
  types.push_back(type);
  MUST(MPI_Type_create_indexed_block(3, 2, places, types[0], &type));
  types.push_back(type);
  const MPI_Datatype parts[] = {types[1], MPI_DOUBLE, types[2]};
  const MPI_Aint apart[] = {0, 1000, 2000};
  MUST(MPI_Type_create_struct(3, lengths, apart, parts, &type));
  types.push_back(type);
  const int sizes[] = {5, 6, 7}, sub[] = {2, 3, 4}, starts[] = {1, 1, 1};
  MUST(MPI_Type_create_subarray(3, sizes, sub, starts, MPI_ORDER_C, MPI_INT, &type));
  types.push_back(type);
  const int spread[] = {MPI_DISTRIBUTE_CYCLIC}, argument[] = {2}, grid[] = {2}, array[] = {20};
  MUST(MPI_Type_create_darray(2, 1, 1, array, spread, argument, grid, MPI_ORDER_C, MPI_INT, &type));
  types.push_back(type);
  MUST(MPI_Type_dup(types[5], &type));
  types.push_back(type);
  MUST(MPI_Type_set_name(type, "a name that is longer than any inline string"));
  int integers[8];
  MPI_Aint addresses[3];
  MPI_Datatype contents[3];
  MUST(MPI_Type_get_contents(types[5], 8, 3, 3, integers, addresses, contents));
  MUST(MPI_Type_free(&contents[0]));
  MUST(MPI_Type_free(&contents[2]));
  for (MPI_Datatype& made : types) MUST(MPI_Type_free(&made));
}

constexpr int kLarge = 100'000;

void messages() {
  MPI_Datatype gaps = make_gaps();
  static int out[6 * kLarge], in[6 * kLarge];
  MPI_Request requests[4];
  for (const int count : {100, 30000}) {
    std::fill_n(out, 6 * count, rank + count);
    const auto is_right = [&] {
      return in[0] == before + count && in[6 * (count - 1) + 4] == before + count;
    };
    // Expected, by both.
    MUST(MPI_Irecv(in, count, gaps, before, 1, MPI_COMM_WORLD, &requests[0]));
    MUST(MPI_Isend(out, count, gaps, next, 1, MPI_COMM_WORLD, &requests[1]));
    MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    must(is_right(), "what was received");
    // By nobody, and synchronously.
    MUST(MPI_Issend(out, count, gaps, next, 2, MPI_COMM_WORLD, &requests[0]));
    MPI_Message message;
    MPI_Status status;
    int flag = 0, elements = 0;
    if (count == 100)
      while (flag == 0) MUST(MPI_Improbe(before, 2, MPI_COMM_WORLD, &flag, &message, &status));
    else
      MUST(MPI_Mprobe(before, 2, MPI_COMM_WORLD, &message, &status));
    MUST(MPI_Get_count(&status, gaps, &elements));
    must(elements == count, "what was probed");
    MUST(MPI_Mrecv(in, count, gaps, &message, MPI_STATUS_IGNORE));
    must(is_right(), "what was probed and received");
    MUST(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    MUST(MPI_Sendrecv(out, count, gaps, next, 3, in, count, gaps, before, 3, MPI_COMM_WORLD,
                      MPI_STATUS_IGNORE));
    must(is_right(), "what was exchanged");
    std::copy_n(out, 6 * count, in);
    MUST(MPI_Isendrecv_replace(in, count, gaps, next, 4, before, 4, MPI_COMM_WORLD, &requests[0]));
    MUST(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    must(is_right(), "what was replaced");
    MUST(MPI_Send_init(out, count, gaps, next, 5, MPI_COMM_WORLD, &requests[0]));
    MUST(MPI_Recv_init(in, count, gaps, before, 5, MPI_COMM_WORLD, &requests[1]));
    for (MPI_Request& request : {std::ref(requests[0]), std::ref(requests[1])})
      MUST(MPI_Start(&request));
    MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    must(is_right(), "what was received again and again");
    MUST(MPI_Request_free(&requests[0]));
    MUST(MPI_Request_free(&requests[1]));
  }
  MPI_Comm dup;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
  MUST(MPI_Comm_attach_buffer(dup, MPI_BUFFER_AUTOMATIC, 0));
  for (int i = 0; i < 20; ++i) MUST(MPI_Bsend(out, 5000, MPI_INT, next, i, dup));
  for (int i = 0; i < 20; ++i) MUST(MPI_Recv(in, 5000, MPI_INT, before, i, dup, MPI_STATUS_IGNORE));
  void* attached;
  int bytes;
  MUST(MPI_Comm_detach_buffer(dup, &attached, &bytes));
  MUST(MPI_Psend_init(out, 4, 100, gaps, next, 6, dup, MPI_INFO_NULL, &requests[0]));
  MUST(MPI_Precv_init(in, 2, 200, gaps, before, 6, dup, MPI_INFO_NULL, &requests[1]));
  MUST(MPI_Startall(2, requests));
  MUST(MPI_Pready_range(0, 3, requests[0]));
  MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  MUST(MPI_Request_free(&requests[0]));
  MUST(MPI_Request_free(&requests[1]));
  // More requests than there were at any time.
  static MPI_Request many[600];
  for (int i = 0; i < 300; ++i) MUST(MPI_Irecv(&in[i], 1, MPI_INT, before, i, dup, &many[i]));
  for (int i = 0; i < 300; ++i) MUST(MPI_Isend(&out[i], 1, MPI_INT, next, i, dup, &many[300 + i]));
  MUST(MPI_Waitall(600, many, MPI_STATUSES_IGNORE));
  MUST(MPI_Comm_free(&dup));
  MUST(MPI_Type_free(&gaps));
}

void collectives() {
  const auto n = static_cast<std::size_t>(size);
  MPI_Comm comm;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  MPI_Datatype gaps = make_gaps();
  MPI_Op op;
  MUST(MPI_Op_create(compose, 0, &op));
  for (const int count : {1, 3000}) {
    const auto cells = static_cast<std::size_t>(6 * count);
    std::vector<int> out(cells * n), in(cells * n), counts(n, count), places(n);
    std::iota(places.begin(), places.end(), 0);
    for (int& place : places) place *= count;
    const auto last = cells * n - 2;
    std::fill(out.begin(), out.end(), rank);
    MUST(MPI_Bcast(in.data(), count, gaps, size - 1, comm));
    MUST(MPI_Gather(out.data(), count, gaps, in.data(), count, gaps, 0, comm));
    must(rank != 0 || in[last] == size - 1, "gather");
    MUST(MPI_Gatherv(out.data(), count, gaps, in.data(), counts.data(), places.data(), gaps, 0,
                     comm));
    MUST(MPI_Scatter(out.data(), count, gaps, in.data(), count, gaps, 0, comm));
    must(in[0] == 0, "scatter");
    MUST(MPI_Scatterv(out.data(), counts.data(), places.data(), gaps, in.data(), count, gaps, 0,
                      comm));
    MUST(MPI_Allgather(out.data(), count, gaps, in.data(), count, gaps, comm));
    must(in[last] == size - 1, "allgather");
    MUST(MPI_Allgatherv(out.data(), count, gaps, in.data(), counts.data(), places.data(), gaps,
                        comm));
    MUST(MPI_Alltoall(out.data(), count, gaps, in.data(), count, gaps, comm));
    must(in[last] == size - 1, "alltoall");
    MUST(MPI_Alltoallv(out.data(), counts.data(), places.data(), gaps, in.data(), counts.data(),
                       places.data(), gaps, comm));
    MUST(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, in.data(), count, gaps, comm));
    MUST(MPI_Alltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_INT, in.data(), counts.data(),
                       places.data(), gaps, comm));
    // A rotation on each rank: size of them.
    for (std::size_t i = 0; i + 5 < out.size(); i += 6) {
      out[i] = 1;
      out[i + 2] = 2;
      out[i + 4] = 0;
    }
    const auto is_rotated = [&](int times) { return in[0] == times % 3; };
    MUST(MPI_Reduce(out.data(), in.data(), count, gaps, op, 0, comm));
    must(rank != 0 || is_rotated(size), "reduce");
    MUST(MPI_Allreduce(out.data(), in.data(), count, gaps, op, comm));
    must(is_rotated(size), "allreduce");
    MUST(MPI_Scan(out.data(), in.data(), count, gaps, op, comm));
    must(is_rotated(rank + 1), "scan");
    MUST(MPI_Exscan(out.data(), in.data(), count, gaps, op, comm));
    MUST(MPI_Reduce_scatter(out.data(), in.data(), counts.data(), gaps, op, comm));
    must(is_rotated(size), "reduce_scatter");
    MPI_Request requests[4];
    MUST(MPI_Iallreduce(out.data(), in.data(), count, gaps, op, comm, &requests[0]));
    MUST(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    must(is_rotated(size), "iallreduce");
    // Several at once, the later ones with a number of their own.
    std::vector<int> others(2 * cells);
    MUST(MPI_Ibarrier(comm, &requests[0]));
    MUST(MPI_Ialltoallv(out.data(), counts.data(), places.data(), gaps, in.data(), counts.data(),
                        places.data(), gaps, comm, &requests[1]));
    MUST(MPI_Ibcast(others.data(), count, gaps, 0, comm, &requests[2]));
    MUST(
        MPI_Ireduce_scatter_block(out.data(), &others[cells], count, gaps, op, comm, &requests[3]));
    MUST(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
    must(in[last] == 0 && others[cells] == size % 3, "several at once");
    MUST(MPI_Allgather_init(&rank, 1, MPI_INT, in.data(), 1, MPI_INT, comm, MPI_INFO_NULL,
                            &requests[0]));
    for (int i = 0; i < 2; ++i) {
      MUST(MPI_Start(&requests[0]));
      MUST(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
      must(in[n - 1] == size - 1, "a persistent allgather");
    }
    MUST(MPI_Request_free(&requests[0]));
  }
  MUST(MPI_Op_free(&op));
  MUST(MPI_Type_free(&gaps));
  MUST(MPI_Comm_free(&comm));
}

void use_window(MPI_Win win, MPI_Aint base) {
  MPI_Datatype gaps = make_gaps();
  MPI_Group to, from, world;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, &next, &to);
  MPI_Group_incl(world, 1, &before, &from);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  int data[30], got[30];
  std::iota(data, data + 30, 100 * rank);
  MUST(MPI_Win_fence(0, win));
  MUST(MPI_Put(data, 2, gaps, next, base, 2, gaps, win));
  MUST(MPI_Accumulate(data, 2, gaps, next, base + 60, 2, gaps, MPI_SUM, win));
  MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
  MUST(MPI_Win_post(from, 0, win));
  MUST(MPI_Win_start(to, 0, win));
  MUST(MPI_Get(got, 2, gaps, next, base, 2, gaps, win));
  MUST(MPI_Win_complete(win));
  MUST(MPI_Win_wait(win));
  must(got[0] == 100 * rank && got[4] == 100 * rank + 4, "what was put");
  MPI_Request request;
  MUST(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win));
  MUST(MPI_Rput(data, 2, gaps, next, base, 2, gaps, win, &request));
  MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
  MUST(MPI_Get_accumulate(data, 2, gaps, got, 2, gaps, next, base, 2, gaps, MPI_NO_OP, win));
  MUST(MPI_Fetch_and_op(data, got + 1, MPI_INT, next, base, MPI_SUM, win));
  MUST(MPI_Win_unlock(next, win));
  must(got[0] == 100 * rank && got[1] == 100 * rank, "what was there");
  MPI_Group_free(&to);
  MPI_Group_free(&from);
  MPI_Group_free(&world);
  MPI_Type_free(&gaps);
}

// A window that one process has no memory for is none for all, who then call again together.
void windows() {
  MPI_Win win;
  void* memory;
  static int own[100];
  MUST(MPI_Win_allocate(sizeof own, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  MUST(MPI_Win_set_name(win, "a name that is longer than any inline string"));
  use_window(win, 0);
  MUST(MPI_Win_free(&win));
  MUST(MPI_Win_create(own, sizeof own, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  use_window(win, 0);
  MUST(MPI_Win_free(&win));
  MUST(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  MUST(MPI_Win_attach(win, own, sizeof own));
  MPI_Aint base, there;
  MPI_Get_address(own, &base);
  MPI_Sendrecv(&base, 1, MPI_AINT, before, 9, &there, 1, MPI_AINT, next, 9, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  use_window(win, there);
  MPI_Barrier(MPI_COMM_WORLD);
  MUST(MPI_Win_detach(win, own));
  MUST(MPI_Win_free(&win));
}

// A file that one process has no memory for is none for all, as with windows.
void files() {
  char name[100];
  std::snprintf(name, sizeof name, "/tmp/shortage_files.%d", static_cast<int>(getpid()));
  MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
  MPI_Info info;
  MUST(MPI_Info_create(&info));
  MUST(MPI_Info_set(info, "romio_cb_write", "enable"));
  MUST(MPI_Info_set(info, "romio_cb_read", "enable"));
  MPI_File file;
  MUST(MPI_File_open(MPI_COMM_WORLD, name,
                     MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info, &file));
  MPI_Datatype gaps = make_gaps(), mine;
  MUST(MPI_Type_create_resized(MPI_INT, 0, static_cast<MPI_Aint>(sizeof(int)) * size, &mine));
  MUST(MPI_Type_commit(&mine));
  const auto here = static_cast<MPI_Offset>(sizeof(int)) * rank;
  MUST(MPI_File_set_view(file, here, MPI_INT, mine, "native", info));
  int out[60], in[60];
  std::iota(out, out + 60, 100 * rank);
  std::fill_n(in, 60, -1);
  MUST(MPI_File_write_at_all(file, 0, out, 10, gaps, MPI_STATUS_IGNORE));
  MUST(MPI_File_read_at_all(file, 0, in, 10, gaps, MPI_STATUS_IGNORE));
  must(in[0] == out[0] && in[58] == out[58] && in[1] == -1, "what was written together");
  std::fill_n(in, 60, -1);
  MUST(MPI_File_read_at(file, 0, in, 10, gaps, MPI_STATUS_IGNORE));
  must(in[58] == out[58], "what was written");
  MUST(MPI_File_write_at(file, 0, out, 10, gaps, MPI_STATUS_IGNORE));
  MUST(MPI_File_set_view(file, here, MPI_INT, mine, "external32", MPI_INFO_NULL));
  MUST(MPI_File_write_at_all(file, 30, out, 10, gaps, MPI_STATUS_IGNORE));
  MUST(MPI_File_read_at_all(file, 30, in, 10, gaps, MPI_STATUS_IGNORE));
  must(in[58] == out[58], "what was converted");
  MUST(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  MUST(MPI_File_set_size(file, 1000));
  MUST(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
  MUST(MPI_File_set_info(file, info));
  MUST(MPI_Info_free(&info));
  MUST(MPI_File_get_info(file, &info));
  MUST(MPI_Info_free(&info));
  MUST(MPI_File_close(&file));
  must(file == MPI_FILE_NULL, "a closed file");
  MUST(MPI_Type_free(&mine));
  MUST(MPI_Type_free(&gaps));
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  next = (rank + 1) % size;
  before = (rank + size - 1) % size;
  const int short_rank = argc > 1 ? std::atoi(argv[1]) : 0;
  const struct {
    const char* name;
    void (*run)();
    int least;
  } scenes[] = {{"objects", objects, 1},
                {"datatypes", datatypes, 1},
                {"communicators", communicators, 2},
                {"intercommunicators", intercommunicators, 2},
                {"messages", messages, 1},
                {"collectives", collectives, 1},
                {"windows", windows, 1},
                {"files", files, 1}};
  for (const auto& row : scenes) {
    if (size < row.least) continue;
    scene = row.name;
    // The first pass gets what is kept for the next time, and the second one nothing more. With
    // others, it depends on when their messages come how much that is.
    long most = 0;
    for (int pass = 0; pass < (size == 1 ? 2 : 1); ++pass) {
      int goes_on = 1;
      for (at = 0; goes_on != 0; ++at) {
        if (rank == short_rank) countdown = at;
        row.run();
        goes_on = at == 0 || countdown == 0;
        countdown = 0;
        if (MPI_Bcast(&goes_on, 1, MPI_INT, short_rank, MPI_COMM_WORLD) != MPI_SUCCESS)
          fail("bcast", "an error without a shortage");
        if (pass == 0)
          most = std::max(most, live);
        else if (live > most)
          fail("what is left", "grows");
      }
    }
    if (rank == short_rank) std::printf("%s: %ld allocations\n", scene, at - 2);
  }
  MPI_Finalize();
  return 0;
}
