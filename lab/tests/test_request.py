# SPDX-License-Identifier: Apache-2.0
"""Compares nova's request for a server with that of nova's own code, release by release.

The flavors and images are random. Their values come from nova: from its validators of extra specs
and from the fields of its image properties, of the compared release and of the newest one, so that
a release is also asked about what it does not know. ``--long`` compares every release.
"""

from __future__ import annotations

import collections
import itertools
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from lab import install, place
from osc_placement import errors
from osc_placement.client import query
from osc_placement.nova import flavor
from osc_placement.nova.values import HostAggregate
from osc_placement.scheduling import nova_options, request, traits

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

MANY = 1500

UUID = "00000000-0000-4000-8000-{:012}"
AGGREGATES: Mapping[str, Mapping[str, str]] = {
    UUID.format(1): {"availability_zone": "az1"},
    UUID.format(2): {"availability_zone": "az1", "filter_tenant_id": "acme"},
    UUID.format(3): {"availability_zone": "az2", "filter_tenant_id_2": "acme"},
    UUID.format(4): {"filter_tenant_id": "other"},
    UUID.format(5): {"trait:CUSTOM_A": "required"},
    UUID.format(6): {"trait:CUSTOM_A": "required", "trait:CUSTOM_B": "required"},
    UUID.format(7): {"ssd": "true"},
}
ALIASES: tuple[Mapping[str, str], ...] = (
    {"name": "a1", "vendor_id": "8086", "product_id": "154d", "device_type": "type-PF"},
    {"name": "b", "resource_class": "gpu", "traits": "custom_x,HW_NIC_SRIOV"},
    {"name": "b2", "resource_class": "CUSTOM_H100", "traits": "CUSTOM_B", "device_type": "type-VF"},
    {"name": "b2", "vendor_id": "10de", "product_id": "1eb8", "device_type": "type-VF"},
)
#: Nova refuses some of these aliases with, and some without pci_in_placement.
ALIAS_SETS = (ALIASES, ALIASES[:3], (ALIASES[0], ALIASES[3], ALIASES[3]))

#: Texts of which those are drawn that nova's pattern for an extra spec accepts.
TEXTS = (
    "0", "1", "3", "^0", "^0-1", "2-3", "0-1", "0-1,^0", "0-3", "1-2,4", "7", "0-7", "3-1",
    "4", "2048", "1GB", "2MB", "1048576", "4kB", "large", "small", "any",
    "4KB", "4KiB", "8bit", "2M", "0MB",
    "a1:1", "b:2", "a1:1,b:1", "b2:2", "a1:2, b:1", "absent:1", "6GB", "6GB,small,6gb",
)  # fmt: skip
#: Texts for what nova does not restrict.
FREE_TEXTS = ("x", "1", "q35", "pc-q35-9.0", "pc", "^0", "2-3", "large", "2048", "42", "2.0")
YES = ("true", "True", "yes", "1", "on", "false", "no", "0")
NUMBERS = (0, 1, 2, 3, 4, 8, 16, 40, 48, 512, 1024, 2048)
SUFFIXES = ("", "", "", "1", "2", "_A", "_a-b")
#: Extra specs and properties that often decide whether nova refuses the others.
LIKELY_IMAGE = {
    "hw_firmware_type": ("uefi", "uefi", "uefi", "bios"),
    "hw_machine_type": ("q35", "pc-q35-9.0", "pc"),
    "hw_firmware_stateless": YES,
}
TEMPLATE = re.compile(r"\{(\w+)\}")


class Case(NamedTuple):
    """A server, and the options of nova's scheduler."""

    flavor: flavor.Flavor
    image: Mapping[str, str]
    volume: bool
    zone: str | None
    project: str
    disk_format: str
    options: nova_options.SchedulerOptions
    aliases: Sequence[Mapping[str, str]]

    def to_dict(self) -> dict[str, Any]:
        names = (*nova_options.FILTERS, "max_placement_results", "owner")
        numbers = {
            name: getattr(self.flavor, name)
            for name in ("vcpus", "ram", "disk", "ephemeral", "swap")
        }
        return {
            "flavor": numbers,
            "specs": self.flavor.extra_specs,
            "image": self.image,
            "volume": self.volume,
            "zone": self.zone,
            "project": self.project,
            "disk_format": self.disk_format,
            "filters": {name: getattr(self.options, name) for name in names},
            "aggregates": AGGREGATES,
            "pci": {"alias": self.aliases, "pci_in_placement": self.options.pci_in_placement},
        }

    def request(self) -> request.NovaRequest:
        spec = request.ServerSpec(
            self.flavor,
            "f",
            image=self.image,
            disk_format=self.disk_format,
            from_volume=self.volume,
            availability_zone=self.zone,
            project_id=self.project,
        )
        aggregates = [
            HostAggregate(str(number), uuid, uuid, metadata=metadata)
            for number, (uuid, metadata) in enumerate(AGGREGATES.items())
        ]
        return request.request_to_placement(spec, aggregates, self.options)


