#!/usr/bin/env python3
"""Fails when core, kernels, linear, policies or roles call what their rooms must not know.

No environment, thread, clock, file, memory mapping or randomness of their own: those are passed in.
Usage: tools/check_symbols.py BUILD_DIRECTORY
"""
import pathlib
import re
import subprocess
import sys

ROOMS = ("core", "kernels", "linear", "policies", "roles")
BANNED = {
    "the environment": r"(secure_)?getenv|setenv|putenv",
    "threads": r"pthread_\w+|thrd_\w+|mtx_\w+|cnd_\w+|sem_\w+|std::thread::.*|"
               r"std::condition_variable.*|std::this_thread.*",
    "the clock": r"clock|time|clock_\w+|gettimeofday|nanosleep|usleep|sleep|std::chrono::.*",
    "files": r"f?open(64)?|openat(64)?|freopen(64)?|fread|fwrite_unlocked|read|write|p(read|write)"
             r"(64)?|std::basic_[io]?f(stream|ilebuf).*|std::filesystem.*",
    "memory mapping": r"mmap(64)?|munmap|madvise|mprotect|sbrk|shm_open",
    "randomness": r"s?rand(om)?|rand_r|getrandom|arc4random|std::random_device.*",
    "standard output": r"printf|puts|putchar|std::cout|std::clog|std::cerr",
}


def main() -> int:
    build = pathlib.Path(sys.argv[1])
    found = 0
    for room in ROOMS:
        library = build / "src" / f"libquire_{room}.a"
        listing = subprocess.run(["nm", "--undefined-only", "--demangle", "--print-file-name",
                                  str(library)], capture_output=True, text=True, check=True)
        for line in listing.stdout.splitlines():
            where, _, symbol = line.partition(" U ")
            symbol = symbol.strip().split("@")[0]
            for what, pattern in BANNED.items():
                if re.fullmatch(rf"(?:{pattern})(?:\(.*)?", symbol):
                    print(f"{room} may not know {what}: {symbol} in {where.split(':')[-2]}")
                    found += 1
    print(f"{', '.join(ROOMS)}: {found} banned symbols")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
