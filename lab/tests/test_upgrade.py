# SPDX-License-Identifier: Apache-2.0
"""The facts about releases that ``placement upgrade check`` knows, measured on nova's releases."""

from __future__ import annotations

import itertools
import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from lab import install, place, release_tables
from osc_placement.nova import compute_options, pci, values
from osc_placement.scheduling import nova_options, releases
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.health import upgrade_checks
from osc_placement.workflows.health.upgrade_requests import ReleaseStep
from osc_placement.workflows.repair import status

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def facts() -> dict[int, dict[str, Any]]:
    return release_tables.facts(place.find())


def test_the_tables_lack_nothing_and_invent_nothing(facts: dict[int, dict[str, Any]]) -> None:
    """``tools/release-tables`` writes the file."""
    assert json.loads(release_tables.PATH.read_text()) == release_tables.tables(facts)


def test_what_a_release_does_at_its_start_is_what_the_installed_release_does(
    facts: dict[int, dict[str, Any]],
) -> None:
    for release, measured in facts.items():
        assert measured["minimum"] == str(status.NOVA_NEEDS)
        assert measured["encryption"] is (release >= releases.ENCRYPTION_PROVIDERS_SINCE)
        assert measured["models"] is (release >= releases.SNP_SINCE)
        refused = "requires pci.report_in_placement" in measured["one_time_use"]
        assert refused is (release >= releases.ONE_TIME_USE_SINCE)
        assert measured["workaround"]


@pytest.fixture(scope="module")
def os_traits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, frozenset[str]]:
    """``{version: the standard traits that Placement has with it}``; pip installs each version."""
    names = {}
    show = "import json, os_traits; print(json.dumps(os_traits.get_traits()))"
    for version in (f"3.{minor}.0" for minor in range(10)):
        folder = str(tmp_path_factory.mktemp(version))
        install_it = ("pip", "install", "-q", "--no-deps", "--target", folder)
        subprocess.run([sys.executable, "-m", *install_it, f"os-traits=={version}"], check=True)
        ended = subprocess.run(
            [sys.executable, "-c", show],
            env={"PYTHONPATH": folder},
            check=True,
            capture_output=True,
        )
        names[version] = frozenset(json.loads(ended.stdout))
    return names


def test_each_os_traits_in_front_of_each_step_lacks_what_nova_needs(
    facts: dict[int, dict[str, Any]], os_traits: dict[str, frozenset[str]]
) -> None:
    """What nova's releases write and require themselves, not the tables."""
    needs = {release: {*said["written"], *said["required"]} for release, said in facts.items()}
    for version, names in os_traits.items():
        for old, new in itertools.combinations(sorted(needs), 2):
            upgrade = ReleaseStep(old, new, nova_options.SchedulerOptions())
            lacking = sorted(needs[new] - needs[old] - names)
            outcome = upgrade_checks.trait_names(names, upgrade)
            assert [*outcome.subjects] == lacking, (version, old, new)
            is_success = outcome.result is upgrade_checks.Readiness.SUCCESS
            assert is_success is (not lacking)
        # Nova may ask for a newer one than its traits need.
        for release, least in releases.OS_TRAITS.items():
            numbers = [tuple(map(int, text.split("."))) for text in (version, least)]
            assert needs[release] <= names or numbers[0] < numbers[1], (version, release)


ALIAS = {"name": "a", "vendor_id": "10de", "product_id": "1eb8", "device_type": "type-PCI"}
NO_TYPE = {key: value for key, value in ALIAS.items() if key != "device_type"}
CLASS = {"name": "a", "resource_class": "PGPU"}
#: The aliases of one nova.conf each; each is started with and without pci_in_placement.
ALIASES: tuple[list[dict[str, str]], ...] = (
    [], [ALIAS], [ALIAS, ALIAS], [NO_TYPE], [NO_TYPE, NO_TYPE], [ALIAS, NO_TYPE], [CLASS],
    [CLASS, CLASS], [ALIAS, {**ALIAS, "name": "b", "device_type": "type-VF"}],
    *([ALIAS, {**ALIAS, **more}] for more in (
        {"device_type": "type-VF"}, {"product_id": "1eb9"}, {"numa_policy": "required"},
        {"numa_policy": "legacy"}, {"live_migratable": "yes"},
    )),
    *([{**ALIAS, **more}] for more in (
        {"device_type": "x"}, {"numa_policy": "socket"}, {"numa_policy": "x"}, {"vendor_id": "zz"},
        {"vendor_id": "10D"}, {"vendor_id": "10DE"}, {"product_id": "1eb8A"}, {"color": "red"},
        {"capability_type": "pci"}, {"capability_type": "x"}, {"live_migratable": "True"},
        {"live_migratable": "x"}, {"live_migratable": ""}, {"name": ""}, {"name": "x" * 256},
        {"name": "x" * 257}, {"traits": "CUSTOM_A,!"}, {"traits": ""}, {"resource_class": ""},
        {"resource_class": "gpu"},
    )),
    *([{key: value for key, value in ALIAS.items() if key != gone}]
      for gone in ("vendor_id", "product_id")),
)  # fmt: skip


