"""coreutils that change files (GNU coreutils 9.1)."""

from tasks.hosts.port import Completed
from tasks.practice.commands.call import Call, Table, ok, options, said, words_of
from tasks.practice.files import Entry


def _mode(text: str) -> int:
    return int(text, 8)


async def mkdir(call: Call) -> Completed:
    given, paths = options(call, "pm:", ["parents", "mode="])
    mode = _mode(given["m"]) if "m" in given else 0o755
    for path in paths:
        try:
            if not ("p" in given and call.files.exists(call.absolute(path))):
                call.must_change(_first_missing(call, path))
            call.files.mkdir(call.absolute(path), mode, parents="p" in given, owner=(call.user, call.user))
        except OSError as error:
            return said(call, f"cannot create directory ‘{path}’: {words_of(error)}")
    return ok()


def _first_missing(call: Call, path: str) -> str:
    here = call.absolute(path).rstrip("/")
    while (parent := here.rpartition("/")[0]) and not call.files.exists(parent):
        here = parent
    return here


async def install(call: Call) -> Completed:
    given, paths = options(call, "dTm:o:g:p")
    owner = (given.get("o", call.user), given.get("g", call.user))
    if ("o" in given or "g" in given) and not call.root:
        return said(call, f"cannot change ownership of '{paths[-1]}': Operation not permitted")
    mode = _mode(given.get("m", "755"))
    return _install_directories(call, paths, mode, owner) if "d" in given else _install_file(call, paths, mode, owner)


def _install_directories(call: Call, paths: list[str], mode: int, owner: tuple[str, str]) -> Completed:
    for path in paths:
        try:
            if not call.files.exists(path):
                call.must_change(_first_missing(call, path))
            call.files.mkdir(path, mode, parents=True, owner=owner)
            call.files.chmod(path, mode)
        except OSError as error:
            return said(call, f"cannot create directory ‘{path}’: {words_of(error)}")
    return ok()


def _install_file(call: Call, paths: list[str], mode: int, owner: tuple[str, str]) -> Completed:
    source, target = paths
    try:
        content = call.read(source)
    except OSError as error:
        return said(call, f"cannot stat '{source}': {words_of(error)}")
    try:
        call.must_change(target)
        if call.files.exists(target):
            call.files.remove(target)
        call.files.write(target, content, mode=mode, owner=owner)
    except IsADirectoryError:
        return said(call, f"cannot overwrite directory '{target}' with non-directory")
    except OSError as error:
        verb = "error writing" if call.files.full else "cannot create regular file"
        return said(call, f"{verb} '{target}': {words_of(error)}")
    return ok()


async def cp(call: Call) -> Completed:
    given, (source, target) = options(call, "Tpf", ["preserve="])
    kept = set(given.get("preserve", "mode,ownership,timestamps" if "p" in given else "").split(","))
    try:
        entry, content = call.files.stat(source), call.read(source)
    except OSError as error:
        return said(call, f"cannot stat '{source}': {words_of(error)}")
    if entry.kind == "directory":
        return said(call, f"-r not specified; omitting directory '{source}'")
    try:
        call.must_write(target)
        mode, owner = _preserved(entry, kept, call, fresh=not call.files.exists(target))
        call.files.write(target, content, mode=mode, owner=owner)
    except OSError as error:
        verb = "error writing" if call.files.full else "cannot create regular file"
        return said(call, f"{verb} '{target}': {words_of(error)}")
    return ok()


def _preserved(entry: Entry, kept: set[str], call: Call, *, fresh: bool) -> tuple[int | None, tuple[str, str] | None]:
    mode = entry.mode if fresh or kept & {"all", "mode"} else None
    if kept & {"all", "ownership"} and call.root:
        return mode, (entry.owner, entry.group)
    return mode, (call.user, call.user) if fresh else None


async def mv(call: Call) -> Completed:
    _, (source, target) = options(call, "Tf")
    try:
        entry = call.files.lstat(source)
    except OSError as error:
        return said(call, f"cannot stat '{source}': {words_of(error)}")
    try:
        call.must_change(source)
        call.must_change(target)
        call.files.rename(source, target)
    except IsADirectoryError:
        return said(call, f"cannot overwrite directory '{target}' with non-directory")
    except NotADirectoryError:
        if entry.kind == "directory":
            return said(call, f"cannot overwrite non-directory '{target}' with directory '{source}'")
        return said(call, f"cannot move '{source}' to '{target}': Not a directory")
    except OSError as error:
        return said(call, f"cannot move '{source}' to '{target}': {words_of(error)}")
    return ok()


async def rm(call: Call) -> Completed:
    _, paths = options(call, "f")
    err = b""
    for path in paths:
        try:
            if call.files.lstat(path).kind == "directory":
                raise IsADirectoryError(21, "Is a directory")
            call.must_change(path)
            call.files.remove(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            err += f"rm: cannot remove '{path}': {words_of(error)}\n".encode()
    return Completed(1 if err else 0, b"", err)


async def rmdir(call: Call) -> Completed:
    _, paths = options(call)
    for path in paths:
        try:
            if call.files.lstat(path).kind != "directory":
                raise NotADirectoryError(20, "Not a directory")
            call.must_change(path)
            call.files.remove(path)
        except OSError as error:
            return said(call, f"failed to remove '{path}': {words_of(error)}")
    return ok()


async def ln(call: Call) -> Completed:
    _, (target, path) = options(call, "sT")
    try:
        call.must_change(path)
        call.files.symlink(target, path)
    except OSError as error:
        return said(call, f"failed to create symbolic link '{path}': {words_of(error)}")
    return ok()


async def chmod(call: Call) -> Completed:
    _, (mode, *paths) = options(call)
    for path in paths:
        try:
            if not call.root and call.files.stat(path).owner != call.user:
                return said(call, f"changing permissions of '{path}': Operation not permitted")
            call.files.chmod(path, _mode(mode))
        except OSError as error:
            return said(call, f"cannot access '{path}': {words_of(error)}")
    return ok()


async def sync(call: Call) -> Completed:
    _, paths = options(call, "df")
    for path in paths:
        try:
            call.read(path) if call.files.stat(path).kind == "file" else call.files.names(path)
        except OSError as error:
            return said(call, f"error opening '{path}': {words_of(error)}")
    return ok()


async def tee(call: Call) -> Completed:
    _, paths = options(call, "a")
    err = b""
    for path in paths:
        try:
            call.must_write(path)
            real = call.files.resolve(call.absolute(path))
            if call.files.layer(real) is not None:
                await call.machine.pci.write(real, call.stdin.decode("utf-8", "replace"))
            else:
                fresh = not call.files.exists(real)
                call.files.write(real, call.stdin, owner=(call.user, call.user) if fresh else None)
        except OSError as error:
            err += f"tee: {path}: {words_of(error)}\n".encode()
    return Completed(1 if err else 0, call.stdin, err)


async def df(call: Call) -> Completed:
    _, paths = options(call, "B:", ["output="])
    for path in paths:
        try:
            call.files.stat(path)
        except OSError as error:
            return said(call, f"{path}: {words_of(error)}")
    free = str(call.files.free())
    width = max(len("Avail"), len(free))
    return ok(f"{'Avail':>{width}}\n" + f"{free:>{width}}\n" * len(paths))


PROGRAMS: Table = {
    "mkdir": mkdir,
    "install": install,
    "cp": cp,
    "mv": mv,
    "rm": rm,
    "rmdir": rmdir,
    "ln": ln,
    "chmod": chmod,
    "sync": sync,
    "tee": tee,
    "df": df,
}
