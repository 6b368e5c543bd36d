# SPDX-License-Identifier: Apache-2.0
"""Command lines of public documents and scripts, with upstream's plugin and with this one.

Both plugins run on the same state of one openstack-placement. pip installs upstream's plugin from
the package index, as the suite's own environment: a recorded answer would only prove that nothing
changed here.
"""

from __future__ import annotations

import fcntl
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import pytest

from tests.support import drop_in
from tests.support.commands import COMMANDS
from tests.support.peer import process, shell, target as targets

T = TypeVar("T")

SAMPLE = "12-hosts"
UPSTREAMS_COMMANDS = 31
NAMES = {
    "HOST": "2fb69e02-6154-5504-b918-3e399452db61",
    "MEMBER": "1a9bb78c-5b17-57e1-9b04-f5614f57791c",
    "HOST_NAME": "cmp-0007.lab.example.org",
    "CHILD": "7656cfc4-7f14-5469-86e8-ab249391ff34",
    "ROOT": "cf1d916b-ea34-52f9-a2db-2e68b31b91ab",
    "IRONIC": "226364e6-11a4-5c20-8e15-461822dcb443",
    "EMPTY": "3b661641-91c7-552f-839d-6c46dd176678",
    "AGGREGATE": "04223a25-417d-580c-a706-c4cd6aa4087d",
    "SERVER": "050c0749-3183-57bb-8630-a19e17dc3bf0",
    "DOUBLED": "0c57cadb-fc21-585e-9f39-000d38c633c0",
    "PROJECT": "a1215c5b794547379ae759665b58e14a",
    "USER": "65f68a7bbbb84d16860d55a6b5380d57",
    "NEW": "99999999-9999-4999-8999-999999999999",
}

#: From the guides of nova, neutron, cyborg, ironic and blazar, from devstack, grenade and kolla,
#: and from operators' runbooks, with the names of the sample cloud.
READING = """\
resource provider list
resource provider list --name HOST_NAME
resource provider list --name HOST_NAME -f value -c uuid
resource provider list --uuid MEMBER
resource provider list --resource VCPU=4 --resource MEMORY_MB=2048
resource provider list --member-of AGGREGATE
resource provider list --aggregate-uuid AGGREGATE
resource provider list --required COMPUTE_NODE --forbidden CUSTOM_RACK_A
resource provider list --required HW_CPU_X86_AVX2 --required COMPUTE_NODE
resource provider list --member-of AGGREGATE,NEW
resource provider list --in-tree ROOT
resource provider list --in-tree ROOT -c uuid -c name --sort-column name --sort-descending
resource provider list --uuid HOST_NAME
resource provider list --name nobody
resource provider list --sort-column name -c name
resource provider show MEMBER
resource provider show CHILD
resource provider show --allocations HOST
resource provider show NEW
resource provider inventory list HOST
resource provider inventory list EMPTY
resource provider inventory list HOST --sort-column total -c total -c resource_class
resource provider inventory list HOST -c resource_class -c total
resource provider inventory show HOST VCPU
resource provider inventory show HOST VGPU
resource provider usage show HOST
resource provider usage show CHILD
resource provider aggregate list MEMBER
resource provider trait list MEMBER
resource provider allocation show SERVER
resource provider allocation show DOUBLED
resource provider allocation show SERVER -c resources
resource provider allocation show NEW
resource usage show PROJECT
resource usage show PROJECT --user-id USER
resource usage show PROJECT -c usage
resource usage show PROJECT --user-id other
resource usage show nobody
trait list
trait list --name startswith:CUSTOM_
trait list --associated
trait list --name in:HW_CPU_X86_AVX,HW_CPU_X86_AVX2
trait show CUSTOM_RACK_A
trait show CUSTOM_NOPE
resource class list
resource class show VCPU
resource class show CUSTOM_NOPE
allocation candidate list --resource VCPU=1 --resource MEMORY_MB=512
allocation candidate list --resource VCPU=1 --resource DISK_GB=10 --limit 3
allocation candidate list --resource VCPU=1 --required CUSTOM_RACK_A
allocation candidate list --resource VCPU=1 --member-of AGGREGATE -c 'resource provider'
allocation candidate list --resource VCPU=4000
allocation candidate list --resource CUSTOM_NOBODY=1
allocation candidate list --resource VCPU=1 --group-policy any
allocation candidate list --resource VCPU=1 --member-of AGGREGATE,NEW
allocation candidate list --resource VCPU=1 --member-of AGGREGATE --member-of NEW
allocation candidate list --resource VCPU=1 --forbidden COMPUTE_STATUS_DISABLED --limit 2
allocation candidate list --resource VCPU=1 --group 1 --resource NET_BW_EGR_KILOBIT_PER_SEC=1000 \
--required CUSTOM_PHYSNET_A --group-policy none
""".splitlines()

