# SPDX-License-Identifier: Apache-2.0
"""Requests over HTTP and in process, and every failure of a request."""

from __future__ import annotations

import keystoneauth1.session
import pytest

from osc_placement.client import api_errors, retry, transport, wsgi
from tests.support.raw_server import closed_port, listening, over_http
from tests.support.scripted import App, Reply, client, fault


def test_an_empty_body_is_none() -> None:
    placement, _ = client(Reply(204))
    assert placement.transport.send("DELETE", "/traits/x").body is None


def test_an_error_has_the_fields_of_the_response() -> None:
    placement, _ = client(fault(409, "Refused.\n\n In  use.  ", "placement.undefined_code"))
    with pytest.raises(api_errors.Conflict) as caught:
        placement.transport.send("DELETE", "/traits/x")
    error = caught.value
    assert (error.status, error.error_code) == (409, "placement.undefined_code")
    assert (error.request_id, error.method, error.url) == ("req-1", "DELETE", "/traits/x")
    assert str(error) == "In  use. (HTTP 409) (Request-ID: req-1)"


ANSWERS = "http://placement.embedded answers"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>\n<h1>Bad gateway</h1>\n</html>", f"{ANSWERS}: Bad gateway"),
        (b"", f"{ANSWERS}: Reason"),
        (b'{"message": "no"}', f'{ANSWERS}: {{"message": "no"}}'),
        (b"[]", f"{ANSWERS}: []"),
        (b'{"errors": []}', f'{ANSWERS}: {{"errors": []}}'),
        (b'{"error": {"message": "Who are you?"}}', "Who are you?"),
        (b'{"error": "no"}', f'{ANSWERS}: {{"error": "no"}}'),
    ],
)
def test_the_first_line_describes_an_error_of_another_server(body: bytes, message: str) -> None:
    placement, _ = client(Reply(502, body))
    with pytest.raises(api_errors.ApiError) as caught:
        placement.transport.send("GET", "/")
    assert str(caught.value) == f"GET /: {message} (HTTP 502)"


@pytest.mark.parametrize("status", [200, 404])
def test_an_html_page_names_the_endpoint_that_is_not_placement(status: int) -> None:
    placement, _ = client(Reply(status, b"<html><p>Sign in</p></html>"))
    expected = r"http://placement\.embedded answers with an HTML.*Sign in"
    with pytest.raises(api_errors.UnexpectedResponse, match=expected):
        placement.transport.send("GET", "/traits")


def test_a_refused_connection_fails_reads_and_writes() -> None:
    unreachable = over_http(closed_port())
    for method in ("GET", "PUT"):
        with pytest.raises(api_errors.ConnectionFailed, match="refuses connections"):
            unreachable.send(method, "/traits/x")


@pytest.mark.parametrize("answer", [None, b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"])
def test_a_write_without_a_response_has_an_unknown_outcome_and_is_not_repeated(
    answer: bytes | None,
) -> None:
    with listening(answer) as (url, received):
        with pytest.raises(api_errors.OutcomeUnknown, match="may have been carried out") as caught:
            over_http(url).send("PUT", "/traits/x")
        assert caught.value.status == 0
        assert len(received) == 1


def test_a_read_without_a_response_is_repeated_once() -> None:
    with listening(None) as (url, received):
        with pytest.raises(api_errors.ConnectionFailed):
            over_http(url).send("GET", "/traits")
        assert len(received) == 2


def test_a_missing_endpoint_is_an_error_before_any_request() -> None:
    session = keystoneauth1.session.Session()
    with pytest.raises(api_errors.ConnectionFailed):
        transport.over_session(session).send("GET", "/")


@pytest.mark.parametrize("body", [{}, {"versions": []}, {"versions": [{"id": "v1"}]}, [1]])
def test_another_document_is_not_a_version_document(body: object) -> None:
    placement, _ = client(*[Reply(body=body)] * retry.READS)
    with pytest.raises(api_errors.UnexpectedResponse, match="not Placement's version document"):
        placement.transport.versions()


def test_the_target_is_the_file_or_the_endpoint_with_its_cloud() -> None:
    placement, _ = client()
    assert placement.target == "a script"
    assert over_http("http://a", place="cloud b").target == "http://a (cloud b)"
    assert over_http("http://a").target == "http://a"


def test_an_application_is_opened_at_the_first_request_and_again_after_close() -> None:
    opened: list[App] = []

    def open_app() -> App:
        opened.append(App([Reply(), Reply()]))
        return opened[-1]

    placement = wsgi.in_process(open_app, "x")
    assert not opened
    placement.send("GET", "/")
    placement.send("GET", "/")
    assert len(opened) == 1
    placement.close()
    assert opened[0].closed == 1
    placement.send("GET", "/")
    assert len(opened) == 2
