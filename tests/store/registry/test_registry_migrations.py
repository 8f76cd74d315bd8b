"""The schema is made and altered all or nothing, by one process at a time."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect

from quadrill.store.registry import (
    QueryRecord,
    Registry,
    RegistryError,
    RegistryFormatError,
    RegistryMigrationError,
)
from quadrill.store.registry.migrate import current_revision, migrate
from quadrill.store.registry.models import METADATA
from quadrill.store.registry.session import Database, default_url

RunSql = Callable[[str, str], list[tuple[object, ...]]]
NEXT_MIGRATION = """
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{head}"

def upgrade():
    op.create_table("extra", sa.Column("id", sa.Integer(), primary_key=True))
    with op.batch_alter_table("queries") as queries:
        queries.add_column(sa.Column("owner", sa.Text(), nullable=False, server_default="nobody"))
    {failure}
"""


def _scripts(folder: Path, failure: str = "") -> str:
    """A copy of the migrations with one more, which may fail at its end."""
    scripts = folder / "migrations"
    shutil.copytree(str(files("quadrill.migrations").joinpath("env.py")).removesuffix("env.py"), scripts,
                    ignore=shutil.ignore_patterns("__pycache__"))  # fmt: skip
    head = sorted((scripts / "versions").glob("0*.py"))[-1].name.split("_")[0]
    (scripts / "versions" / "9999_next.py").write_text(NEXT_MIGRATION.format(head=head, failure=failure))
    return str(scripts)


def _tables(database: Database) -> set[str]:
    with database.connection() as connection:
        return set(inspect(connection).get_table_names())


def test_the_migrations_make_exactly_the_tables_of_the_models(registry: Registry, url: str) -> None:
    database = Database(url)
    with database.connection() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    database.close()


def test_opening_again_changes_nothing(registry: Registry, url: str) -> None:
    with Registry.open(url) as again:
        assert again.revision() == registry.revision() is not None


def test_a_newer_program_upgrades_an_older_schema_and_keeps_its_rows(
    registry: Registry, url: str, tmp_path: Path, run_sql: RunSql
) -> None:
    registry.queries.add(QueryRecord(name="old", text="ASK {}"))
    database = Database(url)
    assert migrate(database, _scripts(tmp_path)) == "9999"
    database.close()
    assert run_sql(url, "SELECT name, owner FROM queries") == [("old", "nobody")]


def test_a_migration_that_fails_half_way_leaves_the_old_schema_and_its_rows(
    registry: Registry, url: str, tmp_path: Path, run_sql: RunSql
) -> None:
    registry.queries.add(QueryRecord(name="old", text="ASK {}"))
    before = registry.revision()
    scripts = _scripts(tmp_path, failure="raise ValueError('the disk is full of eels')")
    database = Database(url)
    with pytest.raises(RegistryMigrationError, match="eels. Nothing was changed") as caught:
        migrate(database, scripts)
    assert "extra" not in _tables(database)
    database.close()
    assert registry.revision() == before
    assert [record.name for record in registry.queries.all()] == ["old"]
    assert "owner" not in {column for (column,) in run_sql(url, _columns_of_queries(url))}
    assert caught.value.hint is not None and "old schema" in caught.value.hint


def test_a_first_start_that_fails_leaves_an_empty_database(url: str, tmp_path: Path) -> None:
    database = Database(url)
    with pytest.raises(RegistryMigrationError, match="from revision nothing"):
        migrate(database, _scripts(tmp_path, failure="op.execute('SELECT no_such_function()')"))
    assert _tables(database) == set()
    with database.connection() as connection:
        assert current_revision(connection) is None
    database.close()
    with Registry.open(url) as registry:
        assert registry.queries.all() == []


def test_a_schema_of_a_newer_program_is_refused_and_left_alone(
    registry: Registry, url: str, run_sql: RunSql
) -> None:
    run_sql(url, "UPDATE alembic_version SET version_num = '8888'")
    with pytest.raises(RegistryFormatError, match="8888") as caught:
        Registry.open(url)
    assert caught.value.hint is not None and "newer" in caught.value.hint
    assert registry.revision() == "8888"


@pytest.mark.process
def test_several_first_starts_at_once_all_succeed(url: str) -> None:
    program = "import sys\nfrom quadrill.store.registry import Registry\nRegistry.open(sys.argv[1]).close()"
    command = [sys.executable, "-c", program, url]
    starts = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    outcomes = [(start.communicate(timeout=60)[1], start.returncode) for start in starts]
    assert outcomes == [("", 0)] * 4
    with Registry.open(url) as registry:
        assert registry.queries.all() == []


def test_the_sqlite_registry_writes_ahead_and_syncs(tmp_path: Path, run_sql: RunSql) -> None:
    url = default_url(tmp_path)
    Registry.open(url).close()
    assert (tmp_path / "registry.sqlite").exists()
    assert run_sql(url, "PRAGMA journal_mode") == [("wal",)]
    database = Database(url)
    with database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 10_000
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
    database.close()


@pytest.mark.parametrize(
    "wrong", ["", "registry.sqlite", "mysql://localhost/x", "nonsense://x", "postgresql://h:port/x"]
)
def test_a_url_that_is_no_registry_is_refused_with_the_right_forms(wrong: str) -> None:
    with pytest.raises(RegistryError) as caught:
        Registry.open(wrong)
    assert caught.value.hint is not None and "sqlite:///" in caught.value.hint


def test_a_folder_that_is_not_there_is_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="unable to open database file"):
        Registry.open(f"sqlite:///{tmp_path}/missing/registry.sqlite")


def test_a_file_that_is_no_database_is_one_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "registry.sqlite").write_text("This is a letter to my aunt. " * 50)
    with pytest.raises(RegistryError, match="not a database"):
        Registry.open(default_url(tmp_path))


def test_the_password_of_an_unreachable_server_is_not_shown() -> None:
    with pytest.raises(RegistryError) as caught:
        Registry.open("postgresql://someone:tiger@127.0.0.1:1/x")
    assert "tiger" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)


def _columns_of_queries(url: str) -> str:
    if url.startswith("sqlite"):
        return "SELECT name FROM pragma_table_info('queries')"
    return "SELECT column_name FROM information_schema.columns WHERE table_name = 'queries'"
