/* Preloaded before the C library: fails, or kills the process, at the n-th operation that changes a file below a folder.
 *
 * Counted are write, pwrite, writev, fsync, fdatasync, ftruncate, rename, link and their relatives: whatever Python,
 * SQLite or any other library of the process does to a file goes through them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ERROR_ONCE = 1, ERROR_FROM_THEN_ON = 2, KILL_BEFORE = 3, KILL_DURING = 4 };

static volatile long target = 0, count = 0;
static volatile int mode = 0, hit = 0;
static char below[4096] = "";

void fault_arm(long n, int how, const char *folder) {
    snprintf(below, sizeof below, "%s/", folder);
    count = 0; hit = 0; mode = how; target = n;
}
int fault_disarm(void) { target = 0; return hit; }
long fault_count(void) { return count; }

static int ours(const char *path) { return strncmp(path, below, strlen(below)) == 0 || strncmp(path, below, strlen(below) - 1) == 0; }

static int ours_fd(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return ours(path);
}

static void die(void) { kill(getpid(), SIGKILL); for (;;) pause(); }

/* 0: go on; 1: fail; 2: do it (or half of it), then die. */
static int strike(void) {
    if (!target) return 0;
    count++;
    if (count != target && !(mode == ERROR_FROM_THEN_ON && count > target)) return 0;
    hit = 1;
    if (mode == KILL_BEFORE) die();
    return mode == KILL_DURING ? 2 : 1;
}

#define REAL(type, name, ...) static type (*real)(__VA_ARGS__) = NULL; if (!real) real = dlsym(RTLD_NEXT, #name)

#define WRITING(name, offset_type)                                                                      \
    ssize_t name(int fd, const void *data, size_t n, offset_type at) {                                  \
        REAL(ssize_t, name, int, const void *, size_t, offset_type);                                    \
        int what = target && ours_fd(fd) ? strike() : 0;                                                \
        if (what == 1) { errno = ENOSPC; return -1; }                                                   \
        if (what == 2) { real(fd, data, n / 2, at); die(); }                                            \
        return real(fd, data, n, at);                                                                   \
    }
WRITING(pwrite, off_t)
WRITING(pwrite64, off64_t)

ssize_t write(int fd, const void *data, size_t n) {
    REAL(ssize_t, write, int, const void *, size_t);
    int what = target && ours_fd(fd) ? strike() : 0;
    if (what == 1) { errno = ENOSPC; return -1; }
    if (what == 2) { real(fd, data, n / 2); die(); }
    return real(fd, data, n);
}

ssize_t writev(int fd, const struct iovec *parts, int n) {
    REAL(ssize_t, writev, int, const struct iovec *, int);
    int what = target && ours_fd(fd) ? strike() : 0;
    if (what == 1) { errno = ENOSPC; return -1; }
    ssize_t done = real(fd, parts, what == 2 ? 1 : n);
    if (what == 2) die();
    return done;
}

#define ON_FILE(name, type, code, ...)                                                                  \
        int what = target && ours_fd(fd) ? strike() : 0;                                                \
        if (what == 1) { errno = code; return -1; }                                                     \
        int done = real(__VA_ARGS__);                                                                   \
        if (what == 2) die();                                                                           \
        return done;
int fsync(int fd) { REAL(int, fsync, int); ON_FILE(fsync, int, EIO, fd) }
int fdatasync(int fd) { REAL(int, fdatasync, int); ON_FILE(fdatasync, int, EIO, fd) }
int ftruncate(int fd, off_t size) { REAL(int, ftruncate, int, off_t); ON_FILE(ftruncate, int, EIO, fd, size) }
int ftruncate64(int fd, off64_t size) { REAL(int, ftruncate64, int, off64_t); ON_FILE(ftruncate64, int, EIO, fd, size) }

#define ON_NAME(...)                                                                                    \
        int what = target && (ours(a) || ours(b)) ? strike() : 0;                                       \
        if (what == 1) { errno = ENOSPC; return -1; }                                                   \
        int done = real(__VA_ARGS__);                                                                   \
        if (what == 2) die();                                                                           \
        return done;
int rename(const char *a, const char *b) { REAL(int, rename, const char *, const char *); ON_NAME(a, b) }
int link(const char *a, const char *b) { REAL(int, link, const char *, const char *); ON_NAME(a, b) }
int renameat(int i, const char *a, int j, const char *b) {
    REAL(int, renameat, int, const char *, int, const char *); ON_NAME(i, a, j, b)
}
int renameat2(int i, const char *a, int j, const char *b, unsigned flags) {
    REAL(int, renameat2, int, const char *, int, const char *, unsigned); ON_NAME(i, a, j, b, flags)
}
int linkat(int i, const char *a, int j, const char *b, int flags) {
    REAL(int, linkat, int, const char *, int, const char *, int); ON_NAME(i, a, j, b, flags)
}
