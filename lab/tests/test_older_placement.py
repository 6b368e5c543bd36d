# SPDX-License-Identifier: Apache-2.0
"""The commands on Placement 11 (2024.1) and 14 (2025.2), and on nova 29, beside those of the tests.

Over the API each runs as a service, with the standard traits of its time, beside
openstack-placement 16, with the same sample cloud, and gets the same commands. Without a service
the extra ``offline`` is installed beside each. The first run installs about 150 packages for each
release. A cloud of Placement 11 and nova 29 has the seed of the lab, and runs in the place of the
lab's.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from lab import configure, database, install, lifecycle, place, process as services
from lab.tests import conftest
from osc_placement.scheduling import releases
from tests.support.peer import process, shell, target as targets

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

RELEASES = (11, 14)
#: Of the same release of OpenStack.
NOVA_MINUS_PLACEMENT = 18
CLOUD = "12-hosts"
SERVER = "9172cd1b-d7eb-5efd-a2b8-7e10723d20ff"
FULL = "cmp-0003.lab.example.org"
NOVA = ("--os-nova-recording", CLOUD)

READS = (
    "resource provider list --long",
    f"resource provider tree show {FULL}",
    f"resource provider inventory list {FULL}",
    "resource provider consumer list cmp-0001.lab.example.org",
    f"resource provider allocation show {SERVER}",
    "trait list",
    "resource class list",
    "allocation candidate list --resource VCPU=4 --resource MEMORY_MB=8192",
    "allocation candidate explain --flavor t1.missing --nearest 1",
    f"allocation candidate explain --server {SERVER}",
    f"allocation candidate explain --server {SERVER} --for live-migrate --to-host cmp-0003",
    "placement status show",
    "placement health show",
    "placement allocation audit",
    "placement allocation heal --dry-run",
    "placement provider audit",
    "placement aggregate mirror --dry-run",
    "placement flavor audit",
    "placement capacity show --flavor m1.large --keep 1",
    "placement capacity make-room --flavor m1.large",
    "placement server check",
    "placement host check cmp-0008",
    "placement host drain cmp-0008",
    "placement upgrade check --from 2026.1 --to 2026.2",
)
#: In this order; the state is compared after each.
WRITES = (
    "placement aggregate mirror",
    "placement allocation audit --repair --allow many",
    "placement allocation heal",
    "resource provider inventory amend --all --resource VCPU:allocation_ratio=6 --undo-out ratio",
    "placement plan undo ratio",
    "trait create CUSTOM_NEW",
    "resource provider trait add --all --trait CUSTOM_NEW",
    "resource provider trait remove --all --trait CUSTOM_NEW",
)
#: ``{command: why its answer is another}``: only the older service's own answers.
_LACKS = "it lacks the traits of later releases"
DIFFERENT: Mapping[str, str] = {
    "trait list": _LACKS,
    "placement upgrade check --from 2026.1 --to 2026.2": _LACKS,
}

#: What no two services share.
_OWN = re.compile(r"http://127\.0\.0\.1:\d+|req-[0-9a-f-]{36}|[0-9T:Z-]{19,20}-[0-9a-f]{8}")


@pytest.fixture(params=RELEASES, ids=str)
def release(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


def environment(release: int, name: str, *more: str) -> str:
    """The Python of an environment with this release, which starts with an older oslo.policy."""
    packages = (f"openstack-placement=={release}.*", "oslo.policy<6", *more)
    return install.environment(place.find(), f"placement-{release}-{name}", packages)


@pytest.fixture
def command(release: int) -> tuple[str, ...]:
    """How to start the service of a release, with the os-traits that its nova needs."""
    names = f"os-traits=={releases.OS_TRAITS[release + NOVA_MINUS_PLACEMENT]}"
    python = environment(release, "service", names, "waitress", "setuptools<81")
    return python, *process.PLACEMENT[1:]


@contextlib.contextmanager
def service(command: tuple[str, ...], folder: pathlib.Path) -> Iterator[targets.OverHttp]:
    """A service with the sample cloud."""
    folder.mkdir()
    with process.running(command, folder) as url:
        target = targets.OverHttp(folder.name, url)
        target.load(CLOUD)
        yield target


def answer(target: targets.Target, command: str) -> tuple[int, Any, str]:
    """Exit code, data and messages, without what is one service's own."""
    ended = shell.run([*target.options, *command.split(), *NOVA, "-f", "json"])
    data = json.loads(ended.stdout, object_hook=_without_own) if ended.stdout else None
    return ended.code, _ordered(data), _OWN.sub("", ended.stderr)


