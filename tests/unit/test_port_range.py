"""Which ports the kernel may give to outgoing connections, by the texts of its two settings."""

import pytest

from tasks.port_range import is_given_away

DEFAULT = "32768\t60999\n"


@pytest.mark.parametrize(
    ("port", "given", "reserved", "expected"),
    [
        pytest.param(30000, DEFAULT, "\n", False, id="below the range"),
        pytest.param(32768, DEFAULT, "\n", True, id="its first one"),
        pytest.param(60999, DEFAULT, "\n", True, id="its last one"),
        pytest.param(61000, DEFAULT, "\n", False, id="above the range"),
        pytest.param(40000, DEFAULT, "40000\n", False, id="reserved by itself"),
        pytest.param(40000, DEFAULT, "8080,39990-40010\n", False, id="reserved in a range"),
        pytest.param(40011, DEFAULT, "8080,39990-40010\n", True, id="beside the reserved ones"),
        pytest.param(40000, "", "", False, id="a host that does not say"),
        pytest.param(40000, "off\n", "?\n", False, id="words that are no numbers"),
    ],
)
def test_a_port_may_be_given_away(port: int, given: str, reserved: str, expected: bool) -> None:
    assert is_given_away(port, given, reserved) is expected