#: Values of ``[pci]alias`` that are no alias.
NO_ALIASES = (
    "{bad", "[]", "[{}]", "", "5", "null", "true", "NaN", "{}", '"a"', '{"name": "a",}',
    '{"vendor_id": "10de", "product_id": "1eb8"}', json.dumps([ALIAS]),
    *(json.dumps({**ALIAS, **more}) for more in (
        {"traits": ["CUSTOM_A"]}, {"traits": 5}, {"traits": "HW_GPU,CUSTOM_A"}, {"traits": "a,,b"},
        {"name": 1}, {"name": None}, {"vendor_id": 4318}, {"resource_class": ["x"]},
        {"live_migratable": True}, {"live_migratable": 1}, {"numa_policy": None},
    )),
)  # fmt: skip
#: Values of ``[pci]device_spec``, each with and without ``report_in_placement``.
DEVICE_SPECS = (
    "{bad", "[]", "[[]]", "5", "null", "{}", '"a"', '[{"vendor_id": "10de"}, 5]',
    *(json.dumps({"vendor_id": "10de", "product_id": "1eb8", **more}) for more in (
        {}, {"one_time_use": "true"}, {"one_time_use": "false"}, {"one_time_use": True},
        {"one_time_use": "yes"}, {"one_time_use": "maybe"}, {"address": "0000:84:00.0"},
        {"address": "*:84:*.*"}, {"address": "0000:xy:00.0"}, {"address": "1:2:3:4.5"},
        {"address": {"bus": "8[0-9]"}}, {"address": {"bus": "["}}, {"vendor_id": "nvidia"},
        {"product_id": "12345"}, {"address": "0000:84:00.0", "devname": "eth0"},
        {"resource_class": "gpu"}, {"traits": "CUSTOM_A"}, {"physical_network": "physnet0"},
    )),
)  # fmt: skip
#: Other lines, and whether they are refused by the rule of names, which is a warning.
LINES = (
    "", "[DEFAULT]\nhost = a", "[DEFAULT]\nhost = b", "[DEFAULT]\nhost = A",
    "[DEFAULT]\nhost =", "[DEFAULT]\nhost = a b", "[DEFAULT]\nhost = a_b", "[DEFAULT]\nhost = 5",
    "[DEFAULT]\nallow_resize_to_same_host = maybe",
    "[workarounds]\ndisable_compute_service_check_for_ffu = maybe",
    "[workarounds]\ndisable_compute_service_check_for_ffu = true",
    "[workarounds]\ndisable_fallback_pcpu_query = maybe",
    "[pci]\nreport_in_placement = 7", "[pci]\nreport_in_placement = yes",
    "[filter_scheduler]\npci_in_placement =", "[filter_scheduler]\nmax_instances_per_host = 0",
    "[filter_scheduler]\nmax_instances_per_host = many", "[filter_scheduler]\nenabled_filters =",
    "[filter_scheduler]\nisolated_hosts = a,,b",
    "[filter_scheduler]\nrestrict_isolated_hosts_to_isolated_images = 2",
    "[scheduler]\nmax_placement_results = 0", "[scheduler]\nmax_placement_results = 1.5",
    "[scheduler]\nmax_placement_results = -1", "[scheduler]\nimage_metadata_prefilter = perhaps",
    "[scheduler]\nlimit_tenants_to_placement_aggregate = on",
    "[libvirt]\nswtpm_enabled = maybe", "[libvirt]\nswtpm_enabled = false",
    "[unknown]\nx = 1", "[libvirt]\nunknown = 1",
    *(f"[libvirt]\nswtpm_enabled = true\nsupported_tpm_secret_security = {value}" for value in (
        "user", "user,host", "user, host, deployment", "", "bogus", "USER", "user,bogus",
        "user,user", "'user'", "[user]",
    )),
)  # fmt: skip
FILES = (
    *(
        f"[filter_scheduler]\npci_in_placement = {in_placement}\n[pci]\n"
        + "".join(f"alias = {json.dumps(alias)}\n" for alias in aliases)
        for aliases in ALIASES
        for in_placement in (False, True)
    ),
    *(f"[pci]\nalias = {text}\n" for text in NO_ALIASES),
    *(
        f"[pci]\ndevice_spec = {text}\nreport_in_placement = {is_reported}\n"
        for text in DEVICE_SPECS
        for is_reported in (False, True)
    ),
    *LINES,
)
DRIVER = "[DEFAULT]\ncompute_driver = start.StartDriver\n"
SECRET = "COMPUTE_SECURITY_TPM_SECRET_SECURITY_"


