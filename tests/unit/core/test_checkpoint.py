"""What a checkpoint's index says, and whether what is asked for can be loaded."""

import json
from typing import Any

import pytest

from state.checkpoint import Checkpoint, Gpu, Loading, doubts, fit, read_checkpoint, refusals
from state.engines.engine import engine_for

GIB = 1 << 30
CARD = Gpu("GPU-1", 96 * GIB)
MODEL = Loading("/m", ranks=4, fraction=0.75)
LARGE = Checkpoint(244 * 10**9, mtp=True)


def index(*names: str, size: object = 1000) -> bytes:
    return json.dumps({"metadata": {"total_size": size}, "weight_map": dict.fromkeys(names, "a.safetensors")}).encode()


@pytest.mark.parametrize(
    ("data", "config", "expected"),
    [
        pytest.param(index("model.layers.0.q"), {}, Checkpoint(1000, None), id="no MTP that can be told"),
        pytest.param(index("mtp.layers.0.q"), {}, Checkpoint(1000, True), id="Qwen's mtp tensors"),
        pytest.param(index("model.mtp.fc.weight"), {}, Checkpoint(1000, True), id="below the model"),
        pytest.param(
            index("model.layers.61.eh_proj"), {"num_hidden_layers": 61}, Checkpoint(1000, True), id="a layer on top"
        ),
        pytest.param(
            index("model.layers.60.q"), {"num_hidden_layers": 61}, Checkpoint(1000, False), id="only the model's layers"
        ),
        pytest.param(
            index("model.layers.3.q"),
            {"text_config": {"num_hidden_layers": 4}},
            Checkpoint(1000, False),
            id="a text part",
        ),
        pytest.param(index("a", size=None), {}, Checkpoint(None, None), id="no size"),
        pytest.param(index("a", size=0), {}, Checkpoint(None, None), id="a size of nothing"),
        pytest.param(b"{}", {}, None, id="no map"),
        pytest.param(b'{"weight_map": ', {}, None, id="cut"),
        pytest.param(b"[]", {}, None, id="a list"),
    ],
)
def test_what_an_index_says(data: bytes, config: dict[str, Any], expected: Checkpoint | None) -> None:
    assert read_checkpoint(data, json.dumps(config).encode()) == expected


@pytest.mark.parametrize(
    ("loading", "known", "gpus", "sentence"),
    [
        pytest.param(MODEL, {"/m": LARGE}, (CARD,) * 4, "", id="it fits"),
        pytest.param(
            MODEL._replace(ranks=2),
            {"/m": LARGE},
            (CARD,) * 2,
            "need 122.0 GB on each of 2 GPUs, but 77.3 GB",
            id="large",
        ),
        pytest.param(MODEL._replace(ranks=2), {"/m": LARGE}, (), "", id="no GPU seen: nothing is refused"),
        pytest.param(MODEL._replace(ranks=2), {}, (CARD,) * 2, "", id="no index: nothing is refused"),
        pytest.param(MODEL, {"/m": LARGE}, (CARD,) * 2, "4 ranks are asked for, but h shows 2 GPUs", id="too few GPUs"),
        pytest.param(
            MODEL._replace(nodes=2), {"/m": LARGE}, (CARD,) * 2, "", id="two of four GPUs on one of two nodes"
        ),
        pytest.param(
            MODEL._replace(mtp="/d"),
            {"/d": Checkpoint(1, False)},
            (),
            "/d on h holds no MTP layers",
            id="no MTP layers",
        ),
        pytest.param(MODEL._replace(mtp="/d"), {"/d": Checkpoint(1, None)}, (), "", id="MTP that cannot be told"),
        pytest.param(MODEL._replace(mtp="/d"), {}, (), "", id="no index of the draft"),
        pytest.param(
            MODEL._replace(draft="/d", fraction=0.6),
            {"/m": LARGE, "/d": Checkpoint(8 * 10**9, True)},
            (CARD,) * 4,
            "need 63.0 GB on each of 4 GPUs, but 61.8 GB may be used there (0.6 of the GPU)",
            id="the draft is too much",
        ),
    ],
)
def test_what_cannot_be_loaded_is_refused(
    loading: Loading, known: dict[str, Checkpoint], gpus: tuple[Gpu, ...], sentence: str
) -> None:
    found = list(refusals(loading, known, gpus, "h"))
    assert sentence in found[0] if sentence else found == [], found


@pytest.mark.parametrize(
    ("loaded", "doubted"),
    [
        pytest.param(None, False, id="no history"),
        pytest.param(61.0, False, id="as estimated"),
        pytest.param(57.0, False, id="within the tolerance"),
        pytest.param(30.0, True, id="half of it: quantised while loading"),
    ],
)
def test_the_estimate_is_checked_against_history(loaded: float | None, doubted: bool) -> None:
    assert bool(list(doubts(MODEL, {"/m": LARGE}, loaded))) is doubted
    told = fit(MODEL, {"/m": LARGE}, (CARD,), loaded)
    assert told.startswith("the weights need about 61.0 GB on each of 4 GPUs, of 77.3 GB that may be used there")
    assert (f"an earlier start loaded {loaded:.1f} GB" in told) if loaded else "earlier" not in told


@pytest.mark.parametrize(
    ("kind", "arguments", "expected"),
    [
        pytest.param("sglang", {"model_path": "/m"}, Loading("/m"), id="sglang alone"),
        pytest.param(
            "sglang",
            {"model_path": "/m", "tp_size": 4, "pp_size": 2, "mem_fraction_static": 0.7}
            | {"speculative_algorithm": "NEXTN"},
            Loading("/m", "", "/m", 8, 0.7),
            id="sglang with its own MTP layers",
        ),
        pytest.param(
            "sglang",
            {"model_path": "/m", "speculative_algorithm": "EAGLE3", "speculative_draft_model_path": "/d"},
            Loading("/m", "/d"),
            id="an EAGLE3 draft has no MTP layers",
        ),
        pytest.param(
            "sglang",
            {"model_path": "/m", "tp_size": 8, "nnodes": 2},
            Loading("/m", ranks=8, nodes=2),
            id="sglang on two nodes",
        ),
        pytest.param(
            "vllm",
            {"model": "/m", "tensor_parallel_size": 2, "speculative_config": {"method": "mtp"}},
            Loading("/m", "", "/m", 2, 0.9),
            id="vllm with its own MTP layers",
        ),
    ],
)
def test_engines_say_what_they_load(kind: str, arguments: dict[str, Any], expected: Loading) -> None:
    assert engine_for(kind).loading(arguments) == expected
