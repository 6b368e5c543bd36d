# SPDX-License-Identifier: Apache-2.0
"""``--provider-config`` accepts the files that nova-compute accepts, and no others."""

from __future__ import annotations

import json
import pathlib
import subprocess

import pytest

from lab import place, provider_configs
from osc_placement import errors
from osc_placement.nova import provider_config

pytestmark = pytest.mark.interop

META = "meta: {schema_version: '1.0'}\n"
UUID = "5213b75d-9260-42a6-b236-f39b0fd10561"

DOCUMENTS = (
    "",
    "[]",
    "text",
    "{a",
    "providers: []",
    "meta: {}\nproviders: []",
    META,
    META + "providers:",
    META + "other: 1",
    *(
        f"meta: {{schema_version: {version}}}\nproviders: []"
        for version in ("'1.2'", "'1'", "'2.0'", "1.0", "'1.0', other: 1")
    ),
)
IDENTIFICATIONS = (
    "",
    f"uuid: {UUID}",
    f"uuid: {UUID.upper()}",
    f"uuid: {UUID.replace('-', '')}",
    "uuid: abc",
    "uuid: $COMPUTE_NODE",
    f"name: a, uuid: {UUID}",
    "name: ''",
    "name: ' a'",
    "name: 1",
    "name: é",
    "name: 'a/b c:d'",
    "name: a, other: 1",
    f"name: {'a' * 200}",
    f"name: {'a' * 201}",
)
FIELDS = (
    "",
    "total: 1, reserved: 0, min_unit: 1, max_unit: 1, step_size: 1, allocation_ratio: 1.0",
    *(f"total: {value}" for value in ("0", "-1", "'1'", "1.5", "1.0", "true", "99999999999")),
    *(f"total: 1, {name}: 0" for name in ("min_unit", "max_unit", "step_size")),
    *(f"total: 1, reserved: {value}" for value in (-1, 5)),
    *(f"total: 1, allocation_ratio: {value}" for value in ("0", "-1.0", "2", "'2'")),
    "total: 1, other: 1",
)
ENTRIES = (
    "other: 1",
    "inventories:",
    "inventories: {}",
    "inventories: {additional: [], other: 1}",
    "inventories: {additional: {CUSTOM_A: {total: 1}}}",
    "inventories: {additional: [{}]}",
    "inventories: {additional: [{CUSTOM_A: {total: 1}, CUSTOM_B: {total: 1}}]}",
    "inventories: {additional: [{CUSTOM_A: {total: 1}}, {CUSTOM_A: {total: 2}}]}",
    *(
        f"inventories: {{additional: [{{{name}: {{total: 1}}}}]}}"
        for name in ("VCPU", "CUSTOM_a", "CUSTOM_", "CUSTOM_" + "A" * 248, "CUSTOM_" + "A" * 249)
    ),
    "traits: {}",
    "traits: {additional: [], other: 1}",
    *(
        f"traits: {{additional: [{names}]}}"
        for names in ("", "HW_CPU_X86_VMX", "CUSTOM_a", "CUSTOM_A, CUSTOM_A", "1", "{CUSTOM_A: 1}")
    ),
)
NAMED, OTHER = "- {identification: {name: a}", ", traits: {additional: [CUSTOM_A]}}\n"
TWICE = (
    (NAMED + OTHER) * 2,
    NAMED + OTHER + NAMED + "}",
    NAMED + ", traits: {additional: []}}\n" + NAMED + OTHER,
    ("- {identification: {uuid: $COMPUTE_NODE}" + OTHER) * 2,
    "".join(f"- {{identification: {{uuid: {uuid}}}{OTHER}" for uuid in (UUID, UUID.upper())),
)
PROVIDERS = (
    *(f"- {{identification: {{{text}}}{OTHER}" for text in IDENTIFICATIONS),
    *(f"{NAMED}, inventories: {{additional: [{{CUSTOM_A: {{{text}}}}}]}}}}" for text in FIELDS),
    *(f"{NAMED}, {text}}}" for text in ENTRIES),
    "- {traits: {additional: [CUSTOM_A]}}",
    *TWICE,
)
FILES = (*DOCUMENTS, *(f"{META}providers:\n{text}" for text in PROVIDERS))


def is_accepted(folder: pathlib.Path, text: str) -> bool:
    file = folder / "provider.yaml"
    file.write_text(text)
    try:
        provider_config.read([file])
    except errors.InvalidInput:
        return False
    return True


def test_nova_and_this_command_accept_the_same_files(
    lab: place.Place, tmp_path: pathlib.Path
) -> None:
    ended = subprocess.run(
        [lab.program("python"), str(pathlib.Path(provider_configs.__file__))],
        input=json.dumps({text: text for text in FILES}),
        env=dict(lab.environment()),
        capture_output=True,
        text=True,
        check=True,
    )
    refused = json.loads(ended.stdout)
    differences = [
        (text, refused[text])
        for text in FILES
        if is_accepted(tmp_path, text) is bool(refused[text])
    ]
    assert differences == []
    assert len(set(FILES)) > 70
    assert 20 < sum(map(bool, refused.values())) < len(FILES) - 20