def step_with(path: pathlib.Path, release: int) -> tuple[ReleaseStep, pci.PciConfiguration]:
    """What the command reads of a nova.conf."""
    refused: list[str] = []
    options = nova_options.read_nova_conf(path, nova_options.SchedulerOptions(), refused)
    configuration = pci.read_device_spec(path, refused)
    return ReleaseStep(27, release, options, compute_options.read(path, refused)), configuration


@pytest.mark.parametrize("release", releases.NAMES)
def test_a_row_warns_if_and_only_if_nova_compute_does_not_start(
    release: int, tmp_path: pathlib.Path
) -> None:
    files = [DRIVER + text for text in FILES]
    theirs = install.ask_release(place.find(), release, "compute_start.py", files)
    cloud = Cloud(values.Hosts(services=frozenset({"a"})), {})
    differences = []
    for text, nova in zip(files, theirs, strict=True):
        path = tmp_path / "nova.conf"
        path.write_text(text)
        step, configuration = step_with(path, release)
        rows = (
            upgrade_checks.compute_options(cloud, step),
            upgrade_checks.one_time_use(configuration, step),
        )
        if any(row.result in ("failure", "warning") for row in rows) is not bool(nova["error"]):
            differences.append(f"{text}: {nova['error'] or 'starts'}, not {rows}")
        assert step.compute is not None
        written = {name for name in releases.WRITTEN_SINCE if name.startswith(SECRET)}
        if step.compute.has_tpm and release >= releases.WRITTEN_SINCE[f"{SECRET}USER"]:
            ours = {name for name in written if not step.compute.withholds(name)}
            assert ours == written.intersection(nova["traits"]), text
    refused = sum(bool(nova["error"]) for nova in theirs)
    print(f"nova {release}: {len(files)} files, {refused} do not start, {len(differences)} differ")
    assert not differences, "\n".join(differences)


def test_a_nova_compute_needs_a_driver(tmp_path: pathlib.Path) -> None:
    """So a file without one is that of another service, and its row is not checked."""
    path = tmp_path / "nova.conf"
    for release in releases.NAMES:
        (nova,) = install.ask_release(place.find(), release, "compute_start.py", [""])
        assert nova["error"], release
        path.write_text("[DEFAULT]\nhost = controller\n")
        nothing = Cloud(values.Hosts(), {})
        outcome = upgrade_checks.compute_options(nothing, step_with(path, release)[0])
        assert outcome.result == "not checked", outcome


def test_a_step_fails_if_and_only_if_the_new_services_refuse_the_old_computes(
    facts: dict[int, dict[str, Any]],
) -> None:
    """``oldest`` is where nova's raise_if_old_compute ends to raise."""
    pairs = list(itertools.combinations(sorted(facts), 2))
    assert len(pairs) == 28
    for old, new in pairs:
        outcome = upgrade_checks.step(ReleaseStep(old, new, nova_options.SchedulerOptions()))
        is_refused = facts[old]["version"] < facts[new]["oldest"]
        assert (outcome.result == "failure") is is_refused, (old, new, outcome)
