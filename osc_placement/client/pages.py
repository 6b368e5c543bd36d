"""Describing the response of a server that is not Placement: an HTML page, or plain text."""

from __future__ import annotations

import re
import urllib.parse

_TAG = re.compile(r"<[^>]*>")


def foreign(url: str, content: bytes) -> str:
    """For an HTML page, the beginning of a message that names the endpoint; otherwise empty."""
    if not content.lstrip().startswith(b"<"):
        return ""
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc} answers with an HTML page and is not Placement; "


def first_line(text: str) -> str:
    """The first line with text outside HTML tags."""
    lines = (_TAG.sub(" ", line).strip() for line in text.splitlines())
    return next((line for line in lines if line), "")[:200]
