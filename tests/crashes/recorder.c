/* Sees every call by which a process changes files below one directory: Python's, SQLite's, FAISS's and tantivy's.
 *
 * Preloaded (LD_PRELOAD), it records them with their content, and makes the N-th one fail.
 * A log entry is a `struct entry`, two paths and the content. What is written through a memory map is not seen.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

enum op { CREATE = 1, WRITE, TRUNCATE, SYNC, RENAME, EXCHANGE, UNLINK, MKDIR, RMDIR, LINK, MARK };
/* Which calls a fault counts and strikes. */
enum kind { CHANGES = 1, GROWTH = 2, WRITES = 4, OPENS = 8, READS = 16 };
struct entry { int op, length_a, length_b, length_data; long inode, offset; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX], struck_at[PATH_MAX + 32];
static int watching, recording, count, target, kinds, error, sticky, shortens, struck;
static char *entries;
static size_t used, room;

void recorder_watch(const char *directory, int record) {
    strncpy(root, directory, PATH_MAX - 1);
    recording = record, used = 0, count = target = struck = 0, struck_at[0] = 0, watching = 1;
}
/* The number-th call of these kinds fails with the error, or is shortened; if sticky, all later ones fail too. */
void recorder_strike(int number, int of, int with, int again, int half) {
    target = number, kinds = of, error = with, sticky = again, shortens = half, count = struck = 0;
}
int recorder_end(void) { watching = 0; return count; }
int recorder_struck(void) { return struck; }
const char *recorder_struck_at(void) { return struck_at; }
const char *recorder_log(size_t *size) { *size = used; return entries; }

static int below(const char *path) { return path && !strncmp(path, root, strlen(root)); }

static void put(const void *from, size_t size) {
    while (used + size > room) entries = realloc(entries, room = room ? 2 * room : 1 << 20);
    memcpy(entries + used, from, size), used += size;
}
static void record(int op, const char *a, const char *b, long inode, long offset, const void *data, size_t size) {
    if (!recording) return;
    struct entry made = {op, a ? strlen(a) : 0, b ? strlen(b) : 0, size, inode, offset};
    put(&made, sizeof made), put(a, made.length_a), put(b, made.length_b), put(data, size);
}
void recorder_mark(const char *text) {
    pthread_mutex_lock(&lock);
    record(MARK, text, 0, 0, 0, 0, 0);
    pthread_mutex_unlock(&lock);
}

static const char *of_descriptor(int descriptor, char *buffer) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t size = readlink(link, buffer, PATH_MAX - 1);
    if (size < 0) return 0;
    buffer[size] = 0;
    return buffer;
}
static const char *absolute(int directory, const char *path, char *buffer) {
    if (!path || path[0] == '/') return path;
    if (directory == AT_FDCWD ? !getcwd(buffer, PATH_MAX) : !of_descriptor(directory, buffer)) return path;
    strncat(buffer, "/", PATH_MAX - strlen(buffer) - 1);
    return strncat(buffer, path, PATH_MAX - strlen(buffer) - 1);
}
static long inode_of(int descriptor) { struct stat s; return fstat(descriptor, &s) ? 0 : (long)s.st_ino; }
static long inode_at(const char *path) { struct stat s; return lstat(path, &s) ? 0 : (long)s.st_ino; }

/* Whether this call fails: 1 with errno set, 2 if it is to be shortened. */
static int strikes(int kind, const char *name, const char *path) {
    if (!(kinds & kind)) return 0;
    int number = ++count;
    if (!target || number < target || (number > target && !sticky)) return 0;
    if (!struck++) snprintf(struck_at, sizeof struck_at, "%s %s", name, path);
    if (shortens && number == target && (kind & WRITES)) return 2;
    if (shortens && !error) return 0;
    errno = error;
    return 1;
}

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)
/* The call without us, unless it is below the directory; then its turn, under the lock. */
#define TURN(path, kind, name, plain, failed) \
    if (!watching || !below(path)) return plain; \
    pthread_mutex_lock(&lock); \
    int verdict = strikes(kind, name, path); \
    if (verdict == 1) { int kept = errno; pthread_mutex_unlock(&lock); errno = kept; return failed; }
#define LEAVE(value) do { int kept = errno; pthread_mutex_unlock(&lock); errno = kept; return value; } while (0)
#define OF_FILE char buffer[PATH_MAX]; const char *path = watching && descriptor > 2 ? of_descriptor(descriptor, buffer) : 0
#define ALL_WRITES (CHANGES | GROWTH | WRITES)

