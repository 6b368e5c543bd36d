# SPDX-License-Identifier: Apache-2.0
"""The modules of osc-placement 4 that other plugins import: the same names and behaviour."""

from __future__ import annotations

import importlib
import itertools
import json
import subprocess
import sys
import types
import warnings
from typing import Any

import keystoneauth1.exceptions
import pytest
import requests
from keystoneauth1 import session, token_endpoint
from osc_lib import exceptions

from osc_placement import microversion
from osc_placement.v1.common import local_target
from tests.support import commands
from tests.support.versions import MAXIMUM

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from osc_placement import http, version

#: The entry points of osc-placement 4.9.1, in its package osc_placement.resources.
FORMER_ENTRY_POINTS = """
allocation_candidate_list = allocation_candidate:ListAllocationCandidate
resource_class_create = resource_class:CreateResourceClass
resource_class_delete = resource_class:DeleteResourceClass
resource_class_list = resource_class:ListResourceClass
resource_class_set = resource_class:SetResourceClass
resource_class_show = resource_class:ShowResourceClass
resource_provider_aggregate_list = aggregate:ListAggregate
resource_provider_aggregate_set = aggregate:SetAggregate
resource_provider_allocation_delete = allocation:DeleteAllocation
resource_provider_allocation_set = allocation:SetAllocation
resource_provider_allocation_show = allocation:ShowAllocation
resource_provider_allocation_unset = allocation:UnsetAllocation
resource_provider_create = resource_provider:CreateResourceProvider
resource_provider_delete = resource_provider:DeleteResourceProvider
resource_provider_inventory_class_set = inventory:SetClassInventory
resource_provider_inventory_delete = inventory:DeleteInventory
resource_provider_inventory_list = inventory:ListInventory
resource_provider_inventory_set = inventory:SetInventory
resource_provider_inventory_show = inventory:ShowInventory
resource_provider_list = resource_provider:ListResourceProvider
resource_provider_set = resource_provider:SetResourceProvider
resource_provider_show = resource_provider:ShowResourceProvider
resource_provider_trait_delete = trait:DeleteResourceProviderTrait
resource_provider_trait_list = trait:ListResourceProviderTrait
resource_provider_trait_set = trait:SetResourceProviderTrait
resource_provider_usage_show = usage:ShowUsage
resource_usage_show = usage:ResourceShowUsage
trait_create = trait:CreateTrait
trait_delete = trait:DeleteTrait
trait_list = trait:ListTrait
trait_show = trait:ShowTrait
"""

#: The constants that programs and plugins import, as osc-placement 4.9.1 has them.
FORMER_CONSTANTS = """
aggregate BASE_URL /resource_providers/{uuid}/aggregates
aggregate FIELDS uuid
allocation BASE_URL /allocations
allocation_candidate BASE_URL /allocation_candidates
inventory BASE_URL /resource_providers/{uuid}/inventories
inventory FIELDS allocation_ratio min_unit max_unit reserved step_size total
inventory PER_CLASS_URL /resource_providers/{uuid}/inventories/{resource_class}
inventory RP_BASE_URL /resource_providers
inventory USAGES_BASE_URL /resource_providers/{uuid}/usages
resource_class BASE_URL /resource_classes
resource_class FIELDS name
resource_class PER_CLASS_URL /resource_classes/{name}
resource_provider ALLOCATIONS_URL /resource_providers/{uuid}/allocations
resource_provider BASE_URL /resource_providers
trait BASE_URL /traits
trait FIELDS name
trait RP_BASE_URL /resource_providers/{uuid}
trait RP_TRAITS_URL /resource_providers/{uuid}/traits
usage BASE_URL /resource_providers/{uuid}/usages
usage FIELDS resource_class usage
usage USAGES_URL /usages
"""

RESOURCES = "osc_placement.resources"
ENDPOINT = "http://placement.example.org"


def test_the_former_entry_points_are_those_of_the_former_group() -> None:
    """A client that ignores ``osc_placement.resources`` drops these commands and no other one."""
    former = dict(line.split(" = ") for line in FORMER_ENTRY_POINTS.strip().splitlines())
    assert {name: f"{RESOURCES}.{path}" for name, path in former.items()} == commands.CLASSIC
    assert [path for path in commands.OWN.values() if path.startswith(RESOURCES)] == []


