"""The traits that nova derives from extra specs and image properties. Pure.

The rules are those of nova 34: ``derived`` are those of its scheduler's request, ``root_traits``
those of its request filters that read only the flavor and the image. tests/interop/test_request.py
compares the results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from osc_placement.nova.flavor import Source, is_true

Properties = Mapping[str, str]

THREADS = "CPU thread policy"
TPM = "virtual TPM"
SECURE_BOOT = "secure boot"
ADDRESSES = "physical address bits"
FIRMWARE = "stateless firmware"
ENCRYPTION = "memory encryption"

_HYPERTHREADING = "HW_CPU_HYPERTHREADING"
_ENCRYPTION_MODELS = {"amd-sev": "HW_CPU_X86_AMD_SEV", "amd-sev-es": "HW_CPU_X86_AMD_SEV_ES"}
_ADDRESS_MODES = {
    "passthrough": "COMPUTE_ADDRESS_SPACE_PASSTHROUGH",
    "emulate": "COMPUTE_ADDRESS_SPACE_EMULATED",
}
_TPM_VERSIONS = ("1.2", "2.0")
_TPM_SECURITY = ("user", "host", "deployment")
_ENCRYPTION_FORMATS = ("plain", "luks", "luksv2")


class Refused(ValueError):
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


@functools.cache
def standard() -> frozenset[str]:
    """The standard traits: nova leaves out derived traits that it does not know."""
    import os_traits

    return frozenset(os_traits.get_traits())


def derived(specs: Properties, image: Properties) -> Iterator[Trait]:
    """The traits of the unsuffixed group. Raises Refused."""
    yield from _threads(specs, image)
    yield from _tpm(specs, image)
    boot = _agreed(specs, image, "os:secure_boot", "os_secure_boot")
    if boot and boot.text.lower() == "required":
        yield Trait("COMPUTE_SECURITY_UEFI_SECURE_BOOT", Source(SECURE_BOOT, boot.origin))
    mode = _agreed(specs, image, "hw:maxphysaddr_mode", "hw_maxphysaddr_mode")
    if mode:
        trait = _choice(_ADDRESS_MODES, mode)
        yield Trait(trait, Source(ADDRESSES, mode.origin))
    uefi = image.get("hw_firmware_type") == "uefi"
    if uefi and is_true(image.get("hw_firmware_stateless")):
        origin = f"image hw_firmware_stateless={image['hw_firmware_stateless']}"
        yield Trait("COMPUTE_SECURITY_STATELESS_FIRMWARE", Source(FIRMWARE, origin))
    yield from _encryption(specs, image)


def _threads(specs: Properties, image: Properties) -> Iterator[Trait]:
    flavor, own = specs.get("hw:cpu_thread_policy"), image.get("hw_cpu_thread_policy")
    if flavor in ("isolate", "require") and own and own != flavor:
        raise Refused(
            f"hw:cpu_thread_policy={flavor} forbids the image's hw_cpu_thread_policy={own}"
        )
    policy = _either(specs, image, "hw:cpu_thread_policy", "hw_cpu_thread_policy")
    if policy and policy.text in ("isolate", "require"):
        yield Trait(_HYPERTHREADING, Source(THREADS, policy.origin), policy.text == "isolate")


def _tpm(specs: Properties, image: Properties) -> Iterator[Trait]:
    version = _agreed(specs, image, "hw:tpm_version", "hw_tpm_version")
    if version is None:
        return
    model = _agreed(specs, image, "hw:tpm_model", "hw_tpm_model")
    if version.text not in _TPM_VERSIONS:
        raise Refused(f"{version.origin} is not one of {', '.join(_TPM_VERSIONS)}")
    name = model.text if model else "tpm-tis"
    if name == "tpm-crb" and version.text == "1.2":
        raise Refused(f"{version.origin} has no model tpm-crb")
    number = version.text.replace(".", "_")
    yield Trait(f"COMPUTE_SECURITY_TPM_{number}", Source(TPM, version.origin))
    interface = name.removeprefix("tpm-").upper()
    origin = model.origin if model else f"{version.origin} without a model"
    yield Trait(f"COMPUTE_SECURITY_TPM_{interface}", Source(TPM, origin))


def _encryption(specs: Properties, image: Properties) -> Iterator[Trait]:
    flavor, own = specs.get("hw:mem_encryption"), image.get("hw_mem_encryption")
    requested = {
        f"hw:mem_encryption={flavor}": flavor,
        f"image hw_mem_encryption={own}": own,
    }
    origins = [text for text, value in requested.items() if is_true(value)]
    if not origins:
        return
    if flavor is not None and own is not None and len(origins) == 1:
        raise Refused(f"hw:mem_encryption={flavor} contradicts the image's hw_mem_encryption={own}")
    if image.get("hw_firmware_type") != "uefi":
        raise Refused(f"{origins[0]} needs an image with hw_firmware_type=uefi")
    machine = image.get("hw_machine_type")
    if machine and "q35" not in machine:
        raise Refused(f"{origins[0]} needs the machine type q35, not {machine}")
    model = _agreed(specs, image, "hw:mem_encryption_model", "hw_mem_encryption_model")
    trait = _choice(_ENCRYPTION_MODELS, model) if model else _ENCRYPTION_MODELS["amd-sev"]
    yield Trait(trait, Source(ENCRYPTION, model.origin if model else origins[0]))


def _either(specs: Properties, image: Properties, spec: str, key: str) -> _Value | None:
    """The extra spec, or else the image property."""
    if specs.get(spec):
        return _Value(specs[spec], f"{spec}={specs[spec]}")
    if image.get(key):
        return _Value(image[key], f"image {key}={image[key]}")
    return None


def _agreed(specs: Properties, image: Properties, spec: str, key: str) -> _Value | None:
    """The extra spec or the image property. Raises Refused if they differ."""
    flavor, own = specs.get(spec), image.get(key)
    if flavor and own and flavor != own:
        raise Refused(f"{spec}={flavor} contradicts the image's {key}={own}")
    return _either(specs, image, spec, key)


def _choice(known: Mapping[str, str], value: _Value) -> str:
    if value.text not in known:
        raise Refused(f"{value.origin} is not one of {', '.join(known)}")
    return known[value.text]


# Request filters

_MODELS = {
    "hw_cdrom_bus": "COMPUTE_STORAGE_BUS",
    "hw_disk_bus": "COMPUTE_STORAGE_BUS",
    "hw_video_model": "COMPUTE_GRAPHICS_MODEL",
    "hw_vif_model": "COMPUTE_NET_VIF_MODEL",
    "hw_architecture": "HW_ARCH",
    "hw_emulation_architecture": "COMPUTE_ARCH",
}
_ARCHITECTURES = {"amd64": "x86_64", "i386": "i686"}

METADATA = "request filter: image metadata"


def image_metadata(_: Properties, image: Properties) -> Iterator[Trait]:
    """The traits of ``[scheduler]/image_metadata_prefilter``."""
    for key, prefix in _MODELS.items():
        if image.get(key):
            value = image[key]
            if key.endswith("architecture"):
                value = _ARCHITECTURES.get(value, value)
            trait = f"{prefix}_{value.upper().replace('-', '_')}"
            if trait in standard():
                yield Trait(trait, Source(METADATA, f"image {key}={image[key]}"))


def _accelerators(specs: Properties, _: Properties) -> Iterator[Trait]:
    profile = specs.get("accel:device_profile")
    if profile:
        yield Trait(
            "COMPUTE_ACCELERATORS",
            Source("request filter: accelerators", f"accel:device_profile={profile}"),
        )


def _packed(specs: Properties, image: Properties) -> Iterator[Trait]:
    value = _agreed_switch(specs, image, "hw:virtio_packed_ring", "hw_virtio_packed_ring")
    if value and is_true(value.text):
        step = "request filter: packed virtqueue"
        yield Trait("COMPUTE_NET_VIRTIO_PACKED", Source(step, value.origin))


def _ephemeral(specs: Properties, image: Properties) -> Iterator[Trait]:
    key, own = "hw:ephemeral_encryption", "hw_ephemeral_encryption"
    value = _agreed_switch(specs, image, key, own)
    if value is None or not is_true(value.text):
        return
    step = "request filter: ephemeral encryption"
    yield Trait("COMPUTE_EPHEMERAL_ENCRYPTION", Source(step, value.origin))
    form = _agreed(specs, image, f"{key}_format", f"{own}_format")
    if form is None:
        return
    if form.text not in _ENCRYPTION_FORMATS:
        raise Refused(f"{form.origin} is not one of {', '.join(_ENCRYPTION_FORMATS)}")
    trait = f"COMPUTE_EPHEMERAL_ENCRYPTION_{form.text.upper()}"
    yield Trait(trait, Source(step, form.origin))


def _sound(specs: Properties, image: Properties) -> Iterator[Trait]:
    model = _agreed(specs, image, "hw:sound_model", "hw_sound_model")
    if model and model.text == "virtio":
        yield Trait(
            "COMPUTE_SOUND_MODEL_VIRTIO", Source("request filter: virtio sound", model.origin)
        )


def _tpm_secrets(specs: Properties, image: Properties) -> Iterator[Trait]:
    version = _agreed(specs, image, "hw:tpm_version", "hw_tpm_version")
    if version is None:
        return
    security = specs.get("hw:tpm_secret_security") or "user"
    if security not in _TPM_SECURITY:
        raise Refused(f"hw:tpm_secret_security={security} is not one of {', '.join(_TPM_SECURITY)}")
    origin = f"hw:tpm_secret_security={security}"
    if not specs.get("hw:tpm_secret_security"):
        origin = f"{version.origin}, default {security}"
    step = "request filter: TPM secret security"
    yield Trait(f"COMPUTE_SECURITY_TPM_SECRET_SECURITY_{security.upper()}", Source(step, origin))


def _agreed_switch(specs: Properties, image: Properties, spec: str, key: str) -> _Value | None:
    """A boolean of the flavor or the image. Raises Refused if they differ."""
    flavor, own = specs.get(spec), image.get(key)
    if flavor and own and is_true(flavor) != is_true(own):
        raise Refused(f"{spec}={flavor} contradicts the image's {key}={own}")
    return _either(specs, image, spec, key)


#: A request filter that reads only the flavor and the image.
RootFilter = Callable[[Properties, Properties], Iterator[Trait]]

#: The request filters around routed networks and remote managed ports, in nova's order.
BEFORE_NETWORKS: tuple[RootFilter, ...] = (_accelerators, _packed)
AFTER_NETWORKS: tuple[RootFilter, ...] = (_ephemeral, _sound, _tpm_secrets)