WRITING = """\
resource provider create --uuid NEW new.example.org
resource provider create --parent-provider MEMBER --uuid NEW child
resource provider create HOST_NAME
resource provider create --uuid nope name
resource provider create --uuid AGGREGATE node
resource provider set --name renamed MEMBER
resource provider inventory set IRONIC --resource VCPU=16 --resource MEMORY_MB=2048 \
--resource MEMORY_MB:step_size=128
resource provider inventory set HOST --amend --resource VCPU:allocation_ratio=16.0
resource provider inventory set AGGREGATE --aggregate --amend --resource DISK_GB:reserved=10
resource provider inventory set AGGREGATE --aggregate --amend --resource DISK_GB:reserved=10 \
--dry-run
resource provider inventory set HOST --resource VCPU=16
resource provider inventory set EMPTY --resource VCPU=0
resource provider inventory set EMPTY
resource provider inventory set EMPTY --resource VCPU=8 --resource MEMORY_MB:total=64 \
--resource MEMORY_MB:allocation_ratio=1.5 --resource VCPU:reserved=2
resource provider inventory set EMPTY --resource CUSTOM_NOBODY=1
resource provider inventory set NEW --aggregate --resource VCPU=1
resource provider inventory set HOST --dry-run --amend --resource VCPU:reserved=1
resource provider inventory set HOST --amend --resource MEMORY_MB:reserved=1024 \
--resource VCPU:allocation_ratio=4
resource provider inventory class set IRONIC CUSTOM_BAREMETAL_GOLD --total 2 --max_unit 2
resource provider inventory class set IRONIC VCPU --total 2
resource provider inventory class set HOST VCPU --total 160 --max_unit 4 --allocation_ratio 2.5
resource provider aggregate set MEMBER --aggregate AGGREGATE --generation 4
resource provider aggregate set MEMBER --aggregate AGGREGATE --generation 99
resource provider aggregate set MEMBER --aggregate AGGREGATE
resource provider aggregate set MEMBER --aggregate nope --generation 4
resource provider aggregate set MEMBER --generation 4
resource provider trait set --trait CUSTOM_RACK_A --trait HW_CPU_X86_AVX2 MEMBER
resource provider trait set --trait CUSTOM_NOPE MEMBER
resource provider trait set MEMBER
resource provider allocation set NEW --allocation rp=HOST,VCPU=2,MEMORY_MB=512 --project-id p \
--user-id u
resource provider allocation set NEW --allocation rp=HOST,VCPU=2 --allocation rp=MEMBER,DISK_GB=5 \
--project-id p --user-id u --consumer-type INSTANCE
resource provider allocation set NEW --allocation rp=HOST,VCPU=2000 --project-id p --user-id u
resource provider allocation set SERVER --project p --user u --allocation rp=HOST,VCPU=1
resource provider allocation unset SERVER --resource-class DISK_GB
resource provider allocation unset SERVER --provider HOST
resource provider allocation unset SERVER --provider HOST --resource-class VCPU
resource provider allocation unset SERVER --resource-class VCPU --resource-class MEMORY_MB
resource provider allocation unset SERVER
""".splitlines()

#: Without output.
SILENT = """\
resource provider delete IRONIC
resource provider delete ROOT
resource provider delete CHILD
resource provider delete HOST
resource provider delete NEW
resource provider inventory delete IRONIC
resource provider inventory delete IRONIC --resource-class CUSTOM_BAREMETAL_GOLD
resource provider inventory delete EMPTY
resource provider inventory delete NEW --resource-class VCPU
resource provider inventory delete HOST
resource provider inventory delete HOST --resource-class VCPU
resource provider allocation delete SERVER
resource provider allocation delete NEW
resource provider trait delete MEMBER
trait create CUSTOM_NEW
trait create NEW
trait create CUSTOM_RACK_A
trait create CUSTOM_gold
trait create CUSTOM_Ä
trait delete CUSTOM_RACK_A
trait delete CUSTOM_PHYSNET_B
trait delete CUSTOM_NOPE
trait delete HW_CPU_X86_AVX
resource class create CUSTOM_NEW
resource class create CUSTOM_X
resource class create custom_x
resource class set CUSTOM_NEW
resource class set CUSTOM_RESERVATION
resource class set VCPU
resource class delete CUSTOM_BAREMETAL_GOLD
resource class delete CUSTOM_NOPE
resource class delete CUSTOM_RESERVATION
resource class delete VCPU
""".splitlines()

