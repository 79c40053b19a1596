"""Reading checkpoints and GPUs before a start: whether what is asked for can be loaded at all."""

from collections.abc import Mapping

from state.checkpoint import Checkpoint, Gpu, Loading, read_checkpoint
from tasks.argv import cat
from tasks.hosts.port import Argv, Host
from tasks.sequence import READ_TIMEOUT_S

MIB = 1 << 20
GPU_MEMORY = Argv(("nvidia-smi", "--query-gpu=uuid,memory.total", "--format=csv,noheader,nounits"))


async def read_loading(host: Host, loading: Loading) -> tuple[Mapping[str, Checkpoint], tuple[Gpu, ...]]:
    """Checkpoints by folder, as far as they have an index, and the GPUs that the driver shows; both may be empty, which
    proves nothing."""
    folders = [f for f in dict.fromkeys((loading.model, loading.draft, loading.mtp)) if f.startswith("/")]
    asked = [GPU_MEMORY]
    for folder in folders:
        asked += [cat(f"{folder}/model.safetensors.index.json"), cat(f"{folder}/config.json")]
    gpus, *files = await host.run_all(asked, timeout_s=READ_TIMEOUT_S)
    known = {}
    for number, folder in enumerate(folders):
        index, config = files[2 * number], files[2 * number + 1]
        read = read_checkpoint(index.stdout, config.stdout) if index.ok else None
        if read is not None:
            known[folder] = read
    return known, _gpus(gpus.text) if gpus.ok else ()


def _gpus(text: str) -> tuple[Gpu, ...]:
    found = []
    for line in text.splitlines():
        uuid, _, total = line.partition(",")
        if total.strip().isdigit():
            found.append(Gpu(uuid.strip(), int(total) * MIB))
    return tuple(found)
