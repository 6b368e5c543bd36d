# SPDX-License-Identifier: Apache-2.0
"""The words about moves of which the tests of the model are made are those of nova's releases.

``python -m lab.tests.test_move_facts`` writes them.
"""

from __future__ import annotations

import json

import pytest

from lab import install, place
from osc_placement.scheduling import releases
from tests.support import nova_words

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

NEWEST = max(releases.NAMES)


@pytest.mark.parametrize(
    "release",
    [
        release if release == NEWEST else pytest.param(release, marks=pytest.mark.long)
        for release in install.NOVA_RELEASES
    ],
)
def test_the_words_are_those_of_the_release(release: int) -> None:
    assert install.ask_release(place.find(), release, "move_facts.py") == nova_words.read()


if __name__ == "__main__":
    found = install.ask_release(place.find(), NEWEST, "move_facts.py")
    nova_words.FILE.write_text(json.dumps(found, indent=1) + "\n")
