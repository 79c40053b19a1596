"""What the README shows works."""

import re
from pathlib import Path

from state.engines.engine import engine_for
from state.manifest.load import load_manifest
from state.planning import Installed, target_of
from state.revision import render
from state.stated_claims import manifest_claims

README = Path(__file__).parents[2] / "README.md"
KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIE0pRMdH7nYbGJcMHBMQOWCzMYSFTqnMLKFqrCTF4pfE"


def test_the_manifest_in_the_readme_is_whole_and_derives_its_claims() -> None:
    text = re.search(r"```yaml\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert text is not None
    revision = render(load_manifest(text[1].replace("AAAA…", KEY), "README.md"))
    claims = engine_for(revision.engine).derive(target_of(revision, Installed(None, {})))
    names = {claim.name for claim in (*claims, *manifest_claims(revision.claims))}
    assert {"speculative-algorithm", "draft-weights", "mem-fraction-static", "answers", "accept-length"} <= names


def test_every_file_that_the_readme_links_to_exists() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README.read_text(encoding="utf-8"))
    assert len(links) > 8
    assert [link for link in links if not (README.parent / link).exists()] == []
