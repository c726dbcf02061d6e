// Preloaded into a child: what it reads as /proc/self/mountinfo is the file MOUNTS instead. It must never redirect another path.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static const char *instead(const char *path) {
  const char *mounts = getenv("MOUNTS");
  return mounts && strcmp(path, "/proc/self/mountinfo") == 0 ? mounts : path;
}

int open(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  mode_t mode = va_arg(more, mode_t);
  va_end(more);
  return (int)syscall(SYS_openat, AT_FDCWD, instead(path), flags, mode);
}

#undef open64
int open64(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  mode_t mode = va_arg(more, mode_t);
  va_end(more);
  return (int)syscall(SYS_openat, AT_FDCWD, instead(path), flags | O_LARGEFILE, mode);
}
