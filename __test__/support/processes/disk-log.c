// Preloaded into a child: records what it does to the files of one folder, in order, so that a test can build what a disk holds
// after a power cut at any of these moments. It must never change what the child gets, except that nothing is synced for real:
// the recording is the disk.
//
// DISK_FOLDER: the folder, with a slash at its end. DISK_LOG: the recording. What the child writes to its standard output is
// recorded among the operations: it shows what the child had acknowledged at a moment. A record is four little-endian 64-bit
// numbers (kind, inode, offset, length of what follows) and that many bytes.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { OUTPUT, CREATE, WRITE, TRUNCATE, SYNC, SYNC_FOLDER, RENAME, UNLINK };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int recording = -1;

static void append(const void *bytes, size_t length) {
  for (size_t done = 0; done < length;) {
    long part = syscall(SYS_write, recording, (const char *)bytes + done, length - done);
    if (part <= 0) abort();
    done += (size_t)part;
  }
}

static void record(uint64_t kind, uint64_t inode, uint64_t offset, const void *bytes, size_t length) {
  const char *log = getenv("DISK_LOG");
  if (!log) return;
  if (recording < 0) {
    recording = (int)syscall(SYS_openat, AT_FDCWD, log, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    if (recording < 0) abort();
  }
  uint64_t header[4] = {kind, inode, offset, length};
  append(header, sizeof header);
  append(bytes, length);
}

// The name of a file of the folder; NULL for any other, and for the shared memory of SQLite, which no disk has to hold.
static const char *name_of(const char *path) {
  const char *folder = getenv("DISK_FOLDER");
  if (!folder || !path || strncmp(path, folder, strlen(folder)) != 0 || strstr(path, "-shm")) return NULL;
  return path + strlen(folder);
}

// Whether a descriptor is a file of the folder, and which: its inode, or 0.
static uint64_t inode_of(int fd, int *is_folder) {
  char link[64], path[4096];
  const char *folder = getenv("DISK_FOLDER");
  struct stat about;
  *is_folder = 0;
  if (!folder || fd == recording) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  *is_folder = (size_t)length + 1 == strlen(folder) && strncmp(path, folder, (size_t)length) == 0;
  if (!*is_folder && !name_of(path)) return 0;
  return fstat(fd, &about) == 0 ? about.st_ino : 0;
}

static ssize_t written(int fd, const void *bytes, size_t length, off_t offset, int placed) {
  int is_folder;
  uint64_t inode = fd == STDOUT_FILENO ? 0 : inode_of(fd, &is_folder);
  if (!inode && fd != STDOUT_FILENO) {
    return placed ? syscall(SYS_pwrite64, fd, bytes, length, offset) : syscall(SYS_write, fd, bytes, length);
  }
  pthread_mutex_lock(&lock);
  if (inode && !placed) offset = syscall(SYS_lseek, fd, 0, SEEK_CUR);
  ssize_t done = placed ? syscall(SYS_pwrite64, fd, bytes, length, offset) : syscall(SYS_write, fd, bytes, length);
  if (done > 0) record(inode ? WRITE : OUTPUT, inode, inode ? (uint64_t)offset : 0, bytes, (size_t)done);
  pthread_mutex_unlock(&lock);
  return done;
}

static int synced(int fd, long call) {
  int is_folder;
  uint64_t inode = inode_of(fd, &is_folder);
  if (!inode) return (int)syscall(call, fd);
  pthread_mutex_lock(&lock);
  record(is_folder ? SYNC_FOLDER : SYNC, inode, 0, "", 0);
  pthread_mutex_unlock(&lock);
  return 0;
}

static int truncated(int fd, off_t length) {
  int is_folder;
  uint64_t inode = inode_of(fd, &is_folder);
  if (!inode) return (int)syscall(SYS_ftruncate, fd, length);
  pthread_mutex_lock(&lock);
  int done = (int)syscall(SYS_ftruncate, fd, length);
  if (done == 0) record(TRUNCATE, inode, (uint64_t)length, "", 0);
  pthread_mutex_unlock(&lock);
  return done;
}

static int opened(int folder, const char *path, int flags, mode_t mode) {
  const char *name = flags & O_CREAT ? name_of(path) : NULL;
  if (!name) return (int)syscall(SYS_openat, folder, path, flags, mode);
  pthread_mutex_lock(&lock);
  struct stat about;
  int was_there = stat(path, &about) == 0;
  int fd = (int)syscall(SYS_openat, folder, path, flags, mode);
  if (fd >= 0 && !was_there && fstat(fd, &about) == 0) record(CREATE, about.st_ino, 0, name, strlen(name));
  int error = errno;
  pthread_mutex_unlock(&lock);
  errno = error;
  return fd;
}

static int renamed(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
  const char *old = name_of(from), *new = name_of(to);
  pthread_mutex_lock(&lock);
  int done = (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
  if (done == 0 && (old || new)) {
    char names[8192];
    int length = snprintf(names, sizeof names, "%s/%s", old ? old : "", new ? new : "");
    record(RENAME, 0, 0, names, (size_t)length);
  }
  int error = errno;
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}

static int unlinked(int folder, const char *path, int flags) {
  const char *name = name_of(path);
  pthread_mutex_lock(&lock);
  int done = (int)syscall(SYS_unlinkat, folder, path, flags);
  if (done == 0 && name) record(UNLINK, 0, 0, name, strlen(name));
  int error = errno;
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}

ssize_t write(int fd, const void *bytes, size_t length) { return written(fd, bytes, length, 0, 0); }
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) { return written(fd, bytes, length, at, 1); }
int ftruncate(int fd, off_t length) { return truncated(fd, length); }
int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }
int rename(const char *from, const char *to) { return renamed(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
  return renamed(from_folder, from, to_folder, to, flags);
}
int unlink(const char *path) { return unlinked(AT_FDCWD, path, 0); }
int unlinkat(int folder, const char *path, int flags) { return unlinked(folder, path, flags); }

#define MODE(flags, last)             \
  mode_t mode = 0;                    \
  if ((flags) & (O_CREAT | O_TMPFILE)) { \
    va_list more;                     \
    va_start(more, last);             \
    mode = va_arg(more, mode_t);      \
    va_end(more);                     \
  }
int open(const char *path, int flags, ...) {
  MODE(flags, flags)
  return opened(AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char *path, int flags, ...) {
  MODE(flags, flags)
  return opened(folder, path, flags, mode);
}

#undef pwrite64
#undef ftruncate64
#undef open64
#undef openat64
ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t at) { return written(fd, bytes, length, at, 1); }
int ftruncate64(int fd, off_t length) { return truncated(fd, length); }
int open64(const char *path, int flags, ...) {
  MODE(flags, flags)
  return opened(AT_FDCWD, path, flags, mode);
}
int openat64(int folder, const char *path, int flags, ...) {
  MODE(flags, flags)
  return opened(folder, path, flags, mode);
}
