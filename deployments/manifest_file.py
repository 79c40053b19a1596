"""Manifests as files."""

from pathlib import Path
from typing import NamedTuple

from state.errors import UsageInvalid
from state.manifest.load import load_manifest
from state.manifest.model import Manifest
from tasks.zones import zone_mistake

LONGEST_MANIFEST = 1 << 20
"""Bytes that are read of a manifest; the loader's own limit is below that and says so."""


class Source(NamedTuple):
    """A manifest with the text that it was read from."""

    text: str
    manifest: Manifest


def read_manifest(path: Path) -> Manifest:
    """Raises UsageInvalid for a file that cannot be read, ManifestInvalid with all its mistakes."""
    return read_source(path).manifest


def read_source(path: Path) -> Source:
    """Raises UsageInvalid for a file that cannot be read, ManifestInvalid with all its mistakes."""
    try:
        with path.open("rb") as file:
            text = file.read(LONGEST_MANIFEST + 1).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageInvalid(
            f"{path} is no UTF-8 text: {error.reason} at byte {error.start}", hint="save it as UTF-8"
        ) from error
    except OSError as error:
        raise UsageInvalid(f"Cannot read {path}: {error.strerror}", hint="name a manifest file") from error
    return Source(text, load_manifest(text, str(path), zone_mistake))
