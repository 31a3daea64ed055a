/* Loaded into a server before all else: its wall clock is ahead by as many milliseconds as the file
   named in CLOCK_AHEAD says (8 bytes, an integer of the machine), from the moment that it is written.
   Clocks that measure time are not touched. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *ahead;

__attribute__((constructor)) static void open_file(void) {
    const char *name = getenv("CLOCK_AHEAD");
    int file = name ? open(name, O_RDONLY) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        ahead = mapped;
}

int clock_gettime(clockid_t id, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, id, now);
    if (!failed && ahead && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        int64_t by = *ahead, nanoseconds = now->tv_nsec + by % 1000 * 1000000;
        int carry = nanoseconds < 0 ? -1 : nanoseconds >= 1000000000;
        now->tv_sec += by / 1000 + carry;
        now->tv_nsec = nanoseconds - carry * 1000000000;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec read;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &read);
    now->tv_sec = read.tv_sec;
    now->tv_usec = read.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *seconds) {
    struct timespec read;
    clock_gettime(CLOCK_REALTIME, &read);
    if (seconds)
        *seconds = read.tv_sec;
    return read.tv_sec;
}
