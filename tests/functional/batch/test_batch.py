# SPDX-License-Identifier: Apache-2.0
"""The batch commands and their plans: same rows, same exit codes on every target."""

from __future__ import annotations

import json

from tests.support import versions
from tests.support.peer import fixtures, shell
from tests.support.rows import Row, State, checked

SAMPLE, SHARE = "12-hosts", "nfs-share"
AGGREGATE = "04223a25-417d-580c-a706-c4cd6aa4087d"
HOSTS = ("cmp-0007.lab.example.org", "cmp-0008.lab.example.org")
BOTH, FIRST = " ".join(HOSTS), "cmp-0001.lab.example.org"
AMEND = "resource provider inventory amend"
TRAIT = "resource provider trait add"
IN_AGGREGATE = f"{AMEND} --member-of {AGGREGATE} --resource VCPU:allocation_ratio=2"
SMALL = f"{AMEND} {FIRST} --resource VCPU:allocation_ratio=0.1"
APPLY = "placement plan apply plan.json"
PLANNED = {
    "name": HOSTS[0],
    "uuid": "1a9bb78c-5b17-57e1-9b04-f5614f57791c",
    "before": {"VCPU:allocation_ratio": 4.0},
    "after": {"VCPU:allocation_ratio": 2.0},
    "status": "planned",
    "reason": "VCPU capacity 248 -> 124, 1 used",
    "code": "",
}
OVER = {"status": "refused", "code": "over-capacity", "reason": ("over capacity",)}


def ended(*statuses: str) -> list[dict[str, str]]:
    """The rows of the two hosts, and of the share if there is a third status."""
    names = zip((*HOSTS, SHARE), statuses, strict=False)
    return [{"name": name, "status": status} for name, status in names]


STATES = {
    "amended": State(SAMPLE, before=[IN_AGGREGATE]),
    "planned, then changed": State(
        SAMPLE,
        before=[
            f"{AMEND} {BOTH} --resource VCPU:allocation_ratio=8 --dry-run --plan-out plan.json",
            f"{AMEND} {HOSTS[0]} --resource VCPU:allocation_ratio=6",
        ],
    ),
}
PLAN = ended("planned", "planned", "skipped")
PLAN[0] |= PLANNED
STATUS = {"server_versions": versions.RANGE, "resource_providers": 22}
SUCCESS = dict.fromkeys(
    ("nova can use this Placement", "this client can use all it knows"), "success"
)
OWNED = "every consumer has a project and a user"
TABLE = [
    Row(f"{IN_AGGREGATE} --dry-run --detailed-exitcode", SAMPLE, 3, PLAN, unchanged=True),
    Row(f"{IN_AGGREGATE} --dry-run", SAMPLE, 0, PLAN, unchanged=True),
    Row(IN_AGGREGATE, SAMPLE, 0, ended("applied", "applied", "skipped")),
    Row(f"{IN_AGGREGATE} --detailed-exitcode", "amended", 0,
        ended("unchanged", "unchanged", "skipped")),
    Row(f"{AMEND} --all --resource VCPU:total*=2 --create --dry-run", SAMPLE, 0, unchanged=True),
    Row(f"{TRAIT} --all --trait CUSTOM_NEW --create --dry-run", SAMPLE, 0, unchanged=True),
    # A concurrent change is stale.
    Row(APPLY, "planned, then changed", 7, ended("stale", "applied"),
        says=("1 applied, 1 stale; VCPU capacity 496 -> 744",
              "Planned: VCPU capacity 496 -> 992")),
    # Over capacity is refused unless it is allowed.
    Row(SMALL, SAMPLE, 6, [OVER], unchanged=True),
    Row(f"{SMALL} --dry-run --detailed-exitcode", SAMPLE, 6, [OVER]),
    Row(f"{SMALL} --allow over-capacity", SAMPLE, 0, [{**OVER, "status": "applied", "code": ...}]),
    # Full providers are missing from the candidates, from which the usages are read.
    Row(f"{AMEND} --all --resource VCPU:allocation_ratio=0.1 --dry-run", SAMPLE, 0, "skipped"),
    Row("placement status show", SAMPLE, 0, {**STATUS, "microversion": versions.MAXIMUM}),
    Row("--os-placement-api-version 1.1 placement status show", SAMPLE, 0, {
        "microversion": "1.1", "custom_traits": None, "custom_resource_classes": None}),
    Row("--os-placement-api-version 1.1 placement status show --check", SAMPLE, 1, {
        "checks": {OWNED: "warning: not checked: it needs 1.9"}}),
    *(Row(f"{at} placement status show --check", SAMPLE, 1,
          {**STATUS, "microversion": shown, "not_checked": ("nova-status",),
           "checks": {**SUCCESS, OWNED: (f"warning: {who} have the placeholder project:",)}})
      for at, shown, who in (("", versions.MAXIMUM, "8 consumers"),
                             ("--os-placement-api-version 1.37", "1.37", "consumers"))),
]  # fmt: skip

test_a_command_shows_what_its_row_says = checked(TABLE, STATES)


@fixtures.ON_ONE_TARGET
def test_providers_come_from_standard_input(openstack: shell.OpenStack, sample: object) -> None:
    outcome = openstack.run(
        f"{AMEND} --providers-from - --resource VCPU:max_unit=8 -f json",
        stdin=f"# two hosts\n{HOSTS[0]}\n\n{HOSTS[1]}\n",
    )
    found = {row["name"]: row["status"] for row in json.loads(outcome.stdout)}
    assert found == dict.fromkeys(HOSTS, "applied")
