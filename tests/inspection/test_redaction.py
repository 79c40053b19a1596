# ruff: noqa: E501  # lines of logs and their patterns are shown whole
"""No secret leaves, whatever it stands in, and nothing else is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.inspection.answer import read_answer
from state.inspection.metrics import read_metrics
from state.inspection.text import without_secrets
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
    ("header-pair-of-bytes", f"[(b'host', b'x'), (b'x-api-key', b'{S}')]"),
    ("header-scheme", f"Authorization: ApiKey {S}"),
    ("header-in-a-query", f"authorization=Bearer%20{S}"),
    ("header-proxy", f"Proxy-Authorization: Basic {S}=="),
    ("cookie", f"Cookie: session={S}; a=b"),
    ("cookie-dict", f"'set-cookie': 'session={S}'"),
    ("curl-user", f"curl -s -u op:{S} http://x"),
    ("url-token", f"https://{S}0123456789@github.com/x"),
    ("url-without-user", f"redis://:{S}@host:6379/0"),
    ("assignment-with-spaces", f"aws_secret_access_key = {S}"),
    ("environment-with-colon", f"HF_TOKEN:{S}"),
    ("environment-pass", f"DB_PASS={S}"),
    ("environment-pwd", f"MYSQL_PWD={S}"),
    ("signing-key", f"'watermark_key': '{S}'"),
    ("pem", f"-----BEGIN RSA PRIVATE KEY-----\nMIIE{S}\n{S}\n-----END RSA PRIVATE KEY-----"),
    ("pem-cut", f"-----BEGIN PRIVATE KEY-----\\nMIIE{S}"),
    ("gitlab", f"glpat-{S}{S}"),
    ("github-fine", f"github_pat_{S}{S}"),
    ("slack", f"xoxb-1-{S}"),
    ("nvidia", f"nvapi-{S}{S}"),
    ("google", f"AIzaSy{S}{S}{S}"),
    ("json-web-token", f"eyJhbGciOiJI.eyJ{S}.{S}"),
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
    "token_to_kv_pool_allocator memory leak detected", "http_code=200", "PWD=/root OLDPWD=/tmp", "ssh://git@host/x", "cookie jar is empty", "--user 1000:1000", "kv_cache_key=5", '{"api_key": null, "token": 5}',
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


@pytest.mark.parametrize("key", ["1234", "x", "0"])
def test_a_short_key_is_a_key(key: str) -> None:
    assert redact(f"--api-key {key} --port 1") == f"--api-key {REDACTED} --port 1"
    assert redact(f"api_key='{key}', tp_size=2") == f"api_key='{REDACTED}', tp_size=2"


def test_all_values_of_a_flag_are_hidden() -> None:
    assert redact_argv(("vllm", "serve", "--api-key", S, f"{S}2", "/m")) == (
        "vllm",
        "serve",
        "--api-key",
        REDACTED,
        REDACTED,
        "/m",
    )


def test_an_access_key_id_of_a_cloud_is_hidden() -> None:
    assert redact("AKIAIOSFODNN7EXAMPLE") == REDACTED


def test_what_is_kept_under_the_name_of_a_secret_is_hidden_whatever_it_is() -> None:
    kept = without_secrets(
        {"api_key": {"a": S, "b": [S]}, "admin_api_key": 12345678, "token": 5, "eos_token_id": 151645}
    )
    assert kept == {
        "api_key": {"a": REDACTED, "b": [REDACTED]},
        "admin_api_key": REDACTED,
        "token": 5,
        "eos_token_id": 151645,
    }


def test_labels_and_reasons_carry_no_secret() -> None:
    metrics = f'sglang:num_running_reqs{{model_name="https://op:{S}@host/m",api_key="{S}"}} 1\n'
    vllm = metrics.replace("sglang:num_running_reqs", "vllm:num_requests_running")
    answer = {"text": "x", "meta_info": {"finish_reason": {"type": f"abort: Bearer {S}"}}}
    for report in (read_metrics(metrics), read_metrics(vllm), read_answer(answer)):
        assert report.engine is not None
        assert S not in str(report)
