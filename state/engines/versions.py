"""Release numbers of engines, as tuples that compare."""

Version = tuple[int, ...]


def release(version: str) -> Version:
    """The release numbers of a version: `0.5.10.post1` is (0, 5, 10)."""
    numbers = []
    for part in version.split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