#: The microversions at which upstream's columns, options or errors of a group of commands change;
#: "" without one. Upstream 4.9.1 refuses 1.30 to 1.36 ("Invalid placement client version '1.34'",
#: exit code 1), so there is nothing to compare at these.
VERSIONS = {
    "allocation candidate": ("", "1.9", "1.10", "1.12", "1.17", "1.29", "1.39"),
    "resource class": ("", "1.1", "1.2", "1.7"),
    "resource provider aggregate": ("", "1.0", "1.1", "1.19"),
    "resource provider allocation": ("", "1.0", "1.8", "1.12", "1.28", "1.38"),
    "resource provider inventory": ("", "1.0", "1.3", "1.5"),
    "resource provider trait": ("", "1.5", "1.6"),
    "resource provider": ("", "1.0", "1.14", "1.39"),
    "resource usage": ("", "1.8", "1.9", "1.38"),
    "trait": ("", "1.5", "1.6"),
}

_PAGE = process.ROOT / "doc" / "source" / "user" / "reference" / "output.rst"
#: ``(line, upstream's exit code, ours)``
DIFFERENCES = re.findall(
    r"^   \* - ``(.+)``\n     - (\d)\b.*\n     - (\d)\b", _PAGE.read_text("utf-8"), re.MULTILINE
)

#: Placement names another policy rule in its 403.
SENDS_OTHER_REQUESTS_FIRST = [line for line in WRITING if " set " in line or " unset " in line]

FORMATS = ("table", "value", "json", "yaml")
#: Options, and the environment.
WIDTHS: tuple[tuple[str, dict[str, str]], ...] = (
    ("--max-width 60", {}),
    ("--max-width 120 --print-empty", {}),
    ("--fit-width", {}),
    ("", {"CLIFF_MAX_TERM_WIDTH": "80"}),
    ("", {"CLIFF_FIT_WIDTH": "1", "COLUMNS": "70"}),
)


class Both:
    """The two plugins on one openstack-placement."""

    def __init__(
        self, real: targets.RealPlacement, upstream: drop_in.Plugin, ours: drop_in.Plugin
    ) -> None:
        self._real, self._upstream, self._ours = real, upstream, ours

    def compare(
        self,
        line: str,
        version: str,
        more: str,
        environment: dict[str, str],
        options: Sequence[str] = (),
    ) -> bool:
        """Assert that both do and print the same; whether upstream's command succeeded.

        An error of this plugin also has the classes of upstream's, which programs catch.
        ``options`` override those of the target.
        """
        pinned = ["--os-placement-api-version", version] if version else []
        arguments = [*self._real.options, *options, *pinned, *words_of(line), *more.split()]
        writes = line not in READING
        expected = self._outcome(self._upstream, arguments, environment, writes=writes)
        shown = self._outcome(self._ours, arguments, environment, writes=writes)
        assert shown == expected, (version, more)
        missing = self._upstream.error_classes - self._ours.error_classes
        assert missing == set(), (version, more)
        return bool(expected[0] == 0)

    def ends(self, line: str) -> tuple[int, int]:
        """The exit codes of upstream's plugin and of this one, each on a fresh cloud."""
        arguments = [*self._real.options, *words_of(line)]
        plugins = (self._upstream, self._ours)
        return tuple(self._outcome(plugin, arguments, {}, writes=True)[0] for plugin in plugins)

    def fails(self, line: str, options: Sequence[str]) -> None:
        """Assert that both fail with an error of the same classes."""
        arguments = [*self._real.options, *options, *words_of(line)]
        assert self._upstream.run(arguments).code == self._ours.run(arguments).code == 1
        assert self._upstream.error_classes
        assert self._upstream.error_classes - self._ours.error_classes == set()

    def _outcome(
        self,
        plugin: drop_in.Plugin,
        arguments: list[str],
        environment: dict[str, str],
        *,
        writes: bool,
    ) -> tuple[Any, ...]:
        """Exit code, stdout, the beginning of stderr, and what was written."""
        if not writes:
            return _shown(plugin.run(arguments, environment))
        self._real.load(SAMPLE)
        outcome = plugin.run(arguments, environment)
        paths = ("/resource_providers", "/traits", "/resource_classes")
        return (*_shown(outcome), *(self._real.ask("GET", path) for path in paths))


