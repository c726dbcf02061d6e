// Preloaded into a child: kills it at one chosen write, sync or rename beneath one path, a ledger's or a workspace's, before it, after it, or in the middle of it.
// It owns nothing but that moment, and must never change what any other file gets.
//
// KILL_LEDGER and KILL_COPY, if given: a file which it copies with its log at that moment, before others go on, and the copy.
// KILL_FILE: how the paths begin beneath which it counts. KILL_AT: `before|after sync|write|rename N`, or `torn write N`, from 1.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long writes, syncs, renames;

// By system calls: those of the library would be counted. Nothing is closed, so that no lock is lost before the end.
static void copy(const char *suffix) {
  static char from[4096], to[4096], bytes[65536];
  snprintf(from, sizeof from, "%s%s", getenv("KILL_LEDGER"), suffix);
  snprintf(to, sizeof to, "%s%s", getenv("KILL_COPY"), suffix);
  long in = syscall(SYS_openat, AT_FDCWD, from, O_RDONLY);
  long out = syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  long length;
  while (in >= 0 && out >= 0 && (length = syscall(SYS_read, in, bytes, sizeof bytes)) > 0) {
    if (syscall(SYS_write, out, bytes, length) != length) return;
  }
}

static void die(void) {
  if (getenv("KILL_LEDGER") && getenv("KILL_COPY")) {
    copy("-wal");
    copy("");
  }
  // By the system call: it does not return.
  syscall(SYS_kill, getpid(), SIGKILL);
}

// Whether this is the operation to die at: of that kind, on a file of the ledger, the chosen one from the first.
static int chosen(int fd, const char *kind, atomic_long *count, const char **when) {
  static _Thread_local char moment[8], chosen_kind[8];
  const char *file = getenv("KILL_FILE"), *at = getenv("KILL_AT");
  long number;
  char link[64], path[4096];
  if (!file || !at || sscanf(at, "%7s %7s %ld", moment, chosen_kind, &number) != 3) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  if (strncmp(path, file, strlen(file)) != 0) return 0;
  *when = moment;
  return atomic_fetch_add(count, 1) + 1 == number && strcmp(chosen_kind, kind) == 0;
}

static ssize_t written(int fd, const void *bytes, size_t length, off_t offset, int placed) {
  const char *when = "";
  int here = chosen(fd, "write", &writes, &when);
  if (here && strcmp(when, "before") == 0) die();
  if (here && strcmp(when, "torn") == 0) length /= 2;
  ssize_t done = placed ? syscall(SYS_pwrite64, fd, bytes, length, offset)
                        : syscall(SYS_write, fd, bytes, length);
  if (here) die();
  return done;
}

static int synced(int fd, long call) {
  const char *when = "";
  int here = chosen(fd, "sync", &syncs, &when);
  if (here && strcmp(when, "before") == 0) die();
  int done = (int)syscall(call, fd);
  if (here) die();
  return done;
}

ssize_t write(int fd, const void *bytes, size_t length) { return written(fd, bytes, length, 0, 0); }

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
  return written(fd, bytes, length, offset, 1);
}

#undef pwrite64
ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t offset) {
  return written(fd, bytes, length, offset, 1);
}

int fsync(int fd) { return synced(fd, SYS_fsync); }

int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

int renameat(int from, const char *old, int to, const char *name) {
  const char *when = "";
  int here = chosen(to, "rename", &renames, &when);
  if (here && strcmp(when, "before") == 0) die();
  int done = (int)syscall(SYS_renameat2, from, old, to, name, 0);
  if (here) die();
  return done;
}
