"""Confine the process that runs a program, then run it. Started as a script by `guard.py`, never imported by Forage.

The process gives up, for good and one after the other: its life beyond its parent's, the sight of files (in a mount
namespace of its own, where the system allows one, and by Landlock), time, memory and files beyond the limits, all
capabilities, and at last every system call that is not in `system_calls.py`. Only then does it say `ready` on the pipe
that the guard reads, closes that pipe and runs the program. A step that fails ends it before the program begins.

It uses the standard library alone and is started with `-s -P -S -B`, in an environment that holds nothing but a fixed
hash seed (`-I` would ignore the seed, and the order of sets would differ from call to call).
"""

from __future__ import annotations

import ctypes
import marshal
import os
import resource
import struct
import sys

TYPE_CHECKING = False  # importing `typing` would take longer than all that is done here
if TYPE_CHECKING:
    from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
PACKAGES = ("site-packages", "dist-packages")
BOX = "/box"  # where a program may write, if it may

PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 22, 24, 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    1,
    2,
    4,
    8,
    32,
    4096,
    16384,
    1 << 18,
)
MNT_DETACH, AT_FDCWD, AT_RECURSIVE = 2, -100, 0x8000
MOUNT_SETATTR, LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 442, 444, 445, 446  # the same on every machine
READ_FILE, READ_DIR = 1 << 2, 1 << 3
# By version of Landlock: how many rights over files it knows.
RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}


class RefusedStep(Exception):
    """A step that the system did not allow."""


