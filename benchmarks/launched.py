"""Runs a program and tells what it took: `python -S launched.py REPORT PROGRAM [ARG ...]`.

A small process of its own, since the kernel counts the memory of whoever starts a program into that program's peak
(Linux: `ru_maxrss` of getrusage(2) keeps the high-water mark of the memory that exec replaces). REPORT gets one JSON
object: `wall` and `cpu` in seconds, `peak_mb`. Ends as the program does.
"""

import json
import os
import sys
import time

if __name__ == "__main__":
    report, *argv = sys.argv[1:]
    begun = time.perf_counter()
    _, status, usage = os.wait4(os.posix_spawnp(argv[0], argv, os.environ), 0)
    wall = time.perf_counter() - begun
    with open(report, "w", encoding="utf-8") as file:
        json.dump({"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "peak_mb": usage.ru_maxrss / 1024}, file)
    sys.exit(os.waitstatus_to_exitcode(status))
