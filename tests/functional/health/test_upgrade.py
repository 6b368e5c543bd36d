# SPDX-License-Identifier: Apache-2.0
"""``placement upgrade check``: exit codes and rows, with recorded responses of nova."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import pytest

from osc_placement import testing
from osc_placement.scheduling import nova_options
from osc_placement.testing import uuid_of
from tests.support.peer import fixtures
from tests.support.peer.shell import OpenStack
from tests.support.rows import Row, State, checked

CHECK = "placement upgrade check"
TRAITS = ["COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_TIS"]
CONF = {"nova.conf": "[placement]\nusername = nova\nproject_name = service\n"}
SPEC = '[pci]\ndevice_spec = {"vendor_id": "10de", "one_time_use": "true"}\n'


VM, IMAGE = uuid_of("01"), uuid_of("image")
TPM = {"hw:tpm_version": "2.0"}
#: The flavor that is embedded in a server; nova lists none with this name.
DELETED = {
    "vcpus": 1, "ram": 16, "disk": 0, "ephemeral": 0, "swap": 0, "original_name": "deleted",
    "extra_specs": TPM,
}  # fmt: skip
#: The same flavor as nova shows it to a user without the right.
HIDDEN = {key: value for key, value in DELETED.items() if key != "extra_specs"}
SHOWS = (
    "nova hides extra_specs; the policy rule os_compute_api:os-flavor-extra-specs:index shows it"
)


def at(maximum: str, *servers: Mapping[str, Any], **inventories: int) -> State:
    """One host that can serve a virtual TPM until 2025.2; the maximum of nova's API."""
    cloud = testing.Cloud("nova-{}").flavor("tpm", ram=16, extra_specs=TPM)
    cloud.compute("host", traits=TRAITS, VCPU=4, MEMORY_MB=512, **inventories)
    for number, fields in enumerate(servers, start=1):
        shown = {"vcpus": 3, "status": "SOFT_DELETED", **fields}
        cloud.instance(f"{number:02}", "host", **shown)
    answers = {
        "GET /v2.1/": {"version": {"version": maximum}},
        f"GET /v2/images/{IMAGE}": {"id": IMAGE, "hw_tpm_version": "2.0"},
    }
    return State(cloud, answers, CONF)


def with_images() -> State:
    """Glance has an image that requires a virtual TPM, and one that requires nothing."""
    state = at("2.100")
    listed = [{"id": IMAGE, "name": "windows", "hw_tpm_version": "2.0"}, {"id": VM, "name": "any"}]
    return state._replace(nova={**(state.nova or {}), "GET /v2/images": {"images": listed}})


def without_version(answer: Mapping[str, Any] | None) -> State:
    """Nova has no version document, or answers this."""
    state = at("2.100")
    return state._replace(nova={**(state.nova or {}), "GET /v2.1/": answer})


STATES = {
    "no version": without_version(None),
    "refused": without_version({"not known": "", "service": "nova", "status": 403}),
    "nova 31": at("2.100"),
    "nova 33": at("2.103"),
    "nova 34": at("2.104"),
    "images": with_images(),
    "encrypted memory": at("2.100", MEM_ENCRYPTION_CONTEXT=1),
    "deleted flavor": at("2.100", {"flavor": DELETED, "image": {"id": IMAGE, "properties": {}}}),
    "volume": at("2.100", {}),
    "volumes": at("2.100", {}, {}),
    "odd server": at("2.100", {}, {"flavor": HIDDEN}),
    "image of glance": at("2.95", {"image": {"id": IMAGE}}),
    "image that is gone": at("2.95", {"image": {"id": VM}}),
    "one-time use": at("2.100")._replace(files={"nova.conf": SPEC}),
}
SUCCESS = {"code": "flavors", "result": "success", "subjects": []}
LOST = {"code": "flavors", "result": "warning", "subjects": ["flavor tpm"]}
# A recording does not say who has the role service: the reshape is never a success.
ENCRYPTION = {"code": "encryption", "result": "warning",
              "details": ("a recording of nova has no role assignments",)}  # fmt: skip

