# SPDX-License-Identifier: Apache-2.0
"""Placement's policy rules and their defaults.

Without a policy file the defaults are evaluated here; oslo.policy (150 ms to import) is imported
only for a file.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from osc_placement.errors import needs_extra
from osc_placement.server import auth, http_errors

PREFIX = "placement:"
RESHAPE = "placement:reshaper:reshape"
USAGES = "placement:usages"


class Enforcer(Protocol):
    """Evaluates policy rules."""

    def authorize(
        self, rule: str, identity: auth.RequestIdentity, target: Mapping[str, Any] | None
    ) -> None:
        """Raise Forbidden unless the rule allows the request."""


class Defaults:
    """Placement's default rules.

    Secure RBAC: the roles admin and service may do everything, except that only service may
    reshape; a reader may read the usages of its own project. Legacy RBAC: admin may do everything.
    """

    def __init__(self, legacy: bool = False) -> None:
        self._legacy = legacy

    def authorize(
        self, rule: str, identity: auth.RequestIdentity, target: Mapping[str, Any] | None
    ) -> None:
        """Raise Forbidden unless the defaults allow the request."""
        if not identity.is_of_project:
            raise http_errors.HttpForbidden(rule)
        if not self._allows(rule, identity, target or {}):
            raise http_errors.HttpForbidden(f"Policy does not allow {rule} to be performed.")

    def _allows(self, rule: str, identity: auth.RequestIdentity, target: Mapping[str, Any]) -> bool:
        roles = {role.lower() for role in identity.roles}
        if "service" in roles or (self._legacy and "admin" in roles):
            return True
        if "admin" in roles:
            return rule != RESHAPE
        return (
            rule == USAGES
            and "reader" in roles
            and identity.project_id is not None
            and target.get("project_id") == identity.project_id
        )


class PolicyFileInvalid(Exception):
    """The policy file cannot be used; the text has the reason and the remedy."""


class FromFile:
    """The defaults of all ``rules``, with the rules of an oslo.policy file in their place.

    Raises PolicyFileInvalid for a file that cannot be read or has no rules: oslo.policy would
    silently use the defaults.
    """

    def __init__(self, path: str, rules: Iterable[str], legacy: bool = False) -> None:
        from oslo_config import cfg

        with needs_extra("server", "--policy-file"):
            from oslo_policy import opts, policy as oslo_policy

        # oslo.policy searches relative names in its own folders and ignores a missing file.
        path = os.path.abspath(path)
        config = cfg.ConfigOpts()
        config([])
        opts.set_defaults(config, policy_file=path)
        config.set_override("enforce_new_defaults", not legacy, group="oslo_policy")
        self._enforcer = oslo_policy.Enforcer(config, policy_file=path)
        self._enforcer.suppress_default_change_warnings = True
        self._enforcer.suppress_deprecation_warnings = True
        self._enforcer.register_defaults(_oslo_defaults(oslo_policy, rules, legacy))
        try:
            text = pathlib.Path(path).read_text(encoding="utf-8")
            checks = oslo_policy.parse_file_contents(text)
            self._enforcer.load_rules()
            self._enforcer.check_rules(raise_on_violation=True)
        except OSError as error:
            raise PolicyFileInvalid(f"{path} cannot be read: {error.strerror}") from error
        except oslo_policy.InvalidDefinitionError as error:
            raise PolicyFileInvalid(f"{path} has invalid rules: {error}") from error
        except (ValueError, TypeError, AttributeError) as error:
            raise PolicyFileInvalid(f"{path} is not a policy file: {error}") from error
        if not isinstance(checks, dict):
            raise PolicyFileInvalid(f"{path} is not a policy file: it has no 'RULE: CHECK' lines")

    def authorize(
        self, rule: str, identity: auth.RequestIdentity, target: Mapping[str, Any] | None
    ) -> None:
        """Raise Forbidden unless the file and the defaults allow the request."""
        if not identity.is_of_project:
            raise http_errors.HttpForbidden(rule)
        allowed = self._enforcer.authorize(rule, dict(target or {}), identity.credentials())
        if not allowed:
            raise http_errors.HttpForbidden(f"Policy does not allow {rule} to be performed.")


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
