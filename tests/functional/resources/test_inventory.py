# SPDX-License-Identifier: Apache-2.0
"""``resource provider inventory …`` and usages."""

from __future__ import annotations

from osc_placement.testing import Cloud, uuid_of
from tests.support.rows import Row, checked

RACK = uuid_of("rack")
TWO, ONE = uuid_of("two"), uuid_of("one")
DEFAULTS = {
    "allocation_ratio": 1.0,
    "min_unit": 1,
    "max_unit": 2147483647,
    "reserved": 0,
    "step_size": 1,
}
UNSET = dict.fromkeys(DEFAULTS, "")
OWNER = {"project": "project", "user": "user"}

STATES = {
    "a node": Cloud()
    .host("node", VCPU=8, MEMORY_MB=64)
    .server("server", {"node": {"VCPU": 2}}, type="unknown", **OWNER)
    .server("typed server", {"node": {"VCPU": 1}}, **OWNER),
    "a rack": Cloud().host("one", VCPU=8, aggregates=["rack"]).host("two", aggregates=["rack"]),
    "a rack in use": Cloud()
    .host("one", VCPU=8, aggregates=["rack"])
    .host("two", VCPU=8, aggregates=["rack"])
    .server("server", {"two": {"VCPU": 4}}),
}

INVENTORY = "resource provider inventory"
SET, LIST, SHOW = (f"{INVENTORY} {verb}" for verb in ("set", "list", "show"))
OF_RACK = f"{SET} {RACK} --aggregate"
AMEND = f"{OF_RACK} --amend"
RATIO = "--resource VCPU:allocation_ratio=4.0 --dry-run"
RATIOS = {"resource_class": "VCPU", **UNSET, "total": "", "allocation_ratio": 4.0}
USAGE = "resource usage show project"
AT = "--os-placement-api-version"
FAILED = "Failed to set inventory for resource provider"
OF_EACH = "-f value -c resource_provider -c allocation_ratio -c max_unit -c total"

TABLE = [
    # A dry run shows the new inventories.
    Row(f"{SET} node --dry-run --resource VCPU=4 --resource VCPU:reserved=1 --resource MEMORY_MB=2",
        "a node", 0, [{**UNSET, "resource_class": "VCPU", "reserved": 1, "total": 4},
                      {**UNSET, "resource_class": "MEMORY_MB", "total": 2}], unchanged=True),
    Row(f"{SET} node --dry-run --amend --resource VCPU:reserved=1", "a node", 0,
        [{**DEFAULTS, "resource_class": "VCPU", "reserved": 1, "total": 8},
         {**DEFAULTS, "resource_class": "MEMORY_MB", "total": 64}], unchanged=True),
    # It refuses a capacity that the service refuses, and no other.
    *(Row(f"{AT} {at} {SET} node --resource VCPU=4 --resource VCPU:{field} {dry}", "a node",
          code, ("allocation_ratio",) if code == 0 else (), unchanged=bool(dry or code))
      for at, field, code in (("1.25", "allocation_ratio=0.1", 1), ("1.25", "reserved=4", 1),
                              ("1.26", "allocation_ratio=0.1", 0), ("1.26", "reserved=4", 0),
                              ("1.26", "reserved=5", 1),
                              ("1.26", "reserved=5 --resource VCPU:allocation_ratio=0.5", 0))
      for dry in ("", "--dry-run")),
    *(Row(f"{at} {OF_RACK} {RATIO} {OF_EACH}", "a rack in use", 0, {f"{ONE} 4.0  ", f"{TWO} 4.0  "},
          unchanged=True) for at in (f"{AT} 1.3", "")),
    *(Row(f"{at} {SET} one {RATIO}", "a rack", 0, [RATIOS], unchanged=True)
      for at in (f"{AT} 1.3", "")),
    # All members of an aggregate: a failure does not stop the others, and nothing is guarded.
    Row(f"""{OF_RACK}
            {LIST} one""", "a rack", 0, []),
    Row(f"{OF_RACK}", "a rack", 0, []),
    Row(f"""{OF_RACK}
            {OF_RACK}""", "a rack", 0, []),
    Row(f"{OF_RACK} --resource DISK_GB=7", "a rack in use", 1,
        (f"{FAILED} {TWO}: ", "Failed to set inventory for 1 of 2 resource providers.")),
    Row(f"{AMEND} --resource VCPU=2 --resource VCPU:max_unit=1 {OF_EACH}", "a rack in use", 0,
        {f"{ONE} 1.0 1 2", f"{TWO} 1.0 1 2"}),
    Row(f"""{AMEND} --resource VCPU=2
            {AMEND} --resource VCPU=2""", "a rack in use", 0, [{"total": 2}, {"total": 2}]),
    *(Row(f"{AMEND} --resource {resource}", "a rack in use", 1,
          (f"{FAILED} {TWO}: ", reason, "Failed to set inventory for 2 of 2 resource providers."),
          unchanged=True)
      for resource, reason in (("VCPU=0", "0 is less than the minimum of 1"),
                               ("CUSTOM_NO=1", "No such"))),
    # One class, and the usage of a provider and of a project.
    Row(f"{SHOW} node VCPU", "a node", 0, {**DEFAULTS, "total": 8, "used": 3}),
    Row(f"{SHOW} node PCPU", "a node", 1, "HTTP 404"),
    Row(f"{LIST} node --long", "a node", 0,
        [{"used": 3, "capacity": 8, "free": 5}, {"used": 0, "capacity": 64, "free": 64}]),
    Row(USAGE, "a node", 0, [{"resource_class": "VCPU", "usage": 3}]),
    Row(f"{USAGE} --user-id other", "a node", 0, []),
    *(Row(f"{at} {USAGE} --long -f value -c resource_class -c usage -c consumer_type"
          " -c consumer_count", "a node", 0, {"VCPU 2 unknown 1", "VCPU 1 INSTANCE 1"})
      for at in (f"{AT} 1.38", "")),
    Row(f"{USAGE} --consumer-type INSTANCE", "a node", 0, [{"usage": 1, "consumer_count": 1}]),
    Row(f"{USAGE} --consumer-type all", "a node", 0, [{"usage": 3, "consumer_count": 2}]),
    Row(f"{AT} 1.37 {USAGE} --consumer-type INSTANCE", "a node", 1,
        "requires at least version 1.38"),
]  # fmt: skip

test_a_command_shows_what_its_row_says = checked(TABLE, STATES)
