# SPDX-License-Identifier: Apache-2.0
"""What a person sees of an address."""

from __future__ import annotations

import itertools
import traceback

import pytest

from osc_placement import address, errors
from tests.support.peer import target as targets

SECRET = "s3cret"


def test_a_usual_address_is_shown_as_it_is() -> None:
    for url in (
        "http://h:80/a@b",
        "https://[::1]:80/a@b",
        "http://keystone/v3",
        "HTTP://Host",
        "http://h:",
        "postgresql+psycopg2://h:5432/placement",
        "sqlite:////srv/me@example.org/placement.db",
    ):
        assert address.shown(url) == url
        assert (address.fault(url) == "") == url.lower().startswith("http")


def test_the_server_of_a_url_has_no_password() -> None:
    assert address.server_of("http://op:s3cret@h:80/p?x=1") == "http://h:80"
    assert address.server_of("") == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://op:s3cret@h:80/p?x=s3cret#s3cret", "http://h:80/p"),
        ("http://op:s3c@ret@h/p", "http://h/p"),
        ("http:/op:s3cret@h/p", "http:/h/p"),
        ("op:s3cret@h:80/p", "h:80/p"),
        ("//s3cret@h", "//h"),
        ("http://op:s3 cret@h", "http://***@h"),
        ("http://op:s3/cret@h/p", "http://***@h/p"),
        ("http://op:s3?cret@h", "http://***@h"),
        ("http://op:s3@cret/x@h", "http://***@h"),
        ("http://op:s3cret%40h/p", "http://op:***/p"),
        ("http://h:80x/p", "http://h:***/p"),
        ("mysql+pymysql://u:s3cret@h/d?password=s3cret", "mysql+pymysql://h/d"),
        ("", ""),
    ],
)
def test_only_scheme_host_port_and_path_are_shown(text: str, shown: str) -> None:
    assert address.shown(text) == shown


def test_no_form_of_an_address_shows_its_password() -> None:
    starts = ["", " ", "http:", "http:/", "http://", "http:///", "HTTPS://", "x+y://", "http:\\\\"]
    passwords = [SECRET, *(f"1{char}{SECRET}" for char in "/?#@: \t\n[]%&\\")]
    ends = ["@h", "@h:80/p", "@[::1]/p", "@", "@/p", "@h/p@q", "@h?x=1@2"]
    for start, password, end in itertools.product(starts, passwords, ends):
        text = f"{start}op:{password}{end}"
        # A number and a slash after the first colon are a port and a path, and not a password.
        if "://op:1/" not in text:
            assert SECRET not in address.shown(text), text
            assert SECRET not in address.fault(text)
            assert SECRET not in address.fault_of_endpoint(text)


@pytest.mark.parametrize("part", ["?token=s3cret", "#s3cret", "/p?token=s3cret", "/?x=1#s3cret"])
def test_an_endpoint_with_a_query_string_is_refused_before_any_request(part: str) -> None:
    url = f"http://op:s3cret@127.0.0.1:9{part}"
    client = targets.client_at(url)
    with pytest.raises(errors.PlacementError) as caught:
        client.list_providers()
    path = part.partition("?")[0].partition("#")[0]
    expected = f"the endpoint http://127.0.0.1:9{path} has a query string or a fragment: write"
    assert str(caught.value).startswith(expected)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_text_keeps_everything_but_the_passwords_of_its_urls() -> None:
    for text in ("http://h:80/a@b", "http://h/x?y=a@b", "at http://h: a@b", "a:b@c", "x:/a:b@c"):
        assert address.in_text(text) == text
    text = "GET http://op:s3cret@h/p?a=b failed, see https://me:s3c/ret@i"
    assert address.in_text(text) == "GET http://h/p?a=b failed, see https://i"
    assert address.in_message(text) == "GET http://h/p failed, see https://i"
