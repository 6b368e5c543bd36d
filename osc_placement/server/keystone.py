"""Keystone tokens: keystonemiddleware around the application.

Imported only with ``--auth keystone``: it takes half a second and the extra ``keystone``. The
middleware validates the token and sets headers, which ``auth.keystone`` reads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from webob import exc

LOG = logging.getLogger(__name__)

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]

GROUP = "keystone_authtoken"

#: Defaults of this server. Without http_connect_timeout (seconds; the middleware tries four times)
#: an unresponsive keystone would block a thread for ever; without service_type, application
#: credentials with access rules would be refused.
DEFAULTS = {"http_connect_timeout": 10, "service_type": "placement"}

_STATUS = "HTTP_X_IDENTITY_STATUS"


class AuthConfigInvalid(Exception):
    """The middleware cannot be configured; the text has the reason and the remedy."""


def wrap(app: Wsgi, config_file: str) -> Wsgi:
    """The application behind the middleware; its root needs no token.

    The options are in ``[keystone_authtoken]`` of the file. Raises AuthConfigInvalid. Sends no
    request to keystone at start.
    """
    middleware = _middleware(app, config_file)

    def guarded(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ.get("PATH_INFO") in ("/", ""):
            return app({**environ, _STATUS: "Invalid"}, start_response)
        try:
            return middleware(environ, start_response)
        except Exception:  # the middleware expects some, but a plugin raises what it likes
            LOG.exception("token validation failed")
            answer = exc.HTTPServiceUnavailable("The identity service is unavailable.")
            return answer(environ, start_response)  # type: ignore[no-any-return]

    return guarded


def _middleware(app: Wsgi, path: str) -> Wsgi:
    try:
        from keystonemiddleware import auth_token
        from oslo_config import cfg
    except ImportError as error:
        raise AuthConfigInvalid(
            "--auth keystone needs keystonemiddleware: pip install 'osc-placement[keystone]'"
        ) from error
    config = cfg.ConfigOpts()
    try:
        config([], project="osc-placement", default_config_files=[path], default_config_dirs=[])
        for group, options in auth_token.list_opts():
            config.register_opts(options, group)
        for name, value in DEFAULTS.items():
            config.set_default(name, value, GROUP)
        middleware: Wsgi = auth_token.AuthProtocol(app, {"oslo_config_config": config})
        known = config[GROUP].auth_type or config[GROUP].auth_section
    except Exception as error:  # authentication plugins raise what they like
        raise AuthConfigInvalid(f"{path}: {error}") from error
    if not known:
        raise AuthConfigInvalid(
            f"{path}: [{GROUP}] has no auth_type: the server needs a service user"
            " for keystone (auth_type = password, auth_url, username, ...)"
        )
    return middleware
