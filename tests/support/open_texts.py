# SPDX-License-Identifier: Apache-2.0
"""The texts of what an answer leaves open, collected from the code.

Such a text gets into an answer by a field or list of one of the names in ``FIELDS``, or by a
function of such a name. ``collected`` follows what is put there back to literal texts: through
local names, constants, and the results of functions.
"""

from __future__ import annotations

import ast
import functools
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import TypeGuard

import osc_placement

ROOT = pathlib.Path(osc_placement.__file__).parent

#: The modules that make such texts for host check, capacity show, flavor audit, explain, drain and
#: make-room.
MODULES = (
    *("scheduling/answer.py", "scheduling/api_rules.py", "scheduling/case.py"),
    "scheduling/filters.py",
    *("scheduling/request.py", "scheduling/rule.py", "scheduling/server_hosts.py"),
    *("scheduling/verdict.py",),
    *("workflows/cloud/cases.py", "workflows/cloud/compute_nodes.py"),
    *("workflows/cloud/guest_search.py", "workflows/cloud/nova_request.py"),
    *("workflows/cloud/nova_servers.py", "workflows/cloud/observe_hosts.py"),
    *("workflows/cloud/ways.py", "workflows/capacity/show.py", "workflows/explain/flavor_audit.py"),
    *("workflows/moving/places.py", "workflows/moving/plan.py", "workflows/moving/planner.py"),
    *("workflows/moving/room_plan.py", "workflows/moving/balance_plan.py"),
    "workflows/moving/reserve_plan.py",
    *("workflows/moving/stop.py", "workflows/moving/stop_hosts.py", "v1/moving/make_room.py"),
)

#: The names of fields, lists and functions whose texts are left open by an answer.
FIELDS = frozenset(
    {"doubts", "doubtful", "not_checked", "notes", "problem", "servers_problem", "unknown"}
)

#: Of text that somebody reads, not a separator or a name.
_WORDS = re.compile("[a-z]{2}.* | .*[a-z]{2}")


