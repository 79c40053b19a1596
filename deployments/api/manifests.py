"""The manifest that a request means: its own, as YAML text or a JSON object, or one that the server has on file."""

import asyncio
import json

from deployments.api.ports import Catalogue
from deployments.api.problems import OBJECT
from deployments.api.wanted import ManifestWanted
from state.errors import ManifestInvalid, UsageInvalid
from state.manifest.load import load_manifest
from state.manifest.model import Manifest
from tasks.zones import zone_mistake

TEXT = "manifest"
"""What a manifest that came as text is called in sentences about it."""


async def manifest_of(wanted: ManifestWanted, catalogue: Catalogue) -> Manifest:
    """Raises ManifestInvalid with every mistake, NotFound for a name that is not on file."""
    if wanted.service is not None and wanted.revision is not None:
        return await catalogue.manifest(wanted.service, wanted.revision)
    text, name = _text(wanted)
    # a large one takes long enough to hold others up
    return await asyncio.to_thread(load_manifest, text, name, zone_mistake)


def _text(wanted: ManifestWanted) -> tuple[str, str]:
    if isinstance(wanted.manifest, str):
        return _encodable(wanted.manifest), TEXT
    try:
        return _encodable(json.dumps(wanted.manifest, ensure_ascii=False)), OBJECT
    except RecursionError as error:
        raise ManifestInvalid(OBJECT, [f"{OBJECT}:1: the file is nested too deeply"]) from error


def _encodable(text: str) -> str:
    """JSON can spell half a surrogate pair, which is no character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageInvalid("The manifest has half a surrogate pair in it", hint="send it as UTF-8") from error
    return text
