/* The date of a process, CLOCK_SHIFT_SECONDS from the machine's: a library for LD_PRELOAD, built by tests/support/clocks.py.
 * What the file CLOCK_SHIFT_FILE has, 8 bytes with seconds, is added; it may change while the process runs.
 *
 * Everything that says what time it is gets the shift added; everything that is told a time loses it again. Clocks without a date
 * (CLOCK_MONOTONIC) stay. Nothing is locked: Debian's libfaketime 0.9.10 takes a lock for each timed wait and answers EAGAIN when
 * another thread has it, so that on a busy machine the threads of a JVM turn in circles until the one that has it gets a core.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static time_t fixed_shift;
static const volatile int64_t *moving_shift;

__attribute__((constructor)) static void read_shift(void) {
    const char *text = getenv("CLOCK_SHIFT_SECONDS"), *path = getenv("CLOCK_SHIFT_FILE");
    fixed_shift = text ? (time_t)atoll(text) : 0;
    int file = path ? open(path, O_RDONLY) : -1;
    if (path && file < 0) abort();
    if (file < 0) return;
    void *place = mmap(NULL, sizeof *moving_shift, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (place == MAP_FAILED) abort();
    moving_shift = place;
}

#define shift (fixed_shift + (moving_shift ? (time_t)*moving_shift : 0))

/* Waits of condition variables exist in two versions: the old one must not get a new variable. */
static void *real(const char *name) {
    void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    return found ? found : dlsym(RTLD_NEXT, name);
}

#define REAL(name) \
    static __typeof__(name) *real_##name; \
    if (!real_##name) real_##name = (__typeof__(name) *)real(#name)

#define FIRST_DATE 1000000000 /* seconds: the year 2001; an uptime is never so long */

/* A moment that a caller waits for: as it was given, unless it is a date. */
static const struct timespec *unshifted(const struct timespec *moment, struct timespec *place) {
    if (!moment || moment->tv_sec < FIRST_DATE) return moment;
    *place = (struct timespec){moment->tv_sec - shift, moment->tv_nsec};
    return place;
}

/* -- what time it is ---------------------------------------------------------------------------------------------- */

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(clock_gettime);
    int code = real_clock_gettime(clock, now);
    if (!code && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += shift;
    return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    REAL(gettimeofday);
    int code = real_gettimeofday(now, zone);
    if (!code && now) now->tv_sec += shift;
    return code;
}

time_t time(time_t *place) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place) *place = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *now, int base) {
    REAL(timespec_get);
    int found = real_timespec_get(now, base);
    if (found == TIME_UTC) now->tv_sec += shift;
    return found;
}

/* -- until when to wait ------------------------------------------------------------------------------------------- */

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    REAL(pthread_cond_timedwait);
    struct timespec place;
    return real_pthread_cond_timedwait(condition, mutex, unshifted(until, &place));
}

int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, clockid_t clock,
                           const struct timespec *restrict until) {
    REAL(pthread_cond_clockwait);
    struct timespec place;
    return real_pthread_cond_clockwait(condition, mutex, clock, unshifted(until, &place));
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    REAL(pthread_mutex_timedlock);
    struct timespec place;
    return real_pthread_mutex_timedlock(mutex, unshifted(until, &place));
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    REAL(sem_timedwait);
    struct timespec place;
    return real_sem_timedwait(semaphore, unshifted(until, &place));
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict until) {
    REAL(sem_clockwait);
    struct timespec place;
    return real_sem_clockwait(semaphore, clock, unshifted(until, &place));
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left) {
    REAL(clock_nanosleep);
    struct timespec place;
    return real_clock_nanosleep(clock, flags, flags & TIMER_ABSTIME ? unshifted(wanted, &place) : wanted, left);
}

