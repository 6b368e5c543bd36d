# SPDX-License-Identifier: Apache-2.0
"""A policy for plans, as tests: ``PLAN=plan.json pytest test_plan.py`` in a pipeline.

Change the rules to yours. They read only the JSON of the plan: see plan.schema.json.
"""

import json
import os
import pathlib

import pytest

#: The rules.
MOST_CHANGES = 500
HIGHEST_RATIO = 16.0
PROTECTED = ("COMPUTE_", "HW_")


@pytest.fixture(scope="module")
def plan():
    return json.loads(pathlib.Path(os.environ["PLAN"]).read_text(encoding="utf-8"))


def test_the_plan_is_small(plan):
    assert len(plan["changes"]) <= MOST_CHANGES


def test_no_guard_is_off(plan):
    assert plan["allow"] == []


def test_nothing_is_refused(plan):
    refused = [item for item in plan["skipped"] if item["refused"]]
    assert [(item["subject"]["name"], item["reason"]) for item in refused] == []


def test_no_provider_has_less_capacity_than_is_used(plan):
    over = {name: sums["over"] for name, sums in plan["capacities"].items() if sums["over"]}
    assert over == {}


def test_no_ratio_is_too_high(plan):
    for change in plan["changes"]:
        if change["kind"] == "inventories":
            for name, fields in (change["after"] or {}).items():
                ratio = (fields or {}).get("allocation_ratio", 1.0)
                assert ratio <= HIGHEST_RATIO, f"{change['subject']['name']}: {name}"


def test_no_trait_of_a_driver_changes(plan):
    for change in plan["changes"]:
        if change["kind"] == "traits":
            before, after = change["before"] or {}, change["after"] or {}
            for name in {*before, *after}:
                is_same = before.get(name) == after.get(name)
                assert is_same or not name.startswith(PROTECTED), change["subject"]["name"]
