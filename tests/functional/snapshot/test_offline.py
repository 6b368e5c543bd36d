# SPDX-License-Identifier: Apache-2.0
"""Commands on openstack-placement's own database, without a service."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from unittest import mock

import pytest
import sqlalchemy
from oslo_config import cfg

from osc_placement.offline import app
from tests.support import guide
from tests.support.peer import forked, placement, process, shell, target as targets

CREATE = "resource provider create"
LIST = "resource provider list"
TRAIT = "HW_CPU_X86_AVX2"

pytestmark = pytest.mark.parametrize("target", ["offline"], indirect=True)


@contextlib.contextmanager
def in_use(target: targets.OfflinePlacement) -> Iterator[str]:
    """Another user of the database, during the block; the text that names it."""
    url = target.database_url
    if url.get_backend_name() == "sqlite":
        with pathlib.Path(str(url.database)).open() as file:
            other = subprocess.Popen(["sleep", "60"], stdout=file)
        read = os.readlink

        def readlink(path: object) -> str:
            """As if each program closed its first file meanwhile."""
            return read(re.sub("/fd/0$", "/fd/closed", str(path)))

        try:
            with mock.patch.object(os, "readlink", readlink):
                yield f"process {other.pid} (sleep)"
        finally:
            other.kill()
            other.wait()
        return
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text("SELECT 1"))
        yield f"1 connection of {url.username}"


def test_the_database_is_named_without_its_password_and_with_the_release(
    openstack: shell.OpenStack, target: targets.OfflinePlacement
) -> None:
    url = target.database_url
    shown = url.set(username=None, password=None).render_as_string()
    release = importlib.metadata.version("openstack-placement")
    line = (
        f"Using the database of {target.options[1]}: {shown},"
        f" with the rules of openstack-placement {release}\n"
    )
    assert openstack.run(CREATE, "node").stderr == line
    assert openstack.run(LIST).stderr == line
    assert openstack.run(f"-q {LIST}").stderr == ""
    added = openstack.run("resource provider trait add", "--trait", TRAIT, "node")
    assert added.stderr.startswith(line)
    assert f"On the database of {target.options[1]}: 1 applied" in added.stderr


def test_a_write_is_refused_while_the_database_is_in_use(
    openstack: shell.OpenStack, target: targets.OfflinePlacement
) -> None:
    commands = (
        (CREATE, "node"),
        ("resource provider trait add", "--trait", TRAIT, "old"),
        ("trait create", "CUSTOM_A"),
    )
    openstack.do(CREATE, "old")
    with in_use(target) as user:
        for command in commands:
            code, text = openstack.fails(*command)
            assert code == 1
            assert f"the database of {target.options[1]} is in use: {user}" in text
            assert "nothing was changed. Stop the Placement services" in text
        assert [row["name"] for row in openstack(LIST)] == ["old"]
        for command in commands:
            allowed = openstack.run(*command, "--os-placement-allow-running-service")
            assert (allowed.code, f"in use: {user}" in allowed.stderr) == (0, True)
    assert sorted(row["name"] for row in openstack(LIST)) == ["node", "old"]


def test_a_command_that_does_not_write_warns(
    openstack: shell.OpenStack, target: targets.OfflinePlacement
) -> None:
    openstack.do(CREATE, "old")
    dry_run = ("resource provider trait add", "--trait", TRAIT, "old", "--dry-run")
    with in_use(target) as user:
        for command in ((LIST,), dry_run):
            ended = openstack.run(*command)
            assert ended.code == 0
            assert f"Warning: the database of {target.options[1]} is in use: {user}" in ended.stderr


def test_a_new_process_reads_a_database_that_is_in_use(
    openstack: shell.OpenStack, target: targets.OfflinePlacement
) -> None:
    """The other tests run commands in a process that has loaded openstack-placement before."""
    openstack.do(CREATE, "old")
    program = [sys.executable, "-m", "openstackclient.shell", *target.options]
    words = [*LIST.split(), "-f", "json"]
    with in_use(target) as user:
        ended = subprocess.run([*program, *words], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert [row["name"] for row in json.loads(ended.stdout)] == ["old"]
    assert f"is in use: {user}" in ended.stderr


def test_an_idle_service_is_found_on_a_database_server_and_not_on_sqlite(
    openstack: shell.OpenStack, target: targets.OfflinePlacement, tmp_path: pathlib.Path
) -> None:
    """openstack-placement opens an SQLite file only while it handles a request."""
    url = target.database_url
    is_sqlite = url.get_backend_name() == "sqlite"
    environment = {"PLACEMENT_DATABASE": url.render_as_string(hide_password=False)}
    with process.running(process.PLACEMENT, tmp_path, environment=environment):
        code = openstack.run(CREATE, "node").code
    assert code == (0 if is_sqlite else 1)


@pytest.mark.timeout(900)
def test_all_hosts_are_reshaped_with_the_template_of_the_user_guide(
    openstack: shell.OpenStack, target: targets.OfflinePlacement, pytestconfig: pytest.Config
) -> None:
    """200 hosts with --long."""
    (template,) = [
        step.output or []
        for step in guide.steps((guide.DOCS / "user" / "snapshot" / "offline.rst").read_text())
        if step.command == "cat sev.yaml"
    ]
    pathlib.Path("sev.yaml").write_text("\n".join(template))
    names = [
        f"cmp-{number:04}" for number in range(200 if pytestconfig.getoption("--long") else 12)
    ]
    for name in names:
        host = target.ask("POST", "/resource_providers", {"name": name})["uuid"]
        inventories = {"VCPU": {"total": 64}, "MEM_ENCRYPTION_CONTEXT": {"total": 15}}
        body = {"resource_provider_generation": 0, "inventories": inventories}
        target.ask("PUT", f"/resource_providers/{host}/inventories", body)
    rows = openstack("placement reshape", "sev.yaml", "--name-glob", "cmp-*")
    assert {row["status"] for row in rows} == {"applied"}
    query = "/resource_providers?resources=MEM_ENCRYPTION_CONTEXT:1&required=HW_CPU_X86_AMD_SEV"
    providers = target.ask("GET", query)["resource_providers"]
    assert sorted(provider["name"] for provider in providers) == [
        f"{name}_amd_sev" for name in names
    ]
    assert openstack.run("placement reshape", "sev.yaml", "--name-glob", "cmp-????").code == 0


def test_a_recording_of_nova_does_not_change_this_placement(openstack: shell.OpenStack) -> None:
    code, text = openstack.fails(
        "placement allocation audit", "--os-nova-recording", "12-hosts", "--repair"
    )
    assert (code, "--allow recorded-nova" in text) == (1, True)


def test_a_database_without_tables_is_refused_and_stays(
    target: targets.OfflinePlacement, tmp_path: pathlib.Path
) -> None:
    database = tmp_path / "empty.sqlite"
    database.touch()
    path = tmp_path / "placement.conf"
    path.write_text(f"[placement_database]\nconnection = sqlite:///{database}\nsync_on_startup=1\n")
    ended = forked.run(["--os-placement-config", str(path), *LIST.split()], tmp_path)
    assert ended.code == 1
    assert "it has no tables of Placement" in ended.stderr
    assert f"placement-manage --config-file {path} db sync" in ended.stderr
    assert database.stat().st_size == 0


def test_a_database_of_another_release_is_refused(
    target: targets.OfflinePlacement, tmp_path: pathlib.Path
) -> None:
    path = placement.configure(tmp_path, "default")
    placement.create_tables(path)
    url = f"sqlite:///{tmp_path}/placement.sqlite"
    path.write_text(f"[placement_database]\nconnection = {url}\n")
    with sqlalchemy.create_engine(url).begin() as connection:
        connection.execute(
            sqlalchemy.text("UPDATE alembic_version SET version_num = 'b4ed3a175331'")
        )
    ended = forked.run(["--os-placement-config", str(path), *LIST.split()], tmp_path)
    assert ended.code == 1
    assert "it has the schema b4ed3a175331, and this openstack-placement needs" in ended.stderr


def test_the_configuration_of_a_service_behind_keystone_needs_no_keystone(
    target: targets.OfflinePlacement, tmp_path: pathlib.Path
) -> None:
    path = placement.configure(tmp_path, "default")
    placement.create_tables(path)
    path.write_text(path.read_text().replace("auth_strategy = noauth2", "auth_strategy = keystone"))
    assert "keystone" in path.read_text()
    ended = forked.run(["--os-placement-config", str(path), *LIST.split()], tmp_path)
    assert ended.code == 0, ended.stderr


def test_a_process_has_one_configuration(
    target: targets.OfflinePlacement, tmp_path: pathlib.Path
) -> None:
    assert target.ask("GET", "/resource_providers") == {"resource_providers": []}
    path = placement.configure(tmp_path, "default")
    database = tmp_path / "other.sqlite"
    database.touch()
    path.write_text(f"[placement_database]\nconnection = sqlite:///{database}\n")
    ended = shell.run(["--os-placement-config", str(path), *LIST.split()])
    assert (ended.code, "start a new process for each" in ended.stderr) == (1, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "connection"),
        ("connection = nonsense", "is not a database URL"),
        ("connection = sqlite:////nonexistent/placement.sqlite", "the file does not exist"),
        ("connection = postgresql+psycopg2://a:secret@127.0.0.1:1/p", "Connection refused"),
        ("connection = mysql+pymysql://a:secret@127.0.0.1:1/p", "Connection refused"),
        ("connection = mysql+asyncmy://a:secret@127.0.0.1:1/p", "the database driver is not"),
        ("connection = mysql+asyncmy://u@127.0.0.1/p?password=secret", "127.0.0.1/p: the data"),
        ("connection = mysql+asyncmy://u@127.0.0.1/p?sslpassword=secret", "127.0.0.1/p: the data"),
        ("connection = mssql+x:///?odbc_connect=PWD%3Dsecret", "x:"),
        ("connection = mysql+pymysql://u@127.0.0.1:1/p?passwd=secret", "127.0.0.1:1/p: "),
        ("connection = mysql+pymysql://u:a$secret@127.0.0.1:1/p", 'write "$$"'),
        ("connection = mysql+pymysql:/u:secret@127.0.0.1:1/p", "is not a database URL"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_reported_in_one_line(
    target: targets.OfflinePlacement, tmp_path: pathlib.Path, text: str, message: str
) -> None:
    path = tmp_path / "placement.conf"
    path.write_text(f"[placement_database]\n{text}\n")
    ended = shell.run(["--os-placement-config", str(path), *LIST.split()])
    assert ended.code == 1
    assert message in ended.stderr
    assert str(path) in ended.stderr
    assert "secret" not in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "content",
    [b"no database" * 500, b"SQLite format 3\0" + b"\xff" * 5000],
    ids=["text", "damaged"],
)
def test_a_file_that_is_not_a_database_is_reported_in_one_line(
    target: targets.OfflinePlacement, tmp_path: pathlib.Path, content: bytes
) -> None:
    database = tmp_path / "placement.sqlite"
    database.write_bytes(content)
    path = tmp_path / "placement.conf"
    path.write_text(f"[placement_database]\nconnection = sqlite:///{database}\n")
    program = [sys.executable, "-m", "openstackclient.shell", "--os-placement-config", str(path)]
    ended = subprocess.run([*program, *LIST.split()], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (1, 1)
    assert str(database) in ended.stderr


def test_a_configuration_that_is_no_text_file_is_reported(
    target: targets.OfflinePlacement, tmp_path: pathlib.Path
) -> None:
    binary = tmp_path / "binary.conf"
    binary.write_bytes(b"a\xff")
    for path, reason in (
        (tmp_path / "absent.conf", "No such file or directory"),
        (tmp_path, "Is a directory"),
        (binary, "byte 1 is not UTF-8"),
    ):
        ended = shell.run(["--os-placement-config", str(path), *LIST.split()])
        assert (ended.code, ended.stderr) == (1, f"{path} cannot be read: {reason}\n")


RECORDED = "--os-nova-recording 12-hosts"
#: The last ones only with ``--long``.
READING = (
    LIST,
    "placement snapshot save a.sqlite",
    "placement status show",
    "resource provider inventory amend --all --resource VCPU:total=4 --dry-run",
    f"{RECORDED} placement allocation audit",
    f"{RECORDED} placement health show",
    f"{RECORDED} allocation candidate explain --flavor m1.small",
    "trait list",
    f"{RECORDED} placement allocation heal --dry-run",
    f"{RECORDED} placement capacity show --flavor m1.small",
    f"{RECORDED} placement host check cmp-0001",
    f"{RECORDED} placement host drain cmp-0001",
    f"{RECORDED} placement metrics write --textfile m.prom",
    f"{RECORDED} placement provider audit",
    f"{RECORDED} placement report write --output r.html",
)


@pytest.mark.timeout(900)
def test_a_command_that_reads_adds_nothing_and_one_that_writes_says_what(
    target: targets.OfflinePlacement, tmp_path: pathlib.Path, pytestconfig: pytest.Config
) -> None:
    """The database of an older release, without the newest standard names."""
    path = placement.configure(tmp_path, "default")
    placement.create_tables(path)
    database = tmp_path / "placement.sqlite"
    path.write_text(f"[placement_database]\nconnection = sqlite:///{database}\n")
    config = ["--os-placement-config", str(path)]
    assert forked.run([*config, *CREATE.split(), "node"], tmp_path).code == 0

    # A pool would keep the file open, and a command that writes refuses other users.
    engine = sqlalchemy.create_engine(f"sqlite:///{database}", poolclass=sqlalchemy.NullPool)

    def names() -> set[str]:
        with engine.connect() as connection:
            return set(connection.execute(sqlalchemy.text("SELECT name FROM traits")).scalars())

    complete = names()
    missing = {"HW_CPU_X86_AVX2", "COMPUTE_NODE"}
    with engine.begin() as connection:
        for name in missing:
            connection.execute(sqlalchemy.text(f"DELETE FROM traits WHERE name = '{name}'"))
    is_long = pytestconfig.getoption("--long")
    for command in READING if is_long else READING[:7]:
        ended = forked.run([*config, *command.split()], tmp_path)
        # Some find nothing in this cloud, or no host of nova.
        assert ended.code == 0 or RECORDED in command, ended.stderr
        assert "Added" not in ended.stderr
        assert names() == complete - missing
    ended = forked.run([*config, *CREATE.split(), "other"], tmp_path)
    assert ended.code == 0
    assert "standard traits and resource classes (2): COMPUTE_NODE, HW_CPU_X86_AVX2" in ended.stderr
    assert names() == complete


def test_with_an_older_release_no_names_are_added_that_its_service_lacks(
    target: targets.OfflinePlacement, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = placement.configure(tmp_path, "default")
    placement.create_tables(path)
    monkeypatch.setattr(app, "RELEASE", "15.0.0")
    opened = app.OfflineApp(str(path))
    assert opened.load_for_writing() == ""
    with opened.tables.reading() as reading:
        assert reading.traits == []
    assert opened.database.endswith("with the rules of openstack-placement 15.0.0")


def test_libraries_that_are_too_new_for_a_release_are_named(
    target: targets.OfflinePlacement, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Releases before 16 and the newest oslo.policy."""

    def load(options: cfg.ConfigOpts) -> None:
        raise cfg.NoSuchOptError("enforce_scope", cfg.OptGroup("oslo_policy"))

    monkeypatch.setattr("placement.deploy.deploy", load)
    ended = shell.run([*target.options, *LIST.split()])
    assert ended.code == 1
    assert ended.messages.endswith(
        "does not start with the libraries that are installed (no such option enforce_scope in"
        " group [oslo_policy]): install 'oslo.policy<6'\n"
    )
