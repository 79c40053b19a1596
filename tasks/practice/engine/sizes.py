"""What fits on a GPU: weights, draft, Mamba state, KV cache and graphs of one rank, in GB (2^30 bytes)."""

from __future__ import annotations

from dataclasses import dataclass

from .launch import Launch
from .models import GIB

_CONTEXT_GB = 0.62  # CUDA context and NCCL buffers
_MAMBA_SLOT_GB = 0.0095
_SLOTS_PER_REQUEST = 5
_GRAPH_GB = {"target decode": 0.31, "target verify": 0.42, "draft decode": 0.11, "draft extend": 0.08}
_LEAST_POOL_GB = 0.5
_LEAST_FREE_GB = 1.2


@dataclass(frozen=True)
class Sizes:
    """`available` is what is free after the distributed set-up; a rank's own part of everything else."""

    available: float
    weights: float
    draft: float
    pool: float
    mamba: float
    mamba_slots: int
    intermediate: float
    kv: float
    tokens: int
    graphs: dict[str, float]

    @property
    def fits(self) -> bool:
        """False where no room is left for a cache beside the weights: --mem-fraction-static is too low."""
        return self.pool >= _LEAST_POOL_GB

    @property
    def graphs_fit(self) -> bool:
        """False where the pools leave too little for graph capture: --mem-fraction-static is too high."""
        return self.after_pools - sum(self.graphs.values()) >= _LEAST_FREE_GB

    @property
    def after_weights(self) -> float:
        return self.available - self.weights - self.draft

    @property
    def after_pools(self) -> float:
        return self.after_weights - max(self.pool, 0.0)


def sizes_of(launch: Launch) -> Sizes:
    resolved, model = launch.resolved, launch.model
    ranks = max(1, resolved.integer("tp_size"))
    available = launch.settings.gpu_gb - _CONTEXT_GB
    weights, draft = model.weight_bytes / ranks / GIB, launch.draft_bytes / ranks / GIB
    pool = available * resolved.fraction("mem_fraction_static") - weights - draft
    ratio = resolved.fraction("mamba_full_memory_ratio") or 0.9
    mamba = max(pool, 0.0) * ratio / (1 + ratio) if model.hybrid else 0.0
    intermediate = 0.02 * resolved.integer("max_running_requests") if model.hybrid and resolved.speculation else 0.0
    kv = max(0.0, pool - mamba)
    tokens = int(kv * GIB / max(1, model.kv_bytes_per_token // ranks))
    wanted = resolved.integer("max_total_tokens")
    return Sizes(
        available=available,
        weights=weights,
        draft=draft,
        pool=pool,
        mamba=mamba,
        mamba_slots=resolved.integer("max_mamba_cache_size") or int(mamba / _MAMBA_SLOT_GB),
        intermediate=min(intermediate, mamba / 4),
        kv=kv,
        tokens=min(tokens, wanted) if wanted else tokens,
        graphs=_graphs(launch),
    )


def _graphs(launch: Launch) -> dict[str, float]:
    """The graphs that this start captures, in order, with their memory."""
    resolved = launch.resolved
    if resolved.arguments.get("disable_cuda_graph"):
        return {}
    if not resolved.speculation:
        names = ["target decode"]
    elif resolved.integer("speculative_num_steps") > 1:
        names = ["target verify", "draft decode", "draft extend"]
    else:
        names = ["target verify", *(["draft extend"] if launch.draft else [])]
    return {name: _GRAPH_GB[name] for name in names}


def running_requests(launch: Launch, sizes: Sizes) -> int:
    """The limit on requests at once: as asked, but no more than the Mamba state slots allow."""
    asked = launch.resolved.integer("max_running_requests") or 2048
    return max(1, min(asked, sizes.mamba_slots // _SLOTS_PER_REQUEST)) if launch.model.hybrid else asked