# fmt: off
TABLE = [
    Row(f"{CHECK} --to 2025.2", "nova 31", 0,
        [..., SUCCESS, {"code": "images", "result": "not checked"}]),
    Row(f"{CHECK} --to 2025.2 --strict", "nova 31", 1, [..., SUCCESS]),
    Row(f"{CHECK} --to 2026.1 --from 2025.2", "nova 31", 1,
        [..., LOST, {"code": "step", "result": "success"}]),
    Row(f"{CHECK} --to 2025.2", "images", 0, [..., {"code": "images", "result": "success"}]),
    Row(f"{CHECK} --to 2026.1 --from 2025.2", "images", 1,
        [..., {"code": "images", "result": "warning", "subjects": ["image windows"]}]),
    Row(f"{CHECK} --to 2026.2", "nova 31", 2, [..., LOST, {"code": "step", "result": "failure"}]),
    Row(f"{CHECK} --to 2026.2", "nova 33", 0, [..., SUCCESS]),
    Row(f"{CHECK} --to 2026.1 --from 2025.2", "deleted flavor", 1,
        [..., {"code": "servers", "result": "warning", "subjects": ["server 01"],
               "details": ("server 01 has no host until a nova-compute is upgraded",)},
         {"code": "allocations", "result": "warning", "subjects": [VM]}]),
    Row(f"{CHECK} --to 2025.2", "volume", 1,
        [..., {"code": "servers", "result": "not checked",
               "details": ("nova does not show their properties (1 server)",)}]),
    Row(f"{CHECK} --to 2026.1", "image of glance", 2,
        [..., {"code": "servers", "result": "warning", "subjects": ["server 01"]},
         {"code": "step", "result": "failure"}]),
    Row(f"{CHECK} --to 2023.2", "image that is gone", 1,
        [..., {"code": "servers", "result": "not checked",
               "details": (f"the properties of image {VM}: ",)}]),
    Row(f"{CHECK} --to 2025.2 --nova-conf nova.conf", "one-time use", 2,
        [..., {"code": "one-time-use", "result": "failure", "subjects": ["nova.conf"]}]),
    Row(f"{CHECK} --to 2025.2", "encrypted memory", 1, [..., ENCRYPTION]),
    Row(f"{CHECK} --to 2025.2 --nova-conf nova.conf", "encrypted memory", 1, [..., ENCRYPTION]),
]
#: A step that is none.
REFUSED = [
    Row(f"{CHECK} --to 2027.1", "nova 31", 255,
        "'2027.1' is not a known release of nova: 2023.1, "),
    Row(f"{CHECK} --to 2024.1", "nova 31", 255, "it is not newer than nova 31 (2025.1)"),
    Row(f"{CHECK} --to 2026.2 --from 2025.1", "nova 34", 255, "nova-api is nova 34 (2026.2)"),
    Row(f"{CHECK} --to 2026.2 --nova-conf absent", "nova 31", 255, "absent"),
    Row(f"{CHECK} --to 2026.2", "no version", 255, "nova shows no version: give --from"),
    Row(f"{CHECK} --to 2026.2", "refused", 255,
        "nova refuses to show its version (HTTP 403): give --from"),
    Row(f"{CHECK} --from 2025.1", "nova 31", 2, "--to"),
]
# fmt: on

DRIVER = "[DEFAULT]\ncompute_driver = libvirt.LibvirtDriver\n"
#: ``{value of an option: what the row Options of nova-compute says}``, by ``section, option``.
VALUES: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("pci", "alias"): {
        "{bad": "not JSON", "[]": "not a JSON object", "5": "not a JSON object",
        "null": "not a JSON object", '"a"': "not JSON", "": "not JSON",
        "[{}]": "not a JSON object", "{}": "it has no name", '{"name": 1}': "name 1 is not a value",
        '{"name": "a", "traits": ["X"]}': "traits ['X'] is not a value",
        '{"name": "a", "traits": 5}': "traits 5 is not a value",
        '{"name": "a", "color": "red"}': "nova does not know color",
        '{"name": "a", "vendor_id": 4318}': "vendor_id 4318 is not a value",
        '{"name": "a", "live_migratable": true}': "live_migratable True is not a value",
        '{"name": "a", "device_type": "x"}': "device_type 'x' is not a value",
        '{"name": "a", "resource_class": ["x"]}': "resource_class ['x'] is not a value",
        '{"name": "a"}': "alias a has no vendor_id",
    },
    ("pci", "device_spec"): {
        "{bad": "is not JSON", "[[]]": "is not an object", "5": "is not an object",
        "null": "is not an object", '{"address": "1:2:3:4.5"}': "is not <domain>",
        '{"address": "0000:xy:00.0"}': "is not a hexadecimal number",
        '{"address": {"bus": "["}}': "address", '{"vendor_id": "nvidia"}': "vendor_id 'nvidia'",
        '{"product_id": "12345"}': "more than 4 digits",
        '{"devname": "a", "address": "*"}': "both devname and address",
    },
    ("DEFAULT", "host"): {"": "is not a valid host address", "a b": "is not a valid host address"},
    **{
        ("scheduler", name): {"maybe": "Unexpected boolean value", "": "Unexpected boolean value"}
        for name in nova_options.FILTERS
    },
    ("scheduler", "max_placement_results"): {
        "many": "not a number: 'many'", "0": "greater than or equal to 1", "1.5": "not a number",
        "-1": "greater than or equal to 1",
    },
    ("filter_scheduler", "max_instances_per_host"): {
        "many": "not a number: 'many'", "0": "greater than or equal to 1",
    },
    **{
        (section, name): dict.fromkeys(("maybe", "2", "yess", "[1]"), "Unexpected boolean value")
        for section, name in (
            ("DEFAULT", "allow_resize_to_same_host"), ("pci", "report_in_placement"),
            ("filter_scheduler", "pci_in_placement"), ("libvirt", "swtpm_enabled"),
            ("filter_scheduler", "restrict_isolated_hosts_to_isolated_images"),
            ("workarounds", "disable_compute_service_check_for_ffu"),
            ("workarounds", "disable_fallback_pcpu_query"),
        )
    },
}  # fmt: skip
BAD_VALUES = [(*option, *value) for option, values in VALUES.items() for value in values.items()]

