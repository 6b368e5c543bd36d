# SPDX-License-Identifier: Apache-2.0
"""The log of nova's scheduler about new servers, as a release of nova writes it.

Run this in the checkout with the Python of a release of nova: ``python -m lab.scheduler_log FILE``,
with ``--debug`` for ``[DEFAULT]debug``. Each line of stdin is a server of ``lab.api_refusals`` (its
way is ``boot``) with ``candidates``: whether Placement has any. It prints ``{request, stage}``.
"""

from __future__ import annotations

import json
import logging
import os
import sys

# The first import selects the backend of threads.
import nova.api.openstack  # noqa: F401
from nova import config
from oslo_context import context
from oslo_log import log

from lab import api_refusals, nova_process


def main(path: str, *options: str) -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    oracle = api_refusals.Oracle()
    process = oracle._process
    logging.disable(logging.NOTSET)
    config.CONF.set_override("debug", "--debug" in options)
    config.CONF.set_override("log_file", path)
    log.setup(config.CONF, "nova")
    candidates = oracle._candidates
    for line in sys.stdin:
        question = json.loads(line)
        has_candidates = question.pop("candidates")
        oracle._candidates = candidates if has_candidates else lambda _: nova_process.candidates({})
        process.operator.request_id = context.generate_request_id()
        answer = oracle.ask(api_refusals.Server(**question))
        answer = {"request": process.operator.request_id, "stage": answer.get("stage")}
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
