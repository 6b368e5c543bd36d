# SPDX-License-Identifier: Apache-2.0
"""Nova's flavors, and the images of glance, by name or ID."""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from osc_placement import errors
from osc_placement.client import service
from osc_placement.nova import api, flavor

#: 2.61 adds extra specs to a flavor.
_FLAVORS = "2.61"

#: ``{old name of a property: the name that nova gives it}``
_OLD_NAMES = {
    "architecture": "hw_architecture",
    "hypervisor_type": "img_hv_type",
    "vm_mode": "hw_vm_mode",
    "hypervisor_version_requires": "img_hv_requested_version",
}

#: The prefixes of the properties that nova reads.
_PROPERTIES = ("trait:", "hw_", "os_", "img_")


@dataclasses.dataclass(frozen=True, slots=True)
class NamedFlavor:
    """A flavor that servers can be created with."""

    id: str
    name: str
    flavor: flavor.Flavor
    is_disabled: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """An image; ``properties`` are those that nova's scheduler may read."""

    id: str
    name: str
    disk_format: str | None
    properties: Mapping[str, str]


#: The list of all images.
LISTING = f"/images?limit={api.PAGE}"


class Glance(Protocol):
    """``ask("/images/UUID")`` is the parsed JSON of that GET."""

    def ask(self, path: str) -> Any:
        """Send one GET. Errors: GlanceRefused; ConnectionFailed."""


class GlanceRefused(service.ServiceRefused):
    """Glance answered with an error status."""

    service = "glance"
    sends_pages = True


class SessionGlance:
    """Glance over an openstacksdk connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def ask(self, path: str) -> Any:
        """Send one GET."""
        answer, _ = service.send(
            self._connection, "image", "GET", path, GlanceRefused, skip_cache=True
        )
        return answer


class RecordedGlance:
    """The images in a recording: single ones, and the list of all.

    Its keys are ``GET /v2/images/UUID`` and ``GET /v2/images?limit=1000``.
    """

    def __init__(self, nova: api.RecordedNova) -> None:
        self._nova = nova

    def ask(self, path: str) -> Any:
        """Send no request; find the recorded response, or the answer in the list of all images."""
        if self._nova.key_of(path) is not None or self._nova.key_of(LISTING) is None:
            return self._nova.ask(path, "2")
        listed = self._nova.images_by_id(LISTING)
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(path).query))
        if "name" in query:
            named = (item for item in listed.values() if item.get("name") == query["name"])
            return {"images": list(named)}
        uuid = urllib.parse.unquote(path.removeprefix("/images/"))
        if uuid not in listed:
            raise GlanceRefused(404, "no such image", url=path)
        return listed[uuid]


def glance_of(nova: api.Nova) -> Glance:
    """Glance of the same cloud or recording. Errors: PlacementError if nova is neither."""
    if isinstance(nova, api.RecordedNova):
        return RecordedGlance(nova)
    if isinstance(nova, api.SessionNova):
        return SessionGlance(nova.connection)
    raise errors.PlacementError("glance was not asked")


def flavors(nova: api.Nova) -> list[NamedFlavor]:
    """Every flavor, public and private.

    Requests: one GET per 1000 flavors. Errors: as ``ask``; PlacementError below 2.61.
    """
    query = {"is_public": "None"}
    return api.read_pages(nova, "/flavors/detail", (_FLAVORS,), query, "flavors", _flavor)


def select(flavors: Sequence[NamedFlavor], texts: Iterable[str]) -> list[NamedFlavor]:
    """The flavors with these names or IDs. Errors: InvalidInput names every unknown text."""
    requested = list(dict.fromkeys(texts))
    errors.InputErrors(unknown(flavors, requested).values()).check()
    by_text = {flavor.name: flavor for flavor in flavors} | {
        flavor.id: flavor for flavor in flavors
    }
    return [by_text[text] for text in requested]


def unknown(flavors: Sequence[NamedFlavor], texts: Iterable[str]) -> dict[str, str]:
    """``{text: error}`` for the texts that are neither a name nor an ID of a flavor."""
    names = {text for flavor in flavors for text in (flavor.name, flavor.id)}
    message = "nova has no flavor with the name or ID {!r}"
    return {text: message.format(text) for text in texts if text not in names}


def image(glance: Glance, text: str) -> Image:
    """An image by ID or name.

    Requests: one GET, and one more for a name. Errors: InvalidInput for an unknown or ambiguous
    name; as ``ask``.
    """
    quoted = urllib.parse.quote(text, safe="")
    try:
        return _image(glance.ask(f"/images/{quoted}"))
    except GlanceRefused as error:
        if error.status != 404:
            raise
    with service.parsing("glance", "/images"):
        images = glance.ask(f"/images?name={quoted}")["images"]
    if len(images) != 1:
        count = f"{len(images)} images with the name" if images else "no image with the name or ID"
        raise errors.InvalidInput([f"glance has {count} {text!r}"])
    return _image(images[0])


def ask_image(glance: Glance, uuid: str) -> Any:
    """Glance's JSON of the image of a server. Requests: one GET. Errors: NotKnown; as ``ask``."""
    try:
        return glance.ask(f"/images/{uuid}")
    except GlanceRefused as error:
        if error.status != 404:
            raise
        raise errors.NotKnown("glance has it no more") from error


def image_of_server(glance: Glance, uuid: str) -> Image:
    """The image of a server. Requests and errors: those of ``ask_image``."""
    return _image(ask_image(glance, uuid))


def images(glance: Glance) -> list[Image]:
    """Every image that the cloud shows. Requests and errors: those of ``image_bodies``."""
    return [_image(item) for item in image_bodies(glance)]


def image_bodies(glance: Glance) -> list[Mapping[str, Any]]:
    """Every image that the cloud shows, as glance's JSON.

    Requests: one GET per page. Errors: as ``ask``; PlacementError for a listing without an end.
    """
    bodies: dict[str, Mapping[str, Any]] = {}
    path = LISTING
    while True:
        with service.parsing("glance", "/images"):
            body = glance.ask(path)
            page = {item["id"]: item for item in body["images"]}
            following = body.get("next")
        if following and page.keys() <= bodies.keys():
            raise errors.PlacementError("glance's listing /images has no end: a page repeats")
        bodies |= page
        if not following:
            return list(bodies.values())
        path = f"/images?{urllib.parse.urlsplit(str(following)).query}"


def _flavor(item: Mapping[str, Any]) -> NamedFlavor:
    api.check_shown(item, "/flavors/detail", "extra_specs")
    return NamedFlavor(
        item["id"],
        item["name"],
        flavor.Flavor(
            vcpus=item["vcpus"],
            ram=item["ram"],
            disk=item["disk"],
            ephemeral=item["OS-FLV-EXT-DATA:ephemeral"],
            swap=int(item["swap"] or 0),
            extra_specs=item["extra_specs"],
        ),
        is_disabled=bool(item.get("OS-FLV-DISABLED:disabled")),
    )


def _image(item: Mapping[str, Any]) -> Image:
    with service.parsing("glance", "/images"):
        image = Image(
            item["id"],
            item.get("name") or item["id"],
            item.get("disk_format"),
            {
                key: str(value)
                for old, value in item.items()
                if (key := _OLD_NAMES.get(old, old)).startswith(_PROPERTIES) and value is not None
            },
        )
        return service.checked(image)