def words_of(line: str) -> list[str]:
    """The words of a line, with the UUIDs and names of the sample cloud."""
    return shlex.split("".join(NAMES.get(word, word) for word in re.split(r"([\w-]+)", line)))


def _shown(outcome: shell.Outcome) -> tuple[int, str, str]:
    """The first line of stderr is compared without what this plugin adds at its end.

    It adds the request id with advice, and which option needs a microversion. A usage error
    differs after the name of the command; its last line is the message.
    """
    lines = outcome.stderr.rstrip().splitlines() or [""]
    text = lines[-1] if lines[0].startswith("usage: ") else lines[0]
    text = re.sub(r" \(Request-ID: req-[\w-]+\).*$", "", text.rstrip())
    text = re.sub(r"(at least version [\d.]+) \(.*\)$", r"\1", text)
    return outcome.code, outcome.stdout, "" if outcome.code == 0 else text


@pytest.fixture(scope="module")
def both(
    real_placement: targets.RealPlacement, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("home")
    # The parent of a worker's folder belongs to this run only.
    shared = tmp_path_factory.getbasetemp().parent
    upstream = shared / "upstream"
    with (shared / "upstream.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not upstream.exists():
            drop_in.install(upstream)
    real_placement.load(SAMPLE)
    with drop_in.plugin(folder, upstream=upstream) as theirs, drop_in.plugin(folder) as ours:
        yield Both(real_placement, theirs, ours)


def versions_of(line: str) -> tuple[str, ...]:
    return next(VERSIONS[group] for group in VERSIONS if line.startswith(group))


def formats_of(line: str) -> tuple[str, ...]:
    one = re.match(
        r"(resource provider|trait|resource class) (create|set|show)|.* inventory (show|class)",
        line,
    )
    return (*FORMATS, "shell" if one else "csv")


@pytest.fixture
def is_long(request: pytest.FixtureRequest) -> bool:
    """Whether every combination is run; else a few of each line, others for the next line."""
    return bool(request.config.getoption("--long"))


def some(items: Sequence[T], line: str, *, is_long: bool) -> Sequence[T]:
    """All of the items, or one of them: neighbours in the list of lines have different ones."""
    at = (READING + WRITING + SILENT).index(line) % len(items)
    return items if is_long else items[at : at + 1]


@pytest.mark.parametrize("line", READING + WRITING)
def test_every_format_prints_what_upstream_prints(line: str, both: Both, is_long: bool) -> None:
    names = [f"-f {name}" for name in formats_of(line)]
    succeeded = [both.compare(line, "", more, {}) for more in some(names, line, is_long=is_long)]
    if succeeded[0] and (line in READING or is_long):
        for more, environment in some(WIDTHS, line, is_long=is_long):
            both.compare(line, "", more, environment)


@pytest.mark.parametrize("line", READING + WRITING + SILENT)
def test_every_microversion_prints_what_upstream_prints(
    line: str, both: Both, is_long: bool
) -> None:
    for version in some(versions_of(line), line, is_long=is_long):
        every_format = is_long and line not in SILENT
        for more in [f"-f {name}" for name in formats_of(line)] if every_format else [""]:
            both.compare(line, version, more, {})


@pytest.mark.parametrize(("line", "theirs", "ours"), DIFFERENCES)
def test_the_page_names_where_a_line_ends_in_another_way(
    line: str, theirs: str, ours: str, both: Both
) -> None:
    assert both.ends(line) == (int(theirs), int(ours))


def test_a_user_without_rights_gets_upstreams_error(both: Both, is_long: bool) -> None:
    lines = READING + WRITING + SILENT
    for line in lines if is_long else lines[::5]:
        options = ("--os-token", "demo")
        if line in SENDS_OTHER_REQUESTS_FIRST:
            both.fails(line, options)
        else:
            assert not both.compare(line, "", "", {}, options)


def test_an_error_without_a_service_has_upstreams_classes(both: Both) -> None:
    nowhere = ("--os-endpoint", "http://127.0.0.1:1", "--os-placement-api-version", "1.29")
    both.fails("resource provider list", nowhere)


def test_the_lines_have_every_command_of_upstream() -> None:
    new = re.compile(r"resource provider ((aggregate|trait) (add|remove)|consumer list|tree show)")
    words = [name.replace("_", " ") for name in COMMANDS if not name.startswith("placement_")]
    used = {name for name in words for line in READING + WRITING + SILENT if line.startswith(name)}
    assert len(used) == UPSTREAMS_COMMANDS
    assert DIFFERENCES
    assert not any(new.match(name) for name in used)
