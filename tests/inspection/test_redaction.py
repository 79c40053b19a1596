# ruff: noqa: E501  # lines of logs and their patterns are shown whole
"""No secret leaves, whatever it stands in, and nothing else is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.redaction import REDACTED, is_secret_name, redact, redact_argv, redact_bytes

S = "s3cr3tVALUE99"

SECRETS = (
    ("repr", f"server_args=ServerArgs(model_path='/m', api_key='{S}', admin_api_key=None, tp_size=2)"),
    ("repr-double-quotes", f'ServerArgs(api_key="it\'s{S}")'),
    ("dict", f"server_args={{'api_key': '{S}', 'tp_size': 2}}"),
    ("json", f'{{"api_key": "{S}", "admin_api_key": null}}'),
    ("json-in-json", f'{{\\"api_key\\": \\"{S}\\"}}'),
    ("list-value", f"api_keys=['{S}', 'other{S}']"),
    ("bytes", f"'api_key': b'{S}'"),
    ("argv-space", f"python -m sglang.launch_server --api-key {S} --host x"),
    ("argv-equals", f"--admin-api-key={S}"),
    ("argv-nul", f"vllm\x00serve\x00--api-key\x00{S}\x00--port\x001"),
    ("argv-repr", f"['--api-key', '{S}', '--x']"),
    ("argv-json", f'["--api-key", "{S}"]'),
    ("argv-quoted", f"--api-key '{S}'"),
    ("environment", f"HF_TOKEN={S}\x00PORT=1"),
    ("environment-unit", f'Environment="HUGGING_FACE_HUB_TOKEN={S}" PORT=1'),
    ("environment-cloud", f"AWS_SECRET_ACCESS_KEY={S}"),
    ("header", f"Authorization: Bearer {S}"),
    ("header-dict", f"{{'authorization': 'Bearer {S}'}}"),
    ("header-pair", f"('Authorization', 'Bearer {S}')"),
    ("header-curl", f"curl -H 'Authorization: Bearer {S}' http://x"),
    ("header-bare", f"Authorization: {S}"),
    ("header-key", f"x-api-key: {S}"),
    ("query", f"GET /v1?api_key={S}&x=1"),
    ("url", f"https://user:{S}@host/path"),
    ("database-url", f"postgresql+asyncpg://user:{S}@host:5432/db"),
    ("yaml", f"api_key: {S}"),
    ("password", f"'ssl_keyfile_password': '{S}'"),
    ("cut-in-the-secret", f"api_key='{S}"),
)


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in SECRETS])
def test_a_secret_is_replaced(text: str) -> None:
    shown = redact(text)
    assert S not in shown
    assert REDACTED in shown
    assert redact(shown) == shown
    assert redact_bytes(text.encode()) == shown.encode()


INNOCENT = (
    "max_total_tokens=1234, num_tokens=5, tokenizer_path='/m/tok', max_total_num_tokens=99999",
    "tokenizer_mode='auto', api_key=None, skip_tokenizer_init=False",
    "#new-token: 512, #full token: 8123, full token usage: 0.02, input throughput (token/s): 3.00",
    "#gpu token: 123456, token: 640000, num_tokens_per_req=4, accepted_tokens=3",
    "speculative_token_map=None, 'speculative_token_map': '/m/hot.pt', --speculative-token-map /a/b",
    "--max-total-tokens 1000 --tokenizer-path /x", "eos_token_id=151645, bos_token='<s>', pad_token=xyz, stop_token_ids=[1, 2]",
    "sort_keys=True, key=value, monkey='x'", "http://127.0.0.1:30000/x@y", "Bearer authentication failed", "api_key=$KEY ${TOKEN}",
    "token_to_kv_pool_allocator memory leak detected", "http_code=200", '{"api_key": null, "token": 5}',
)  # fmt: skip


@pytest.mark.parametrize("text", INNOCENT)
def test_nothing_else_is_taken_for_a_secret(text: str) -> None:
    assert redact(text) == text


@given(st.text(max_size=200))
def test_redaction_is_total_and_settles(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@given(st.binary(max_size=200))
def test_bytes_that_are_no_text_are_kept(data: bytes) -> None:
    assert redact_bytes(data + b"\xff") is not None


@pytest.mark.parametrize(
    ("name", "secret"),
    [("api_key", True), ("HF_TOKEN", True), ("ssl_keyfile_password", True), ("--api-key", True), ("AWS_SECRET_ACCESS_KEY", True),
     ("max_total_tokens", False), ("tokenizer_path", False), ("eos_token", False), ("speculative_token_map", False), ("sort_keys", False)],
)  # fmt: skip
def test_names_of_secrets(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


def test_an_argv_hides_the_word_behind_the_flag() -> None:
    argv = ("vllm", "serve", "/m", "--api-key", S, "--port", "1", f"--hf-token={S}", "--trust-remote-code")
    assert redact_argv(argv) == (
        "vllm",
        "serve",
        "/m",
        "--api-key",
        REDACTED,
        "--port",
        "1",
        f"--hf-token={REDACTED}",
        "--trust-remote-code",
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("proxy http://op:Zq7-planted.9f3", f"proxy http://op:{REDACTED}"),
        ("http://host:30000", "http://host:30000"),
        ("http://host:30000/v1", "http://host:30000/v1"),
    ],
)
def test_a_password_in_a_url_that_is_cut_off_is_hidden(text: str, shown: str) -> None:
    assert redact(text) == shown
