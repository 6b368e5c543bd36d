# SPDX-License-Identifier: Apache-2.0
"""Reads a nova.conf with oslo.config."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement import errors
from osc_placement.model import json_text

if TYPE_CHECKING:
    from oslo_config import cfg


def read(
    path: pathlib.Path,
    sections: Mapping[str, Sequence[cfg.Opt]],
    refused: list[str] | None = None,
) -> dict[str, Any]:
    """``{option: its value}`` of a file; ``sections`` are ``{section: options}``.

    No service of nova starts with a value that oslo.config refuses: it is an error, or with
    ``refused`` a text there, and the value is the default.
    Errors: PlacementError, which names the file.
    """
    from oslo_config import cfg

    conf, values = cfg.ConfigOpts(), dict[str, Any]()
    try:
        json_text.check_file(path)
        for section, options in sections.items():
            conf.register_opts(options, group=None if section == "DEFAULT" else section)
        conf(args=[], project="nova", default_config_files=[str(path)], default_config_dirs=[])
        for section, option in ((name, item) for name in sections for item in sections[name]):
            try:
                values[option.name] = (conf if section == "DEFAULT" else conf[section])[option.name]
            except ValueError as error:
                if refused is None:
                    raise
                values[option.name] = option.default
                why = str(error).rpartition(" is not valid: ")[2].strip()
                why = why.replace("invalid literal for int() with base 10:", "not a number:")
                refused.append(f"[{section}]{option.name}: {why}")
    except (cfg.Error, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        if isinstance(error, OSError):
            reason = f"{error.strerror}: give the file with --nova-conf"
        elif isinstance(error, cfg.NoSuchOptError):
            reason = f"a $ refers to an option that is not read ({error.opt_name}): write its value"
        raise errors.PlacementError(f"cannot read {path} as a nova.conf: {reason}") from error
    return values
