# SPDX-License-Identifier: Apache-2.0
"""The traits that nova derives from extra specs and image properties. Pure.

A rule reads the extra specs of a flavor and the properties of an image, and gives traits or raises
FlavorRefused. ``request`` has the table that says from which release of nova a rule holds; a rule
whose values differ between releases has them in a table here. lab/tests/test_request.py compares
the results with nova.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from osc_placement.engine import standard
from osc_placement.nova.flavor import Source
from osc_placement.nova.topology import is_true

Properties = Mapping[str, str]

THREADS = "CPU thread policy"
TPM = "virtual TPM"
SECURE_BOOT = "secure boot"
ADDRESSES = "physical address bits"
FIRMWARE = "stateless firmware"
PCI_AFFINITY = "NUMA affinity of PCI devices"
ENCRYPTION = "memory encryption"
METADATA = "request filter: image metadata"
ACCELERATORS = "request filter: accelerators"
PACKED = "request filter: packed virtqueue"
EPHEMERAL = "request filter: ephemeral encryption"
SOUND = "request filter: virtio sound"
TPM_SECRETS = "request filter: TPM secret security"

#: The trait of providers that nova-compute created; nova requires it from this release on.
OWNER = "OWNER_NOVA"
OWNER_SINCE = 34

#: The releases of nova whose rules are known.
RELEASES = (27, 28, 29, 30, 31, 32, 33, 34)

#: ``{maximum of the compute API: the releases that have it}``, the lowest maximum first.
_MAXIMUMS = {
    "2.95": (27, 28),
    "2.96": (29, 30),
    "2.100": (31, 32),
    "2.103": (33,),
    "2.104": (34,),
}

_SNP, _TDX = "amd-sev-snp", "intel-tdx"
_SEV = "HW_CPU_X86_AMD_SEV"
_TPM_INTERFACE_SINCE = 30
_STATELESS_NEEDS_UEFI_UNTIL = 33
#: This release compares a boolean of the flavor with the text of the image.
_PACKED_NEVER_AGREES = 29
_HYPERTHREADING = "HW_CPU_HYPERTHREADING"

#: ``{model: (the first release that has it, trait)}``
ENCRYPTION_MODELS = {
    "amd-sev": (32, _SEV),
    "amd-sev-es": (32, "HW_CPU_X86_AMD_SEV_ES"),
    _SNP: (34, "HW_CPU_X86_AMD_SEV_SNP"),
    _TDX: (34, "HW_CPU_X86_INTEL_TDX"),
}
#: ``{model: the image properties that it needs}``
_IMAGE_FOR: Mapping[str | None, Properties] = {
    _SNP: {"hw_firmware_stateless": "true"},
    _TDX: {"hw_video_model": "none"},
}
_ADDRESS_MODES = {
    "passthrough": "COMPUTE_ADDRESS_SPACE_PASSTHROUGH",
    "emulate": "COMPUTE_ADDRESS_SPACE_EMULATED",
}
_TPM_VERSIONS = ("1.2", "2.0")
_TPM_SECURITY = ("user", "host", "deployment")
_ENCRYPTION_FORMATS = ("plain", "luks", "luksv2")


class FlavorRefused(ValueError):
    """Nova refuses this flavor with this image; the text says why."""


class Trait(NamedTuple):
    """A required or forbidden trait, and where it comes from."""

    name: str
    source: Source
    forbidden: bool = False


class _Value(NamedTuple):
    """The value of an extra spec or of an image property, and which of them has it."""

    text: str
    origin: str


def releases_of(version: str) -> tuple[int, ...]:
    """The releases of nova with this maximum of the compute API, such as "2.100".

    Between two releases it is the next one; a newer nova counts as the newest known release.
    """
    number = _number(version)
    for maximum, releases in _MAXIMUMS.items():
        if number <= _number(maximum):
            return releases
    return RELEASES[-1:]


def _number(version: str) -> tuple[int, ...]:
    """Raises ValueError."""
    return tuple(int(part) for part in version.split("."))


#: ``{(image property, value): the releases that have the property, and do not know the value}``
_NEW_VALUES = {
    ("hw_vif_model", "igb"): range(27, 31),
    ("hw_mem_encryption_model", _SNP): range(32, 34),
    ("hw_mem_encryption_model", _TDX): range(32, 34),
}


def image_values(_: Properties, image: Properties, release: int) -> Iterator[Trait]:
    """No trait: refuses an image with a value that only a newer release knows."""
    for (key, value), refusing in _NEW_VALUES.items():
        if image.get(key) == value and release in refusing:
            raise FlavorRefused(f"nova {release} does not know the image's {key}={value}")
    yield from ()


# Traits of the unsuffixed group


def threads(specs: Properties, image: Properties, _: int) -> Iterator[Trait]:
    """The policy of CPU threads."""
    flavor, own = specs.get("hw:cpu_thread_policy"), image.get("hw_cpu_thread_policy")
    if flavor in ("isolate", "require") and own and own != flavor:
        raise FlavorRefused(
            f"hw:cpu_thread_policy={flavor} forbids the image's hw_cpu_thread_policy={own}"
        )
    policy = _either(specs, image, "hw:cpu_thread_policy", "hw_cpu_thread_policy")
    if policy and policy.text in ("isolate", "require"):
        yield Trait(_HYPERTHREADING, Source(THREADS, policy.origin), policy.text == "isolate")


def tpm(specs: Properties, image: Properties, release: int) -> Iterator[Trait]:
    """The version and the interface of a virtual TPM."""
    version = _agreed(specs, image, "hw:tpm_version", "hw_tpm_version")
    if version is None:
        return
    model = _agreed(specs, image, "hw:tpm_model", "hw_tpm_model")
    if version.text not in _TPM_VERSIONS:
        raise FlavorRefused(f"{version.origin} is not one of {', '.join(_TPM_VERSIONS)}")
    name = model.text if model else "tpm-tis"
    if name == "tpm-crb" and version.text == "1.2":
        raise FlavorRefused(f"{version.origin} has no model tpm-crb")
    number = version.text.replace(".", "_")
    yield Trait(f"COMPUTE_SECURITY_TPM_{number}", Source(TPM, version.origin))
    if release >= _TPM_INTERFACE_SINCE:
        interface = name.removeprefix("tpm-").upper()
        origin = model.origin if model else f"{version.origin} without a model"
        yield Trait(f"COMPUTE_SECURITY_TPM_{interface}", Source(TPM, origin))


def secure_boot(specs: Properties, image: Properties, _: int) -> Iterator[Trait]:
    """UEFI secure boot, if it is required."""
    boot = _agreed(specs, image, "os:secure_boot", "os_secure_boot")
    if boot and boot.text.lower() == "required":
        yield Trait("COMPUTE_SECURITY_UEFI_SECURE_BOOT", Source(SECURE_BOOT, boot.origin))


def addresses(specs: Properties, image: Properties, _: int) -> Iterator[Trait]:
    """The mode of physical address bits."""
    mode = _agreed(specs, image, "hw:maxphysaddr_mode", "hw_maxphysaddr_mode")
    if mode:
        yield Trait(_choice(_ADDRESS_MODES, mode), Source(ADDRESSES, mode.origin))


def stateless_firmware(_: Properties, image: Properties, release: int) -> Iterator[Trait]:
    """Firmware without state, which needs UEFI."""
    if not is_true(image.get("hw_firmware_stateless")):
        return
    origin = f"image hw_firmware_stateless={image['hw_firmware_stateless']}"
    if image.get("hw_firmware_type") == "uefi":
        yield Trait("COMPUTE_SECURITY_STATELESS_FIRMWARE", Source(FIRMWARE, origin))
    elif release <= _STATELESS_NEEDS_UEFI_UNTIL:
        raise FlavorRefused(f"{origin} needs hw_firmware_type=uefi")


def encryption(specs: Properties, image: Properties, release: int) -> Iterator[Trait]:
    """Encrypted memory."""
    models = {name: trait for name, (since, trait) in ENCRYPTION_MODELS.items() if since <= release}
    flavor, own = specs.get("hw:mem_encryption"), image.get("hw_mem_encryption")
    requested = {
        f"hw:mem_encryption={flavor}": flavor,
        f"image hw_mem_encryption={own}": own,
    }
    origins = [text for text, value in requested.items() if is_true(value)]
    if not origins:
        return
    if flavor is not None and own is not None and len(origins) == 1:
        raise FlavorRefused(
            f"hw:mem_encryption={flavor} contradicts the image's hw_mem_encryption={own}"
        )
    if image.get("hw_firmware_type") != "uefi":
        raise FlavorRefused(f"{origins[0]} needs an image with hw_firmware_type=uefi")
    machine = image.get("hw_machine_type")
    if machine and "q35" not in machine:
        raise FlavorRefused(f"{origins[0]} needs the machine type q35, not {machine}")
    if not models:
        return
    model = _agreed(specs, image, "hw:mem_encryption_model", "hw_mem_encryption_model")
    trait = _choice(models, model) if model else _SEV
    for key, value in (_IMAGE_FOR.get(model.text, {}) if model else {}).items():
        has_it = is_true(image.get(key)) if value == "true" else image.get(key) == value
        if not has_it:
            raise FlavorRefused(f"{origins[0]} with this model needs an image with {key}={value}")
    yield Trait(trait, Source(ENCRYPTION, model.origin if model else origins[0]))


def image_for_encryption(specs: Properties) -> Properties:
    """The properties that an image needs for the encrypted memory of a flavor; {} without any."""
    if not is_true(specs.get("hw:mem_encryption")):
        return {}
    return {"hw_firmware_type": "uefi", **_IMAGE_FOR.get(specs.get("hw:mem_encryption_model"), {})}


def _either(specs: Properties, image: Properties, spec: str, key: str) -> _Value | None:
    """The extra spec, or else the image property."""
    if specs.get(spec):
        return _Value(specs[spec], f"{spec}={specs[spec]}")
    if image.get(key):
        return _Value(image[key], f"image {key}={image[key]}")
    return None


def _agreed(specs: Properties, image: Properties, spec: str, key: str) -> _Value | None:
    """The extra spec or the image property. Raises FlavorRefused if they differ."""
    flavor, own = specs.get(spec), image.get(key)
    if flavor and own and flavor != own:
        raise FlavorRefused(f"{spec}={flavor} contradicts the image's {key}={own}")
    return _either(specs, image, spec, key)


def _choice(choices: Mapping[str, str], value: _Value) -> str:
    if value.text not in choices:
        raise FlavorRefused(f"{value.origin} is not one of {', '.join(choices)}")
    return choices[value.text]


# Request filters

_MODELS = {
    "hw_cdrom_bus": "COMPUTE_STORAGE_BUS",
    "hw_disk_bus": "COMPUTE_STORAGE_BUS",
    "hw_video_model": "COMPUTE_GRAPHICS_MODEL",
    "hw_vif_model": "COMPUTE_NET_VIF_MODEL",
    # Not the prefix of the standard traits: with this property nova adds none.
    "hw_viommu_model": "COMPUTE_VIOMMU",
    "hw_architecture": "HW_ARCH",
    "hw_emulation_architecture": "COMPUTE_ARCH",
}
_ARCHITECTURES = {"amd64": "x86_64", "i386": "i686"}


def image_metadata(_: Properties, image: Properties, __: int) -> Iterator[Trait]:
    """The traits of ``[scheduler]/image_metadata_prefilter``; none if one is not standard."""
    requested = []
    for key, prefix in _MODELS.items():
        if image.get(key):
            value = image[key]
            if key.endswith("architecture"):
                value = _ARCHITECTURES.get(value, value)
            trait = f"{prefix}_{value.upper().replace('-', '_')}"
            requested.append(Trait(trait, Source(METADATA, f"image {key}={image[key]}")))
    if standard.traits().issuperset(trait.name for trait in requested):
        yield from requested


def pci_affinity(specs: Properties, image: Properties, _: int) -> Iterator[Trait]:
    """PCI devices of the same socket."""
    policy = _either(specs, image, "hw:pci_numa_affinity_policy", "hw_pci_numa_affinity_policy")
    if policy and policy.text == "socket":
        yield Trait("COMPUTE_SOCKET_PCI_NUMA_AFFINITY", Source(PCI_AFFINITY, policy.origin))


def accelerators(specs: Properties, _: Properties, __: int) -> Iterator[Trait]:
    """The devices of Cyborg."""
    profile = specs.get("accel:device_profile")
    if profile:
        source = Source(ACCELERATORS, f"accel:device_profile={profile}")
        yield Trait("COMPUTE_ACCELERATORS", source)


def packed(specs: Properties, image: Properties, release: int) -> Iterator[Trait]:
    """The packed virtqueue."""
    key, own = "hw:virtio_packed_ring", "hw_virtio_packed_ring"
    if release == _PACKED_NEVER_AGREES and key in specs and own in image:
        raise FlavorRefused(
            f"nova {release} accepts only one of {key}={specs[key]} and the image's"
            f" {own}={image[own]}, even if they agree"
        )
    value = _agreed_switch(specs, image, key, own)
    if value and is_true(value.text):
        yield Trait("COMPUTE_NET_VIRTIO_PACKED", Source(PACKED, value.origin))


def ephemeral(specs: Properties, image: Properties, _: int) -> Iterator[Trait]:
    """Encrypted ephemeral disks."""
    key, own = "hw:ephemeral_encryption", "hw_ephemeral_encryption"
    value = _agreed_switch(specs, image, key, own)
    if value is None or not is_true(value.text):
        return
    yield Trait("COMPUTE_EPHEMERAL_ENCRYPTION", Source(EPHEMERAL, value.origin))
    form = _agreed(specs, image, f"{key}_format", f"{own}_format")
    if form is None:
        return
    if form.text not in _ENCRYPTION_FORMATS:
        raise FlavorRefused(f"{form.origin} is not one of {', '.join(_ENCRYPTION_FORMATS)}")
    trait = f"COMPUTE_EPHEMERAL_ENCRYPTION_{form.text.upper()}"
    yield Trait(trait, Source(EPHEMERAL, form.origin))


def sound(specs: Properties, image: Properties, _: int) -> Iterator[Trait]:
    """A virtio sound device."""
    model = _agreed(specs, image, "hw:sound_model", "hw_sound_model")
    if model and model.text == "virtio":
        yield Trait("COMPUTE_SOUND_MODEL_VIRTIO", Source(SOUND, model.origin))


def tpm_secrets(specs: Properties, image: Properties, _: int) -> Iterator[Trait]:
    """Who can read the secret of a virtual TPM."""
    version = _agreed(specs, image, "hw:tpm_version", "hw_tpm_version")
    if version is None:
        return
    security = specs.get("hw:tpm_secret_security") or "user"
    if security not in _TPM_SECURITY:
        raise FlavorRefused(
            f"hw:tpm_secret_security={security} is not one of {', '.join(_TPM_SECURITY)}"
        )
    origin = f"hw:tpm_secret_security={security}"
    if not specs.get("hw:tpm_secret_security"):
        origin = f"{version.origin}, default {security}"
    trait = f"COMPUTE_SECURITY_TPM_SECRET_SECURITY_{security.upper()}"
    yield Trait(trait, Source(TPM_SECRETS, origin))


def _agreed_switch(specs: Properties, image: Properties, spec: str, key: str) -> _Value | None:
    """A boolean of the flavor or the image. Raises FlavorRefused if they differ."""
    flavor, own = specs.get(spec), image.get(key)
    if flavor is not None and own is not None and is_true(flavor) != is_true(own):
        raise FlavorRefused(f"{spec}={flavor} contradicts the image's {key}={own}")
    return _either(specs, image, spec, key)
