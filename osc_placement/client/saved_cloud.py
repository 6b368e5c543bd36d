"""What a snapshot file has besides the state of Placement, for clients that run on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from osc_placement.client import api_errors, transport


class SavedCloud(Protocol):
    """The cloud that was saved, and responses of nova and neutron, ``{"GET /path": body}``."""

    @property
    def origin(self) -> str: ...

    @property
    def has_owners(self) -> bool: ...

    @property
    def has_recording(self) -> bool: ...

    def recording(self) -> Mapping[str, Any]: ...


def find(target: transport.Transport) -> SavedCloud | None:
    """The attribute ``saved_cloud`` of the application in this process; None for a service.

    Requests: none. Errors: ConnectionFailed for a file that cannot be opened.
    """
    try:
        application = target.application()
    except Exception as error:  # The errors of an application that cannot open its file.
        raise api_errors.ConnectionFailed(str(error)) from error
    found: SavedCloud | None = getattr(application, "saved_cloud", None)
    return found