def _without_own(item: dict[str, Any]) -> dict[str, Any]:
    """Without the time of a change, the address of the service, and the place of a candidate."""
    return {name: value for name, value in item.items() if name not in {"updated", "target", "#"}}


def _ordered(data: Any) -> Any:
    """Services list in the order of their database."""
    if isinstance(data, dict):
        return {name: _ordered(value) for name, value in data.items()}
    if isinstance(data, list):
        return sorted(map(_ordered, data), key=json.dumps)
    return ",".join(sorted(data.split(","))) if isinstance(data, str) else data


def test_the_answers_over_the_api_are_those_of_the_present_release(
    release: int,
    command: tuple[str, ...],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with (
        service(command, tmp_path / "old") as older,
        service(process.PLACEMENT, tmp_path / "new") as newer,
    ):
        different = {words: (answer(older, words), answer(newer, words)) for words in READS}
        for words in WRITES:
            line = f"{words} --allow recorded-nova" if "placement a" in words else words
            different[words] = answer(older, line), answer(newer, line)
            assert older.state() == newer.state(), words
    different = {words: both for words, both in different.items() if both[0] != both[1]}
    print(f"{release}: {len(READS)} reads and {len(WRITES)} writes")
    assert different.keys() == DIFFERENT.keys(), json.dumps(different, indent=1)


def test_without_a_service_nothing_is_added_and_the_release_is_named(
    release: int, command: tuple[str, ...], tmp_path: pathlib.Path
) -> None:
    state = tmp_path / "state"
    with service(command, state):
        pass
    python = environment(release, "offline", f"{place.ROOT}[offline]")
    names = traits(state / "placement.sqlite")
    openstack = pathlib.Path(python).with_name("openstack")
    variables = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    for words in (
        f"{' '.join(NOVA)} placement allocation audit --repair --allow many --allow recorded-nova",
        "trait create CUSTOM_NEW",
        "resource provider trait add --all --trait CUSTOM_NEW",
        "resource provider inventory amend --all --resource VCPU:allocation_ratio=6",
    ):
        ended = subprocess.run(
            [openstack, "--os-placement-config", state / "placement.conf", *words.split()],
            env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        # 9: a repair of all that can be repaired.
        assert ended.returncode in {0, 9}, ended.stderr
        assert f"with the rules of openstack-placement {release}." in ended.stderr
    assert traits(state / "placement.sqlite") == names | {"CUSTOM_NEW"}


def traits(database: pathlib.Path) -> set[str]:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM traits")}


def test_fewer_allocations_on_a_host_over_its_capacity_need_placement_14(
    release: int, command: tuple[str, ...], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with service(command, tmp_path / "old") as target:

        def run(words: str) -> shell.Outcome:
            return shell.run([*target.options, *words.split()])

        rows = json.loads(run(f"resource provider allocation show {SERVER} -f json").stdout)
        host = rows[0]["resource_provider"]
        for name in ("VCPU", "MEMORY_MB"):
            shrunk = f"resource provider inventory set {host} --amend --resource {name}:total=1"
            ended = run(f"{shrunk} --resource {name}:reserved=0")
            assert ended.code == 0, ended
        ended = run(f"resource provider allocation unset {SERVER} --resource-class DISK_GB")
        assert ended.code == (0 if release >= 14 else 1), ended
        assert ("a Placement older than 2025.2 refuses" in ended.stderr) is (release < 14), ended


SERVICES = ("placement", "nova")
_RULES = "nova 29 has other rules: no OWNER_NOVA, and no live migration with PCI devices"
_IMAGE = "its API does not show the properties of an image, and glance does not have this one"
#: ``{nova, with the Placement of its release: {command: why its answer is another}}``.
WHOLE: Mapping[int, Mapping[str, str]] = {
    29: {
        "trait list": _LACKS,
        "allocation candidate explain --flavor t1.missing --nearest 1": _RULES,
        f"allocation candidate explain --server {SERVER}": f"{_RULES}; {_IMAGE}",
        f"allocation candidate explain --server {SERVER} --for live-migrate --to-host cmp-0003": (
            f"{_RULES}; {_IMAGE}"
        ),
        "placement health show": f"{_RULES}; {_IMAGE}",
        "placement allocation audit": _IMAGE,
        "placement allocation audit --repair --allow many": _IMAGE,
        "placement allocation heal --dry-run": _IMAGE,
        "placement allocation heal": _IMAGE,
        "placement flavor audit": _RULES,
        "placement capacity show --flavor m1.large --keep 1": f"{_RULES}; {_IMAGE}",
        "placement capacity make-room --flavor m1.large": _RULES,
        "placement server check": f"{_RULES}; {_IMAGE}",
        "placement upgrade check --from 2026.1 --to 2026.2": _RULES,
    }
}


@contextlib.contextmanager
def older_cloud(lab: place.Place, nova: int, folder: pathlib.Path) -> Iterator[place.Place]:
    """Placement and nova of a release with the seed of the lab, at the addresses of the lab's."""
    packages = (
        *install.NOVA_RELEASES[nova],
        f"openstack-placement=={nova - NOVA_MINUS_PLACEMENT}.*",
        *("oslo.policy<6", f"os-traits=={releases.OS_TRAITS[nova]}", "setuptools<81", "gunicorn"),
    )
    python = install.environment(lab, f"cloud-{nova}", packages)
    made = place.Place(folder, lab.first_port)
    made.folder.mkdir()
    made.path("venv").symlink_to(pathlib.Path(python).parents[1])
    services.stop(lab, SERVICES)
    try:
        for service in SERVICES:
            configure.configure(made, service)
            database.make(made, service)
            services.start(made, [service])
        lifecycle.fill(made, hosts=12, servers=60, kinds="all")
        yield made
    finally:
        services.stop(made, SERVICES)
        services.start(lab, SERVICES)


@pytest.mark.parametrize("nova", WHOLE, ids=str)
def test_the_answers_on_a_whole_cloud_are_those_of_the_present_releases(
    nova: int, seeded_lab: place.Place, tmp_path: pathlib.Path
) -> None:
    openstack = conftest.OpenStack(seeded_lab, tmp_path, "lab")
    newer = {words: of_cloud(openstack, words) for words in (*READS, *WRITES)}
    # The writes changed ports, too.
    database.reset(seeded_lab, database.SEEDED, "neutron")
    with older_cloud(seeded_lab, nova, tmp_path / "older"):
        older = {words: of_cloud(openstack, words) for words in (*READS, *WRITES)}
    different = {words: (older[words], newer[words]) for words in newer}
    different = {words: both for words, both in different.items() if both[0] != both[1]}
    assert different.keys() == WHOLE[nova].keys(), json.dumps(different, indent=1)


def of_cloud(openstack: conftest.OpenStack, command: str) -> tuple[int, Any, str]:
    """As ``answer``, of the lab."""
    ended = openstack.run(f"{command} -f json")
    data = json.loads(ended.stdout, object_hook=_without_own) if ended.stdout else None
    return ended.returncode, _ordered(data), _OWN.sub("", ended.stderr)