static ssize_t written(int descriptor, const void *data, ssize_t size, long offset) {
    if (size > 0) {
        if (offset < 0) offset = lseek(descriptor, 0, SEEK_CUR) - size;
        record(WRITE, 0, 0, inode_of(descriptor), offset, data, size);
    }
    return size;
}
ssize_t write(int descriptor, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    OF_FILE;
    TURN(path, ALL_WRITES, "write", real(descriptor, data, size), -1)
    LEAVE(written(descriptor, data, real(descriptor, data, verdict == 2 ? (size + 1) / 2 : size), -1));
}
#define PWRITE(name) \
ssize_t name(int descriptor, const void *data, size_t size, off_t offset) { \
    REAL(ssize_t, #name, int, const void *, size_t, off_t); \
    OF_FILE; \
    TURN(path, ALL_WRITES, #name, real(descriptor, data, size, offset), -1) \
    LEAVE(written(descriptor, data, real(descriptor, data, verdict == 2 ? (size + 1) / 2 : size, offset), offset)); \
}
PWRITE(pwrite)
PWRITE(pwrite64)
ssize_t writev(int descriptor, const struct iovec *parts, int number) {
    OF_FILE;
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    if (!watching || !below(path)) return real(descriptor, parts, number);
    ssize_t sum = 0;
    for (int part = 0; part < number; part++) {
        ssize_t size = write(descriptor, parts[part].iov_base, parts[part].iov_len);
        if (size < 0) return sum ? sum : -1;
        sum += size;
        if ((size_t)size < parts[part].iov_len) break;
    }
    return sum;
}
/* What copies inside the kernel is refused: the callers then read and write. */
ssize_t sendfile(int out, int in, off_t *offset, size_t size) {
    REAL(ssize_t, "sendfile", int, int, off_t *, size_t);
    char buffer[PATH_MAX];
    if (watching && below(of_descriptor(out, buffer))) return errno = ENOTSOCK, -1;
    return real(out, in, offset, size);
}
ssize_t sendfile64(int out, int in, off64_t *offset, size_t size) { return sendfile(out, in, offset, size); }
ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags) {
    REAL(ssize_t, "copy_file_range", int, off64_t *, int, off64_t *, size_t, unsigned);
    char buffer[PATH_MAX];
    if (watching && below(of_descriptor(out, buffer))) return errno = EXDEV, -1;
    return real(in, from, out, to, size, flags);
}
#define READ(name, declared, called, types) \
ssize_t name declared { \
    REAL(ssize_t, #name, types); \
    OF_FILE; \
    TURN(path, READS, #name, real called, -1) \
    pthread_mutex_unlock(&lock); \
    return real called; \
}
#define TYPES(...) __VA_ARGS__
READ(read, (int descriptor, void *data, size_t size), (descriptor, data, size), TYPES(int, void *, size_t))
READ(pread64, (int descriptor, void *data, size_t size, off64_t offset), (descriptor, data, size, offset),
     TYPES(int, void *, size_t, off64_t))
#define SYNCING(name) \
int name(int descriptor) { \
    REAL(int, #name, int); \
    OF_FILE; \
    TURN(path, CHANGES | GROWTH, #name, real(descriptor), -1) \
    record(SYNC, path, 0, inode_of(descriptor), 0, 0, 0); \
    LEAVE(0); /* nothing needs to reach a real disk */ \
}
SYNCING(fsync)
SYNCING(fdatasync)
#define TRUNCATING(name) \
int name(int descriptor, off_t size) { \
    REAL(int, #name, int, off_t); \
    OF_FILE; \
    TURN(path, CHANGES | GROWTH, #name, real(descriptor, size), -1) \
    int result = real(descriptor, size); \
    if (!result) record(TRUNCATE, 0, 0, inode_of(descriptor), size, 0, 0); \
    LEAVE(result); \
}
TRUNCATING(ftruncate)
TRUNCATING(ftruncate64)

static int renamed(const char *from, const char *to, unsigned flags, int result) {
    if (!result) record(flags & RENAME_EXCHANGE ? EXCHANGE : RENAME, from, to, 0, 0, 0, 0);
    return result;
}
#define OURS 0x5eed
static int real_rename(int a, const char *from, int b, const char *to, unsigned flags) {
    return syscall(SYS_renameat2, a, from, b, to, flags, OURS);
}
int renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned flags) {
    int (*real)(int, const char *, int, const char *, unsigned) = real_rename;
    char a[PATH_MAX], b[PATH_MAX];
    const char *first = absolute(from_directory, from, a), *second = absolute(to_directory, to, b);
    TURN(second, CHANGES, "rename", real(from_directory, from, to_directory, to, flags), -1)
    LEAVE(renamed(first, second, flags, real(from_directory, from, to_directory, to, flags)));
}
int renameat(int a, const char *from, int b, const char *to) { return renameat2(a, from, b, to, 0); }
int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }
int unlinkat(int directory, const char *name, int flags) {
    REAL(int, "unlinkat", int, const char *, int);
    char buffer[PATH_MAX];
    const char *path = absolute(directory, name, buffer);
    TURN(path, CHANGES, "unlink", real(directory, name, flags), -1)
    int result = real(directory, name, flags);
    if (!result) record(flags & AT_REMOVEDIR ? RMDIR : UNLINK, path, 0, 0, 0, 0, 0);
    LEAVE(result);
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int mkdirat(int directory, const char *name, mode_t mode) {
    REAL(int, "mkdirat", int, const char *, mode_t);
    char buffer[PATH_MAX];
    const char *path = absolute(directory, name, buffer);
    TURN(path, CHANGES | GROWTH, "mkdir", real(directory, name, mode), -1)
    int result = real(directory, name, mode);
    if (!result) record(MKDIR, path, 0, inode_at(path), 0, 0, 0);
    LEAVE(result);
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
int symlinkat(const char *to, int directory, const char *name) {
    REAL(int, "symlinkat", const char *, int, const char *);
    char buffer[PATH_MAX];
    const char *path = absolute(directory, name, buffer);
    TURN(path, CHANGES | GROWTH, "symlink", real(to, directory, name), -1)
    int result = real(to, directory, name);
    if (!result) record(LINK, path, to, inode_at(path), 0, 0, 0);
    LEAVE(result);
}
int symlink(const char *to, const char *path) { return symlinkat(to, AT_FDCWD, path); }

static int opened(int directory, const char *name, int flags, mode_t mode) {
    REAL(int, "openat", int, const char *, int, mode_t);
    char buffer[PATH_MAX];
    const char *path = absolute(directory, name, buffer);
    long before = flags & O_CREAT && watching && below(path) ? inode_at(path) : 1;
    /* A file that is made counts as a change; one that is emptied too; any other only as opened. */
    int kind = OPENS | (!before ? CHANGES | GROWTH : flags & O_TRUNC ? CHANGES : 0);
    TURN(path, kind, "open", real(directory, name, flags, mode), -1)
    int result = real(directory, name, flags, mode);
    if (result >= 0 && !before) record(CREATE, path, 0, inode_of(result), 0, 0, 0);
    else if (result >= 0 && flags & O_TRUNC) record(TRUNCATE, path, 0, inode_of(result), 0, 0, 0);
    LEAVE(result);
}
#define MODE mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, int); va_end(rest); }
int open(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int openat(int directory, const char *path, int flags, ...) { MODE return opened(directory, path, flags, mode); }
int openat64(int directory, const char *path, int flags, ...) { MODE return opened(directory, path, flags, mode); }

/* tantivy renames by system calls of its own: the kernel hands all that are not ours to this handler. */
static void trapped(int number, siginfo_t *info, void *context) {
#ifdef __x86_64__
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    long long *result = &r[REG_RAX];
    long arguments[] = {r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8]};
    int plain = info->si_syscall == SYS_rename;
#else
    unsigned long long *r = ((ucontext_t *)context)->uc_mcontext.regs;
    unsigned long long *result = r;
    long arguments[] = {r[0], r[1], r[2], r[3], r[4]};
    int plain = 0;
#endif
    int done = plain ? rename((char *)arguments[0], (char *)arguments[1])
                     : renameat2(arguments[0], (char *)arguments[1], arguments[2], (char *)arguments[3],
                                 info->si_syscall == SYS_renameat2 ? arguments[4] : 0);
    *result = done ? -errno : 0;
    (void)number;
}
__attribute__((constructor)) static void trap(void) {
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSYS, &action, 0);
#ifdef __x86_64__
#define SYSTEM_CALL_1 SYS_rename
#else
#define SYSTEM_CALL_1 SYS_renameat
#endif
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYSTEM_CALL_1, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OURS, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
