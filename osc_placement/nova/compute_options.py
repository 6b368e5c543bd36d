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
    """

    path: str
    host: str | None = None
    has_tpm: bool | None = None
    tpm_secrets: frozenset[str] | None = None
    skips_version_check: bool = False

    def withholds(self, trait: str) -> bool:
        """Whether a nova-compute with this file never writes a trait."""
        if trait.startswith(_SECRET) and self.tpm_secrets is not None:
            return trait.removeprefix(_SECRET).lower() not in self.tpm_secrets
        return trait.startswith(_TPM) and self.has_tpm is False


def read(path: pathlib.Path) -> ComputeOptions:
    """The options of a nova.conf. Errors: PlacementError names the file."""
    from oslo_config import cfg

    conf = cfg.ConfigOpts()
    skips = cfg.BoolOpt("disable_compute_service_check_for_ffu", default=False)
    conf.register_opt(cfg.StrOpt("host"))
    conf.register_opt(skips, group="workarounds")
    conf.register_opt(cfg.BoolOpt("swtpm_enabled"), group="libvirt")
    conf.register_opt(cfg.ListOpt("supported_tpm_secret_security"), group="libvirt")
    with configuration.read(conf, path):
        secrets = conf.libvirt.supported_tpm_secret_security
        return ComputeOptions(
            str(path),
            conf.host,
            conf.libvirt.swtpm_enabled,
            None if secrets is None else frozenset(secrets),
            conf.workarounds[skips.name],
        )
