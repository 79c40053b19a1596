"""Asks a service for one token every 10 ms, from a process of its own, and writes down when a good answer came.

    python prober.py PORT FILE

Needs nothing but the standard library, since it runs inside the network of the host that it watches. Each line of FILE
is a JSON list: when the question was sent, when it was over (seconds since the epoch), and whether a generation came.
It ends with SIGTERM. The same probe waits for a service to be ready: `python prober.py PORT --until-good`.
"""

import http.client
import json
import signal
import sys
import time
from pathlib import Path

INTERVAL_S = 0.01
TIMEOUT_S = 2.0
BODY = json.dumps({"text": "The", "sampling_params": {"temperature": 0, "max_new_tokens": 1}})


def good(port: int) -> bool:
    """Whether a generation comes back."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("POST", "/generate", BODY, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status == 200 and b'"text"' in answer.read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def watch(port: int, path: Path) -> None:
    with path.open("w", encoding="utf-8", buffering=1) as file:
        while True:
            sent = time.time()
            answered = good(port)
            file.write(f"{json.dumps([sent, time.time(), answered])}\n")
            time.sleep(max(0.0, sent + INTERVAL_S - time.time()))


def until_good(port: int) -> None:
    while not good(port):
        time.sleep(INTERVAL_S)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.argv[2] == "--until-good":
        until_good(int(sys.argv[1]))
    else:
        watch(int(sys.argv[1]), Path(sys.argv[2]))
