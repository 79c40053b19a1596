"""Ansible callback: writes down when the last task that succeeded was over."""

import os
import time

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: when
type: aggregate
short_description: when the last task was over
description: Writes the seconds since the epoch to the file that INTERLOCK_BENCH_VERIFIED names.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "when"
    CALLBACK_NEEDS_ENABLED = True

    def v2_runner_on_ok(self, result):
        with open(os.environ["INTERLOCK_BENCH_VERIFIED"], "w", encoding="utf-8") as file:
            file.write(str(time.time()))
