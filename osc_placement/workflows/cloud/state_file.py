# SPDX-License-Identifier: Apache-2.0
"""State files: small JSON files with strings that one run keeps for the next, per cloud.

Losing such a file costs time or a hint only. So an unreadable file is reported and does not
stop the run.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
from collections.abc import Mapping

from osc_placement import errors
from osc_placement.model import json_text
from osc_placement.plan import file, plan

FORMAT_VERSION = 1


class StateFile:
    """The file of ``subject`` for a cloud, with an object of strings under ``key``.

    ``values`` are these strings, empty at first. ``error`` says why the file could not be read or
    written.
    """

    def __init__(
        self, subject: str, target: str, key: str, path: pathlib.Path | None = None
    ) -> None:
        name = hashlib.sha256(plan.place(target).encode()).hexdigest()[:32]
        self.path = path or file.state_directory() / subject / f"{name}.json"
        self.values: Mapping[str, str] = {}
        self.error = ""
        self._target, self._key = target, key
        try:
            document = json_text.read(self.path)
            if document["format_version"] == FORMAT_VERSION:
                self.values = {str(name): str(value) for name, value in document[key].items()}
            else:
                self.error = f"{self.path} was written by another version of this program"
        except FileNotFoundError:
            pass
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            self.error = f"{self.path} cannot be read: {error}"

    def save(self, values: Mapping[str, str]) -> None:
        """Replace the file atomically."""
        document = {"format_version": FORMAT_VERSION, "target": self._target, self._key: {**values}}
        try:
            file.replace(self.path, [json.dumps(document, indent=1), "\n"])
        except errors.PlacementError as error:
            self.error = str(error)
