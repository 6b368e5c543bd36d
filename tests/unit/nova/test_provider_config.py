# SPDX-License-Identifier: Apache-2.0
"""Nova's provider.yaml: the schema of its documentation, and files that are merged."""

from __future__ import annotations

import pathlib

import pytest

from osc_placement import errors
from osc_placement.nova import provider_config

#: The example of nova's documentation, shortened.
DOCUMENTED = """\
meta:
  schema_version: '1.0'
providers:
  - identification:
      name: 'EXAMPLE_RESOURCE_PROVIDER'
      # uuid: $COMPUTE_NODE
    inventories:
      additional:
        - CUSTOM_EXAMPLE_RESOURCE_CLASS:
            total: 100
            reserved: 0
            min_unit: 1
            max_unit: 10
            step_size: 1
            allocation_ratio: 1.0
    traits:
      additional:
        - 'CUSTOM_EXAMPLE_TRAIT'
"""
HEAD = "meta: {schema_version: '1.0'}\nproviders:\n"


def write(folder: pathlib.Path, name: str, text: str) -> pathlib.Path:
    path = folder / name
    path.write_text(text)
    return path


def test_files_are_merged_by_provider(tmp_path: pathlib.Path) -> None:
    more = (
        HEAD
        + "- {identification: {name: EXAMPLE_RESOURCE_PROVIDER}, traits: {additional: [CUSTOM_A]}}"
    )
    nodes = HEAD + "- {identification: {uuid: $COMPUTE_NODE}, traits: {additional: [CUSTOM_B]}}"
    paths = [
        write(tmp_path, name, text)
        for name, text in (
            ("a", DOCUMENTED),
            ("b", more),
            ("c", nodes),
            ("d", "meta: {schema_version: '1.2'}"),
        )
    ]
    config = provider_config.read(paths)
    assert config.inventories["EXAMPLE_RESOURCE_PROVIDER"] == {"CUSTOM_EXAMPLE_RESOURCE_CLASS"}
    assert config.traits["EXAMPLE_RESOURCE_PROVIDER"] == {"CUSTOM_EXAMPLE_TRAIT", "CUSTOM_A"}
    assert config.traits[provider_config.COMPUTE_NODE] == {"CUSTOM_B"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("providers: []", "'meta' is a required property"),
        ("meta: {schema_version: '2.0'}", "meta.schema_version"),
        (HEAD + "- {traits: {}}", "'identification' is a required property"),
        (HEAD + "- {identification: {name: a, uuid: $COMPUTE_NODE}}", "identification"),
        (HEAD + "- {identification: {uuid: nothing}}", "identification.uuid"),
        (HEAD + "- {identification: {name: a}, traits: {additional: [HW_A]}}", "traits.additional"),
        (
            HEAD + "- {identification: {name: a}, inventories: {additional: [{VCPU: {total: 1}}]}}",
            "inventories.additional",
        ),
        (
            HEAD + "- {identification: {name: a}, inventories: {additional: [{CUSTOM_A: {}}]}}",
            "'total' is a required property",
        ),
        ("[", ":1: neither YAML nor JSON: expected the node content, but found '<stream end>'"),
        ("# nothing\n", "it is empty: it needs 'meta'"),
        (
            HEAD + "- {identification: {name: a}, traits: {additional: [CUSTOM_A]}}\n" * 2,
            "a is defined 2 times",
        ),
    ],
)
def test_an_invalid_file_is_refused_with_the_place(
    tmp_path: pathlib.Path, text: str, message: str
) -> None:
    path = write(tmp_path, "provider.yaml", text)
    with pytest.raises(errors.InvalidInput) as refused:
        provider_config.read([path])
    assert message in str(refused.value)
    assert str(path) in str(refused.value)


def test_all_files_are_checked(tmp_path: pathlib.Path) -> None:
    bad, binary = write(tmp_path, "bad.yaml", "[]"), tmp_path / "binary.yaml"
    binary.write_bytes(b"a\xff")
    with pytest.raises(errors.InvalidInput) as refused:
        provider_config.read([bad, binary, tmp_path / "missing.yaml"])
    first, second, third = str(refused.value).splitlines()
    assert "bad.yaml" in first
    assert second == f"--provider-config {binary} cannot be read: byte 1 is not UTF-8"
    assert third.endswith("missing.yaml cannot be read: No such file or directory")
