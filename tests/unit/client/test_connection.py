# SPDX-License-Identifier: Apache-2.0
"""The public client: how it connects, its names, and the programs of its page."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import textwrap
import types

import pytest
from keystoneauth1 import session, token_endpoint

from osc_placement import client, microversion, testing
from osc_placement.client import api
from tests.support import guide
from tests.support.versions import NEXT

PAGE = (guide.DOCS / "client.rst").read_text()
PROGRAMS = [
    textwrap.dedent(block)
    for block in re.findall(r"^\.\. code-block:: python\n\n((?:    .*\n|\n)+)", PAGE, re.M)
]


def test_a_database_needs_no_service(tmp_path: pathlib.Path) -> None:
    with client.connect(database=tmp_path / "cloud.sqlite", create=True) as placement:
        created = placement.create_provider("a")
        assert placement.list_providers() == [created]
        assert client.provider_uuids(placement, ["a"]) == {"a": created.uuid}
        with pytest.raises(client.Conflict):
            placement.create_provider("a")


def test_a_session_has_the_endpoint_of_its_catalog_or_another() -> None:
    with testing.LoopbackPlacement(load="12-hosts") as server:
        identity = session.Session(
            auth=token_endpoint.Token(server.url, "admin"),
            additional_headers={"x-roles": "admin,service"},
        )
        for endpoint in (None, server.url):
            with client.connect(session=identity, endpoint=endpoint, version="1.14") as placement:
                assert len(placement.list_providers()) == 22
                assert placement.microversion == microversion.Microversion(1, 14)
                with pytest.raises(client.UnsupportedVersion):
                    placement.check_reshape()
        assert {request.version for request in server.requests} == {"1.14"}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"database": "a", "session": session.Session()},
        {"database": "a", "version": "latest"},
        {"database": "a", "version": NEXT},
        {"database": "a", "version": 1.39},
        {"session": "a"},
        {"session": session.Session(), "timeout": 0},
        {"session": session.Session(), "timeout": "60"},
        {"database": "a", "region": "RegionOne"},
        {"database": "a", "endpoint": "http://127.0.0.1"},
    ],
)
def test_what_does_not_name_one_target_and_one_version_is_an_error(options: dict) -> None:
    with pytest.raises(ValueError, match=r"a session|microversion|timeout"):
        client.connect(**options)


def test_a_missing_database_is_not_an_empty_cloud(tmp_path: pathlib.Path) -> None:
    with pytest.raises(client.PlacementError, match=r"typo\.sqlite does not exist"):
        client.connect(database=tmp_path / "typo.sqlite")


def test_every_public_name_exists_and_has_a_docstring() -> None:
    for name in client.__all__:
        assert getattr(client, name).__doc__, name
    assert not hasattr(client, "nothing")


def test_the_page_names_every_public_name_except_the_default_of_an_argument() -> None:
    named = set(re.findall(r"``(\w+)", PAGE)) | {"UNCHANGED"}
    # InvalidInput is the error of the workflows.
    assert set(client.__all__) - named <= {"InvalidInput"}


def test_every_public_method_of_the_client_has_a_docstring() -> None:
    methods = [name for name in vars(api.Client) if not name.startswith("_")]
    assert [name for name in methods if not getattr(api.Client, name).__doc__] == []


def test_the_example_that_changes_an_aggregate_is_short() -> None:
    (example,) = (text for text in PROGRAMS if "apply_plan" in text)
    assert len(example.strip().splitlines()) <= 20


def test_the_programs_of_the_page_run(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "cloud.sqlite"
    with testing.InProcessPlacement(database=str(path), load="12-hosts"):
        pass
    (tmp_path / "page.py").write_text("\n".join(PROGRAMS))
    done = subprocess.run(
        [sys.executable, "-W", "error", "page.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100,
        env={"HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "cmp-0007.lab.example.org applied" in done.stdout
    with client.connect(database=path) as placement:
        (provider,) = placement.list_providers(name="cmp-0007.lab.example.org")
        assert placement.list_inventories(provider.uuid).inventories["VCPU"].allocation_ratio == 8
        (other,) = placement.list_providers(name="cmp-0001.lab.example.org")
        assert "HW_CPU_X86_VMX" in placement.list_provider_traits(other.uuid).traits


@pytest.mark.parametrize("module", [client, testing], ids=lambda module: module.__name__)
def test_dir_names_what_is_public(module: types.ModuleType) -> None:
    assert set(module.__all__) <= set(dir(module))
