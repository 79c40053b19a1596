"""What a checkpoint's own index says of it: how large its weights are, and whether it holds MTP layers. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

GB = 1e9
TOLERANCE = 0.10
"""Relative: tensors that are replicated on every rank (norms, embeddings without their parallel form), and padding."""

_MTP = re.compile(r"(^|\.)(mtp|mtp_layers|nextn)\.")
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")


class Loading(NamedTuple):
    """What an engine will load with its arguments: folders of the target and, if there is one, of a draft.

    `mtp` is the folder that must hold MTP layers, empty where none need be; `ranks` on `nodes` share the weights;
    `fraction` of a GPU's memory is the most that weights and caches together may take, None where the engine chooses.
    """

    model: str
    draft: str = ""
    mtp: str = ""
    ranks: int = 1
    fraction: float | None = None
    nodes: int = 1

    def same_weights(self, other: "Loading") -> bool:
        """Whether a start of the other one has as much of weights on each rank, whatever it leaves for caches."""
        return self._replace(fraction=None) == other._replace(fraction=None)


class Checkpoint(NamedTuple):
    """Bytes of all tensors, None where the index does not say; `mtp` None where it cannot be told."""

    total_bytes: int | None
    mtp: bool | None


class Gpu(NamedTuple):
    """Memory in bytes."""

    uuid: str
    total: int


def read_checkpoint(index: bytes, config: bytes = b"") -> Checkpoint | None:
    """From `model.safetensors.index.json` and `config.json`; None for a text that is no index.

    MTP layers are named `mtp.` (Qwen) or numbered on after the model's last layer (DeepSeek, GLM).
    """
    found, described = _object(index), _object(config)
    names = found.get("weight_map")
    if not isinstance(names, dict):
        return None
    metadata = found.get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    return Checkpoint(int(size) if isinstance(size, int | float) and size > 0 else None, _mtp(names, described))


def _mtp(names: Mapping[str, Any], config: Mapping[str, Any]) -> bool | None:
    if any(_MTP.search(name) for name in names):
        return True
    text = config.get("text_config")
    layers = (text if isinstance(text, dict) else config).get("num_hidden_layers")
    if not isinstance(layers, int):
        return None
    return any(int(match[1]) >= layers for name in names if (match := _LAYER.search(name)))


def _object(data: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def refusals(loading: Loading, known: Mapping[str, Checkpoint], gpus: tuple[Gpu, ...], host: str) -> Iterator[str]:
    """Why these arguments cannot work with these checkpoints on these GPUs, in sentences. No GPUs: none were seen."""
    wanted = known.get(loading.mtp)
    if loading.mtp and wanted is not None and wanted.mtp is False:
        yield (
            f"{loading.mtp} on {host} holds no MTP layers (no `mtp.` tensor in its index): every draft would be "
            "refused; name a checkpoint that has them, or take speculation out"
        )
    share, room = share_bytes(loading, known), _room(loading, gpus)
    if share is not None and room is not None and share > room:
        yield (
            f"the weights need {share / GB:.1f} GB on each of {loading.ranks} GPUs, but {room / GB:.1f} GB may be used "
            f"there ({_fraction(loading)}); use more ranks, a smaller checkpoint, or a larger fraction"
        )
    if gpus and len(gpus) * loading.nodes < loading.ranks:
        yield f"{loading.ranks} ranks are asked for, but {host} shows {len(gpus)} GPUs"


def fit(loading: Loading, known: Mapping[str, Checkpoint], gpus: tuple[Gpu, ...], loaded_gb: float | None) -> str:
    """One sentence about the fit: estimated, checked against what an earlier start of this model loaded."""
    share, room = share_bytes(loading, known), _room(loading, gpus)
    if share is None:
        return "the fit of memory was not checked: the checkpoint has no index that tells its size"
    told = f"the weights need about {share / GB:.1f} GB on each of {loading.ranks} GPUs"
    if room is not None:
        told += f", of {room / GB:.1f} GB that may be used there"
    else:
        told += "; how much a GPU has could not be read"
    return told + (f"; an earlier start loaded {loaded_gb:.1f} GB" if loaded_gb is not None else "")


def doubts(loading: Loading, known: Mapping[str, Checkpoint], loaded_gb: float | None) -> Iterator[str]:
    """An estimate that an earlier start of the same model contradicts is no estimate."""
    share = share_bytes(loading, known)
    if share is None or loaded_gb is None:
        return
    if abs(share / GB - loaded_gb) > 2 * TOLERANCE * max(share / GB, loaded_gb):
        yield (
            f"the checkpoint's index says {share / GB:.1f} GB on each GPU, but an earlier start loaded "
            f"{loaded_gb:.1f} GB: the checkpoint was changed, or is quantised while it is loaded"
        )


def share_bytes(loading: Loading, known: Mapping[str, Checkpoint]) -> float | None:
    """Weights of target and draft on one rank, None where the target's size is not known."""
    target = known.get(loading.model)
    if target is None or target.total_bytes is None:
        return None
    draft = known.get(loading.draft) if loading.draft != loading.model else None
    return (target.total_bytes + (draft.total_bytes or 0 if draft else 0)) / loading.ranks


def _room(loading: Loading, gpus: tuple[Gpu, ...]) -> float | None:
    """What the smallest GPU lets one rank use."""
    if not gpus:
        return None
    return min(gpu.total for gpu in gpus) * (loading.fraction if loading.fraction is not None else 1.0)


def _fraction(loading: Loading) -> str:
    return f"{loading.fraction:g} of the GPU" if loading.fraction is not None else "the whole GPU"
