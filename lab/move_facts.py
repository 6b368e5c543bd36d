# SPDX-License-Identifier: Apache-2.0
"""The words of a release of nova about moves; run this with its Python. Prints a JSON object.

``types``
    The types of migrations.
``over``
    The statuses of migrations that are not in progress.
``statuses``
    All statuses of migrations that its code sets, or lists beside one that it sets.
``tasks``, ``states``
    The task states and the states of a server.

``python -m lab.tests.test_move_facts`` writes those of all releases into the file of the tests.
"""

from __future__ import annotations

import dis
import importlib.util
import json
import pkgutil
import sys
import types
from collections.abc import Iterator

# The first import selects the backend of threads.
import nova.api.openstack
import nova.compute
import nova.conductor
import nova.objects
import nova.virt.libvirt
from nova.compute import task_states, vm_states
from nova.db.main import api as database
from nova.objects import fields

_PACKAGES = (*(nova.api.openstack, nova.compute, nova.conductor, nova.objects, nova.virt.libvirt),)
#: The function that lists the statuses of migrations that are not in progress.
_IN_PROGRESS = "migration_get_in_progress_by_host_and_node"


def functions(code: types.CodeType) -> Iterator[types.CodeType]:
    """A module's code and that of each function in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from functions(constant)


def modules() -> Iterator[types.CodeType]:
    for package in _PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            spec = importlib.util.find_spec(module.name)
            code = spec.loader.get_code(module.name)  # type: ignore[union-attr]
            if code is not None:
                yield code
    yield importlib.util.find_spec(database.__name__).loader.get_code(  # type: ignore[union-attr]
        database.__name__
    )


def stored(function: types.CodeType) -> Iterator[str]:
    """The texts that a function sets as the status of a migration."""
    steps = [
        step for step in dis.get_instructions(function) if step.opname not in ("CACHE", "PRECALL")
    ]
    for before, text, after, last in zip(steps, steps[1:], steps[2:], steps[3:], strict=False):
        # migration.status = "error"
        is_set = _is_migration(after) and (last.opname, last.argval) == ("STORE_ATTR", "status")
        # self._set_migration_status(migration, "error")
        is_passed = _is_migration(before) and after.opname.startswith("CALL")
        is_passed = is_passed and "_set_migration_status" in function.co_names
        if text.opname == "LOAD_CONST" and isinstance(text.argval, str) and (is_set or is_passed):
            yield text.argval


def _is_migration(step: dis.Instruction) -> bool:
    return step.opname.startswith("LOAD_") and "migration" in str(step.argval)


def listed(function: types.CodeType) -> Iterator[frozenset[str]]:
    """The lists of texts in a function."""
    for constant in function.co_consts:
        if isinstance(constant, tuple | frozenset) and all(
            isinstance(part, str) for part in constant
        ):
            yield frozenset(constant)


def statuses() -> tuple[set[str], set[str]]:
    """``(all statuses, those of migrations that are over)``."""
    values, lists, over = set[str](), list[frozenset[str]](), set[str]()
    for code in modules():
        for function in functions(code):
            values.update(stored(function))
            if any("migration" in name for name in (function.co_name, *function.co_names)):
                lists += listed(function)
            if function.co_name == _IN_PROGRESS:
                over.update(*listed(function))
    # A list of statuses has at least two of those that are set.
    for names in lists:
        if len(names & values) > 1:
            values |= names
    return values | over, over


def words(module: types.ModuleType) -> list[str]:
    return sorted(
        value for name, value in vars(module).items() if name.isupper() and isinstance(value, str)
    )


def main() -> None:
    all_statuses, over = statuses()
    json.dump(
        {
            "types": sorted(fields.MigrationType.ALL),
            "over": sorted(over),
            "statuses": sorted(all_statuses),
            "tasks": words(task_states),
            "states": words(vm_states),
        },
        sys.stdout,
    )


main()
