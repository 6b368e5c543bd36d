"""What the offline reshape leaves is what nova's own libvirt driver reports."""

from __future__ import annotations

import json
import pathlib
import subprocess
from typing import Any

import pytest

from tests.support import guide
from tests.support.lab import place, provider_tree
from tests.support.peer import placement, shell, target as targets

pytestmark = [pytest.mark.interop, pytest.mark.smoke]


def trees(target: targets.Target) -> list[dict[str, Any]]:
    """Every provider as nova reads it, parents first."""
    found = []
    for entry in target.ask("GET", "/resource_providers")["resource_providers"]:
        path = f"/resource_providers/{entry['uuid']}"
        found.append(
            {
                "name": entry["name"],
                "uuid": entry["uuid"],
                "parent": entry["parent_provider_uuid"],
                "inventories": target.ask("GET", f"{path}/inventories")["inventories"],
                "traits": sorted(target.ask("GET", f"{path}/traits")["traits"]),
            }
        )
    return sorted(found, key=lambda entry: (entry["parent"] is not None, entry["name"]))


def updated_by_nova(lab: place.Place, given: list[dict[str, Any]]) -> tuple[str, Any]:
    """``(stderr, trees)`` after nova's own update."""
    ended = subprocess.run(
        [lab.program("python"), str(pathlib.Path(provider_tree.__file__))],
        input=json.dumps(given),
        env=dict(lab.environment()),
        capture_output=True,
        text=True,
    )
    return ended.stderr, json.loads(ended.stdout or "null")


def test_nova_changes_nothing_after_the_reshape_and_needs_one_before(
    lab: place.Place, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    configuration = placement.configure(tmp_path, "default")
    placement.create_tables(configuration)
    target = targets.OfflinePlacement(configuration)
    encryption = {"total": provider_tree.SLOTS, "max_unit": 1}
    held = {"VCPU": {"total": 64}, "MEM_ENCRYPTION_CONTEXT": encryption}
    for number in range(3):
        host = target.ask("POST", "/resource_providers", {"name": f"cmp-{number}"})["uuid"]
        body = {"resource_provider_generation": 0, "inventories": held}
        target.ask("PUT", f"/resource_providers/{host}/inventories", body)
    assert "ReshapeNeeded" in updated_by_nova(lab, trees(target))[0]
    (template,) = [
        step.output or []
        for step in guide.steps((guide.DOCS / "user" / "offline.rst").read_text())
        if step.command == "cat sev.yaml"
    ]
    pathlib.Path("sev.yaml").write_text("\n".join(template))
    ended = shell.run([*target.options, "placement", "reshape", "sev.yaml", "--all"])
    assert ended.code == 0, ended
    reshaped = trees(target)
    assert len(reshaped) == 6
    messages, after = updated_by_nova(lab, reshaped)
    assert after is not None, messages
    assert sorted(after, key=lambda entry: entry["name"]) == sorted(
        reshaped, key=lambda entry: entry["name"]
    )
