"""A stand-in for SGLang: it simulates the engine's words, order of events and endpoints, and serves no model.

Python's standard library only, so that a copy of these files runs as `sglang` on a bare host (`install.py` and
`memory.py` stay behind). What it imitates, by version: SGLang 0.5.9 to 0.5.23, read from its sources, with captures of
a real 0.5.17. Relative imports throughout, because the same files are `tasks.practice.engine` here and `sglang` where
they are installed.
"""


def __getattr__(name: str) -> str:
    if name == "__version__":
        import os

        from .versions import version_among

        return version_among(os.listdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    raise AttributeError(name)
