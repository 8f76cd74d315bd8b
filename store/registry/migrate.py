"""Migration of the registry's schema to the newest revision, all or nothing.

Several processes may start on one registry at the same time: SQLite's write lock or PostgreSQL's advisory
lock lets one process migrate while the others wait.
"""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from ..errors import OLDER, OLDEST
from .errors import RegistryError, RegistryFormatError, RegistryMigrationError
from .session import Database

SCRIPTS = "quadrill.migrations:"
# An arbitrary number that no other program on the same PostgreSQL database is likely to lock.
ADVISORY_LOCK = 7_233_180_114


def migrate(database: Database, scripts: str = SCRIPTS) -> str:
    """Run all missing migrations of the registry in one transaction, and return the schema's revision.

    Raises:
        RegistryMigrationError: a migration failed; none was applied.
        RegistryFormatError: the database has a newer or older revision that ``scripts`` do not contain.
        RegistryError: the database cannot be reached.
    """
    config = Config()
    config.set_main_option("script_location", scripts)
    directory = ScriptDirectory.from_config(config)
    head = directory.get_current_head()
    if head is None:
        raise RegistryMigrationError(f"there are no migrations at {scripts}")
    with database.connection() as connection:
        if not database.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
        current = current_revision(connection)
        if current == head:
            return head
        _refuse_unknown(directory, current, database)
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except RegistryError:
            raise
        except Exception as error:  # a migration is a program, so any exception may occur in it
            raise _failure(error, current, head, database) from error
    return head


def current_revision(connection: Connection) -> str | None:
    """Return the revision of the registry's schema; None for an empty database."""
    return MigrationContext.configure(connection).get_current_revision()


def _refuse_unknown(directory: ScriptDirectory, current: str | None, database: Database) -> None:
    if current is None:
        return
    try:
        directory.get_revision(current)
    except CommandError as error:
        if current < str(directory.get_base()):
            raise RegistryFormatError(
                f"the registry {database.shown_url} has schema revision {current}: it was written before "
                f"commit {OLDEST} and is no longer read",
                hint=OLDER,
            ) from error
        raise RegistryFormatError(
            f"the registry {database.shown_url} is at schema revision {current}, unknown to this program",
            hint="a newer Quadrill wrote it: start that one, or use another registry",
        ) from error


def _failure(error: Exception, current: str | None, head: str, database: Database) -> RegistryMigrationError:
    cause: BaseException = error
    if isinstance(error, SQLAlchemyError):
        cause = getattr(error, "orig", None) or error
    reason = (str(cause).strip() or type(cause).__name__).splitlines()[0]
    return RegistryMigrationError(
        f"migrating the registry {database.shown_url} from revision {current or 'nothing'} to {head} failed: "
        f"{reason}. Nothing was changed",
        hint="the old schema is still there: start the version of the program that wrote it, and report this",
    )
