"""Draws docs/images/demo.svg, the first rollout of `interlock demo`: PYTHONPATH=. python docs/images/draw.py"""

import asyncio
import io
import re
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from deployments.demo import demo

COLUMNS = 118
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace("Fira Code, ", "")
"""Rich's own, without its fonts, which would be fetched from elsewhere."""


def main() -> None:
    run = Console(record=True, width=COLUMNS, highlight=False, file=io.StringIO())
    asyncio.run(demo(run, as_json=False, bare=True, keep=""))
    lines = run.export_text(styles=True).splitlines()
    end = next(i for i, line in enumerate(lines) if "PROMOTED" in line)
    picture = Console(record=True, width=COLUMNS, file=io.StringIO())
    for line in lines[: end + 2]:
        picture.print(Text.from_ansi(line))
    svg = picture.export_svg(title="interlock apply", code_format=FORMAT)
    Path(__file__).with_name("demo.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
