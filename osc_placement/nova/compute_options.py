# SPDX-License-Identifier: Apache-2.0
"""The options of a nova.conf that decide whether a nova-compute starts, and what it reports."""

from __future__ import annotations

import dataclasses
import pathlib

from osc_placement.nova import configuration

_TPM = "COMPUTE_SECURITY_TPM_"
_SECRET = f"{_TPM}SECRET_SECURITY_"


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeOptions:
    """``host`` is that of ``[DEFAULT]``, None if it is not set.

    ``has_tpm`` is ``[libvirt]swtpm_enabled`` and ``tpm_secrets`` its
    ``supported_tpm_secret_security``; None if the file does not set them: it may be the file of
    another service. ``skips_version_check``: nova's services start beside each nova-compute.
    ``is_of_compute``: the file has the ``compute_driver`` that nova-compute needs, and not the
    ``[api_database]connection`` that other services need. ``refused``: nova does not start.
    """

    path: str
    host: str | None = None
    has_tpm: bool | None = None
    tpm_secrets: frozenset[str] | None = None
    skips_version_check: bool = False
    is_of_compute: bool = True
    refused: tuple[str, ...] = ()

    def withholds(self, trait: str) -> bool:
        """Whether a nova-compute with this file never writes a trait."""
        if trait.startswith(_SECRET) and self.tpm_secrets is not None:
            return trait.removeprefix(_SECRET).lower() not in self.tpm_secrets
        return trait.startswith(_TPM) and self.has_tpm is False


def read(path: pathlib.Path, refused: list[str]) -> ComputeOptions:
    """The options of a nova.conf; ``refused`` has what was refused in other options.

    Errors: PlacementError names the file.
    """
    from oslo_config import cfg

    skips, secrets = "disable_compute_service_check_for_ffu", "supported_tpm_secret_security"
    sections: dict[str, list[cfg.Opt]] = {
        "DEFAULT": [cfg.HostDomainOpt("host"), cfg.StrOpt("compute_driver")],
        "api_database": [cfg.StrOpt("connection")],
        "workarounds": [cfg.BoolOpt(skips, default=False)],
        "libvirt": [cfg.BoolOpt("swtpm_enabled"), cfg.ListOpt(secrets)],
    }
    values = configuration.read(path, sections, refused)
    return ComputeOptions(
        str(path),
        values["host"],
        values["swtpm_enabled"],
        None if values[secrets] is None else frozenset(values[secrets]),
        values[skips],
        bool(values["compute_driver"] and not values["connection"]),
        tuple(dict.fromkeys(refused)),
    )
