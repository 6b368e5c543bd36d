# SPDX-License-Identifier: Apache-2.0
"""Every feature at its version and at the one before; every command with every version setting."""

from __future__ import annotations

import re

import pytest

from osc_placement import microversion
from osc_placement.testing import Cloud, uuid_of
from tests.support import versions
from tests.support.peer.shell import OpenStack
from tests.support.peer.target import Target

#: A provider named node with a consumer on it.
CLOUD = Cloud().host("node", VCPU=8, MEMORY_MB=64)
CLOUD.server("server", {"node": {"VCPU": 1}}, type="unknown")
CONSUMER, AGGREGATE, OTHER_AGGREGATE = map(uuid_of, ("server", "rack", "other rack"))

CANDIDATES = "allocation candidate list --resource VCPU=1"

#: feature -> a command line that needs it and, as far as the feature goes, nothing more.
NEEDING = {
    "provider aggregates": "resource provider aggregate list node",
    "resource classes": "resource class list",
    "provider member_of": f"resource provider list --member-of {AGGREGATE}",
    "provider resources": "resource provider list --resource VCPU=1",
    "traits": "trait list",
    "resource class idempotent put": "resource class set CUSTOM_A",
    "usages by project": "resource usage show project",
    "allocation candidates": CANDIDATES,
    "allocation dict form": f"resource provider allocation unset {CONSUMER}",
    "nested providers": "resource provider list --in-tree node",
    "candidate limit": f"{CANDIDATES} --limit 1",
    "candidate required traits": f"{CANDIDATES} --required HW_CPU_X86_AVX",
    "provider required traits": "resource provider list --required HW_CPU_X86_AVX",
    "aggregate generation": "resource provider aggregate set node --generation 1",
    "candidate member_of": f"{CANDIDATES} --member-of {AGGREGATE}",
    "forbidden traits": f"{CANDIDATES} --forbidden HW_CPU_X86_AVX",
    "member_of repeated": (
        f"resource provider list --member-of {AGGREGATE} --member-of {OTHER_AGGREGATE}"
    ),
    "granular groups": "allocation candidate list --group 1 --resource VCPU=1",
    "consumer generation": (
        f"resource provider allocation amend {CONSUMER} --allocation rp=node,VCPU=2"
    ),
    "candidate in_tree": f"{CANDIDATES} --in-tree node",
    "forbidden aggregates": f"resource provider list --not-member-of {AGGREGATE}",
    "string suffixes": "allocation candidate list --group _A --resource VCPU=1",
    "candidate root_required": f"{CANDIDATES} --root-required HW_CPU_X86_AVX",
    "candidate same_subtree": f"{CANDIDATES} --same-subtree _A,_B --group _A --resource VCPU=1"
    " --group _B --resource MEMORY_MB=1",
    "re-parenting": "resource provider unset --parent-provider node",
    "consumer types": "resource usage show project --consumer-type INSTANCE",
    "any traits": "resource provider list --required HW_CPU_X86_AVX,HW_CPU_X86_SSE",
}

#: What these features change is checked elsewhere: a body, a header, a column, an answer.
ELSEWHERE = {
    "inventories delete",
    "allocation project and user",
    "provider allocations link",
    "allocations of many consumers",
    "last-modified",
    "provider create body",
    "error codes",
    "fully reserved inventory",
    "candidate whole summaries",
    "nested candidates",
    "reshaper",
    "candidate mappings",
}


@pytest.fixture
def node(target: Target) -> str:
    """The UUID of the provider."""
    target.load(CLOUD.document())
    return uuid_of("node")


def test_every_feature_is_tested() -> None:
    assert set(NEEDING) | ELSEWHERE == set(microversion.FEATURES)
    assert not set(NEEDING) & ELSEWHERE


