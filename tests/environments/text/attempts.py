"""Attempts to escape from the sandbox, to exhaust the machine or to stall it, and their outcomes.

`Bait` stands outside: a secret in a file, in the environment and in an open file, a folder to write in, two servers,
and a process to kill. Each attempt is a program that attacks it. `attempt` runs one and reports whether it did any
harm; run without the sandbox, the same programs show that the bait notices.
"""

from __future__ import annotations

import dataclasses
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from forage.environments.text.tools.sandbox.guard import LONGER, Outcome, Sandbox

QUICK = Sandbox(wall=10.0, cpu=4, memory=96 << 20, output=2000)
STALL = dataclasses.replace(QUICK, wall=0.6)
FILES = dataclasses.replace(QUICK, files=8, space=1 << 20)
DENIED = r"Operation not permitted|Permission denied|No such file"


@dataclasses.dataclass(frozen=True)
class Attempt:
    """A program that attacks the bait, and the expected outcome."""

    name: str
    does: str  # what it tries, in a few words
    program: str  # words in capitals, such as SECRET, stand for the bait's places and numbers
    ended: str  # how it ends, as `Outcome.ended`; several joined by |
    shows: str  # a pattern that its output contains
    sandbox: Sandbox = QUICK
    harmless: bool = False  # without the sandbox it harms the bait alone, and can be tried
    machine: str = ""  # the only kind of machine that it is made for


@dataclasses.dataclass(frozen=True)
class HappenedHelper:
    """The result of an attempt."""

    outcome: Outcome
    harm: str  # what it did outside the sandbox; empty: nothing

    def summary(self) -> str:
        """Return in a few words the end of the attempt."""
        lines = [line for line in self.outcome.text.strip().splitlines() if line.strip()]
        last = re.sub(r":? ['\"(].*", "", lines[-1])[:90] if lines else "no output"  # without paths, which differ
        return {
            "finished": f"ran to its end: {last}",
            "failed": f"failed: {last}",
            "time": "stopped at its time limit",
            "cpu": "stopped at its limit of processor time",
            "output": "stopped at its limit of output",
            "killed": f"ended by the system ({signal_name(self.outcome.code)})",
        }[self.outcome.ended]


def signal_name(code: int) -> str:
    """Return the name of the signal behind a negative exit code."""
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


class Bait:
    """Targets outside the sandbox that an attempt may harm, for as long as it is entered."""

    def __enter__(self) -> Bait:
        """Set up all targets."""
        self.folder = tempfile.TemporaryDirectory(prefix="forage-bait-")
        self.path = Path(self.folder.name)
        self.token = secrets.token_hex(16)
        self.secret = self.path / "secret.txt"
        self.secret.write_text(self.token)
        self.inherited = os.open(self.secret, os.O_RDONLY)
        os.set_inheritable(self.inherited, True)
        self.before = os.environ.get("FORAGE_SECRET")
        os.environ["FORAGE_SECRET"] = self.token
        self.internet = socket.create_server(("127.0.0.1", 0))
        self.local = socket.socket(socket.AF_UNIX)
        self.local.bind(str(self.path / "server"))
        self.local.listen()
        for server in (self.internet, self.local):
            server.setblocking(False)
        self.victim = subprocess.Popen(["sleep", "1000"])
        return self

    def __exit__(self, *error: object) -> None:
        """Take down all targets."""
        self.victim.kill()
        self.victim.wait()
        self.internet.close()
        self.local.close()
        os.close(self.inherited)
        del os.environ["FORAGE_SECRET"]
        if self.before is not None:
            os.environ["FORAGE_SECRET"] = self.before
        self.folder.cleanup()

    def fill(self, program: str) -> str:
        """Return the program with the bait's places and numbers in it."""
        words = {
            "SECRET": repr(str(self.secret)),
            "OUTSIDE": repr(str(self.path / "outside.txt")),
            "SERVER": repr(str(self.path / "server")),
            "PORT": str(self.internet.getsockname()[1]),
            "VICTIM": str(self.victim.pid),
            "SITE": repr(sysconfig.get_path("purelib")),
            "HOME": repr(str(Path.home())),
        }
        return re.sub(r"\b[A-Z]{4,}\b", lambda found: words.get(found[0], found[0]), program)

    def harm(self, text: str) -> str:
        """Return a description of the harm done to the bait, given the program's output; empty for none."""
        if self.token in text:
            return "the secret was read"
        if not self.secret.exists() or self.secret.read_text() != self.token:
            return "the secret was changed"
        if {path.name for path in self.path.iterdir()} != {"secret.txt", "server"}:
            return "a file was written"
        if self.victim.poll() is not None:
            return "the other process was ended"
        for server in (self.internet, self.local):
            try:
                server.accept()[0].close()
            except BlockingIOError:
                continue
            return "a server was reached"
        return ""


