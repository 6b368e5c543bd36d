# SPDX-License-Identifier: Apache-2.0
"""``placement upgrade check``: exit codes and rows, with recorded responses of nova."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from osc_placement import testing
from tests.support.clouds import compute_services
from tests.support.peer import shell

FLAVORS = "GET /v2.1/flavors/detail?is_public=None"
UUID = "00000000-0000-4000-8000-000000000001"
TPM = {
    "id": "tpm", "name": "tpm", "vcpus": 1, "ram": 64, "disk": 0, "swap": 0,
    "OS-FLV-EXT-DATA:ephemeral": 0, "extra_specs": {"hw:tpm_version": "2.0"},
}  # fmt: skip


def small_cloud(maximum: str) -> dict[str, Any]:
    """Nova with this maximum of its API, one host, no server and one flavor."""
    return {
        **compute_services.compute_hosts([("host", "host", UUID)]),
        "GET /v2.1/": {"version": {"version": maximum}},
        FLAVORS: {"flavors": [TPM]},
        "GET /v2.1/os-aggregates": {"aggregates": []},
        "GET /v2.1/os-migrations": {"migrations": []},
        "GET /v2.1/os-server-groups?all_projects=True": {"server_groups": []},
        "GET /v2.1/servers/detail?all_tenants=1": {"servers": []},
        "GET /v2.1/servers/detail?all_tenants=1&deleted=true": {"servers": []},
    }


def recorded(folder: pathlib.Path, nova: dict[str, Any]) -> tuple[str, str]:
    path = folder / "nova.json"
    path.write_text(json.dumps(nova))
    return "--os-nova-recording", str(path)


@pytest.fixture
def host(openstack: shell.OpenStack) -> None:
    """One host that can serve a virtual TPM by the rules until 2025.2."""
    target = openstack.target
    target.ask("POST", "/resource_providers", {"name": "host", "uuid": UUID})
    offered = {"VCPU": {"total": 4}, "MEMORY_MB": {"total": 512}}
    body = {"resource_provider_generation": 0, "inventories": offered}
    target.ask("PUT", f"/resource_providers/{UUID}/inventories", body)
    traits = ["COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_TIS"]
    body = {"resource_provider_generation": 1, "traits": traits}
    target.ask("PUT", f"/resource_providers/{UUID}/traits", body)


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize(
    ("line", "maximum", "code", "results"),
    [
        ("--to 2025.2", "2.100", 0, {"flavors": "success", "images": "not checked"}),
        ("--to 2025.2 --strict", "2.100", 1, {"flavors": "success"}),
        ("--to 2026.1 --from 2025.2", "2.100", 1, {"flavors": "warning", "step": "success"}),
        ("--to 2026.2", "2.100", 2, {"step": "failure", "flavors": "warning"}),
        ("--to 2026.2", "2.103", 0, {"flavors": "success"}),
    ],
)
def test_the_worst_result_is_the_exit_code(
    openstack: shell.OpenStack,
    tmp_path: pathlib.Path,
    line: str,
    maximum: str,
    code: int,
    results: dict[str, str],
) -> None:
    options = recorded(tmp_path, small_cloud(maximum))
    checked = openstack.rows("placement upgrade check", *line.split(), *options, code=code)
    by_code = {row["code"]: row for row in checked}
    assert {name: by_code[name]["result"] for name in results} == results, checked
    assert by_code["flavors"]["subjects"] == (
        ["flavor tpm"] if results["flavors"] == "warning" else []
    )


@pytest.mark.parametrize(
    ("line", "maximum", "code", "text"),
    [
        ("--to 2027.1", "2.100", 255, "'2027.1' is not a known release of nova: 2023.1, "),
        ("--to 2024.1", "2.100", 255, "it is not newer than nova 31 (2025.1)"),
        ("--to 2026.2 --from 2025.1", "2.104", 255, "nova-api is nova 34 (2026.2)"),
        ("--to 2026.2 --nova-conf absent", "2.100", 255, "absent"),
        ("--from 2025.1", "2.100", 2, "--to"),
    ],
)
def test_a_step_that_is_none_is_an_error(
    openstack: shell.OpenStack,
    tmp_path: pathlib.Path,
    line: str,
    maximum: str,
    code: int,
    text: str,
) -> None:
    options = recorded(tmp_path, small_cloud(maximum))
    outcome = openstack.run("placement upgrade check", *line.split(), *options)
    assert (outcome.code, text in outcome.stderr, outcome.stdout) == (code, True, ""), outcome


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize("with_conf", [False, True])
def test_a_recording_does_not_say_who_has_the_role_service(
    openstack: shell.OpenStack, tmp_path: pathlib.Path, with_conf: bool
) -> None:
    """The reshape is a warning then, and never a success."""
    path = f"/resource_providers/{UUID}/inventories"
    body = openstack.target.ask("GET", path)
    body["inventories"]["MEM_ENCRYPTION_CONTEXT"] = {"total": 1}
    openstack.target.ask("PUT", path, body)
    conf = tmp_path / "nova.conf"
    conf.write_text("[placement]\nusername = nova\nproject_name = service\n")
    line = ("--to", "2025.2", *(("--nova-conf", str(conf)) if with_conf else ()))
    options = recorded(tmp_path, small_cloud("2.100"))
    rows = openstack.rows("placement upgrade check", *line, *options, code=1)
    (row,) = (item for item in rows if item["code"] == "encryption")
    assert row["result"] == "warning"
    assert "a recording of nova has no role assignments" in " ".join(row["details"])


@pytest.mark.usefixtures("sample")
def test_the_sample_cloud_has_servers_that_the_scheduler_does_not_see(
    openstack: shell.OpenStack, tmp_path: pathlib.Path
) -> None:
    conf = tmp_path / "nova.conf"
    conf.write_text('[pci]\ndevice_spec = {"vendor_id": "10de", "one_time_use": "true"}\n')
    options = ("--from", "2025.1", "--to", "2025.2", "--nova-conf", str(conf))
    nova = recorded(tmp_path, testing.sample_nova("12-hosts"))
    checked = openstack.rows("placement upgrade check", *options, *nova, code=2)
    by_code = {row["code"]: row for row in checked}
    assert by_code["one-time-use"]["result"] == "failure"
    assert len(by_code["allocations"]["subjects"]) == 58
    assert len(by_code["host-aggregates"]["subjects"]) == 14