def draw_value(rng: random.Random, accepted: Mapping[str, Any]) -> str:
    """A value that nova accepts."""
    if accepted.get("enum"):
        return str(rng.choice(accepted["enum"]))
    if accepted["type"] in ("bool", "FlexibleBoolean"):
        return rng.choice(YES)
    if accepted["type"] in ("int", "Integer", "List"):
        least, most = accepted.get("min", 0), accepted.get("max", NUMBERS[-1])
        return str(rng.choice([number for number in NUMBERS if least <= number <= most]))
    if "pattern" in accepted:
        return rng.choice([text for text in TEXTS if re.fullmatch(accepted["pattern"], text)])
    return rng.choice(FREE_TEXTS)


def draw_specs(rng: random.Random, known: Mapping[str, Any]) -> dict[str, str]:
    """Random extra specs; most of them of those that decide about CPUs, memory and devices."""
    rooms = collections.defaultdict(list)
    for key in known:
        room = re.split(r"[{:]", key)[0]
        rooms[room if room in ("hw", "resources", "trait", "os") else "other"].append(key)
    rooms["other"] += ["group_policy", "pci_passthrough:alias"] * 60
    specs = {}
    for _ in range(rng.choice((0, 1, 2, 3, 3, 4, 5))):
        room = rng.choices(("hw", "resources", "trait", "os", "other"), (8, 2, 1, 0.5, 1.5))[0]
        key = rng.choice(rooms[room])
        value = draw_value(rng, known[key])
        words = {
            "num": rng.choice("0012"),
            "group": rng.choice(SUFFIXES),
            "trait": rng.choice("AB"),
            "resource": rng.choice("XY"),
        }
        specs[TEMPLATE.sub(lambda word, w=words: w.get(word[1], "x"), key)] = value
    if rng.random() < 0.15:
        # Nova's API accepts any text at its oldest microversions.
        key = f"resources{rng.choice(SUFFIXES)}:{rng.choice(('VCPU', 'PCPU'))}"
        specs[key] = rng.choice(("-1", "-4", "+4", " 4 ", "0_4", "4.0"))
    policy = rng.random()
    if policy < 0.35:
        # Rules about CPU policies meet each other.
        for key in ("hw:cpu_policy", "hw:cpu_dedicated_mask", "hw:cpu_realtime"):
            if rng.random() < 0.5:
                specs[key] = draw_value(rng, known[key])
    elif policy < 0.5:
        specs["hw:numa_nodes"] = rng.choice("1224")
        for key in ("hw:numa_cpus.{num}", "hw:numa_mem.{num}"):
            if rng.random() < 0.3:
                for node in "01":
                    specs[key.replace("{num}", node)] = rng.choice(
                        ("0-1", "2-3", "0", "1") if "cpus" in key else ("1024", "512", "256")
                    )
    elif policy < 0.6:
        for part in ("sockets", "cores", "threads"):
            specs[f"hw:cpu_max_{part}"] = rng.choice("1248")
    elif policy < 0.7 and "hw:mem_encryption_model" in known:
        specs["hw:mem_encryption"] = rng.choice(YES)
        specs["hw:mem_encryption_model"] = draw_value(rng, known["hw:mem_encryption_model"])
    return specs


def draw_image(rng: random.Random, words: Mapping[str, Any]) -> dict[str, str]:
    """Random properties of an image."""
    properties: dict[str, str] = {}
    if rng.random() < 0.3:
        return properties
    simple = {"FlexibleBoolean", "Integer", "String"}
    keys = [key for key, form in words.items() if form["enum"] or form["type"] in simple]
    keys += [f"{key}.{node}" for key in ("hw_numa_cpus", "hw_numa_mem") for node in "01"]
    for key in rng.sample(keys, rng.choice((0, 1, 2, 3, 4))):
        properties[key] = draw_value(rng, words[key.partition(".")[0]])
    for key, texts in LIKELY_IMAGE.items():
        if rng.random() < 0.6:
            properties[key] = rng.choice(texts)
    if rng.random() < 0.1:
        properties[f"trait:CUSTOM_{rng.choice('AB')}"] = "required"
    return properties