def template(node: ast.AST) -> str:
    """The text of a literal, with ``{}`` for each value in it; empty for another node."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        return "".join(map(str, parts))
    return ""


def pattern(text: str) -> re.Pattern[str]:
    """What matches a text that was made from a template."""
    return re.compile(".+".join(map(re.escape, text.split("{}"))), re.DOTALL)


def collected() -> frozenset[str]:
    """The templates of all texts: those of more than one word."""
    return frozenset(_Collector().texts())


class _Collector:
    def __init__(self) -> None:
        trees = [ast.parse((ROOT / name).read_text()) for name in MODULES]
        of_trees = {tree: [node for node in ast.walk(tree) if _is_scope(node)] for tree in trees}
        self._tree_of = {scope: tree for tree, scopes in of_trees.items() for scope in scopes}
        self._scopes = list(self._tree_of)
        self._functions: dict[str, list[ast.FunctionDef]] = {}
        self._fields: dict[str, list[str]] = {}
        self._inits: dict[ast.AST, str] = {}
        self._constants: dict[str, list[ast.expr]] = {}
        self._calls: dict[str, list[tuple[ast.Call, ast.AST]]] = {}
        for scope in self._scopes:
            if isinstance(scope, ast.FunctionDef):
                self._functions.setdefault(scope.name, []).append(scope)
            for node in _own(scope):
                if isinstance(node, ast.Call):
                    self._calls.setdefault(_name(node.func), []).append((node, scope))
                elif isinstance(node, ast.ClassDef):
                    self._fields[node.name] = list(_fields(node))
                    inits = (member for member in node.body if _name_of(member) == "__init__")
                    self._inits |= dict.fromkeys(inits, node.name)
                if isinstance(scope, ast.Module):
                    for name, value in _assigned(node):
                        self._constants.setdefault(name, []).append(value)
        self._seen: set[tuple[int, int]] = set()

    def texts(self) -> Iterator[str]:
        """The templates behind every sink of every module."""
        for scope in self._scopes:
            for value in self._sinks(scope):
                yield from self._resolve(value, scope)

    def _sinks(self, scope: ast.AST) -> Iterator[ast.expr]:
        """What is put into the fields, lists and functions of these names."""
        if isinstance(scope, ast.FunctionDef) and _is_open(scope.name):
            yield from _results(scope)
        for node in _own(scope):
            yield from (value for name, value in _assigned(node) if _is_open(name))
            if isinstance(node, ast.Call):
                callee = _name(node.func)
                yield from _open_arguments(node, self._fields.get(callee, ()))
                if _is_open(callee) or callee == "NotKnown":
                    yield from node.args
                if callee == "append" and isinstance(node.func, ast.Attribute):
                    listed = node.func.value
                    aliases = [listed, *self._values(_name(listed), scope)]
                    names = (_name(each) for alias in aliases for each in ast.walk(alias))
                    yield from node.args if any(map(_is_open, names)) else ()

    def _values(self, name: str, scope: ast.AST) -> list[ast.expr]:
        """What a local name or a constant was set to, and what was appended to it."""
        local = [value for node in _own(scope) for one, value in _assigned(node) if one == name]
        for node in _own(scope):
            if isinstance(node, ast.Call) and _name_of_call(node) == "append":
                listed = node.func.value if isinstance(node.func, ast.Attribute) else node.func
                local += node.args if _name(listed) == name else ()
        return local or self._constants.get(name, [])

    def _called(self, name: str, scope: ast.AST) -> list[ast.FunctionDef]:
        """The functions that a call means: a private name is one of the same module."""
        tree = self._tree_of[scope] if name.startswith("_") else None
        return [one for one in self._functions[name] if tree in (None, self._tree_of[one])]

    def _arguments(self, name: str, scope: ast.AST) -> Iterator[tuple[ast.expr, ast.AST]]:
        """What a parameter of a function is given, with its default."""
        if not isinstance(scope, ast.FunctionDef):
            return
        names = [argument.arg for argument in scope.args.args]
        if name not in names:
            return
        defaults = dict(zip(reversed(names), reversed(scope.args.defaults), strict=False))
        if name in defaults:
            yield defaults[name], scope
        at = names.index(name) - (names[0] == "self")
        for call, where in self._calls.get(self._inits.get(scope, scope.name), ()):
            yield from ((expression, where) for expression in call.args[at : at + 1])
            yield from ((keyword.value, where) for keyword in call.keywords if keyword.arg == name)

    def _resolve(self, value: ast.expr, scope: ast.AST) -> Iterator[str]:
        if (id(value), id(scope)) in self._seen:
            return
        self._seen.add((id(value), id(scope)))
        waiting: list[ast.AST] = [value]
        while waiting:
            node = waiting.pop()
            text = template(node)
            name = _name(node.func if isinstance(node, ast.Call) else node)
            if text and _WORDS.search(text):
                yield text
            elif isinstance(node, ast.FormattedValue):
                waiting.append(node.value)
            elif isinstance(node, ast.Call) and name in self._functions:
                for function in self._called(name, scope):
                    for expression in _results(function):
                        yield from self._resolve(expression, function)
            elif isinstance(node, ast.Subscript) and _name_of_call(node.value) in self._functions:
                for function in self._called(_name_of_call(node.value), scope):
                    for expression in _results(function):
                        yield from self._resolve(_item(expression, node.slice), function)
            elif isinstance(node, ast.Call) and name in self._fields:
                waiting += _open_arguments(node, self._fields[name])
            elif isinstance(node, ast.Call) and name in ("items", "values"):
                waiting += ast.iter_child_nodes(node.func)
            elif isinstance(node, ast.Name) or name.isupper():
                for expression in self._values(name, scope):
                    yield from self._resolve(expression, scope)
                for expression, where in self._arguments(name, scope):
                    yield from self._resolve(expression, where)
            elif isinstance(node, ast.IfExp):
                waiting += [node.body, node.orelse]
            elif isinstance(node, ast.DictComp):
                waiting.append(node.value)
            elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
                waiting.append(node.elt)
            elif not isinstance(node, ast.Attribute | ast.Subscript | ast.Compare):
                waiting += ast.iter_child_nodes(node)


def _is_open(name: str) -> bool:
    return name.lstrip("_") in FIELDS


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


@functools.cache
def _assigned(node: ast.AST) -> list[tuple[str, ast.expr]]:
    """As ``_assignments``, the same objects each time."""
    return list(_assignments(node))


def _assignments(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """``(name, value)`` of an assignment, also to an item or an attribute, and of a loop."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            inner = target.value if isinstance(target, ast.Subscript) else target
            several = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            values = node.value.elts if isinstance(node.value, ast.Tuple) else []
            if len(several) == 1:
                yield _name(several[0]), node.value
            for at, part in enumerate(several if len(several) > 1 else ()):
                item = ast.Subscript(node.value, ast.Constant(at))
                yield _name(part), values[at] if len(values) == len(several) else item
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value:
        yield _name(node.target), node.value
    elif isinstance(node, ast.For | ast.comprehension):
        several = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        yield from ((_name(expression), node.iter) for expression in several)


def _fields(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id


def _open_arguments(call: ast.Call, fields: Iterable[str]) -> Iterator[ast.expr]:
    """The arguments of a call that are put into open fields."""
    yield from (keyword.value for keyword in call.keywords if _is_open(keyword.arg or ""))
    yield from (arg for name, arg in zip(fields, call.args, strict=False) if _is_open(name))


def _name_of_call(node: ast.AST) -> str:
    return _name(node.func) if isinstance(node, ast.Call) else ""


def _item(value: ast.expr, at: ast.expr) -> ast.expr:
    """One of the results of a function that returns several."""
    if isinstance(value, ast.Tuple) and isinstance(at, ast.Constant) and isinstance(at.value, int):
        return value.elts[at.value]
    return value


def _name_of(node: ast.AST) -> str:
    return node.name if isinstance(node, ast.FunctionDef) else ""


def _is_scope(node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.Module]:
    return isinstance(node, ast.FunctionDef | ast.Module)


def _results(function: ast.FunctionDef) -> Iterator[ast.expr]:
    for node in _own(function):
        if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) and node.value is not None:
            yield node.value


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope without those of functions in it."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if not isinstance(node, ast.FunctionDef):
            yield node
            waiting += ast.iter_child_nodes(node)
