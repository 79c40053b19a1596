"""`python -m sglang serve …`, as the console script `sglang` runs it; the same of vLLM where the package is `vllm`."""

import sys

from .entry import main

_ENGINE = "vllm" if __package__ == "vllm" else "sglang"
_USAGE = f"usage: {_ENGINE} {{serve,version}} [...]\n"

if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        main(sys.argv[2:], legacy_entry=False, engine=_ENGINE)
    elif sys.argv[1:2] in (["version"], ["--version"]):
        main(["--version"], legacy_entry=False, engine=_ENGINE)
    else:
        sys.stderr.write(_USAGE)
        sys.exit(2)
