# SPDX-License-Identifier: Apache-2.0
"""Placement's policy rules and their defaults.

Without a policy file the defaults are evaluated here; oslo.policy (150 ms to import) is imported
only for a file.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from osc_placement.errors import needs_extra
from osc_placement.model import json_text
from osc_placement.server import auth

PREFIX = "placement:"
RESHAPE = "placement:reshaper:reshape"
USAGES = "placement:usages"


#: Whether a rule allows a request of an identity on a target.
Policy = Callable[[str, auth.RequestIdentity, Mapping[str, Any]], bool]


def defaults(legacy: bool = False) -> Policy:
    """Placement's default rules.

    Secure RBAC: the roles admin and service may do everything, except that only service may
    reshape; a reader may read the usages of its own project. Legacy RBAC: admin may do everything.
    """

    def allows(rule: str, identity: auth.RequestIdentity, target: Mapping[str, Any]) -> bool:
        roles = {role.lower() for role in identity.roles}
        if "service" in roles or (legacy and "admin" in roles):
            return True
        if "admin" in roles:
            return rule != RESHAPE
        return (
            rule == USAGES
            and "reader" in roles
            and identity.project_id is not None
            and target.get("project_id") == identity.project_id
        )

    return allows


class PolicyFileInvalid(Exception):
    """The policy file cannot be used; the text has the reason and the remedy."""


def from_file(path: str, rules: Iterable[str], legacy: bool = False) -> Policy:
    """The defaults of all ``rules``, with the rules of an oslo.policy file in their place.

    Raises PolicyFileInvalid for a file that cannot be read or has no rules: oslo.policy would
    silently use the defaults.
    """
    from oslo_config import cfg

    with needs_extra("server", "--policy-file"):
        from oslo_policy import opts, policy as oslo_policy

    # oslo.policy searches relative names in its own folders and ignores a missing file.
    path = os.path.abspath(path)
    config = cfg.ConfigOpts()
    config([])
    opts.set_defaults(config, policy_file=path)
    config.set_override("enforce_new_defaults", not legacy, group="oslo_policy")
    enforcer = oslo_policy.Enforcer(config, policy_file=path)
    enforcer.suppress_default_change_warnings = True
    enforcer.suppress_deprecation_warnings = True
    enforcer.register_defaults(_oslo_defaults(oslo_policy, rules, legacy))
    try:
        text = json_text.read_bytes(pathlib.Path(path)).decode()
        checks = oslo_policy.parse_file_contents(text)
        enforcer.load_rules()
        enforcer.check_rules(raise_on_violation=True)
    except OSError as error:
        raise PolicyFileInvalid(f"{path} cannot be read: {error.strerror}") from error
    except oslo_policy.InvalidDefinitionError as error:
        raise PolicyFileInvalid(f"{path} has invalid rules: {error}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise PolicyFileInvalid(f"{path} is not a policy file: {error}") from error
    if not isinstance(checks, dict):
        raise PolicyFileInvalid(f"{path} is not a policy file: it has no 'RULE: CHECK' lines")

    def allows(rule: str, identity: auth.RequestIdentity, target: Mapping[str, Any]) -> bool:
        return bool(enforcer.authorize(rule, dict(target), identity.credentials()))

    return allows


def _oslo_defaults(oslo_policy: Any, rules: Iterable[str], legacy: bool) -> list[Any]:
    named = {
        "admin_api": "role:admin",
        "admin_or_service_api": "role:admin or role:service",
        "service_api": "role:service",
        "project_reader_api": "role:reader and project_id:%(project_id)s",
        "admin_or_project_reader_or_service_api": (
            "rule:admin_or_service_api or rule:project_reader_api"
        ),
    }
    checks = dict.fromkeys(rules, "rule:admin_or_service_api")
    checks[RESHAPE] = "rule:admin_or_service_api" if legacy else "rule:service_api"
    checks[USAGES] = "rule:admin_or_project_reader_or_service_api"
    return [oslo_policy.RuleDefault(name, check) for name, check in {**named, **checks}.items()]
