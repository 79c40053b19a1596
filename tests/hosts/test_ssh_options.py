"""Addresses, and what a login refuses before anything is reached."""

from pathlib import Path

import asyncssh
import pytest

from tasks.hosts.ssh_options import Login, endpoint, hop_target, target


@pytest.mark.parametrize(
    ("address", "port", "host_and_port"),
    [
        pytest.param("gpu-1.example", None, ("gpu-1.example", None), id="a-name"),
        pytest.param("gpu-1.example:2222", None, ("gpu-1.example", 2222), id="a-name-and-port"),
        pytest.param("10.0.0.1", 2222, ("10.0.0.1", 2222), id="the-port-apart"),
        pytest.param("10.0.0.1:22", 2222, ("10.0.0.1", 2222), id="the-port-apart-comes-first"),
        pytest.param("fe80::1%eth0", None, ("fe80::1%eth0", None), id="ipv6"),
        pytest.param("[2001:db8::1]:2222", None, ("2001:db8::1", 2222), id="ipv6-and-port"),
        pytest.param("[2001:db8::1]", None, ("2001:db8::1", None), id="ipv6-in-brackets"),
    ],
)
def test_endpoint(address: str, port: int | None, host_and_port: tuple[str, int | None]) -> None:
    assert endpoint(address, port) == host_and_port


@pytest.mark.parametrize(
    "address", ["", ":22", "gpu-1:ssh", "il@gpu-1", "gpu 1", "[::1]x", "gpu-1:99999", "-oProxyCommand=x"]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match="Not an address"):
        Login(address, "il")


@pytest.mark.parametrize("line", ["", "ssh-ed25519", "ssh-ed25519 AAAA", "SHA256:abcdef"])
def test_a_host_key_is_an_openssh_public_key_line(line: str) -> None:
    with pytest.raises(ValueError, match="The host key of gpu-1 is no OpenSSH public key line"):
        Login("gpu-1", "il", host_key=line)


GCM = [b"aes256-gcm@openssh.com", b"aes128-gcm@openssh.com"]


@pytest.mark.parametrize(
    ("said", "first"),
    [
        pytest.param("", GCM, id="the cheap ones come first, and the others stay"),
        pytest.param("Ciphers aes128-ctr", [b"aes128-ctr"], id="what a configuration says stays"),
    ],
)
@pytest.mark.parametrize("hop", [False, True], ids=["the host", "a jump host"])
def test_ciphers(tmp_path: Path, said: str, first: list[bytes], *, hop: bool) -> None:
    config = tmp_path / "config"
    config.write_text(f"Host *\n  {said}\n", encoding="utf-8")
    login = Login("gpu-1", "il", config=[str(config)])
    aim = hop_target(login, "jump") if hop else target(login)
    found = asyncssh.SSHClientConnectionOptions(**{**aim.arguments, "tunnel": ()}, client_keys=None).encryption_algs
    assert list(found[: len(first)]) == first
    assert (b"chacha20-poly1305@openssh.com" in found) == (not said)
