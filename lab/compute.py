# SPDX-License-Identifier: Apache-2.0
"""Run nova-compute with nova's fake virt driver: ``compute.py HOST STATE-FOLDER``.

The lab's Python runs this. The lab has no message queue, so nova-conductor runs in the same
process: the two use oslo.messaging's transport in memory. Variables such as
``OS_DEFAULT__REPORT_INTERVAL`` set nova's options.
"""

from __future__ import annotations

import os
import pathlib
import sys

# The first import selects the backend of threads.
import nova.monkey_patch  # noqa: F401
from nova import config, objects, service

HOST, STATE = sys.argv[1:]
CONFIGURATION = pathlib.Path(os.environ["OS_NOVA_CONFIG_DIR"], "nova.conf")

config.parse_args(["nova-compute"], default_config_files=[str(CONFIGURATION)])
config.CONF.set_override("host", HOST)
# Nova keeps the UUID of the compute node there.
config.CONF.set_override("state_path", STATE)
config.CONF.set_override("compute_driver", "fake.FakeDriver")
objects.register_all()
service.Service.create(binary="nova-conductor", topic="conductor").start()
service.serve(service.Service.create(binary="nova-compute", topic="compute"))
service.wait()
