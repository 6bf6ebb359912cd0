// Preloaded into a process: fails one of its calls for descriptors, mappings, memory, threads or
// processes, as a kernel or an allocator does that has no more. What the C library and other
// libraries ask for is left alone: only calls from Weft and from the C++ library are counted.
//
//   WEFT_SHORT_OF   descriptors, mappings, memory, threads, processes
//   WEFT_SHORT_AT   the call that fails, from 1 on; 0: none
//   WEFT_SHORT_FOR  how many fail from there on (1)
//   WEFT_SHORT_IN   the process: its WEFT_RANK, or the name of its program
//   WEFT_SHORT_TRACE  set: the log says where each line came from
//   WEFT_SHORT_LOG  a file that gets a line of how many were counted, and one for each that failed
//
// The variables are taken out of the environment, where Weft would not know them.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <new>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

struct Range {
  std::uintptr_t begin, end;
};
Range ranges[32];
int num_ranges = 0;

char kind[16], log_path[256], trace[8];
long at = 0, times = 1;
std::atomic<long> count{0};
bool on = false;

int add_object(dl_phdr_info* info, size_t, void*) {
  const char* name = info->dlpi_name;
  // The program is the one without a name; weftrun has the library inside.
  const bool counted = strstr(name, "libweft") != nullptr ||
                       strstr(name, "libmpi_abi") != nullptr ||
                       strstr(name, "libstdc++") != nullptr || strstr(name, "libfmt") != nullptr ||
                       (name[0] == '\0' && strcmp(program_invocation_short_name, "weftrun") == 0);
  if (!counted) return 0;
  for (int i = 0; i < info->dlpi_phnum && num_ranges < 32; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    ranges[num_ranges++] = {begin, begin + part.p_memsz};
  }
  return 0;
}

