# SPDX-License-Identifier: Apache-2.0
"""Makes one pytest test of each request in the YAML files (gabbi) of this folder."""

from __future__ import annotations

import contextlib
import os
import pathlib

import pytest

from osc_placement import errors
from osc_placement.testing import pytest_plugin

with errors.needs_extra("conformance", "the conformance kit"):
    from gabbi import driver
    from gabbi.driver import test_pytest

    from osc_placement.testing.conformance import fixtures

# The test function of gabbi, which sends one request; pytest collects it from here.
__all__ = ["test_pytest"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Collect the tests for the Placement at the option's URL.

    Requests: one listing of providers. Errors: UsageError if Placement has any, or without a URL.
    """
    url = metafunc.config.getoption(pytest_plugin.URL_OPTION)
    token = metafunc.config.getoption(pytest_plugin.TOKEN_OPTION)
    if not url:
        raise pytest.UsageError(f"the tests need {pytest_plugin.URL_OPTION} URL")
    try:
        with contextlib.closing(fixtures.client_of(url, token)) as client:
            providers = client.list_providers()
    except errors.PlacementError as error:
        raise pytest.UsageError(f"{url}: {error}") from error
    if providers:
        raise pytest.UsageError(
            f"{url} has resource providers ({len(providers)}): the tests need an empty Placement,"
            " because they delete everything in it"
        )
    os.environ[fixtures.URL], os.environ[fixtures.TOKEN] = url, token
    driver.py_test_generator(
        str(pathlib.Path(__file__).parent),
        url=url,
        test_loader_name="conformance",
        fixture_module=fixtures,
        metafunc=metafunc,
        # gabbi would load the certificates of all authorities again for each test.
        cert_validate=not url.startswith("http:"),
    )