@pytest.mark.parametrize("entry", commands.CLASSIC)
def test_a_former_command_has_the_hook_that_protects_a_cloud(entry: str) -> None:
    (path,) = commands.entry_points(f"openstack.cli.{entry}").values()
    assert commands.load(path) is local_target.LocalTarget


@pytest.mark.parametrize("line", FORMER_CONSTANTS.strip().splitlines())
def test_a_former_constant_has_its_value(line: str) -> None:
    module, name, *words = line.split()
    value = getattr(importlib.import_module(f"{RESOURCES}.{module}"), name)
    assert value == (tuple(words) if name == "FIELDS" else words[0])


@pytest.mark.parametrize(
    "statement",
    [
        "import osc_placement.version",
        "from osc_placement import http",
    ],
)
def test_an_import_warns_once_at_the_line_of_the_import(statement: str) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "default", "-c", statement],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    lines = [line for line in run.stderr.splitlines() if "osc-placement 6" in line]
    assert len(lines) == 1
    assert "DeprecationWarning: osc_placement." in lines[0]
    assert lines[0].startswith("<string>:1:")


def test_the_versions_are_all_of_the_project() -> None:
    assert [
        f"1.{minor}" for minor in range(microversion.MAXIMUM.minor + 1)
    ] == version.SUPPORTED_MICROVERSIONS
    assert [*version.SUPPORTED_MICROVERSIONS, "1"] == version.SUPPORTED_VERSIONS
    assert version.NEGOTIATE_VERSIONS == ["1"]
    assert version.MAX_VERSION_NO_GAP == "1.29"


@pytest.mark.parametrize(
    ("name", "holds", "text"),
    [
        ("lt", (True, False, False), "requires version less than 1.5"),
        ("le", (True, True, False), "requires at most version 1.5"),
        ("eq", (False, True, False), "requires version 1.5"),
        ("ne", (True, False, True), "can not use version 1.5"),
        ("ge", (False, True, True), "requires at least version 1.5"),
        ("gt", (False, False, True), "requires version greater than 1.5"),
    ],
)
def test_a_predicate_gives_true_or_the_reason(
    name: str, holds: tuple[bool, ...], text: str
) -> None:
    predicate = getattr(version, name)("1.5")
    assert [predicate(ver) for ver in ("1.4", "1.5", "1.10")] == [ok or text for ok in holds]


PREFIX = "Operation or argument is not supported with version"