int timerfd_settime(int file, int flags, const struct itimerspec *wanted, struct itimerspec *before) {
    REAL(timerfd_settime);
    struct itimerspec place = *wanted;
    if (flags & TFD_TIMER_ABSTIME) unshifted(&wanted->it_value, &place.it_value);
    return real_timerfd_settime(file, flags, &place, before);
}

/* -- the times of files: programs compare them with what time it is ------------------------------------------------ */

#define SHIFT_FILE(status) \
    ((status)->st_atim.tv_sec += shift, (status)->st_mtim.tv_sec += shift, (status)->st_ctim.tv_sec += shift)

#define STATUS(name, status, parameters, ...) \
    int name parameters { \
        static int (*next) parameters; \
        if (!next) next = (int (*) parameters)real(#name); \
        int code = next(__VA_ARGS__); \
        if (!code) SHIFT_FILE(status); \
        return code; \
    }

STATUS(stat, found, (const char *restrict path, struct stat *restrict found), path, found)
STATUS(stat64, found, (const char *restrict path, struct stat64 *restrict found), path, found)
STATUS(lstat, found, (const char *restrict path, struct stat *restrict found), path, found)
STATUS(lstat64, found, (const char *restrict path, struct stat64 *restrict found), path, found)
STATUS(fstat, found, (int file, struct stat *found), file, found)
STATUS(fstat64, found, (int file, struct stat64 *found), file, found)
STATUS(fstatat, found, (int at, const char *restrict path, struct stat *restrict found, int flags), at, path, found, flags)
STATUS(fstatat64, found, (int at, const char *restrict path, struct stat64 *restrict found, int flags), at, path, found, flags)
/* for programs that were built before glibc 2.33 */
STATUS(__xstat, found, (int version, const char *path, struct stat *found), version, path, found)
STATUS(__xstat64, found, (int version, const char *path, struct stat64 *found), version, path, found)
STATUS(__lxstat, found, (int version, const char *path, struct stat *found), version, path, found)
STATUS(__lxstat64, found, (int version, const char *path, struct stat64 *found), version, path, found)
STATUS(__fxstat, found, (int version, int file, struct stat *found), version, file, found)
STATUS(__fxstat64, found, (int version, int file, struct stat64 *found), version, file, found)
STATUS(__fxstatat, found, (int version, int at, const char *path, struct stat *found, int flags), version, at, path, found, flags)
STATUS(__fxstatat64, found, (int version, int at, const char *path, struct stat64 *found, int flags), version, at, path, found, flags)

int statx(int at, const char *restrict path, int flags, unsigned int mask, struct statx *restrict found) {
    REAL(statx);
    int code = real_statx(at, path, flags, mask, found);
    if (!code) {
        found->stx_atime.tv_sec += shift;
        found->stx_btime.tv_sec += shift;
        found->stx_ctime.tv_sec += shift;
        found->stx_mtime.tv_sec += shift;
    }
    return code;
}

static const struct timespec *unshifted_file(const struct timespec times[2], struct timespec place[2]) {
    if (!times) return times;
    for (int i = 0; i < 2; i++) {
        place[i] = times[i];
        if (times[i].tv_nsec != UTIME_NOW && times[i].tv_nsec != UTIME_OMIT) place[i].tv_sec -= shift;
    }
    return place;
}

int utimensat(int at, const char *path, const struct timespec times[2], int flags) {
    REAL(utimensat);
    struct timespec place[2];
    return real_utimensat(at, path, unshifted_file(times, place), flags);
}

int futimens(int file, const struct timespec times[2]) {
    REAL(futimens);
    struct timespec place[2];
    return real_futimens(file, unshifted_file(times, place));
}

int utimes(const char *path, const struct timeval times[2]) {
    if (!times) return utimensat(AT_FDCWD, path, NULL, 0);
    struct timespec as_specs[2] = {{times[0].tv_sec, times[0].tv_usec * 1000}, {times[1].tv_sec, times[1].tv_usec * 1000}};
    return utimensat(AT_FDCWD, path, as_specs, 0);
}
