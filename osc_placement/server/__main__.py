# SPDX-License-Identifier: Apache-2.0
"""``python -m osc_placement.server``"""

import sys

from osc_placement.server import run

if __name__ == "__main__":
    sys.exit(run.main())