@pytest.mark.parametrize(
    ("ver", "predicates", "op", "text"),
    [
        ("1.4", [version.ge("1.5")], all, f"{PREFIX} 1.4; requires at least version 1.5"),
        (
            "1.5",
            [version.eq("1.4"), version.gt("1.10")],
            any,
            f"{PREFIX} 1.5; requires version 1.4, or requires version greater than 1.10",
        ),
        (
            "1.20",
            [version.eq("1.4"), version.gt("1.10"), version.ne("1.20")],
            all,
            f"{PREFIX} 1.20; requires version 1.4, and can not use version 1.20",
        ),
        ("x", [version.ge("1.5")], all, "invalid version number x"),
        ("1", [version.ge("1.5")], any, "invalid version number 1"),
    ],
)
def test_compare_names_what_does_not_hold(ver: str, predicates: Any, op: Any, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        version.compare(ver, *predicates, op=op)
    assert str(caught.value) == text


@pytest.mark.parametrize("minor", range(0, 40, 3))
def test_compare_agrees_with_its_predicates(minor: int) -> None:
    ver = f"1.{minor}"
    makers = (version.lt, version.ge, version.ne)
    predicates = [make(f"1.{limit}") for make, limit in itertools.product(makers, (1, 9, 10, 30))]
    for pair in itertools.product(predicates, repeat=2):
        hold = [predicate(ver) is True for predicate in pair]
        assert version.compare(ver, *pair, exc=False) is all(hold)
        assert version.compare(ver, *pair, exc=False, op=any) is any(hold)


class Command(version.CheckerMixin):
    def __init__(self, **manager: Any) -> None:
        self.app = types.SimpleNamespace(client_manager=types.SimpleNamespace(**manager))

    @version.check(version.ge("1.7"))
    def later(self, text: str) -> str:
        """What it does."""
        return text


def at(ver: str) -> Command:
    return Command(session=object(), osc_placement=types.SimpleNamespace(api_version=ver))


def test_a_command_is_checked_with_the_version_of_its_client() -> None:
    assert version.get_version(at("1.8")) == "1.8"
    assert at("1.8").later("text") == "text"
    assert at("1.8").check_version(version.ge("1.8"))
    assert not at("1.8").compare_version(version.ge("1.9"))
    with pytest.raises(ValueError, match=r"requires at least version 1\.7"):
        at("1.6").later("text")


@pytest.mark.parametrize("command", [object(), Command(), Command(session=None)])
def test_a_command_without_a_session_has_version_1_0(command: Any) -> None:
    assert version.get_version(command) == "1.0"


class Answers(requests.adapters.BaseAdapter):
    """Answers every request alike, and keeps the requests."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__()
        self.status, self.body = status, body
        self.requests: list[requests.PreparedRequest] = []

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:  # type: ignore[override]
        self.requests.append(request)
        response = requests.Response()
        response.status_code, response._content = self.status, self.body
        response.headers["Content-Type"] = "application/json"
        response.request, response.url = request, str(request.url)
        return response

    def close(self) -> None:
        pass


def client(status: int = 200, body: Any = None, **options: str) -> tuple[Any, Answers]:
    answers = Answers(status, body if isinstance(body, bytes) else json.dumps(body).encode())
    transport = requests.Session()
    transport.mount("http://", answers)
    keystone = session.Session(auth=token_endpoint.Token(ENDPOINT, "token"), session=transport)
    return http.SessionClient(keystone, {"service_type": "placement"}, **options), answers


REFUSED = {"errors": [{"status": 400, "title": "Refused", "detail": "the detail"}, {"detail": "b"}]}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, exceptions.BadRequest),
        (401, exceptions.Unauthorized),
        (403, exceptions.Forbidden),
        (404, exceptions.NotFound),
        (409, exceptions.Conflict),
    ],
)
def test_a_refusal_is_osc_libs_error(status: int, kind: type[Exception]) -> None:
    refused, _ = client(status, REFUSED)
    with pytest.raises(exceptions.ClientException) as caught:
        refused.request("GET", "/traits")
    assert type(caught.value) is kind
    assert str(caught.value) == f"the detail (HTTP {status})"
    assert caught.value.code == status


@pytest.mark.parametrize("status", [405, 406, 415, 418, 429])
def test_another_refusal_is_a_command_error(status: int) -> None:
    refused, _ = client(status, REFUSED)
    with pytest.raises(exceptions.CommandError) as caught:
        refused.request("GET", "/traits")
    assert caught.value.args == ((status, "the detail"),)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"errors": []}', b"7"])
def test_a_refusal_without_placements_json_keeps_its_class(body: bytes) -> None:
    refused, _ = client(404, body)
    with pytest.raises(exceptions.NotFound) as caught:
        refused.request("GET", "/traits")
    assert str(caught.value).count("(HTTP 404)") == 1


def test_a_failure_of_the_server_is_keystoneauths_error() -> None:
    failed, _ = client(503, REFUSED)
    with pytest.raises(keystoneauth1.exceptions.ServiceUnavailable):
        failed.request("GET", "/traits")


def test_a_request_has_the_version_of_the_client_or_its_own() -> None:
    sender, answers = client(api_version="1.5")
    sender.request("GET", "/traits", headers={"Other": "1"})
    sender.request("POST", "/traits", json={"a": 1}, version="1.7")
    versions = [request.headers["OpenStack-API-Version"] for request in answers.requests]
    assert versions == ["placement 1.5", "placement 1.7"]
    assert answers.requests[0].headers["Other"] == "1"
    assert json.loads(answers.requests[1].body or "") == {"a": 1}


@pytest.mark.parametrize(
    ("status", "body", "negotiated"),
    [
        (200, {"versions": [{"max_version": "1.39"}]}, "1.29"),
        (406, {"errors": [{"max_version": "1.17", "min_version": "1.0"}]}, "1.17"),
        (406, b"<html>", "1.29"),
        (500, {}, "1.29"),
    ],
)
def test_version_1_is_negotiated_with_one_request(status: int, body: Any, negotiated: str) -> None:
    sender, answers = client(status, body, api_version="1")
    assert sender.api_version == negotiated
    assert [(request.method, request.path_url) for request in answers.requests] == [("GET", "/")]
    assert answers.requests[0].headers["OpenStack-API-Version"] == "placement 1.29"


@pytest.mark.parametrize("pinned", ["1.0", MAXIMUM])
def test_a_pinned_version_sends_no_request(pinned: str) -> None:
    sender, answers = client(api_version=pinned)
    assert (sender.api_version, answers.requests) == (pinned, [])
