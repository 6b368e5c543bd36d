# SPDX-License-Identifier: Apache-2.0
"""Run glance without keystone: ``glance.py PORT FOLDER``; its database is in the folder.

The Python of an environment with glance and gunicorn runs this, after ``glance-manage db sync``.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from gunicorn.app import base

PORT, FOLDER = sys.argv[1:]
# The service parses sys.argv.
sys.argv = ["glance-api", "--config-file", f"{FOLDER}/glance-api.conf"]


class Server(base.BaseApplication):
    """gunicorn with glance's WSGI module."""

    def load_config(self) -> None:
        self.cfg.set("bind", f"127.0.0.1:{PORT}")

    def load(self) -> Any:
        return importlib.import_module("glance.wsgi.api").application


Server().run()