def attempt(one: Attempt, bait: Bait) -> HappenedHelper:
    """Run an attempt in the sandbox, then check the bait, the time, and processes left behind."""
    marked = processes_of(bait.token)
    outcome = one.sandbox.run(bait.fill(one.program))
    harm = bait.harm(outcome.text)
    if not harm and outcome.seconds > LONGER * one.sandbox.wall + 2:
        harm = f"it took {outcome.seconds:.1f} s"
    if not harm and len(outcome.text) > one.sandbox.output:
        harm = "it wrote more than its limit"
    if not harm and processes_of(bait.token) != marked:
        harm = "a process was left behind"
    return HappenedHelper(outcome, harm)


def processes_of(token: str) -> set[int]:
    """Return the running processes of `inside.py`; any of them after an attempt was left behind."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            if b"sandbox/inside.py" in command and parent in (os.getpid(), 1):
                found.add(int(entry.name))
    return found


def unconfined_attempts(one: Attempt, bait: Bait) -> str:
    """Run a harmless attempt without the sandbox, and return the harm done to the bait."""
    assert one.harmless
    command = [sys.executable, "-I", "-S", "-c", bait.fill(one.program)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=20, close_fds=False, cwd=bait.path, stdin=subprocess.DEVNULL
    )
    return bait.harm(done.stdout + done.stderr)


LIBC = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
ERRNO = "import os\nprint(os.strerror(ctypes.get_errno()))"

ATTEMPTS = (
    # Exhaust
    Attempt("fork bomb", "start processes for ever", "import os\nwhile True: os.fork()", "failed", DENIED),
    Attempt(
        "thread bomb",
        "start threads for ever",
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(9,)).start()",
        "failed",
        "can't start new thread",
    ),
    Attempt(
        "memory bomb", "take memory for ever", "x = []\nwhile True: x.append(bytearray(10**7))", "failed", "MemoryError"
    ),
    Attempt(
        "map a terabyte",
        "map memory without touching it",
        "import mmap\nmmap.mmap(-1, 1 << 40)",
        "failed",
        "Cannot allocate memory",
    ),
    Attempt(
        "huge number",
        "compute 9**9**9",
        "print(9**9**9)",
        "time|failed",
        "",
        STALL,
    ),
    Attempt("huge output", "print for ever", "while True: print('x' * 99)", "output", "xxx"),
    Attempt("huge line", "print 100 megabytes at once", "print('x' * 10**8)", "output|failed", "xxx|MemoryError"),
    Attempt(
        "huge file",
        "write a gigabyte into one file",
        "with open('big', 'wb', 0) as f:\n    for _ in range(1000): f.write(bytes(10**6))\n"
        "    for _ in range(1000): f.write(bytes(10**6))",
        "failed",
        "File too large|No space left",
        FILES,
    ),
    Attempt(
        "hollow file",
        "grow a file to a terabyte",
        "open('big', 'wb').truncate(1 << 40)",
        "failed",
        "File too large",
        FILES,
    ),
    Attempt(
        "many files",
        "create 100,000 files",
        "for i in range(10**5): open(f'f{i}', 'w').write('x')",
        "failed",
        "No space left",
        FILES,
    ),
    Attempt(
        "many folders",
        "create folders within folders",
        "import os\nfor i in range(10**5):\n    os.mkdir('d' * (i + 1))",
        "failed",
        "No space left",
        FILES,
    ),
    Attempt(
        "many open files", "open pipes for ever", "import os\nwhile True: os.pipe()", "failed", "Too many open files"
    ),
    Attempt("recursion", "call itself for ever", "def f(): f()\nf()", "failed", "RecursionError"),
    Attempt(
        "recursion without limit",
        "call itself for ever after lifting Python's limit",
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
        "failed|killed|time",
        "",
        STALL,
    ),
    Attempt(
        "recursion in C",
        "show a list nested a million deep, after lifting Python's limit",
        "import sys\nsys.setrecursionlimit(10**9)\nx = []\nfor _ in range(10**6): x = [x]\nrepr(x)",
        "failed|killed|time",
        "",
        STALL,
    ),
    Attempt(
        "nested source",
        "compile 100,000 brackets",
        "try: eval('(' * 10**5)\nexcept (SyntaxError, MemoryError) as error: print(type(error).__name__)",
        "finished",
        "^(Syntax|Memory)Error$",
    ),
    Attempt("core dump", "crash, to leave a file behind", "import ctypes\nctypes.string_at(0)", "killed", ""),
    # Stall
    Attempt(
        "infinite loop",
        "loop for ever",
        "while True: pass",
        "time",
        "^$",
        STALL,
    ),
    Attempt(
        "sleep",
        "sleep for an hour",
        "import time\ntime.sleep(3600)",
        "time",
        "^$",
        STALL,
    ),
    Attempt(
        "processor time",
        "compute for longer than it may",
        "while True: pass",
        "cpu",
        "^$",
        dataclasses.replace(QUICK, wall=20.0, cpu=1),
    ),
    Attempt(
        "ignore the warning",
        "compute on after the signal that processor time is over",
        "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
        "killed",
        "^$",
        dataclasses.replace(QUICK, wall=20.0, cpu=1),
    ),
    Attempt(
        "ignore signals",
        "ignore every signal and loop",
        "import signal\nfor s in signal.valid_signals() - {9, 19}: signal.signal(s, signal.SIG_IGN)\nwhile True: pass",
        "time",
        "^$",
        STALL,
    ),
    Attempt(
        "stop itself",
        "stop, and wait to be continued",
        "import os\nos.kill(os.getpid(), 19)",
        "time",
        "^$",
        STALL,
    ),
    Attempt("input", "wait for input that never comes", "input()", "failed", "EOFError"),
    Attempt(
        "close the output",
        "close its output and go on",
        "import os\nos.close(1)\nos.close(2)\nwhile True: pass",
        "time",
        "^$",
        STALL,
    ),
    Attempt(
        "never exit",
        "loop in an exit handler",
        "import atexit, time\natexit.register(time.sleep, 3600)\nprint('end')",
        "time",
        "^$|end",
        STALL,
    ),
    Attempt(
        "regular expression",
        "match one that backtracks for ever",
        "import re\nre.match('(a+)+$', 'a' * 40 + 'b')",
        "time",
        "^$",
        STALL,
    ),
    # Read what it should not
    Attempt(
        "read a user's file", "read a secret by its path", "print(open(SECRET).read())", "failed", DENIED, harmless=True
    ),
    Attempt("read /etc/passwd", "read the list of users", "print(open('/etc/passwd').read())", "failed", DENIED),
    Attempt(
        "list the home folder",
        "see the names of a user's files",
        "import os\nprint(os.listdir(HOME))",
        "failed",
        DENIED,
    ),
    Attempt(
        "list /",
        "see the names of all folders",
        "import os\nprint(os.listdir('/'))",
        "failed|finished",
        DENIED + "|box",
    ),
    Attempt(
        "climb out",
        "read a secret by a path of many ../",
        "print(open('../' * 20 + SECRET).read())",
        "failed",
        DENIED,
        FILES,
    ),
    Attempt(
        "symbolic link",
        "read a secret through a link of its own",
        "import os\nos.symlink(SECRET, 'link')\nprint(open('link').read())",
        "failed",
        DENIED,
        FILES,
    ),
    Attempt(
        "hard link",
        "give a secret a second name",
        "import os\nos.link(SECRET, 'link')\nprint(open('link').read())",
        "failed",
        DENIED,
        FILES,
    ),
    Attempt(
        "inherited files",
        "read files that its parent had open",
        "import os\nfor i in range(3, 99):\n    try: print(os.pread(i, 99, 0))\n    except OSError: 0\nprint('none')",
        "finished",
        "^none$",
        harmless=True,
    ),
    Attempt(
        "environment",
        "read a secret from the environment",
        "import os\nprint(dict(os.environ))",
        "finished",
        "PYTHONHASHSEED",
        harmless=True,
    ),
    Attempt(
        "environment of the parent",
        "read it from /proc",
        "import os\nprint(open(f'/proc/{os.getppid()}/environ').read())",
        "failed",
        DENIED,
    ),
    Attempt(
        "memory of the parent",
        "open it in /proc",
        "import os\nopen(f'/proc/{os.getppid()}/mem', 'rb')",
        "failed",
        DENIED,
    ),
    Attempt(
        "memory of the parent, by a call",
        "read it with process_vm_readv",
        LIBC + "import os\nprint(libc.process_vm_readv(os.getppid(), None, 0, None, 0, 0))\n" + ERRNO,
        "finished",
        "^-1\nOperation not permitted",
    ),
    Attempt(
        "trace the parent",
        "attach as a debugger",
        LIBC + "import os\nprint(libc.ptrace(16, os.getppid(), 0, 0))\n" + ERRNO,
        "finished",
        "^-1\nOperation not permitted",
    ),
    Attempt(
        "installed packages",
        "import NumPy from the folder of packages",
        "import sys\nsys.path.append(SITE)\nimport numpy\nprint(numpy.__file__)",
        "failed",
        "ModuleNotFoundError",
    ),
    # Write what it should not
    Attempt("write outside", "create a file", "open(OUTSIDE, 'w').write('x')", "failed", DENIED, harmless=True),
    Attempt("write outside, from the folder", "create a file beside", "open(OUTSIDE, 'w')", "failed", DENIED, FILES),
    Attempt("delete", "delete a user's file", "import os\nos.remove(SECRET)", "failed", DENIED),
    Attempt("truncate", "empty a user's file", "import os\nos.truncate(SECRET, 0)", "failed", DENIED),
    Attempt(
        "change the library",
        "write into Python's own files",
        "import os\nopen(os.__file__, 'a').write('x')",
        "failed",
        DENIED + "|Read-only",
    ),
    Attempt(
        "temporary files", "leave one behind", "import tempfile\ntempfile.mkstemp()", "failed", "No usable temporary"
    ),
    Attempt(
        "shared memory",
        "leave a block behind",
        LIBC + "print(libc.shmget(0, 4096, 0o1600))\n" + ERRNO,
        "finished",
        "^-1\nOperation not permitted",
    ),
    # Reach the network
    Attempt(
        "connect",
        "connect to a server on this machine",
        "import socket\nsocket.create_connection(('127.0.0.1', PORT))",
        "failed",
        DENIED,
        harmless=True,
    ),
    Attempt(
        "local socket",
        "connect to a server by a file",
        "import socket\nsocket.socket(socket.AF_UNIX).connect(SERVER)",
        "failed",
        DENIED,
        harmless=True,
    ),
    Attempt("listen", "open a server", "import socket\nsocket.create_server(('', 0))", "failed", DENIED),
    Attempt(
        "datagram", "send a packet", "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM)", "failed", DENIED
    ),
    Attempt(
        "DNS",
        "look a name up",
        "import socket\nprint(socket.getaddrinfo('example.com', 80))",
        "failed",
        "gaierror|" + DENIED,
    ),
    # Reach other processes
    Attempt("kill the parent", "send it a signal", "import os\nos.kill(os.getppid(), 9)", "failed", DENIED),
    Attempt(
        "kill a process", "end one of the user's", "import os\nos.kill(VICTIM, 9)", "failed", DENIED, harmless=True
    ),
    Attempt("kill all", "send a signal to every process", "import os\nos.kill(-1, 9)", "failed", DENIED),
    Attempt("kill the group", "send a signal to its group", "import os\nos.killpg(0, 9)", "failed", DENIED),
    Attempt(
        "signal by a file",
        "let the system signal another process",
        "import fcntl\nfcntl.fcntl(0, fcntl.F_SETOWN, VICTIM)",
        "failed",
        DENIED,
    ),
    Attempt(
        "daemon",
        "fork twice and outlive",
        "import os, time\nif not os.fork():\n    os.setsid()\n    if not os.fork(): time.sleep(60)",
        "failed",
        DENIED,
    ),
    Attempt(
        "leave the session",
        "be no longer in the guard's group",
        LIBC + "print(libc.setsid())\n" + ERRNO,
        "finished",
        "^-1\nOperation not permitted",
    ),
    Attempt(
        "start a program",
        "run cat",
        "import subprocess\nsubprocess.run(['/bin/cat', SECRET])",
        "failed",
        DENIED,
        harmless=True,
    ),
    Attempt("become a program", "be replaced by a shell", "import os\nos.execv('/bin/sh', ['sh'])", "failed", DENIED),
    Attempt(
        "shell, through C",
        "call `system`",
        LIBC + "print('status', libc.system(b'cat ' + SECRET.encode()))",
        "finished",
        r"^status (-1|32512)$",
        harmless=True,
    ),
    Attempt(
        "pickle",
        "unpickle what calls `system`",
        "import pickle\nprint('status', pickle.loads(b\"cposix\\nsystem\\n(S'cat \" + SECRET.encode() + b\"'\\ntR.\"))",
        "finished",
        r"^status (-1|32512)$",
        harmless=True,
    ),
    # Change its own confinement
    Attempt(
        "raise the limits",
        "take back the limit of memory",
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))",
        "failed",
        DENIED + "|not allowed",
    ),
    Attempt(
        "limits of the parent",
        "set them",
        "import os, resource\nresource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1))",
        "failed",
        DENIED,
    ),
    Attempt("priority", "go before others", "import os\nos.nice(-20)", "failed", DENIED),
    Attempt(
        "mount",
        "mount a file system",
        LIBC + "print(libc.mount(b'none', b'/', b'tmpfs', 0, None))\n" + ERRNO,
        "finished",
        "^-1\nOperation not permitted",
    ),
    Attempt("change the root", "call chroot", "import os\nos.chroot('/')", "failed", DENIED),
    Attempt(
        "new namespaces",
        "become administrator of one",
        LIBC + "print(libc.unshare(0x10000000))\n" + ERRNO,
        "finished",
        "^-1\nOperation not permitted",
    ),
    Attempt(
        "around the filter",
        "set up io_uring, which opens files without system calls",
        LIBC + "print(libc.syscall(425, 8, bytes(120)))\n" + ERRNO,
        "finished",
        "^-1\nOperation not permitted",
    ),
    Attempt(
        "another numbering",
        "make a system call of 32-bit programs",
        "import ctypes, mmap\ncode = mmap.mmap(-1, 4096, prot=7)\ncode.write(bytes.fromhex('b814000000cd80c3'))\n"
        "print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))())",
        "killed",
        "^$",
        machine="x86_64",
    ),
    Attempt(
        "type for the user",
        "put words into the terminal",
        "import fcntl\nfcntl.ioctl(0, 0x5412, b'x')",
        "failed",
        DENIED,
    ),
    Attempt(
        "deceive the guard",
        "say on every open file that it has finished",
        "import os\nfor i in range(3, 99):\n    try: os.write(i, b'ready')\n    except OSError: pass\nwhile True: pass",
        "time",
        "^$",
        STALL,
    ),
)

ON_FILES = (
    "read a user's file",
    "list /",
    "environment of the parent",
    "installed packages",
    "write outside",
    "delete",
    "truncate",
    "change the library",
    "symbolic link",
    "many files",
    "trace the parent",
)
"""Those that Landlock and namespaces each have to answer alone, as far as there is a folder to write in."""
