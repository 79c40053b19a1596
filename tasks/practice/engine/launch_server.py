"""`python -m sglang.launch_server …`, the engine's older entry point."""

import sys

from .entry import main

if __name__ == "__main__":
    main(sys.argv[1:], legacy_entry=True)
