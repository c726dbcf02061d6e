// Preloaded into a child: its clocks run `CLOCK_RATE` times as fast, and what it waits for is over as much sooner.
// It must never change what a call does besides its times, nor the clock of any other process.
//
// Clocks continue from the moment the library was loaded. Waits are Linux's: epoll, poll, sleep, and futexes by `syscall`,
// which is how Rust's standard library waits with a limit.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static long long rate = 1, start_real, start_monotonic;

static long long real_now(clockid_t clock) {
  struct timespec now;
  syscall(SYS_clock_gettime, clock, &now);
  return now.tv_sec * SECOND + now.tv_nsec;
}

__attribute__((constructor)) static void begin(void) {
  const char *text = getenv("CLOCK_RATE");
  rate = text ? atoll(text) : 1;
  if (rate < 1) rate = 1;
  start_real = real_now(CLOCK_REALTIME);
  start_monotonic = real_now(CLOCK_MONOTONIC);
}

static struct timespec from(long long nanoseconds) {
  if (nanoseconds < 0) nanoseconds = 0;
  return (struct timespec){nanoseconds / SECOND, nanoseconds % SECOND};
}

static long long start_of(clockid_t clock) {
  switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE: return start_real;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_MONOTONIC_RAW: return start_monotonic;
    default: return -1;
  }
}

int clock_gettime(clockid_t clock, struct timespec *out) {
  long status = syscall(SYS_clock_gettime, clock, out);
  long long start = start_of(clock);
  if (status == 0 && start >= 0)
    *out = from(start + (out->tv_sec * SECOND + out->tv_nsec - start) * rate);
  return (int)status;
}

#include "wall-clock.h"

// A moment of the fast clock, as the system's own clock has it.
static struct timespec moment(clockid_t clock, const struct timespec *fast) {
  long long start = start_of(clock);
  if (start < 0) return *fast;
  return from(start + (fast->tv_sec * SECOND + fast->tv_nsec - start) / rate);
}

static struct timespec shorter(const struct timespec *span) {
  return from((span->tv_sec * SECOND + span->tv_nsec) / rate);
}

// Milliseconds as nanoseconds of the system's clock; a limit that is there never becomes none.
static struct timespec *limit(int timeout, struct timespec *span) {
  if (timeout < 0) return NULL;
  *span = from(timeout * 1000000LL / rate);
  return span;
}

int epoll_pwait(int epoll, struct epoll_event *events, int most, int timeout, const sigset_t *mask) {
  struct timespec span;
  return (int)syscall(SYS_epoll_pwait2, epoll, events, most, limit(timeout, &span), mask, _NSIG / 8);
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout) {
  return epoll_pwait(epoll, events, most, timeout, NULL);
}

int poll(struct pollfd *files, nfds_t count, int timeout) {
  struct timespec span;
  return (int)syscall(SYS_ppoll, files, count, limit(timeout, &span), NULL, 0);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *span, struct timespec *left) {
  struct timespec real = flags & TIMER_ABSTIME ? moment(clock, span) : shorter(span);
  return syscall(SYS_clock_nanosleep, clock, flags, &real, left) == 0 ? 0 : errno;
}

int nanosleep(const struct timespec *span, struct timespec *left) {
  int status = clock_nanosleep(CLOCK_MONOTONIC, 0, span, left);
  if (status == 0) return 0;
  errno = status;
  return -1;
}

int usleep(useconds_t microseconds) {
  struct timespec span = from(microseconds * 1000LL);
  return nanosleep(&span, NULL);
}

// The C library's own waits do not use `syscall`: they count in the system's time.
int pthread_cond_clockwait(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                           const struct timespec *until) {
  // libuv waits by the monotonic clock; a moment far from that clock's now is of the other one.
  struct timespec fast;
  clock_gettime(CLOCK_MONOTONIC, &fast);
  long long away = until->tv_sec - fast.tv_sec;
  clockid_t clock = away > -100000000 && away < 100000000 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
  struct timespec real = moment(clock, until);
  return pthread_cond_clockwait(condition, mutex, clock, &real);
}

long syscall(long number, ...) {
  static long (*next)(long, ...);
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "syscall");
  va_list list;
  long a[6];
  va_start(list, number);
  for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
  va_end(list);
  struct timespec real;
  if (number == SYS_futex && a[3] != 0) {
    int command = (int)a[1] & FUTEX_CMD_MASK;
    int absolute = command == FUTEX_WAIT_BITSET;
    if (absolute || command == FUTEX_WAIT) {
      clockid_t clock = (int)a[1] & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC;
      const struct timespec *given = (const struct timespec *)a[3];
      real = absolute ? moment(clock, given) : shorter(given);
      a[3] = (long)&real;
    }
  }
  return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
