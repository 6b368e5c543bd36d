# SPDX-License-Identifier: Apache-2.0
"""Wrong command lines: each is refused with every reason, and nothing is changed."""

from __future__ import annotations

import json
import pathlib
import shlex

import pytest

from tests.support.peer import shell, target as targets

NODE, OTHER = "cmp-0007.lab.example.org", "cmp-0008.lab.example.org"
SERVER = "050c0749-3183-57bb-8630-a19e17dc3bf0"
UNUSED = "99999999-9999-4999-8999-999999999999"
SHARE = "7c4aee34-82dc-5451-83d6-8ae744ab9365"

AMEND = f"resource provider inventory amend {NODE}"
CLAIM = f"resource provider allocation set {UNUSED} --project-id p --user-id u"
CANDIDATES = "allocation candidate list"
EXPLAIN = "allocation candidate explain"
FORMAT = 'Resource argument must have "name=value" format'
EMPTY = "Name, field and value must be not empty"
ALLOCATION = "Incorrect allocation string format"

#: ``{command line: what the error says}``; the exit code is 1.
ERRORS: dict[str, str | tuple[str, ...]] = {
    f"resource provider inventory set {NODE} --resource VCPU": FORMAT,
    f"resource provider inventory set {NODE} --resource VCPU==": FORMAT,
    f"resource provider inventory set {NODE} --resource VCPU=1=2": FORMAT,
    f"resource provider inventory set {NODE} --resource VCPU:=1": EMPTY,
    f"resource provider inventory set {NODE} --resource =1": EMPTY,
    f"resource provider inventory set {NODE} --resource VCPU=": EMPTY,
    f"resource provider inventory set {NODE} --resource VCPU:allocation_ratio=x": (
        "invalid float value: 'x'"
    ),
    f"resource provider inventory set {NODE} --resource VCPU=8 --max-percent 0"
    " --resource VCPU:allocation_ratio=inf --resource MEMORY_MB:allocation_ratio=nan": (
        "invalid float value: 'inf' in 'VCPU:allocation_ratio=inf'",
        "invalid float value: 'nan'",
    ),
    f"resource provider inventory set {NODE} --resource VCPU:reserved=1": (
        "'total' is a required property"
    ),
    f"resource provider inventory set {NODE} --resource VCPU --resource VCPU:speed=1"
    " --resource DISK_GB=x --resource MEMORY_MB=1 --resource MEMORY_MB:total=2": (
        f"{FORMAT}: 'VCPU'",
        "Unknown inventory field speed",
        "invalid int value: 'x' in 'DISK_GB=x'",
        "MEMORY_MB:total is given twice",
    ),
    "resource provider inventory set unknown --resource VCPU=x": ("'x' in 'VCPU=x'", "'unknown'"),
    f"resource provider inventory set {NODE} --dry-run --resource CUSTOM_NOBODY=1"
    " --resource DISK_GB=0 --resource MEMORY_MB=4 --resource MEMORY_MB:reserved=5": (
        "No such resource class CUSTOM_NOBODY",
        "less than the minimum of 1",
        "reserved 5",
        "Inventory for 'VCPU'",
    ),
    f"resource provider inventory set {NODE} --dry-run --resource VCPU=2147483648": (
        "VCPU:total: 2147483648 is greater than the maximum of 2147483647"
    ),
    "resource provider trait add --trait CUSTOM_X --providers-from empty.txt": (
        "--providers-from: empty.txt contains no provider"
    ),
    f"{CANDIDATES} --resource VCPU=1 --in-tree {NODE} --in-tree {OTHER}": (
        "--in-tree is given twice for the unsuffixed group"
    ),
    f"{CLAIM} --allocation x": ALLOCATION,
    CLAIM: "At least one resource allocation must be specified",
    f"{CLAIM} --allocation VCPU=1": ALLOCATION,
    f"{CLAIM} --allocation rp={NODE}": ALLOCATION,
    f"{CLAIM} --allocation rp={NODE},VCPU": ALLOCATION,
    f"{CLAIM} --allocation rp={NODE},VCPU=two": "invalid int value: 'two'",
    f"{CLAIM} --allocation rp={NODE},VCPU=1,VCPU=2": "given twice",
    f"{CLAIM} --allocation rp={NODE},VCPU=1 --allocation rp={NODE},VCPU=2": (
        f"Conflict detected for resource provider {NODE}"
    ),
    f"{CLAIM} --allocation rp=unknown,VCPU=1": "'unknown'",
    f"{CLAIM} --allocation consumer={SERVER},rp={NODE},VCPU=1": "not one of the consumers",
    f"resource provider allocation unset {UNUSED}": f"No allocations for consumer '{UNUSED}'",
    f"resource provider allocation amend {UNUSED} --allocation rp={NODE},VCPU=1": (
        "No allocations for consumer"
    ),
    f"resource provider allocation amend {UNUSED}": "At least one resource allocation",
    f"resource provider allocation amend {UNUSED} --allocation rp=unknown,VCPU=1"
    " --allocation nonsense": ("'unknown'", "'nonsense'"),
    "resource provider allocation show vm-1": "of a server: openstack server show -c id vm-1",
    "resource provider allocation unset vm-1": "'vm-1' is not a UUID",
    CANDIDATES: "At least one --resource must be specified",
    f"{CANDIDATES} --group 1 --required HW_CPU_X86_AVX": "At least one --resource",
    f"{CANDIDATES} --resource VCPU=1 --resource VCPU=2": "VCPU is given twice",
    f"{CANDIDATES} --resource VCPU --group 1 --resource VCPU=x --in-tree unknown": (
        "Arguments to --resource must be of form <resource_class>=<value>: 'VCPU'",
        "invalid int value: 'x' in 'VCPU=x'",
        "'unknown'",
    ),
    f"{CANDIDATES} --query VCPU:1": "contains no name=value",
    "resource provider list --resource VCPU=x --in-tree unknown": ("'x' in 'VCPU=x'", "'unknown'"),
    "resource provider list rack9": "'rack9'",
    "resource provider show cmp-0007.lab": f"'cmp-0007.lab'; similar: {NODE}",
    "resource provider delete one two": ("'one'", "'two'"),
    "resource provider consumer list cn9": "'cn9'",
    "resource provider tree show nobody": "'nobody'",
    "resource provider aggregate set nfs-share --aggregate x": "A generation must be specified.",
    "resource provider inventory amend --resource VCPU:total=1": "nothing is selected",
    f"{AMEND} --resource VCPU": "the syntax is",
    "resource provider inventory amend --resource VCPU:total=1 --name-glob x*": (
        "selection is empty"
    ),
    "resource provider inventory amend --resource VCPU:total=1 --providers-from nofile": "nofile",
    "resource provider inventory amend unknown --in-tree nowhere --resource VCPU:speed=1"
    " --resource CUSTOM_NONE:total=1 --resource NONSENSE:total=x": (
        *("'unknown'", "nowhere", "'speed'", "class create CUSTOM_NONE", "NONSENSE", "'x'"),
    ),
    "resource provider trait add --trait CUSTOM_NONE --all": "trait create CUSTOM_NONE",
    f"resource provider trait add --trait CUSTOM_NONE {NODE}": "trait create CUSTOM_NONE",
    "resource provider trait add --trait compute_nod --all --create": (
        "unknown trait compute_nod: is it COMPUTE_NODE?"
    ),
    "resource provider trait remove --trait nonsense --all": "unknown trait nonsense",
    "resource provider trait remove --trait CUSTOM_NONE --all": (
        "NONE: 'openstack trait list' shows"
    ),
    "resource provider trait add --trait CUSTOM_RACK_A --all --plan-out /dev/null/x": (
        "/dev/null/x"
    ),
    "resource provider trait add unknown --required CUSTOM_NO --in-tree none --trait nonsense": (
        *("'unknown'", "CUSTOM_NO", "'none'", "unknown trait nonsense"),
    ),
    "placement plan apply nofile": "nofile",
    EXPLAIN: "At least one --resource must be specified. Or give --flavor or --server.",
    f"{EXPLAIN} --query resources=VCPU:1&colour=red": "colour",
    f"{EXPLAIN} --resource VCPU=1 --required CUSTOM_NOPE": "CUSTOM_NOPE",
    f"{EXPLAIN} --resource CUSTOM_NOPE=1": "CUSTOM_NOPE",
    f"{EXPLAIN} --resource VCPU=1 --host cmp-9999": (
        "No resource provider has the name or UUID 'cmp-9999'",
        "nova has no compute node on a host of this name",
    ),
    f"{EXPLAIN} --flavor absent": "nova has no flavor with the name or ID 'absent'",
    f"{EXPLAIN} --server {UNUSED}": "nova has no server",
    f"{EXPLAIN} --flavor m1.small --port {SERVER}": "neutron has no port",
    f"{EXPLAIN} --flavor m1.small --availability-zone nowhere": (
        "nova has no availability zone 'nowhere'; it has az1, "
    ),
    "placement capacity show": "At least one --resource must be specified. Or give --flavor.",
    "placement capacity show --resource CUSTOM_UNKNOWN=1": "CUSTOM_UNKNOWN",
    # Placement checks the query as it was given.
    "placement capacity show --query resources=VCPU:1&group_policy=x": "group_policy",
    "placement capacity show --flavor m1.small --without cmp-9999": (
        "No resource provider has the name or UUID 'cmp-9999'",
        "nova has no compute node on a host of this name",
    ),
    "placement host check other": "No resource provider has the name",
    f"placement host check --aggregate {UNUSED}": "has no hosts",
    "placement allocation audit --host nowhere": "no compute host 'nowhere'",
    "placement allocation audit --os-nova-recording nofile.json": "nofile.json",
    "placement provider audit --host nowhere": "no compute host 'nowhere'",
    "placement provider audit --provider-config nofile.yaml": "nofile.yaml",
    "placement provider audit --provider-config bad.yaml": "providers[0].identification: ",
    "placement allocation heal --host cmp-9": "no compute host 'cmp-9'",
    "placement allocation heal --host-aggregate nowhere": (
        "no nova host aggregate has the name or id 'nowhere'"
    ),
    "placement allocation heal --server vm-1": "nova has no server with the name or UUID 'vm-1'",
    f"placement allocation heal --server {SHARE}": "nova has no server",
    "placement allocation heal --assign assign.json": "'vm-1' is not the UUID of a server",
    "placement allocation heal --assign no.json": "no.json cannot be read",
    "placement aggregate mirror --os-nova-recording nofile.json": "nofile.json",
    "placement aggregate mirror --os-nova-recording assign.json": "os-aggregates",
    "placement reshape nofile.yaml": "cannot be read",
    "placement reshape bad.yaml": ("bad.yaml:1:", "bad.yaml:2:"),
    "placement snapshot show nowhere.sqlite": "nowhere.sqlite does not exist",
}