test_the_worst_result_is_the_exit_code = checked(TABLE, STATES)

test_a_step_that_is_none_is_an_error = fixtures.ON_ONE_TARGET(checked(REFUSED, STATES))


@fixtures.ON_ONE_TARGET
def test_a_server_with_hidden_extra_specs_is_not_checked_and_changes_no_other_row(
    openstack: OpenStack,
) -> None:
    rows = []
    for name in ("volumes", "odd server"):
        STATES[name].arrange(openstack)
        answer = json.loads(STATES[name].run(openstack, f"{CHECK} --to 2025.2 -f json").stdout)
        rows.append({row["code"]: row for row in answer})
    good, odd = rows
    assert {code for code in good if good[code] != odd[code]} == {"servers", "allocations"}
    assert odd["servers"]["details"][-1] == f"not checked: 1 server: {SHOWS}"
    assert "properties (1 server)" in " ".join(odd["servers"]["details"])
    assert odd["allocations"]["result"] == "warning"
    assert odd["allocations"]["details"][-1] == f"not checked: 1 server: {SHOWS}"


@fixtures.ON_ONE_TARGET
def test_a_bad_value_is_a_failure_of_one_row_and_changes_no_other(openstack: OpenStack) -> None:
    assert len(BAD_VALUES) >= 75
    STATES["nova 31"].arrange(openstack)
    path = pathlib.Path("nova.conf")
    line = f"{CHECK} -f json --from 2025.1 --to 2026.1 --nova-conf nova.conf"

    def rows(text: str, code: int) -> dict[str, dict[str, Any]]:
        path.write_text(text)
        outcome = STATES["nova 31"].run(openstack, line)
        assert outcome.code == code, outcome
        return {row["code"]: row for row in json.loads(outcome.stdout)}

    good = rows(DRIVER, 1)
    assert good["compute-options"]["result"] == "success"
    wrong = []
    for section, option, value, says in BAD_VALUES:
        bad = rows(f"{DRIVER}[{section}]\n{option} = {value}\n", 2)
        row = bad["compute-options"]
        details = " ".join(row["details"])
        changed = {code for code in good if bad[code] != good[code]}
        is_named = f"[{section}]{option}" in details and says in details
        if not (is_named and row["result"] == "failure" and changed == {"compute-options"}):
            wrong.append(f"{section} {option} = {value}: {row} {changed}")
    assert not wrong, "\n".join(wrong)


@fixtures.ON_ONE_TARGET
@pytest.mark.parametrize(
    "text", ["no section", "[pci", "= 1", "[DEFAULT]\nhost = $my_ip\n", "\0", "[a]\n b"]
)
def test_a_file_that_is_no_nova_conf_is_an_error(openstack: OpenStack, text: str) -> None:
    STATES["nova 31"].arrange(openstack)
    pathlib.Path("nova.conf").write_text(text)
    line = f"{CHECK} --to 2026.1 --nova-conf nova.conf"
    outcome = STATES["nova 31"].run(openstack, line)
    assert (outcome.code, "cannot read nova.conf as a nova.conf" in outcome.stderr) == (255, True)
    assert "Traceback" not in outcome.stderr
