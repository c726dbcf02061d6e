// Preloaded into a child: lets one operation on the ledger's files fail with EIO, once or from then on, and stores what a disk
// would have of them. It must never touch any other file.
//
// FAULT_FILE: how the paths of the ledger's files begin. FAULT_AT: `read|write|sync|truncate N once|ever`, from 1; none where
// unset. FAULT_SYNCS: a file that gets a byte at each sync. FAULT_MARK: a file that is made when it has failed. FAULT_DISK: a folder with the files as the disk has them: a
// write is there after the next sync of its file that succeeds. After one that fails, the system takes what was written for
// clean: it can be read, and never reaches the disk.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define MOST 65536
struct range {
  char name[64];
  off_t at;
  size_t length;
};
static struct range dirty[MOST];
static int ranges;
static long counts[4];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *kinds[] = {"read", "write", "sync", "truncate"};
enum { READ, WRITE, SYNC, TRUNCATE };

// The name of the ledger's file behind a descriptor; NULL for any other. The -shm is memory, and no disk.
static const char *name_of(int fd, char path[4096]) {
  const char *file = getenv("FAULT_FILE");
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = file ? readlink(link, path, 4095) : -1;
  if (length < 0) return NULL;
  path[length] = 0;
  if (strncmp(path, file, strlen(file)) != 0 || strstr(path, "-shm")) return NULL;
  const char *name = strrchr(path, '/') + 1;
  return strlen(name) < sizeof dirty[0].name ? name : NULL;
}

// Whether this operation fails.
static int fails(int kind) {
  const char *at = getenv("FAULT_AT"), *mark = getenv("FAULT_MARK");
  char chosen[16], how[8];
  long number, count = ++counts[kind];
  if (!at || sscanf(at, "%15s %ld %7s", chosen, &number, how) != 3) return 0;
  if (strcmp(chosen, kinds[kind]) != 0) return 0;
  if (strcmp(how, "ever") == 0 ? count < number : count != number) return 0;
  if (mark) close((int)syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  return 1;
}

static int disk(const char *name) {
  char path[4200];
  const char *folder = getenv("FAULT_DISK");
  if (!folder) return -1;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return (int)syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
}

// What was written to the file since its last sync reaches the disk, or is lost.
static void settle(int fd, const char *name, int reaches) {
  static char bytes[1 << 20];
  int to = reaches ? disk(name) : -1, left = 0;
  for (int i = 0; i < ranges; i++) {
    if (strcmp(dirty[i].name, name) != 0) {
      dirty[left++] = dirty[i];
      continue;
    }
    for (size_t done = 0; to >= 0 && done < dirty[i].length;) {
      size_t part = dirty[i].length - done;
      off_t at = dirty[i].at + (off_t)done;
      ssize_t got = syscall(SYS_pread64, fd, bytes, part < sizeof bytes ? part : sizeof bytes, at);
      if (got <= 0 || syscall(SYS_pwrite64, to, bytes, got, at) != got) break;
      done += (size_t)got;
    }
  }
  ranges = left;
  if (to >= 0) close(to);
}

static ssize_t written(int fd, const void *bytes, size_t length, off_t offset, int placed) {
  char path[4096];
  const char *name = name_of(fd, path);
  if (!name) {
    return placed ? syscall(SYS_pwrite64, fd, bytes, length, offset) : syscall(SYS_write, fd, bytes, length);
  }
  pthread_mutex_lock(&lock);
  if (!placed) offset = syscall(SYS_lseek, fd, 0, SEEK_CUR);
  ssize_t done = -1;
  int failed = fails(WRITE);
  if (!failed) {
    done = placed ? syscall(SYS_pwrite64, fd, bytes, length, offset) : syscall(SYS_write, fd, bytes, length);
  }
  if (done > 0 && ranges < MOST) {
    strcpy(dirty[ranges].name, name);
    dirty[ranges].at = offset;
    dirty[ranges++].length = (size_t)done;
  }
  pthread_mutex_unlock(&lock);
  if (failed) errno = EIO;
  return done;
}

static ssize_t readable(int fd, void *bytes, size_t length, off_t offset, int placed) {
  char path[4096];
  if (name_of(fd, path)) {
    pthread_mutex_lock(&lock);
    int failed = fails(READ);
    pthread_mutex_unlock(&lock);
    if (failed) {
      errno = EIO;
      return -1;
    }
  }
  return placed ? syscall(SYS_pread64, fd, bytes, length, offset) : syscall(SYS_read, fd, bytes, length);
}

static int synced(int fd, long call) {
  char path[4096];
  const char *name = name_of(fd, path);
  if (!name) return (int)syscall(call, fd);
  // Without the true one: the disk is the folder, and a child is not to wait for another.
  pthread_mutex_lock(&lock);
  int failed = fails(SYNC);
  const char *syncs = getenv("FAULT_SYNCS");
  int to = syncs ? (int)syscall(SYS_openat, AT_FDCWD, syncs, O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600) : -1;
  if (to >= 0) {
    if (syscall(SYS_write, to, ".", 1) != 1) failed = 1;
    close(to);
  }
  settle(fd, name, !failed);
  pthread_mutex_unlock(&lock);
  if (failed) errno = EIO;
  return failed ? -1 : 0;
}

static int truncated(int fd, off_t length) {
  char path[4096];
  const char *name = name_of(fd, path);
  if (!name) return (int)syscall(SYS_ftruncate, fd, length);
  pthread_mutex_lock(&lock);
  int failed = fails(TRUNCATE);
  int done = failed ? -1 : (int)syscall(SYS_ftruncate, fd, length);
  if (!failed) {
    // At once: what had to be on the disk before it was synced before it.
    int to = disk(name);
    if (to >= 0) {
      done = (int)syscall(SYS_ftruncate, to, length);
      close(to);
    }
    int left = 0;
    for (int i = 0; i < ranges; i++) {
      if (strcmp(dirty[i].name, name) != 0 || dirty[i].at < length) dirty[left++] = dirty[i];
    }
    ranges = left;
  }
  pthread_mutex_unlock(&lock);
  if (failed) errno = EIO;
  return done;
}

ssize_t write(int fd, const void *bytes, size_t length) { return written(fd, bytes, length, 0, 0); }
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) { return written(fd, bytes, length, at, 1); }
ssize_t read(int fd, void *bytes, size_t length) { return readable(fd, bytes, length, 0, 0); }
ssize_t pread(int fd, void *bytes, size_t length, off_t at) { return readable(fd, bytes, length, at, 1); }
int ftruncate(int fd, off_t length) { return truncated(fd, length); }
int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

#undef pwrite64
#undef pread64
#undef ftruncate64
ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t at) { return written(fd, bytes, length, at, 1); }
ssize_t pread64(int fd, void *bytes, size_t length, off_t at) { return readable(fd, bytes, length, at, 1); }
int ftruncate64(int fd, off_t length) { return truncated(fd, length); }
