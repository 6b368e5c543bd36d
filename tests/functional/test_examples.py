# SPDX-License-Identifier: Apache-2.0
"""The files of ``examples/`` do what the page "Where operators work" says."""

from __future__ import annotations

import configparser
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest
import yaml

from tests.functional.output.test_scripts import Workspace
from tests.support import commands, guide
from tests.support.peer import process

EXAMPLES = process.ROOT / "examples"
PAGE = guide.DOCS / "user" / "reference" / "examples.rst"
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
METRIC = re.compile(r"\bopenstack_placement_\w+")


@pytest.fixture
def workspace(tmp_path: pathlib.Path) -> Workspace:
    return Workspace(tmp_path)


def play(workspace: Workspace, code: int, *options: str) -> str:
    """What the play counts, ``ok=3 changed=1 ...``; it must end with this exit code."""
    shutil.copy(EXAMPLES / "ansible" / "allocation-ratio.yml", workspace.folder)
    program = str(pathlib.Path(sys.executable).with_name("ansible-playbook"))
    workspace.environment["ANSIBLE_LOCALHOST_WARNING"] = "false"
    ended, stdout, stderr = workspace.run(program, "allocation-ratio.yml", *options)
    recap = re.search(r"localhost +: (.*)", stdout)
    assert recap, stderr
    assert ended == code, stdout
    return " ".join(recap[1].split())


def test_the_play_shows_changes_in_check_mode_makes_them_once_and_then_nothing(
    workspace: Workspace,
) -> None:
    host = "cmp-0007.lab.example.org"
    before = workspace.ratio(host, "VCPU")
    chosen = ("-e", f"aggregate={guide.AGGREGATE}", "-e", "ratio=3")
    assert "changed=1 " in play(workspace, 0, "--check", *chosen)
    assert workspace.ratio(host, "VCPU") == before
    assert "changed=1 " in play(workspace, 0, *chosen)
    assert workspace.ratio(host, "VCPU") == 3
    assert "changed=0 " in play(workspace, 0, *chosen)
    assert "failed=1 " in play(workspace, 2, *chosen[:3], "ratio=0.0001")
    assert workspace.ratio(host, "VCPU") == 3


def test_the_job_reviews_plans_on_a_snapshot_and_fails_for_a_stranded_server(
    workspace: Workspace,
) -> None:
    recorded = ["--os-nova-recording", "12-hosts"]
    saved = workspace.run(
        "openstack", *recorded, "placement", "snapshot", "save", "--with-nova", "night.sqlite"
    )
    assert saved[0] == 0, saved
    (workspace.folder / "plans").mkdir()
    dry = ("--dry-run", "--plan-out")
    trait = ("openstack", "resource", "provider", "trait")
    harmless = (*trait, "add", "--create", "--trait", "CUSTOM_GOLD", "--name-glob", "cmp-0008*")
    assert workspace.run(*harmless, *dry, "plans/gold.json")[0] == 0
    job = yaml.safe_load((EXAMPLES / "ci" / "review-plan.gitlab-ci.yml").read_text())["review-plan"]
    (script,) = job["script"]
    assert job["artifacts"]["paths"] == ["review.md"]
    assert re.findall(r"--fail-on (\S+)", script) == ["flavor-lost", "stranded"]
    workspace.environment |= {**job["variables"], "OSC_PLACEMENT_DATABASE": "night.sqlite"}
    code, stdout, stderr = workspace.run("bash", "-eo", "pipefail", "-c", script)
    assert (code, "CUSTOM&#95;GOLD" in stdout) == (0, True), stderr
    guards = ("--allow", "standard-traits", "--max-percent", "100")
    harmful = (*trait, "remove", "--trait", "HW_CPU_X86_AVX2", "--name-glob", "cmp-000*", *guards)
    workspace.environment["OSC_PLACEMENT_DATABASE"] = "cloud.sqlite"
    assert workspace.run(*harmful, *dry, "plans/avx2.json")[0] == 0
    workspace.environment["OSC_PLACEMENT_DATABASE"] = "night.sqlite"
    (workspace.folder / "review.md").unlink()
    code, stdout, stderr = workspace.run("bash", "-eo", "pipefail", "-c", script)
    assert (code, "rs-trait" in stdout, "CUSTOM&#95;GOLD" in stdout) == (3, True, True), stderr


@needs_promtool
def test_prometheus_accepts_the_rules_and_they_fire_when_they_should() -> None:
    folder = EXAMPLES / "prometheus"
    for verb, name in (("check", "placement-alerts.yaml"), ("test", "placement-alerts-test.yaml")):
        ended = subprocess.run(
            [str(PROMTOOL), verb, "rules", name], cwd=folder, capture_output=True, text=True
        )
        assert (ended.returncode, "SUCCESS" in ended.stdout) == (0, True), ended


def dashboard() -> dict[str, str]:
    """``{panel: query}`` of the dashboard."""
    panels = json.loads((EXAMPLES / "grafana" / "placement.json").read_text())["panels"]
    return {panel["title"]: target["expr"] for panel in panels for target in panel["targets"]}


@needs_promtool
def test_prometheus_can_run_the_queries_of_the_dashboard(tmp_path: pathlib.Path) -> None:
    rules = [
        {"record": f"panel_{number}", "expr": query}
        for number, query in enumerate(dashboard().values())
    ]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    checked = [str(PROMTOOL), "check", "rules", str(path)]
    ended = subprocess.run(checked, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout


def test_rules_and_dashboard_use_metrics_that_are_written(workspace: Workspace) -> None:
    recorded = ("--os-nova-recording", "12-hosts")
    code, text, stderr = workspace.run("openstack", *recorded, "placement", "metrics", "write")
    assert code == 0, stderr
    written = set(METRIC.findall(text))
    for name in ("prometheus/placement-alerts.yaml", "grafana/placement.json"):
        used = set(METRIC.findall((EXAMPLES / name).read_text()))
        assert used
        assert used - written - {"openstack_placement_state_timestamp_seconds"} == set()


def command_lines() -> list[str]:
    """The commands of ``openstack`` that services and alerts name."""
    service = configparser.ConfigParser(interpolation=None, strict=False)
    service.optionxform = str  # type: ignore[assignment]
    text = (EXAMPLES / "systemd" / "placement-metrics.service").read_text()
    service.read_string(text.replace("\\\n", " "))
    timer = (EXAMPLES / "systemd" / "placement-metrics.timer").read_text()
    assert "OnCalendar=" in timer
    started = service["Service"]["ExecStart"]
    alerts = yaml.safe_load((EXAMPLES / "prometheus" / "placement-alerts.yaml").read_text())
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    named = [rule["annotations"]["command"] for rule in rules]
    return [started, *(line for line in named if line.startswith("openstack "))]


@pytest.mark.parametrize("line", command_lines())
def test_the_commands_of_services_and_alerts_parse(line: str) -> None:
    words = shlex.split(re.sub(r"{{.*?}}", "m1.small", line))[1:]
    names = {tuple(commands.command_name(entry).split()): entry for entry in commands.PRESENT}
    name = max((name for name in names if tuple(words[: len(name)]) == name), key=len)
    commands.parser_of(names[name]).parse_args(words[len(name) :])


def test_the_page_shows_every_file() -> None:
    named = set(re.findall(r"examples/([\w./-]+)", PAGE.read_text()))
    files = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*") if path.is_file()}
    assert files <= named
    assert all((EXAMPLES / name).exists() for name in named)
