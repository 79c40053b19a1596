"""Launches and decoding runs of the stand-in without a process, straight from the installer's files."""

import re
from dataclasses import replace

from tasks.practice.engine.batch import Batch, Job
from tasks.practice.engine.faults import parse_faults
from tasks.practice.engine.install import QWEN, QWEN_MTP, engine_files
from tasks.practice.engine.launch import Launch, prepare, read_installation
from tasks.practice.engine.sizes import sizes_of
from tasks.practice.engine.versions import parse_version

FIELD = re.compile(r"(#?[A-Za-z][^:,]*?): (-?\d+(?:\.\d+)?|True|False)(?=,|$)")
TRIPLE = (
    "--speculative-algorithm NEXTN --speculative-num-steps 5 --speculative-eagle-topk 1"
    " --speculative-num-draft-tokens 6"
)


class Tree:
    """An installation as the engine reads it, straight from the installer's files."""

    def __init__(self) -> None:
        self._files = engine_files(models=(QWEN, QWEN_MTP))

    def read(self, path: str) -> bytes:
        if path not in self._files:
            raise FileNotFoundError(path)
        content = self._files[path].content
        return content.encode() if isinstance(content, str) else content

    def names(self, path: str) -> list[str]:
        return [name.rpartition("/")[2] for name in self._files if name.rpartition("/")[0] == path]


def launched(words: str = TRIPLE, version: str = "0.5.20", faults: str = "[]", **environment: str) -> Launch:
    tree = Tree()
    installation = read_installation(parse_version(version), "/opt/sglang", {}, tree)
    installation = replace(installation, faults=parse_faults(faults))
    argv = ["--model-path", QWEN.path, "--tp", "4", *words.split()]
    return prepare(installation, argv, environment, tree, legacy_entry=True)


def decoded(launch: Launch, tokens: int, jobs: int = 1) -> tuple[list[str], list[Job]]:
    batch, now = Batch(launch, sizes_of(launch), 0.0), 0.0
    made = [Job(str(i), ("p",) * (7 + i), ["x"] * tokens, "length", now) for i in range(jobs)]
    for job in made:
        batch.submit(job)
    lines = batch.prefill(now)
    while batch.busy:
        now += batch.cost(now)
        lines += batch.forward(now)
    return lines, made


def fields(line: str) -> dict[str, str]:
    return dict(FIELD.findall(line.split(" batch", 1)[1].lstrip(",. ")))
