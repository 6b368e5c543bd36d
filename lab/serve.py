# SPDX-License-Identifier: Apache-2.0
"""Run one of the services with gunicorn: ``serve.py NAME PORT WORKERS ACCESS-LOG``.

The lab's Python runs this; it does not have this project installed.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from gunicorn.app import base

MODULES = {
    "keystone": "keystone.wsgi.api",
    "placement": "placement.wsgi.api",
    "nova": "nova.wsgi.osapi_compute",
}
#: Before 2025.1.
OLDER = {"placement": "placement.wsgi", "nova": "nova.api.openstack.compute.wsgi"}
NAME, PORT, WORKERS, ACCESS = sys.argv[1:]
# The services parse sys.argv.
sys.argv = [f"lab-{NAME}"]

SETTINGS = {
    "bind": f"127.0.0.1:{PORT}",
    "workers": int(WORKERS),
    "worker_class": "gthread",
    # With two transactions that read before they write, SQLite fails one: Placement returns 500.
    "threads": 1 if NAME == "placement" else 8,
    "timeout": 600,
    "graceful_timeout": 2,
    "keepalive": 75,
    "limit_request_line": 8190,
    "proc_name": MODULES[NAME],
    "accesslog": ACCESS,
    "access_log_format": '%(t)s "%(r)s" %(s)s %(b)s v=%({openstack-api-version}i)s %(M)sms',
    "control_socket_disable": True,
}


class Server(base.BaseApplication):
    """gunicorn with the WSGI module of a service."""

    def load_config(self) -> None:
        for key, value in SETTINGS.items():
            if key in self.cfg.settings:
                self.cfg.set(key, value)

    def load(self) -> Any:
        try:
            return importlib.import_module(MODULES[NAME]).application
        except ModuleNotFoundError:
            return importlib.import_module(OLDER[NAME]).init_application()


Server().run()
