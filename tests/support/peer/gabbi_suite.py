# SPDX-License-Identifier: Apache-2.0
"""Runs one gabbi file against the URL of a server."""

from __future__ import annotations

import functools
import http.client
import os
import pathlib
import types
import unittest
from typing import Any
from unittest import mock

import httpx
from gabbi import handlers, httpclient, suitemaker, utils

TIMEOUT = 20


class LenientTransport(httpx.BaseTransport):
    """A connection per request, also for requests that httpx refuses to send.

    One test sends a content-length that is not a number.
    """

    def __init__(self) -> None:
        self._strict = httpx.HTTPTransport(
            verify=False, limits=httpx.Limits(max_keepalive_connections=0)
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        try:
            return self._strict.handle_request(request)
        except httpx.LocalProtocolError:
            return _send_as_it_is(request)


def _send_as_it_is(request: httpx.Request) -> httpx.Response:
    connection = http.client.HTTPConnection(request.url.host, request.url.port, timeout=TIMEOUT)
    try:
        path = request.url.raw_path.decode("ascii")
        connection.putrequest(request.method, path, skip_host=True, skip_accept_encoding=True)
        for key, value in request.headers.raw:
            if key.lower() != b"connection":
                connection.putheader(key, value)
        connection.putheader("Connection", "close")
        connection.endheaders(request.read())
        answer = connection.getresponse()
        return httpx.Response(answer.status, headers=answer.getheaders(), content=answer.read())
    except (OSError, http.client.HTTPException) as fault:
        raise httpx.ReadError(str(fault) or repr(fault), request=request) from fault
    finally:
        connection.close()


class Client(httpclient.Http):
    """Gabbi's client with one transport for all tests, without the proxies of the environment."""

    def __init__(self) -> None:
        self.extensions: dict[str, object] = {}
        self.client = httpx.Client(transport=LenientTransport(), trust_env=False)


class Result(unittest.TestResult):
    """Counts passed tests and keeps one line per failure: test name, expected and actual value."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self.total = total
        self.passed = 0
        self.faults: list[str] = []

    def addSuccess(self, test):  # noqa: N802
        self.passed += 1

    def addExpectedFailure(self, test, err):  # noqa: N802
        self.passed += 1

    def addUnexpectedSuccess(self, test):  # noqa: N802
        self.faults.append(f"{_name(test)}: passes, but is marked xfail")

    def addSkip(self, test, reason):  # noqa: N802
        self.faults.append(f"{_name(test)}: skipped: {reason}")

    def addFailure(self, test, err):  # noqa: N802
        self.faults.append(f"{_name(test)}: {err[1] or repr(err[1])}")

    addError = addFailure  # noqa: N815


@functools.cache
def client() -> Client:
    """The client of this process: creating one takes longer than a request."""
    return Client()


def read(path: pathlib.Path) -> dict[str, Any]:
    """The content of a gabbi file."""
    return utils.load_yaml(yaml_file=str(path))


def run(
    path: pathlib.Path, data: dict[str, Any], url: str, fixtures: types.ModuleType | None = None
) -> Result:
    """Run the tests of a file in order; os.environ is restored afterwards."""
    with (
        mock.patch.dict(os.environ),
        mock.patch.object(suitemaker.httpclient, "get_http", return_value=client()),
    ):
        suite = _suite(path, data, url, fixtures)
        result = Result(suite.countTestCases())
        suite.run(result)
    return result


def _suite(
    path: pathlib.Path, data: dict[str, Any], url: str, fixtures: types.ModuleType | None
) -> unittest.TestSuite:
    host, _, port = url.removeprefix("http://").rpartition(":")
    return suitemaker.test_suite_from_dict(
        unittest.TestLoader(),
        path.stem,
        data,
        str(path.parent),
        host,
        int(port),
        fixtures,
        None,
        handlers=[handler() for handler in handlers.RESPONSE_HANDLERS],
        test_loader_name="gabbi",
    )


def _name(test: unittest.TestCase) -> str:
    return getattr(test, "test_data", {}).get("name") or str(test)
