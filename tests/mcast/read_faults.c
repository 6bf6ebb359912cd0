// Loaded before weft-copy: reading fails for what READ_FAULT names, "KIND PATH", as it does on a
// disk that is broken or a tree that changes. KIND: stat (EIO), gone (ENOENT), open (EIO), list
// (EIO in the middle of the folder's names).
// Both kinds of names are defined here, so neither stands for the other.
#undef _FILE_OFFSET_BITS
#define _GNU_SOURCE
#undef _FILE_OFFSET_BITS  // with it lstat64 would be another name of lstat
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#pragma GCC visibility push(default)

static int is_faulty(const char* kind, const char* path) {
  const char* fault = getenv("READ_FAULT");
  const size_t length = strlen(kind);
  return fault != NULL && strncmp(fault, kind, length) == 0 && fault[length] == ' ' &&
         strcmp(fault + length + 1, path) == 0;
}

// What programs call that are compiled with and without 64-bit file offsets.
#define LSTAT(name, type)                                      \
  int name(const char* path, type* out) {                      \
    int (*real)(const char*, type*) = dlsym(RTLD_NEXT, #name); \
    if (is_faulty("stat", path)) return errno = EIO, -1;       \
    if (is_faulty("gone", path)) return errno = ENOENT, -1;    \
    return real(path, out);                                    \
  }
LSTAT(lstat, struct stat)
LSTAT(lstat64, struct stat64)

#define OPEN(name)                                                \
  int name(const char* path, int flags, ...) {                    \
    int (*real)(const char*, int, ...) = dlsym(RTLD_NEXT, #name); \
    va_list rest;                                                 \
    va_start(rest, flags);                                        \
    const int mode = va_arg(rest, int);                           \
    va_end(rest);                                                 \
    if (is_faulty("open", path)) return errno = EIO, -1;          \
    return real(path, flags, mode);                               \
  }
OPEN(open)
OPEN(open64)

// openat2 has no function of its own; a path is relative to the tree.
long syscall(long number, ...) {
  long (*real)(long, ...) = dlsym(RTLD_NEXT, "syscall");
  long args[6];
  va_list rest;
  va_start(rest, number);
  for (int i = 0; i < 6; ++i) args[i] = va_arg(rest, long);
  va_end(rest);
  if (number == SYS_openat2) {
    char whole[PATH_MAX] = "", link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", (int)args[0]);
    const ssize_t length = readlink(link, whole, sizeof whole - 1);
    if (length > 0)
      snprintf(whole + length, sizeof whole - (size_t)length, "/%s", (const char*)args[1]);
    if (is_faulty("open", whole)) return errno = EIO, -1;
  }
  return real(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

static int fails_listing(DIR* folder) {
  static int num_read = 0;
  char link[64], path[PATH_MAX] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", dirfd(folder));
  return readlink(link, path, sizeof path - 1) > 0 && is_faulty("list", path) && ++num_read > 3;
}
#define READDIR(name, type)                              \
  type* name(DIR* folder) {                              \
    type* (*real)(DIR*) = dlsym(RTLD_NEXT, #name);       \
    if (fails_listing(folder)) return errno = EIO, NULL; \
    return real(folder);                                 \
  }
READDIR(readdir, struct dirent)
READDIR(readdir64, struct dirent64)