@pytest.mark.parametrize("feature", NEEDING)
@pytest.mark.usefixtures("node")
def test_a_feature_works_from_its_version(openstack: OpenStack, feature: str) -> None:
    command, needs = NEEDING[feature], microversion.FEATURES[feature]
    before = f"1.{needs.minor - 1}"
    code, text = openstack.fails(command, version=before)
    assert code == 1
    message = f"not supported with version {before}; requires at least version {needs}"
    assert message in text
    outcome = openstack.run(command, version=str(needs))
    unchanged = feature == "aggregate generation" and outcome.code == 1
    assert outcome.code == 0 or (unchanged and "HTTP 409" in outcome.stderr), outcome
    outcome = openstack.run(command)
    assert "requires at least" not in outcome.stderr, outcome


#: A whole session, in an order in which every command finds what it needs.
SESSION = (
    "resource provider create --uuid 11111111-1111-4111-8111-111111111111 other",
    "resource provider list --name other",
    "resource provider show --allocations node",
    "resource provider set --name renamed other",
    "resource provider inventory set renamed --resource VCPU=4 --resource VCPU:reserved=1",
    "resource provider inventory set renamed --resource VCPU:reserved=2 --amend --dry-run",
    "resource provider inventory class set renamed VCPU --total 5 --max_unit 2",
    "resource provider inventory list renamed",
    "resource provider inventory show renamed VCPU",
    "resource provider inventory delete renamed --resource-class VCPU",
    "resource provider usage show node",
    f"resource provider allocation show {CONSUMER}",
    f"resource provider allocation delete {CONSUMER}",
    "resource provider delete renamed",
)
LATER = {
    "1.2": ("resource class create CUSTOM_A", "resource class show CUSTOM_A",
            "resource class delete CUSTOM_A"),
    "1.6": ("trait create CUSTOM_A", "trait show CUSTOM_A", "trait list --associated",
            "resource provider trait set node --trait CUSTOM_A",
            "resource provider trait list node", "resource provider trait delete node",
            "trait delete CUSTOM_A"),
    "1.9": ("resource usage show project --user-id user",),
    "1.29": ("resource provider tree show node", "resource provider list --long",
             "allocation candidate list --resource VCPU=1 --limit 1 --long",
             "resource provider delete --tree node"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("target", "version"),
    [
        *(
            ("loopback", version)
            for version in ("1.0", "1.14", "1.29", "1.36", "latest", "1", None)
        ),
        *(("embedded", version) for version in ("1.0", None)),
        *(("placement", version) for version in ("1.0", versions.MAXIMUM, None)),
    ],
    indirect=["target"],
)
@pytest.mark.usefixtures("node")
def test_every_command_works_with_every_version_setting(
    openstack: OpenStack, version: str | None
) -> None:
    reached = microversion.MAXIMUM
    if version not in {None, "latest", "1"}:
        reached = microversion.Microversion.parse(str(version))
    lines = list(SESSION)
    for since, more in LATER.items():
        if reached >= microversion.Microversion.parse(since):
            lines.extend(more)
    for line in lines:
        outcome = openstack.run(line, version=version)
        is_empty = re.fullmatch(r"No [\w ]+ found on \S+\n", outcome.messages)
        assert outcome.code == 0, f"{line}: {outcome}"
        assert not outcome.messages or is_empty, f"{line}: {outcome}"


def test_unpinned_output_equals_1_29(openstack: OpenStack, node: str) -> None:
    for line in (
        "resource provider list",
        f"resource provider show {node} --allocations",
        f"resource provider allocation show {CONSUMER}",
        "resource usage show project",
        CANDIDATES,
        "resource provider inventory list node",
    ):
        assert openstack(line) == openstack(line, version="1.29")
        assert openstack(line) == openstack(line, version="1")


def test_a_version_out_of_range_is_a_usage_error(openstack: OpenStack) -> None:
    for version in (versions.NEXT, "2.0", "newest"):
        code, text = openstack.fails("resource provider list", version=version)
        assert (code, versions.RANGE in text) == (2, True)
