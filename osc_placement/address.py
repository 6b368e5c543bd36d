# SPDX-License-Identifier: Apache-2.0
"""What a person sees of an address: scheme, host, port and path. Pure.

An address may have a user, a password, or a token in its query string. Not every address has the
form that its owner meant, and a password in an odd place must not be shown either.
"""

from __future__ import annotations

import re
import urllib.parse

#: An address as it should be: what follows is a path, in which "@" stands for itself if no user is
#: before the host. A file has no host.
_USUAL = re.compile(
    r"(?:sqlite[A-Za-z+]*:///"
    r"|[A-Za-z][A-Za-z0-9+.-]*://(?P<user>[^/?#\s]*@(?=[^@]*$))?"
    r"(?:\[[^\]\s]*\]|[^/?#@\s:\\\[\]]+)(?::\d*)?(?=[/?#]|$))"
)
_PARTS = re.compile(r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*:)(?=/))?(?P<slashes>/*)(?P<rest>.*)")
_HOST_AND_PORT = re.compile(r"(?:\[[0-9A-Fa-f:.]*\]|[^:]*)(?::\d*)?")
_HIDDEN = "***"
#: How to write the address of a service.
_FORM = "http(s)://host[:port][/path]"

#: User and password in a URL, of any service; also one that is not encoded and has "/", "?" or "#".
#: Of a limited length: a text of a stranger must not take the time of its square.
_CREDENTIALS = re.compile(
    r"(?P<start>\w://|\bhttps?:/)"
    r"(?:[^/?#\s]{0,999}|[^/?#\s:\[]{0,99}:(?!\d{0,9}(?:[/?#\s]|$))\S{0,999})@",
    re.IGNORECASE,
)
_QUERY = re.compile(r"(/[^\s?#]*)[?#]\S*?(?=:?(?:\s|$))")


def shown(address: str) -> str:
    """Scheme, host, port and path; three asterisks for what may be a password in an odd place."""
    address = " ".join(address.split())
    usual = _USUAL.match(address)
    if usual and usual["user"]:
        address = address.replace(usual["user"], "", 1)
    parts = _PARTS.match(address)
    if parts is None:
        raise AssertionError(address)
    # Nothing that a user could have in a usual address is left.
    user, at, rest = ("", "", parts["rest"]) if usual else parts["rest"].rpartition("@")
    host, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    if not _HOST_AND_PORT.fullmatch(host):
        host = f"{host.partition(':')[0]}:{_HIDDEN}"
    if at and re.search(r"[/?#\s]", user):
        host = f"{_HIDDEN}@{host}"
    return f"{parts['scheme'] or ''}{parts['slashes']}{host}{slash}{path}"


def server_of(url: str) -> str:
    """``http://placement.example:8778`` of a URL there, "" of another text."""
    parts = urllib.parse.urlsplit(shown(url))
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""


def in_text(text: str) -> str:
    """A text without the users and passwords of its URLs."""
    return _CREDENTIALS.sub(r"\g<start>", text)


def in_message(text: str) -> str:
    """The message of a library without users, passwords and query strings of its URLs."""
    return _QUERY.sub(r"\1", in_text(text))


def fault(url: str) -> str:
    """Why no request can be sent to a URL; empty if one can."""
    if _USUAL.match(url) and url.lower().startswith(("http://", "https://")):
        return ""
    return f"{shown(url)} is not a valid address: write {_FORM}"


def fault_of_endpoint(url: str) -> str:
    """Why a URL is no endpoint, to which paths are added; empty if it is one."""
    if re.search(r"[?#]", url) and _USUAL.match(url):
        return f"the endpoint {shown(url)} has a query string or a fragment: write {_FORM}"
    return fault(url)