def cases(rng: random.Random, words: Mapping[str, Any], release: int) -> Iterator[Case]:
    while True:
        on = {
            name: rng.random() < 0.5
            for name in (*nova_options.FILTERS, "owner", "pci_in_placement")
            if name != "query_placement_for_routed_network_aggregates"
        }
        if release < traits.OWNER_SINCE:
            on["owner"] = False
        aliases = rng.choice(ALIAS_SETS)
        yield Case(
            flavor.Flavor(
                vcpus=rng.choice((1, 2, 4, 4, 6, 8)),
                ram=rng.choice((512, 2048, 2048, 3000)),
                disk=rng.choice((0, 20)),
                ephemeral=rng.choice((0, 0, 5)),
                swap=rng.choice((0, 0, 1, 1024, 1025)),
                extra_specs=draw_specs(rng, words["specs"]),
            ),
            draw_image(rng, words["image"]),
            rng.random() < 0.3,
            rng.choice((None, None, "az1", "az2", "moon")),
            rng.choice(("acme", "other", "third")),
            rng.choice(("qcow2", "raw", "bogus")),
            nova_options.SchedulerOptions(
                release=release,
                max_placement_results=rng.choice((50, 1000)),
                aliases=nova_options.read_aliases([json.dumps(alias) for alias in aliases]),
                **on,
            ),
            aliases,
        )


#: The suffix of the group of a PCI device: a random UUID and a number in nova.
DEVICE = re.compile(r"(resources|required)(_pci-\d+|[0-9a-f]{8}-[0-9a-f-]{27}-\d+)$")


def normalized(pairs: Sequence[Sequence[str]]) -> collections.Counter[Any]:
    """Parameters independent of their order, and of the names of the groups of PCI devices."""
    counts: collections.Counter[Any] = collections.Counter()
    devices: dict[str, set[Any]] = collections.defaultdict(set)
    for name, value in pairs:
        sign = "!" if name.startswith("member_of") and value.startswith("!") else ""
        items = frozenset(value.removeprefix(sign).removeprefix("in:").split(","))
        device = DEVICE.match(name)
        if device:
            devices[device[2]].add((device[1], items))
        # The policy "none" is the default.
        elif (name, value) != ("group_policy", "none"):
            counts[name + sign, items] += 1
    counts.update(frozenset(each) for each in devices.values())
    return counts


def vocabulary(lab: place.Place, release: int) -> dict[str, Any]:
    """What a release and the newest one know; a value that one of them accepts is drawn."""
    own, newest = (
        install.ask_release(lab, it, "scheduler.py", None, "--vocabulary")
        for it in (release, traits.RELEASES[-1])
    )
    merged = dict(own)
    for part in ("specs", "image"):
        merged[part] = {**newest[part], **own[part]}
        for key, accepted in newest[part].items():
            if key in own[part] and accepted.get("enum"):
                both = {*map(str, accepted["enum"]), *map(str, own[part][key].get("enum") or ())}
                merged[part][key] = {**own[part][key], "enum": sorted(both)}
    return merged


RELEASES = [
    release if release == traits.RELEASES[-1] else pytest.param(release, marks=pytest.mark.long)
    for release in traits.RELEASES
]


@pytest.mark.parametrize("release", RELEASES)
def test_the_query_and_the_refusals_equal_those_of_nova(
    release: int, record_property: Callable[[str, object], None]
) -> None:
    lab = place.find()
    words = vocabulary(lab, release)
    assert release in traits.releases_of(words["version"])
    sample = list(itertools.islice(cases(random.Random(release), words, release), MANY))
    questions = [case.to_dict() for case in sample]
    answers = install.ask_release(lab, release, "scheduler.py", questions)
    counts: collections.Counter[str] = collections.Counter()
    for case, answer in zip(sample, answers, strict=True):
        theirs = answer["request"]
        refused = "refused" in theirs
        if "refused" not in answer["manage"]:
            counts["as nova-manage"] += 1
            server = flavor.request_of(case.flavor, {}, booted_from_volume=case.volume)
            assert server.total() == answer["manage"], json.dumps(case.to_dict())
        try:
            ours = query.candidate_pairs(case.request().query)
        except errors.InvalidInput as error:
            # Placement refuses some queries that nova sends; a device profile needs Cyborg.
            text = str(error)
            elsewhere = "Placement refuses" in text or "requests no" in text or "Cyborg" in text
            assert refused or elsewhere, (json.dumps(case.to_dict()), text, theirs)
            counts["refused by both" if refused else "refused by Placement or Cyborg"] += 1
            continue
        assert not refused, (json.dumps(case.to_dict()), theirs)
        assert normalized(ours) == normalized(theirs), json.dumps(case.to_dict())
        counts["equal"] += 1
    print(release, dict(counts))
    for name, count in counts.items():
        record_property(name, count)
    assert min(counts["equal"], counts["refused by both"]) > MANY / 10
    assert counts["as nova-manage"] > MANY / 3
