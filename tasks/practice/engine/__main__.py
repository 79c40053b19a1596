"""`python -m sglang serve …`, which is what the console script `sglang` runs."""

import sys

from .entry import main

_USAGE = "usage: sglang {serve,version} [...]\n"

if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        main(sys.argv[2:], legacy_entry=False)
    elif sys.argv[1:2] in (["version"], ["--version"]):
        main(["--version"], legacy_entry=False)
    else:
        sys.stderr.write(_USAGE)
        sys.exit(2)
