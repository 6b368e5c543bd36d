# SPDX-License-Identifier: Apache-2.0
"""Run nova-manage's heal_allocations and audit many times in one process.

Run this with the lab's Python and the checkout in PYTHONPATH:
``python -m lab.manage FOLDER PORT heal|audit STATE < ARGUMENTS.json``.
``heal`` takes a list of server UUIDs and heals each server separately, from the saved state of
that name; ``audit`` takes the list [delete]. The output is JSON: ``{code, output}`` and more.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import pathlib
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from nova.cmd import manage  # isort: skip (it must be the first that imports anything)

from nova import config, objects, utils

from lab import database, place

#: What heal_allocations writes.
WRITTEN = ("placement", "neutron")


class Oracle:
    """The nova-manage of a lab, and its placement to read the results."""

    def __init__(self, lab: place.Place, state: str) -> None:
        self._lab = lab
        self._state = state
        files = [str(lab.path("etc", "nova", "nova.conf"))]
        config.parse_args(["nova-manage"], default_config_files=files)
        logging.disable(logging.CRITICAL)
        objects.register_all()
        self._placement = utils.get_ksa_adapter("placement")

    def heal(self, uuid: str) -> dict[str, Any]:
        """Heal one server, starting from the saved state, and return the result."""
        before = self._consumer(uuid)
        outcome = _outcome(
            lambda: manage.PlacementCommands().heal_allocations(instance_uuid=uuid, verbose=True)
        )
        after, ports = self._consumer(uuid), self._ports(uuid)
        # A failed run may have written something, too.
        if outcome["code"] != 4:
            self.reset()
        return {**outcome, "changed": after != before, **after, "ports": ports}

    def audit(self, delete: bool) -> dict[str, Any]:
        """Audit the saved state; with ``delete``, keep the state after the audit."""
        return _outcome(lambda: manage.PlacementCommands().audit(verbose=True, delete=delete))

    def reset(self) -> None:
        database.reset(self._lab, self._state, *WRITTEN)

    def _consumer(self, uuid: str) -> dict[str, Any]:
        """``{allocations: {provider: resources}, project_id, user_id, consumer_type, …}``."""
        answer: dict[str, Any] = self._placement.get(
            f"/allocations/{uuid}", headers={"OpenStack-API-Version": "placement 1.39"}
        ).json()
        allocations = answer["allocations"]
        answer["allocations"] = {name: part["resources"] for name, part in allocations.items()}
        return answer

    def _ports(self, uuid: str) -> dict[str, Any]:
        """``{port: its binding profile}``."""
        state = json.loads(self._lab.path("neutron.json").read_text())
        return {
            number: port["binding:profile"]
            for number, port in state["ports"].items()
            if port["device_id"] == uuid
        }


def _outcome(command: Callable[[], Any]) -> dict[str, Any]:
    """Exit code and output; an exception gives 255, as in nova-manage."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            code = command() or 0
        # nova-manage does the same for every exception.
        except Exception:  # noqa: BLE001
            code = 255
            output.write(traceback.format_exc(limit=0))
    return {"code": code, "output": output.getvalue().strip()}


def main() -> None:
    folder, port, verb, state = sys.argv[1:]
    oracle = Oracle(place.Place(pathlib.Path(folder), int(port)), state)
    words = json.load(sys.stdin)
    oracle.reset()
    begun = time.monotonic()
    if verb == "heal":
        result: Any = {uuid: oracle.heal(uuid) for uuid in words}
    else:
        result = oracle.audit("delete" in words)
    print(f"{time.monotonic() - begun:.1f} s", file=sys.stderr)
    json.dump(result, sys.stdout)


main()
