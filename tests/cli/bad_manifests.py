"""Manifests with one mistake each: what is put where in the reference's example, the field that is named, and words of
what was expected."""

import copy
from typing import Any

GONE = object()
"""The field is taken out."""

EDITS: tuple[tuple[str, Any, str, str], ...] = (
    ("interlock", 2, "interlock", "1, the version of the manifest's format"),
    ("interlock", "1", "interlock", "1, the version of the manifest's format"),
    ("interlock", None, "interlock", "1, the version of the manifest's format"),
    ("interlock", GONE, "interlock", "1, the version of the manifest's format"),
    ("service", GONE, "service", "a name of lower-case letters, digits, - and ."),
    ("service", "", "service", "a name of lower-case letters, digits, - and ."),
    ("service", "a b", "service", "a name of lower-case letters, digits, - and ."),
    ("service", "../x", "service", "a name of lower-case letters, digits, - and ."),
    ("service", "x" * 300, "service", "a name of lower-case letters, digits, - and ."),
    ("service", ["a"], "service", "a name of lower-case letters, digits, - and ."),
    ("service", 7, "service", "text, so put it in quotes"),
    ("service", "Qwen\n", "service", "a name of lower-case letters, digits, - and ."),
    ("hosts", GONE, "hosts", "a mapping of names to hosts"),
    ("hosts", {}, "hosts", "a mapping of names to hosts"),
    ("hosts", [], "hosts", "a mapping of names to hosts"),
    ("hosts.serving.address", GONE, "hosts.serving.address", "a host name or an IP address"),
    ("hosts.serving.address", "", "hosts.serving.address", "a name or an IP address, without user and port"),
    ("hosts.serving.address", "a b", "hosts.serving.address", "a name or an IP address, without user and port"),
    ("hosts.serving.address", "http://x", "hosts.serving.address", "a name or an IP address, without user and port"),
    (
        "hosts.serving.address",
        "-oProxyCommand=x",
        "hosts.serving.address",
        "a name or an IP address, without user and port",
    ),
    ("hosts.serving.user", GONE, "hosts.serving.user", "the user to log in as"),
    ("hosts.serving.user", "root; id", "hosts.serving.user", "the user to log in as"),
    ("hosts.serving.become", "su", "hosts.serving.become", "`sudo`, or null where the user needs no more"),
    ("hosts.serving.host_key", "AAAA", "hosts.serving.host_key", 'a public key line such as "ssh-ed25519'),
    ("hosts.serving.port", 0, "hosts.serving.port", "a port from 1 to 65535"),
    ("hosts.serving.port", 70000, "hosts.serving.port", "a port from 1 to 65535"),
    ("hosts.serving.port", "22", "hosts.serving.port", "a port from 1 to 65535"),
    ("hosts.serving.password", "x", "hosts.serving.password", "one of address, user, become, host_key, port"),
    ("unit", GONE, "unit", "a mapping that describes the systemd unit"),
    ("unit.host", "nowhere", "unit.host", "one of serving, hypervisor"),
    ("unit.name", "sglang", "unit.name", "a name such as sglang-qwen.service"),
    ("unit.name", "../a.service", "unit.name", "a unit name, not a path"),
    ("unit.name", "a.timer", "unit.name", "a name such as sglang-qwen.service"),
    ("unit.user", "", "unit.user", "the user that the engine runs as"),
    ("unit.user", "a:b", "unit.user", "the user that the engine runs as"),
    ("unit.working_directory", "relative", "unit.working_directory", "one that begins with /"),
    ("unit.working_directory", "/a/../b", "unit.working_directory", "a path without them"),
    ("unit.environment.NCCL_P2P_DISABLE", 1, "unit.environment.NCCL_P2P_DISABLE", "text, so put it in quotes"),
    ("unit.environment", {"1X": "a"}, "unit.environment.1X", "a mapping of variable names to text on one line"),
    (
        "unit.environment",
        {"API_KEY": "sk-123456789012345678901234"},
        "unit.environment.API_KEY",
        "it in a root-only file on the host that is",
    ),
    ("unit.secrets", ["relative.env"], "unit.secrets[0]", "one that begins with /"),
    ("unit.limits", {"LimitFOO": 1}, "unit.limits.LimitFOO", "one of CPUWeight, IOWeight, LimitAS, LimitCORE,"),
    ("unit.limits.LimitNOFILE", "many", "unit.limits.LimitNOFILE", "a number, one such as 512G or 80%, or infinity"),
    ("unit.restart", "sometimes", "unit.restart", '"no" (in quotes), on-failure or always'),
    ("unit.restart", False, "unit.restart", '"no" (in quotes), on-failure or always'),
    ("unit.stop.drain", "soon", "unit.stop.drain", "one such as 90s, 10m or 1h30m"),
    ("unit.stop.drain", -1, "unit.stop.drain", "seconds from 0 up"),
    ("unit.stop.timeout", "1 fortnight", "unit.stop.timeout", "one such as 90s, 10m or 1h30m"),
    ("unit.stop", {"timeout": "0s"}, "unit.stop.timeout", "a duration such as 90s"),
    ("unit.stop.leftovers", "ignore", "unit.stop.leftovers", "`refuse` or `kill`"),
    ("unit.description", "a\nb", "unit.description", "text on one line that ends with neither a space"),
    ("unit.colour", "red", "unit.colour", "one of host, name, user, group, environment,"),
    ("engine", GONE, "engine", "a mapping that describes the engine"),
    ("engine.kind", "tgi", "engine.kind", "`sglang` or `vllm` or `llamacpp`"),
    ("engine.kind", GONE, "engine.kind", "an engine, such as `sglang`"),
    ("engine.command", [], "engine.command", "a list of words, the first an absolute path"),
    ("engine.command", "python -m x", "engine.command", "a list of words, the first an absolute path"),
    ("engine.command", ["python"], "engine.command[0]", "the program's full path"),
    ("engine.endpoint", "127.0.0.1:30000", "engine.endpoint", "http://HOST:PORT, such as http://127.0.0.1:30000"),
    (
        "engine.endpoint",
        "https://127.0.0.1:30000",
        "engine.endpoint",
        "http://HOST:PORT, such as http://127.0.0.1:30000",
    ),
    ("engine.endpoint", "http://127.0.0.1", "engine.endpoint", "http://HOST:PORT, such as http://127.0.0.1:30000"),
    (
        "engine.endpoint",
        "http://127.0.0.1:99999",
        "engine.endpoint",
        "http://HOST:PORT, such as http://127.0.0.1:30000",
    ),
    ("engine.offers", ["images"], "engine.offers[0]", "a list of what else the service offers:"),
    ("engine.arguments.tp-size", 4, "engine.arguments.tp-size", "the engine's Python name, `tp_size`"),
    ("engine.arguments.port", 1, "engine.endpoint", "the same port"),
    ("engine.arguments.api_key", "abc", "engine.arguments.api_key", "it in a file that only the service can read"),
    (
        "engine.arguments.speculative_eagle_topk",
        GONE,
        "engine.arguments.speculative_num_steps",
        "all of steps, topk and draft tokens, or none of",
    ),
    ("engine.arguments.mem_fraction_static", float("nan"), "engine.arguments.mem_fraction_static", "one"),
    ("engine.arguments", ["a"], "engine.arguments", "the engine's own names with a number, text, a"),
    ("gpus.host", "nowhere", "gpus.host", "one of serving, hypervisor"),
    ("gpus.drivers.nvidia", ["0000:81:00.0"], "gpus.drivers.vfio-pci[0]", "each GPU once"),
    ("gpus.drivers.nvidia", "0000:01:00.0", "gpus.drivers.nvidia", "a mapping of kernel drivers to lists of PCI"),
    (
        "gpus.drivers",
        {"no driver": ["0000:01:00.0"]},
        "gpus.drivers.no driver",
        "a mapping of kernel drivers to lists of PCI",
    ),
    ("gpus.persist", "always", "gpus.persist", "`none` or `boot`"),
    ("readiness.timeout", "10 minutes", "readiness.timeout", "one such as 90s, 10m or 1h30m"),
    ("readiness.timeout", True, "readiness.timeout", "one such as 90s, 10m or 1h30m"),
    ("readiness.timeout", 0, "readiness.timeout", "a duration of at least 1s, such as 10m"),
    ("readiness.retries", 3, "readiness.retries", "one of timeout"),
    ("claims", [{"claim": "speed"}], "claims[0]", "one of accept-length, throughput,"),
    ("claims", [{"at_least": 2}], "claims[0]", "`claim` with one of accept-length, throughput,"),
    ("claims", [{"claim": "accept-length"}], "claims[0].at_least", "a number from 1 up, or a change such as -5%"),
    (
        "claims",
        [{"claim": "accept-length", "at_least": -1}],
        "claims[0].at_least",
        "a number from 1 up, or a change such as -5%",
    ),
    (
        "claims",
        [{"claim": "accept-length", "at_least": 2.0, "confidence": 1.5}],
        "claims[0].confidence",
        "a number from 0.5 to below 1",
    ),
    (
        "claims",
        [{"claim": "throughput", "at_least": "+12"}],
        "claims[0].at_least",
        "a change such as +12%, or a number of tokens a",
    ),
    (
        "claims",
        [{"claim": "throughput", "at_least": "+12%", "concurrency": [0]}],
        "claims[0].concurrency[0]",
        "a list of up to 8 whole numbers from 1 to 4096",
    ),
    ("claims", [{"claim": "goodput", "at_least": "95%"}], "claims[0].first_token", "a duration such as 2s"),
    ("claims", [{"claim": "answers", "at_least": "150%"}], "claims[0].at_least", "one such as 95%"),
    (
        "claims",
        [{"claim": "time-to-first-token", "at_most": "fast"}],
        "claims[0].at_most",
        "one such as 90s, 10m or 1h30m",
    ),
    ("claims", {"claim": "accept-length"}, "claims", "a list of claims, each a mapping with `claim`"),
    ("claims", ["accept-length"], "claims[0]", "a list of claims, each a mapping with `claim`"),
    (
        "claims",
        [{"claim": "answers", "at_least": "90%", "questions": [{"prompt": "x", "matches": "("}]}],
        "claims[0].questions[0].matches",
        "one in RE2's syntax",
    ),
    ("traffic.tokens", 0, "traffic.tokens", "a whole number from 8 to 16384"),
    ("traffic.budget", "x", "traffic.budget", "one such as 90s, 10m or 1h30m"),
    ("traffic.rate", -1, "traffic.rate", "a number of requests a second, above 0 and up"),
    ("traffic.prompts", [""], "traffic.prompts[0]", "the text of a prompt"),
    ("policy.inconclusive", "maybe", "policy.inconclusive", "`rollback`, `hold` or `accept`"),
    ("policy.soak", "-2m", "policy.soak", "one such as 90s, 10m or 1h30m"),
    ("policy.timer", "1s", "policy.timer", "a duration of at least 10s, such as 5m"),
    ("policy.attempts", 0, "policy.attempts", "a whole number from 1 to 10"),
    ("policy.hold.deadline", "", "policy.hold.deadline", "one such as 90s, 10m or 1h30m"),
    ("policy.hold.default", "ask", "policy.hold.default", "`rollback` or `accept`"),
    ("schedule", [{"cron": "every day", "revision": "day"}], "schedule[0].cron", 'five fields such as "0 7 * * 1-5"'),
    ("schedule", [{"cron": "0 7 * * 1-5"}], "schedule[0].revision", "the name of a manifest beside this one, without"),
    (
        "schedule",
        [{"cron": "0 7 * * 1-5", "revision": "day", "timezone": "Mars/Olympus"}],
        "schedule[0].timezone",
        "one such as Europe/Berlin",
    ),
    (
        "schedule",
        [{"cron": "0 7 * * 1-5", "revision": "../day"}],
        "schedule[0].revision",
        "the name of a manifest beside this one, without",
    ),
)