def demand(result: int, step: str) -> int:
    """Return the result of a call of the C library; raise Refused if it failed."""
    if result < 0:
        raise RefusedStep(f"{step}: {os.strerror(ctypes.get_errno())}")
    return result


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount a file system, or raise Refused."""
    words = [text.encode() for text in (source, target, kind)]
    demand(LIBC.mount(*words, ctypes.c_ulong(flags), options.encode()), f"mount {target}")


def standard_library() -> str:
    """Return the folder of the standard library."""
    return os.path.dirname(os.path.abspath(os.__file__))


def enter_namespaces(wish: dict[str, Any]) -> None:
    """Move to a file system that holds the standard library, read-only, and a small place to write if one is wished.

    It is built over `/proc` in a mount namespace, which no other process sees, and `/` is put away for good.
    """
    user, group = os.getuid(), os.getgid()
    demand(LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"65534 {user} 1"), ("gid_map", f"65534 {group} 1")):
        try:
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        except OSError as error:
            raise RefusedStep(f"{name}: {error.strerror}") from None
    mount("none", "/", "", MS_REC | MS_PRIVATE)

    # The new root, with the standard library at its usual place and no installed packages in it
    root = "/proc"
    library = standard_library()
    mount("none", root, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=64k,nr_inodes=64,mode=755")
    os.makedirs(root + library)
    mount(library, root + library, "", MS_BIND)
    locked = struct.pack("QQQQ", MS_RDONLY | MS_NOSUID | MS_NODEV, 0, 0, 0)
    place = (root + library).encode()
    demand(LIBC.syscall(MOUNT_SETATTR, AT_FDCWD, place, AT_RECURSIVE, locked, len(locked)), "mount_setattr")
    for name in PACKAGES:
        if os.path.isdir(f"{library}/{name}"):
            mount("none", f"{root}{library}/{name}", "tmpfs", MS_RDONLY, "size=4k,nr_inodes=1,mode=000")
    os.makedirs(root + BOX)
    if wish["files"]:
        options = f"size={wish['space']},nr_inodes={wish['files'] + 1},mode=700"
        mount("none", root + BOX, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options)
    os.chdir(root)
    demand(LIBC.syscall(wish["pivot_root"], b".", b"."), "pivot_root")
    demand(LIBC.umount2(b".", MNT_DETACH), "umount")
    mount("none", "/", "", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)


def restrict_files(wish: dict[str, Any]) -> None:
    """Allow reading the standard library alone, by Landlock, and writing in the place for it if there is one."""
    version = demand(LIBC.syscall(LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1), "landlock")
    every = (1 << RIGHTS[min(version, 5)]) - 1
    words = [every, *([3] if version >= 4 else []), *([3] if version >= 6 else [])]  # files, network, signals
    attributes = struct.pack(f"{len(words)}Q", *words)
    rules = demand(LIBC.syscall(LANDLOCK_CREATE, attributes, ctypes.c_size_t(len(attributes)), 0), "landlock_create")
    library = standard_library()
    allowed = {}
    for name in os.listdir(library):
        place = f"{library}/{name}"
        if name not in PACKAGES and not os.path.islink(place):  # a link may lead anywhere
            allowed[place] = READ_FILE | (READ_DIR if os.path.isdir(place) else 0)
    if wish["files"]:
        allowed[BOX] = every & ~(1 | 1 << 6 | 1 << 9 | 1 << 10 | 1 << 11)  # not run, nor devices, sockets and pipes
    for path, rights in allowed.items():
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", rights, place)
        demand(LIBC.syscall(LANDLOCK_ADD, rules, 1, rule, 0), "landlock_add")
        os.close(place)
    demand(LIBC.syscall(LANDLOCK_RESTRICT, rules, 0), "landlock_restrict")
    os.close(rules)


def limit(wish: dict[str, Any]) -> None:
    """Set the limits of the process, as limits that it cannot raise again."""
    limits = {
        resource.RLIMIT_AS: wish["memory"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_NOFILE: wish["open_files"],
        resource.RLIMIT_FSIZE: wish["space"] if wish["files"] else 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_STACK: 8 << 20,
    }
    for name, value in limits.items():
        resource.setrlimit(name, (value, value))
    resource.setrlimit(resource.RLIMIT_CPU, (wish["cpu"], wish["cpu"] + 1))  # a signal first, then the end


def drop_capabilities() -> None:
    """Give up every capability: of an administrator, or of a separate namespace."""
    LIBC.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for number in range(64):
        LIBC.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    header = struct.pack("Ii", 0x20080522, 0)
    demand(LIBC.capset(header, bytes(24)), "capset")


ALLOW, KILL, DENY = 0x7FFF0000, 0x80000000, 0x00050000


def filter_program(machine: int, plain: list[int], checked: list[Any], absent: list[int], own: int) -> bytes:
    """Return the program that the kernel asks about each system call, in the words of its Berkeley packet filter.

    `plain` calls are allowed; `checked` ones, `(call, [(word, values), ...])`, if each 32-bit word of their arguments
    is among its values, where -1 stands for the process's own number; `absent` ones seem not to be there. All others
    are denied as not permitted. Calls of another machine's numbering end the process.
    """

    def load(offset: int) -> tuple[int, int, int, int]:
        return 0x20, 0, 0, offset

    def equal(value: int, then: int, otherwise: int) -> tuple[int, int, int, int]:
        return 0x15, then, otherwise, value & 0xFFFFFFFF

    def answer(value: int) -> tuple[int, int, int, int]:
        return 0x06, 0, 0, value

    steps = [load(4), equal(machine, 1, 0), answer(KILL), load(0)]
    for call in plain:
        steps += [equal(call, 0, 1), answer(ALLOW)]
    for call, tests in checked:
        body = []
        for word, values in tests:
            body.append(load(16 + 4 * word))
            for index, value in enumerate(values):
                body.append(equal(own if value == -1 else value, len(values) - index, 0))
            body.append(answer(DENY | 1))
        body.append(answer(ALLOW))
        steps += [equal(call, 0, len(body)), *body]
    for call in absent:
        steps += [equal(call, 0, 1), answer(DENY | 38)]
    steps.append(answer(DENY | 1))
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


def restrict_calls(wish: dict[str, Any]) -> None:
    """Allow the listed system calls alone, by seccomp, and see that it holds."""
    code = filter_program(wish["machine"], wish["plain"], wish["checked"], wish["absent"], os.getpid())
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    demand(LIBC.prctl(PR_SET_SECCOMP, ctypes.c_ulong(2), program, 0, 0), "seccomp")
    if LIBC.socket(1, 1, 0) != -1 or ctypes.get_errno() != 1:
        raise RefusedStep("seccomp: a socket could be opened all the same")


def confine(wish: dict[str, Any]) -> None:
    """Take every step of the confinement, in the only possible order."""
    demand(LIBC.prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0), "pdeathsig")
    if os.getppid() != wish["parent"]:
        raise RefusedStep("the guard has gone")
    demand(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    if "namespaces" in wish["layers"]:
        enter_namespaces(wish)
        demand(LIBC.prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0), "pdeathsig")  # entering a user namespace takes it back
    if "landlock" in wish["layers"]:
        restrict_files(wish)
    os.chdir(BOX if wish["files"] else "/")
    limit(wish)
    drop_capabilities()
    restrict_calls(wish)


def request() -> dict[str, Any]:
    """Return the guard's request from standard input; the rest of it is the program's own input."""

    def read_bytes(count: int) -> bytes:
        read = b""
        while len(read) < count:
            read += os.read(0, count - len(read)) or sys.exit("The request ended early.")
        return read

    return marshal.loads(read_bytes(int.from_bytes(read_bytes(8), "little")))


def run(text: str) -> None:
    """Run the program as `__main__`, and show its exceptions without the frames of this file."""
    module = type(sys)("__main__")
    sys.modules["__main__"] = module
    sys.argv = ["program.py"]
    try:
        exec(compile(text, "program.py", "exec", dont_inherit=True), module.__dict__)
    except Exception as error:
        error = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)


def main() -> None:
    """Read the wish, confine the process, say that it is so, and run the program."""
    wish = request()
    try:
        confine(wish)
    except (RefusedStep, OSError, ValueError, KeyError) as error:
        os.write(wish["report"], f"failed {error}".encode())
        os._exit(3)
    text = wish.pop("program")
    os.write(wish["report"], b"ready")
    os.close(wish["report"])
    run(text)


if __name__ == "__main__":
    main()
