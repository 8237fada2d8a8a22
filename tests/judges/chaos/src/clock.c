/* A clock that is wrong: put before the C library of a process (LD_PRELOAD), adds the milliseconds in the file that
 * CHAOS_CLOCK names to whatever the system says. The file is mapped, so it may change at any time. Monotonic clocks stay. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *ahead;

__attribute__((constructor)) static void map_file(void)
{
    const char *path = getenv("CHAOS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        ahead = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, time);
    if (failed || !ahead || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return failed;
    int64_t millis = (int64_t)time->tv_sec * 1000 + time->tv_nsec / 1000000 + *ahead;
    time->tv_nsec = time->tv_nsec % 1000000 + millis % 1000 * 1000000;
    time->tv_sec = millis / 1000;
    return 0;
}