#: The same of usage errors, which end with 2 before anything is read.
USAGE: dict[str, str] = {
    f"{CANDIDATES} --resource VCPU=1 --limit abc": "invalid int value: 'abc'",
    f"{CANDIDATES} --resource VCPU=1 --limit 0": "0 is less than 1",
    f"{CANDIDATES} --group 1 --resource VCPU=1 --group 1": "'1' is given twice",
    f"{CANDIDATES} --query resources=VCPU:1 --resource VCPU=1": "--query: not allowed",
    f"resource provider aggregate set {NODE} --generation x": "invalid int value: 'x'",
    f"resource provider inventory class set {NODE} VCPU --max_unit 4": "are required: --total",
    f"resource provider inventory class set {NODE} VCPU --total four": "invalid int value",
    f"resource provider inventory class set {NODE} VCPU --total 4 --allocation_ratio nan": (
        "invalid float value: 'nan'"
    ),
    f"resource provider allocation set {UNUSED} --allocation rp={NODE},VCPU=1": (
        "the following arguments are required: --project-id, --user-id"
    ),
    f"resource provider allocation set {UNUSED} --allocation rp={NODE},VCPU=1 --project-id p": (
        "the following arguments are required: --user-id"
    ),
    f"resource provider list --aggregate-uuid {UNUSED} --member-of {UNUSED}": (
        "not allowed with argument --aggregate-uuid"
    ),
    "resource provider set node": "at least one of --name, --parent-provider is required",
    f"{EXPLAIN} --image cirros": "argument --image: needs --flavor",
    f"{EXPLAIN} --resource VCPU=1 --availability-zone az1": (
        "argument --availability-zone: needs --flavor or --server"
    ),
    f"{EXPLAIN} --flavor small --resource VCPU=1": "not allowed with options of a query",
    f"{EXPLAIN} --server {SERVER} --flavor small": "--server: not allowed with",
    "placement capacity show --availability-zone az1": "--availability-zone: needs --flavor",
    "placement capacity show --resource VCPU=1 --filter owner": "--filter: needs --flavor",
    f"{EXPLAIN} --query resources=VCPU:1 --nova-release 27": "--nova-release: needs --flavor or",
    "placement host check": "name a host, or give --aggregate",
    "placement allocation audit --dry-run": "--dry-run requires --repair",
    "placement allocation audit --plan-out x.json": "--plan-out requires --repair",
    "placement allocation audit --only odd": "invalid choice",
    "placement allocation audit --min-age -1": "not an integer of at least 0",
    "placement allocation audit --max-percent 5": "--max-percent requires --repair",
    "placement allocation audit --repair --max-percent 101": "is not an integer from 0 to 100",
    "placement allocation heal --consumer-type instance": "'instance' is not a consumer type",
    "placement aggregate mirror --ratios --prune": "--ratios: not allowed with argument --prune",
    "placement plan show plan.json --fail-on flavor-lost": "--fail-on requires --impact",
    "placement plan show plan.json --nova-conf nova.conf": "--nova-conf requires --impact",
    "placement migration run --max-count many": "argument --max-count",
    "placement reshape": "give a file of moves, or --to-tree",
    "placement reshape bad.yaml --to-tree bad.yaml": "give a file of moves, or --to-tree",
    "placement reshape moves.yaml cn1": "does not contain $root",
    "placement snapshot diff live live": "only one of the two states can be 'live'",
    f"resource provider trait set {NODE} --max-percent 50": "--max-percent: requires --aggregate",
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The sample cloud, which no command may change."""
    path = tmp_path_factory.mktemp("refusals") / "cloud.sqlite"
    targets.OnFile(path).load("12-hosts")
    return path


@pytest.fixture
def target(database: pathlib.Path) -> targets.Target:
    return targets.OnFile(database)


@pytest.mark.parametrize("line", [*ERRORS, *USAGE], ids=str)
def test_a_wrong_command_line_is_refused(
    line: str, openstack: shell.OpenStack, database: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_NOVA_RECORDING", "12-hosts")
    pathlib.Path("assign.json").write_text(json.dumps({"vm-1": "gpu0", SERVER: []}))
    pathlib.Path("empty.txt").write_text("# none\n")
    pathlib.Path("moves.yaml").write_text("moves: [{from: a, resources: {VGPU: all}, to: b}]")
    pathlib.Path("bad.yaml").write_text(
        "meta: {schema_version: '1.0'}\nproviders: [{identification: {id: 1}}]"
    )
    before = database.read_bytes()
    code, text = openstack.fails("", *shlex.split(line))
    expected = USAGE.get(line) or ERRORS[line]
    reasons = (expected,) if isinstance(expected, str) else expected
    assert [reason for reason in reasons if reason not in text] == [], text
    assert (code, "Traceback" in text) == (2 if line in USAGE else 1, False)
    assert database.read_bytes() == before
