"""Real tokens: keystonemiddleware around the application.

Loaded only with ``--auth keystone``: it takes half a second, and the extra ``keystone``.
The middleware asks keystone what a token is worth, refuses what was not confirmed, and says
the rest in headers, which ``auth.keystone`` reads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from webob import exc

LOG = logging.getLogger(__name__)

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]

GROUP = "keystone_authtoken"

#: A request waits for keystone without holding the state, so others can go on meanwhile.
THREADS = 8

#: What holds where the file says nothing. Without the first, a keystone that never answers
#: would keep a thread for ever (seconds; each request is tried four times); without the
#: second, application credentials with access rules could not be used.
DEFAULTS = {"http_connect_timeout": 10, "service_type": "placement"}

_STATUS = "HTTP_X_IDENTITY_STATUS"


class AuthConfigInvalid(Exception):
    """The middleware cannot be set up; the text says why and what to do."""


def wrap(app: Wsgi, config_file: str) -> Wsgi:
    """The application behind the middleware; its root is for everybody, token or not.

    The options stand in ``[keystone_authtoken]`` of the file. Raises AuthConfigInvalid.
    Keystone is not asked before a request comes.
    """
    middleware = _middleware(app, config_file)

    def guarded(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ.get("PATH_INFO") in ("/", ""):
            return app({**environ, _STATUS: "Invalid"}, start_response)
        try:
            return middleware(environ, start_response)
        except Exception:  # the middleware expects some, but a plugin raises what it likes
            LOG.exception("no token can be confirmed")
            answer = exc.HTTPServiceUnavailable("The identity service could not be asked.")
            return answer(environ, start_response)  # type: ignore[no-any-return]

    return guarded


def _middleware(app: Wsgi, path: str) -> Wsgi:
    try:
        from keystonemiddleware import auth_token
        from oslo_config import cfg
    except ImportError as error:
        raise AuthConfigInvalid(
            "keystone's tokens need keystonemiddleware: pip install 'osc-placement[keystone]'"
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
            f"{path}: there is no auth_type in [{GROUP}]: the server needs a user of its own"
            " to ask keystone (auth_type = password, auth_url, username, ...)"
        )
    return middleware
