"""The system calls that a program in the sandbox may make, with their numbers on the machines we know.

What is not here is denied: processes and threads, other programs, sockets, other processes' memory and limits, mounts,
namespaces, tracing, owners and rights of files, devices, asynchronous input and output that would go around the filter.
A process counts as its own calls' only target: signals and limits reach no other.
"""

from __future__ import annotations

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # as the kernel's audit names them
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

# name: number on x86_64 and on aarch64; None where the machine has no such call.
PLAIN: dict[str, tuple[int | None, int | None]] = {
    # What is open is read and written, memory is taken and given back.
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "lseek": (8, 62),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "readv": (19, 65),
    "writev": (20, 66),
    "pipe": (22, None),
    "pipe2": (293, 59),
    "dup": (32, 23),
    "dup2": (33, None),
    "dup3": (292, 24),
    "poll": (7, None),
    "ppoll": (271, 73),
    "select": (23, None),
    "pselect6": (270, 72),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "brk": (12, 214),
    # Files: which ones is for Landlock and the namespace to say.
    "open": (2, None),
    "openat": (257, 56),
    "stat": (4, None),
    "fstat": (5, 80),
    "lstat": (6, None),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "access": (21, None),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "getdents": (78, None),
    "getdents64": (217, 61),
    "getcwd": (79, 17),
    "fsync": (74, 82),
    "fdatasync": (75, 83),
    "ftruncate": (77, 46),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "rmdir": (84, None),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "symlink": (88, None),
    "symlinkat": (266, 36),
    "umask": (95, 166),
    # Signals that the process handles, waits and clocks.
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "rt_sigpending": (127, 136),
    "rt_sigtimedwait": (128, 137),
    "rt_sigsuspend": (130, 133),
    "sigaltstack": (131, 132),
    "pause": (34, None),
    "alarm": (37, None),
    "getitimer": (36, 102),
    "setitimer": (38, 103),
    "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "times": (100, 153),
    "getrusage": (98, 165),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "futex": (202, 98),
    "membarrier": (324, 283),
    "rseq": (334, 293),
    # Who it is, chance, and the end.
    "getpid": (39, 172),
    "getppid": (110, 173),
    "gettid": (186, 178),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "getrlimit": (97, 163),
    "getrandom": (318, 278),
    "exit": (60, 93),
    "exit_group": (231, 94),
}

# Calls whose arguments are checked: pairs of a 32-bit word (twice the argument's number) and what it may be; -1 is the
# process itself.
ITSELF = [(0, [-1])]
COPIES_AND_FLAGS = [(2, [0, 1, 2, 3, 4, 1030])]  # no owner for signals, no leases, no larger pipes
TERMINAL = [(2, [0x5401, 0x5413, 0x5450, 0x5451, 0x541B])]  # is it one, how large; close on exec; how much to read
OWN_LIMITS = [(0, [0, -1]), (4, [0]), (5, [0])]  # read, never set
CHECKED: dict[str, tuple[int | None, int | None, list[tuple[int, list[int]]]]] = {
    "kill": (62, 129, ITSELF),
    "tgkill": (234, 131, ITSELF),
    "fcntl": (72, 25, COPIES_AND_FLAGS),
    "ioctl": (16, 29, TERMINAL),
    "prlimit64": (302, 261, OWN_LIMITS),
}

# Calls that seem not to be there, so that the C library falls back on an older one, which is denied.
ABSENT: dict[str, tuple[int | None, int | None]] = {"clone3": (435, 435)}


def calls(machine: str) -> dict[str, object]:
    """Return the numbers of the machine's system calls for `inside.py`."""
    column = list(MACHINES).index(machine)
    return {
        "machine": MACHINES[machine],
        "pivot_root": PIVOT_ROOT[machine],
        "plain": [numbers[column] for numbers in PLAIN.values() if numbers[column] is not None],
        "checked": [(row[column], row[2]) for row in CHECKED.values() if row[column] is not None],
        "absent": [numbers[column] for numbers in ABSENT.values() if numbers[column] is not None],
    }