void say(const char* text) {
  char line[160];
  const int length = snprintf(line, sizeof line, "%d %s\n", getpid(), text);
  const int fd = static_cast<int>(
      syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  if (fd < 0) return;
  (void)!write(fd, line, static_cast<size_t>(length));
  if (trace[0] != '\0') {
    void* frames[32];
    backtrace_symbols_fd(frames, backtrace(frames, 32), fd);
  }
  close(fd);
}

void take(const char* name, char* to, size_t room) {
  const char* value = getenv(name);
  if (value != nullptr) strncpy(to, value, room - 1);
  unsetenv(name);
}

[[gnu::constructor]] void start() {
  char where[64] = "", number[32] = "", many[32] = "";
  const char* rank = getenv("WEFT_RANK");
  strncpy(where, getenv("WEFT_SHORT_IN") != nullptr ? getenv("WEFT_SHORT_IN") : "",
          sizeof where - 1);
  const bool here = strcmp(where, program_invocation_short_name) == 0 ||
                    (rank != nullptr && strcmp(where, rank) == 0);
  // A launcher hands them on.
  if (!here && rank == nullptr) return;
  take("WEFT_SHORT_IN", where, sizeof where);
  take("WEFT_SHORT_OF", kind, sizeof kind);
  take("WEFT_SHORT_AT", number, sizeof number);
  take("WEFT_SHORT_FOR", many, sizeof many);
  take("WEFT_SHORT_TRACE", trace, sizeof trace);
  take("WEFT_SHORT_LOG", log_path, sizeof log_path);
  unsetenv("LD_PRELOAD");
  at = atol(number);
  if (many[0] != '\0') times = atol(many);
  dl_iterate_phdr(add_object, nullptr);
  on = here && kind[0] != '\0';
}

[[gnu::destructor]] void end() {
  if (!on) return;
  on = false;
  char text[64];
  snprintf(text, sizeof text, "counted %ld", count.load());
  say(text);
}

// Whether this call is to fail.
bool fails(const char* of, const char* function, void* caller, int error) {
  if (!on || strcmp(of, kind) != 0) return false;
  const auto from = reinterpret_cast<std::uintptr_t>(caller);
  bool ours = false;
  for (int i = 0; i < num_ranges; ++i) ours |= ranges[i].begin <= from && from < ranges[i].end;
  if (!ours) return false;
  const long number = count.fetch_add(1) + 1;
  if (at == 0 || number < at || number >= at + times) return false;
  say(function);
  errno = error;
  return true;
}

template <class F>
F next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define CALLER __builtin_return_address(0)
// A function that returns -1 with errno.
#define FAIL_CALL(of, error, name, parameters, arguments)    \
  extern "C" int name parameters {                           \
    if (fails(of, #name, CALLER, error)) return -1;          \
    static const auto real = next<int(*) parameters>(#name); \
    return real arguments;                                   \
  }

FAIL_CALL("descriptors", EMFILE, socket, (int a, int b, int c), (a, b, c))
FAIL_CALL("descriptors", EMFILE, socketpair, (int a, int b, int c, int* d), (a, b, c, d))
FAIL_CALL("descriptors", EMFILE, accept, (int a, sockaddr* b, socklen_t* c), (a, b, c))
FAIL_CALL("descriptors", EMFILE, accept4, (int a, sockaddr* b, socklen_t* c, int d), (a, b, c, d))
FAIL_CALL("descriptors", EMFILE, eventfd, (unsigned a, int b), (a, b))
FAIL_CALL("descriptors", EMFILE, epoll_create1, (int a), (a))
FAIL_CALL("descriptors", EMFILE, timerfd_create, (int a, int b), (a, b))
FAIL_CALL("descriptors", EMFILE, signalfd, (int a, const sigset_t* b, int c), (a, b, c))
FAIL_CALL("descriptors", EMFILE, inotify_init1, (int a), (a))
FAIL_CALL("descriptors", EMFILE, memfd_create, (const char* a, unsigned b), (a, b))
FAIL_CALL("descriptors", EMFILE, pipe, (int* a), (a))
FAIL_CALL("descriptors", EMFILE, pipe2, (int* a, int b), (a, b))
FAIL_CALL("descriptors", EMFILE, dup, (int a), (a))
FAIL_CALL("processes", EAGAIN, fork, (), ())

// Nobody may close what may be another thread's by now.
extern "C" int close(int fd) {
  static const auto real = next<int (*)(int)>("close");
  const int result = real(fd);
  if (result == 0 || errno != EBADF || !on || fd < 0) return result;
  say("closed what was closed");
  errno = EBADF;
  return result;
}

#define FAIL_OPEN(name)                                                      \
  extern "C" int name(const char* path, int flags, ...) {                    \
    va_list more;                                                            \
    va_start(more, flags);                                                   \
    const mode_t mode = va_arg(more, mode_t);                                \
    va_end(more);                                                            \
    if (fails("descriptors", #name, CALLER, EMFILE)) return -1;              \
    static const auto real = next<int (*)(const char*, int, mode_t)>(#name); \
    return real(path, flags, mode);                                          \
  }
FAIL_OPEN(open)
FAIL_OPEN(open64)

#define FAIL_FOPEN(name)                                                       \
  extern "C" FILE* name(const char* path, const char* mode) {                  \
    if (fails("descriptors", #name, CALLER, EMFILE)) return nullptr;           \
    static const auto real = next<FILE* (*)(const char*, const char*)>(#name); \
    return real(path, mode);                                                   \
  }
FAIL_FOPEN(fopen)
FAIL_FOPEN(fopen64)

extern "C" DIR* opendir(const char* path) {
  if (fails("descriptors", "opendir", CALLER, EMFILE)) return nullptr;
  static const auto real = next<DIR* (*)(const char*)>("opendir");
  return real(path);
}

extern "C" long syscall(long number, ...) {
  va_list more;
  va_start(more, number);
  long a[6];
  for (long& argument : a) argument = va_arg(more, long);
  va_end(more);
  if ((number == SYS_pidfd_open || number == SYS_userfaultfd) &&
      fails("descriptors", "syscall", CALLER, EMFILE))
    return -1;
  static const auto real = next<long (*)(long, ...)>("syscall");
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#define FAIL_MMAP(name)                                                                   \
  extern "C" void* name(void* a, size_t b, int c, int d, int e, off_t f) {                \
    if (fails("mappings", #name, CALLER, ENOMEM)) return MAP_FAILED;                      \
    static const auto real = next<void* (*)(void*, size_t, int, int, int, off_t)>(#name); \
    return real(a, b, c, d, e, f);                                                        \
  }
FAIL_MMAP(mmap)
FAIL_MMAP(mmap64)

extern "C" int pthread_create(pthread_t* a, const pthread_attr_t* b, void* (*c)(void*), void* d) {
  if (fails("threads", "pthread_create", CALLER, EAGAIN)) return EAGAIN;
  static const auto real =
      next<int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  return real(a, b, c, d);
}

extern "C" void* malloc(size_t bytes) {
  return fails("memory", "malloc", CALLER, ENOMEM) ? nullptr : __libc_malloc(bytes);
}
extern "C" void* calloc(size_t a, size_t b) {
  return fails("memory", "calloc", CALLER, ENOMEM) ? nullptr : __libc_calloc(a, b);
}
extern "C" void* realloc(void* a, size_t b) {
  return fails("memory", "realloc", CALLER, ENOMEM) ? nullptr : __libc_realloc(a, b);
}

#define FAIL_NEW(name, align, fail)                              \
  if (fails("memory", name, CALLER, ENOMEM)) fail;               \
  void* memory = __libc_memalign(align, bytes != 0 ? bytes : 1); \
  if (memory == nullptr) fail;                                   \
  return memory;

constexpr size_t kAlign = alignof(max_align_t);
void* operator new(size_t bytes) { FAIL_NEW("new", kAlign, throw std::bad_alloc()) }
void* operator new[](size_t bytes) { FAIL_NEW("new[]", kAlign, throw std::bad_alloc()) }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  FAIL_NEW("new", kAlign, return nullptr)
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  FAIL_NEW("new[]", kAlign, return nullptr)
}
void* operator new(size_t bytes, std::align_val_t align) {
  FAIL_NEW("new", static_cast<size_t>(align), throw std::bad_alloc())
}
void* operator new[](size_t bytes, std::align_val_t align) {
  FAIL_NEW("new[]", static_cast<size_t>(align), throw std::bad_alloc())
}
void operator delete(void* memory) noexcept { free(memory); }
void operator delete[](void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t) noexcept { free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { free(memory); }