TEXTS = {
    "an-empty-file": ("", 1, "the file holds `null`; expected a mapping of fields"),
    "only-a-comment": ("# nothing\n", 1, "the file holds `null`; expected a mapping"),
    "a-list": ("- a\n", 1, "the file holds a list; expected a mapping"),
    "a-word": ("service", 1, "the file holds `service`; expected a mapping"),
    "a-tab": ("interlock: 1\n\tservice: x\n", 2, "the file is no YAML at column 1"),
    "a-bracket-that-is-not-closed": ("interlock: {a: 1\n", 2, "the file is no YAML at column 1"),
    "two-documents": ("interlock: 1\n---\ninterlock: 1\n", 2, "the file begins a second document"),
    "a-nul": ("interlock: 1\x00\n", 1, "the file has a character that YAML does not allow"),
    "a-bell": ("service: a\x07b\n", 1, "the file has a character that YAML does not allow"),
    "five-hundred-brackets": ("a: " + "[" * 500 + "]" * 500 + "\n", 1, "the file is nested deeper than 20 levels"),
}
"""Name -> text, the line that is named, and the sentence."""


def edited(base: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy in which the field at the dotted `path` has the value, or is gone."""
    made = copy.deepcopy(base)
    inner = made
    *above, last = path.split(".")
    for name in above:
        inner = inner[name]
    if value is GONE:
        inner.pop(last)
    else:
        inner[last] = value
    return made
