"""The SETTINGS table: the only reader of the environment and of configuration files.

A setting has one name everywhere: ``query_timeout`` in a TOML file, ``QUADRILL_QUERY_TIMEOUT`` in the
environment, ``settings.query_timeout`` in code. The command line overrides the environment, which overrides
the file. An unknown setting name prevents the start of the server, since a misspelt limit would have no
effect.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from .setting_values import OTHER_VARIABLES, Setting, SettingsError, convert, parse

ENVIRONMENT_PREFIX = "QUADRILL_"
MEMORY = ":memory:"


def _setting(default: Any, unit: str, help_text: str) -> Any:
    metadata = {"unit": unit, "help": help_text}
    if isinstance(default, tuple):
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One server's settings. docs/settings.md lists them; a test compares both."""

    # where
    data: str = _setting(
        "",
        "folder",
        "Data folder; `:memory:` keeps nothing; empty means `quadrill` in the user's data directory.",
    )
    host: str = _setting(
        "127.0.0.1", "address", "Address to listen on; anything but loopback requires a token."
    )
    port: int = _setting(7878, "port", "Port to listen on; 0 takes a free one.")
    registry_url: str = _setting(
        "", "URL", "SQLAlchemy URL of the registry database; empty means SQLite in the data folder."
    )
    base_iri: str = _setting(
        "http://localhost/",
        "IRI",
        "Base of relative IRIs in query texts and of streams that are declared by a push.",
    )
    public_url: str = _setting(
        "",
        "URL",
        "Address of this server as clients see it, for links and graph names; empty means the request's own.",
    )

    # who
    token: str = _setting(
        "", "secret", "A bearer token with the role admin; further tokens are made with `quadrill token`."
    )
    max_wrong_tokens: int = _setting(
        10, "a minute", "Wrong tokens of one address before it has to wait; 0 for no limit."
    )
    trusted_proxies: tuple[str, ...] = _setting(
        (),
        "networks",
        "Addresses, or networks such as `10.0.0.0/8`, of reverse proxies. Limits and the access log take the "
        "last hop of their `X-Forwarded-For` for the client's address.",
    )
    max_requests_per_token: int = _setting(0, "a minute", "Requests that one token may send; 0 for no limit.")
    host_names: tuple[str, ...] = _setting(
        (), "names", "Further `Host` names to accept without tokens, beside loopback."
    )
    cors_origins: tuple[str, ...] = _setting(
        (), "origins", "Origins whose pages may call the server; `*` allows every origin to read."
    )
    read_only: bool = _setting(False, "", "Refuse everything that writes.")
    extensions: tuple[str, ...] = _setting(
        (),
        "modules",
        "Python modules to load at the start and in worker processes, which register functions, aggregates, "
        "windows and more; `module:function` calls the function.",
    )

    # how much
    threads: int = _setting(
        16,
        "threads",
        "Worker threads for requests, four times as many while all wait, and 256 more while these "
        "wait for clients; event streams occupy none.",
    )
    max_header_bytes: int = _setting(65536, "bytes", "Largest request line and headers together.")
    max_body_bytes: int = _setting(1 << 28, "bytes", "Largest request body for graphs, uploads and updates.")
    max_request_quads: int = _setting(
        1_000_000,
        "quads",
        "Most quads of one upload, and of the data of one update; `quadrill load` has no limit.",
    )
    max_query_bytes: int = _setting(1 << 20, "bytes", "Largest query text.")
    max_push_bytes: int = _setting(1 << 26, "bytes", "Largest body of one push to a stream.")
    max_signed_push_bytes: int = _setting(
        1 << 20, "bytes", "Largest body for a webhook source with a secret, whose senders need no token."
    )
    max_message_bytes: int = _setting(
        1 << 20, "bytes", "Longest line of a push that lasts, and message of a WebSocket."
    )
    push_idle_timeout: float = _setting(
        300.0, "seconds", "How long a client may send nothing within a push that lasts."
    )
    request_timeout: float = _setting(
        30.0,
        "seconds",
        "How long a client may take to send a request, beside a second for each 64 KiB, and pause while it "
        "reads an answer.",
    )
    header_timeout: float = _setting(
        5.0, "seconds", "How long a client may take to send the request line and headers."
    )
    max_connections: int = _setting(8192, "clients", "Most connections at a time, event streams not counted.")
    max_connections_per_address: int = _setting(1024, "clients", "Most connections of one address.")
    max_unfinished_requests: int = _setting(
        1024, "requests", "Most requests that have begun and are not whole; over it the oldest gets 408."
    )
    max_unfinished_per_address: int = _setting(128, "requests", "Most such requests of one address.")
    workers: int = _setting(
        2,
        "processes",
        "Processes for heavy queries and updates, which can be killed; 0: such queries in the server.",
    )
    worker_memory_bytes: int = _setting(
        1 << 32,
        "bytes",
        "Memory that one such process may take, and a child process that recomputes the answer of a "
        "continuous query above what the server has; 0 for no limit.",
    )
    query_timeout: float = _setting(
        60.0, "seconds", "Longest evaluation of a one-shot query; `timeout` in a request may only shorten it."
    )
    max_result_rows: int = _setting(10_000_000, "rows", "Most rows or triples of one answer; 0 for no limit.")
    max_result_bytes: int = _setting(1 << 32, "bytes", "Largest answer; 0 for no limit.")
    max_nesting: int = _setting(
        10_000, "levels", "Deepest nesting in a query or update text, chains of operators counted in."
    )
    gzip: bool = _setting(True, "", "Compress answers for clients that accept it.")

    # feeds
    sse_heartbeat: float = _setting(15.0, "seconds", "Time between two comments on a silent event stream.")
    sse_retry_ms: int = _setting(
        2000, "ms", "How long a browser waits before it connects to an event stream again."
    )
    sse_buffer_bytes: int = _setting(
        1 << 20, "bytes", "Events kept for a slow client; one that needs more is disconnected and resumes."
    )
    max_subscribers: int = _setting(10_000, "clients", "Most event streams at a time.")
    feed_history: int = _setting(10_000, "events", "Events that a feed keeps for clients that resume.")

    # streams and continuous queries
    auto_declare_streams: bool = _setting(
        True, "", "Declare a stream when a query names it or a push reaches it."
    )
    restart_failed: bool = _setting(
        False,
        "",
        "A continuous query that fails begins anew, with empty windows, up to three times in 10 minutes.",
    )
    dead_letters: int = _setting(
        1_000, "elements", "Late elements, and those at which a query failed, that a stream keeps."
    )
    lateness: str = _setting("0ms", "duration", "Default lateness of a stream.")
    idle_timeout: str = _setting(
        "5s", "duration", "Default time of wall clock after which a silent stream holds nothing back."
    )
    max_future: str = _setting(
        "1d", "duration", "An element further ahead of clock and watermark is refused."
    )
    retention: str = _setting(
        "1h", "duration", "Default time of event time for which a stream keeps its elements."
    )
    max_empty_windows: int = _setting(
        1000, "windows", "A longer run of empty windows becomes one progress event."
    )
    max_push_elements: int = _setting(100_000, "elements", "Most elements of one push.")
    max_record_time: str = _setting(
        "1s", "duration", "Longest time that the mapping of a stream may take for one record."
    )
    max_record_bytes: int = _setting(
        16 << 20, "bytes", "Most memory that the mapping of a stream may take for one record."
    )
    max_queue_elements: int = _setting(
        200_000, "elements", "Accepted elements that may wait for the engine before pushes get 429."
    )
    max_queries: int = _setting(10_000, "queries", "Most continuous queries at a time.")
    registration_wait: str = _setting(
        "500ms",
        "duration",
        "A registration is answered after this time while static parts are still read (`materialising`).",
    )
    max_static_rows: int = _setting(
        0, "rows", "Most rows of static parts in memory, shared ones counted once; 0 for no limit."
    )
    max_query_static_rows: int = _setting(
        10_000_000, "rows", "Most rows of the static parts of one continuous query; 0 for no limit."
    )
    templates: bool = _setting(
        True, "", "Queries that differ only in constants are evaluated together by one plan."
    )
    max_waiting_elements: int = _setting(
        1_000_000, "elements", "Elements kept at most for a query whose static parts are being read."
    )
    max_static_time: str = _setting(
        "10m", "duration", "Longest evaluation of a static part that a worker process takes."
    )
    max_evaluation_rows: int = _setting(
        1_000_000,
        "rows",
        "Rows that joins, OPTIONAL and paths may make in one evaluation of a continuous query before "
        "it fails (`max_rows` of a registration); 0 for no limit.",
    )
    max_evaluation_time: str = _setting(
        "10s",
        "duration",
        "Longest evaluation of a continuous query before it fails (`max_time`); `0ms` for no limit.",
    )
    max_rows_per_minute: int = _setting(
        1_000_000_000,
        "rows",
        "Rows that a continuous query may make for the input of a minute before it fails (the member of the "
        "same name); 0 for no limit.",
    )
    max_cpu_per_minute: str = _setting(
        "10m",
        "duration",
        "CPU time that a continuous query may take for the input of a minute before it fails (the member of "
        "the same name); `0ms` for no limit.",
    )
    max_bytes_per_minute: int = _setting(
        64 << 30,
        "bytes",
        "Bytes that a continuous query may emit for the input of a minute before it fails (the member of the "
        "same name); 0 for no limit.",
    )
    max_backlog_elements: int = _setting(
        1_000_000,
        "elements",
        "Elements that may wait for one continuous query that is slower than its input before it fails.",
    )
    max_backlog_log: int = _setting(
        256 << 20,
        "bytes",
        "Input log that may be written without a checkpoint, which cannot be made while a continuous query "
        "is behind; over it the query that has been behind for longest fails.",
    )
    max_answer_rows: int = _setting(
        5_000_000, "rows", "Most rows of the answer that a continuous query keeps; 0 for no limit."
    )
    max_evaluation_bytes: int = _setting(
        256 << 20,
        "bytes",
        "Most bytes that one evaluation of a continuous query tells, and most characters that its "
        "expressions put together; 0 for no limit.",
    )
    max_text_length: int = _setting(
        1 << 20,
        "characters",
        "Longest value that CONCAT, REPLACE and ENCODE_FOR_URI may make in continuous queries, in updates, "
        "and in queries that no worker evaluates, GROUP_CONCAT in continuous queries; 0 for no limit.",
    )
    paused: tuple[str, ...] = _setting(
        (),
        "names",
        "Continuous queries that a start pauses without evaluating them, `all` for every one; they begin "
        "anew when they go on.",
    )
    input_sync: str = _setting(
        "interval", "", "When the input log is synced: `always`, `interval` or `off` (power loss may lose)."
    )
    input_sync_ms: int = _setting(
        2, "ms", "Longest wait for others under `interval`; one alone syncs at once."
    )
    input_log_bytes: int = _setting(
        256 << 20, "bytes", "Size of the input log kept for `start` beyond what recovery needs."
    )
    checkpoint_interval: str = _setting(
        "30s", "duration", "Time between two checkpoints of windows and feeds."
    )

    # the store
    durable: bool = _setting(True, "", "Acknowledge a commit only once it would survive a power loss.")
    change_log_bytes: int = _setting(
        1 << 30, "bytes", "Size of the change log from which `/changes` resumes."
    )
    change_log_age: str = _setting("7d", "duration", "Age of the oldest change kept.")
    remote_hosts: tuple[str, ...] = _setting(
        (),
        "hosts",
        "Hosts that SERVICE, LOAD, sources and sinks may reach, with or without a port; none by default.",
    )
    remote_refresh: str = _setting(
        "5m",
        "duration",
        "Time between two fetches of a SERVICE or of a remote graph where nothing else says it.",
    )
    remote_timeout: str = _setting(
        "30s",
        "duration",
        "How long one such fetch, a LOAD, or a SERVICE of a query or update may take in all.",
    )
    remote_max_bytes: int = _setting(
        64 << 20, "bytes", "Longest answer of one such fetch or SERVICE, decompressed."
    )
    remote_max_rows: int = _setting(1_000_000, "rows", "Most rows or triples of one such fetch.")
    backup_folder: str = _setting(
        "", "folder", "Folder below which `POST /backups` may write and `POST /restores` read; empty: none."
    )
    load_folders: tuple[str, ...] = _setting((), "folders", "Folders that `POST /loads` may read.")
    source_folders: tuple[str, ...] = _setting(
        (), "folders", "Folders that sources of the kind `file` may read."
    )
    sink_folder: str = _setting(
        "", "folder", "Folder below which sinks of the kind `file` may write; empty: none."
    )
    load_direct_bytes: int = _setting(
        4 << 30, "bytes", "Sources up to here are loaded without Spark when the engine is `auto`."
    )
    load_kept_age: str = _setting(
        "30d", "duration", "How long the quarantine of a load, and the parts of an abandoned one, are kept."
    )
    load_kept_bytes: int = _setting(
        4 << 30, "bytes", "Size of all folders of loads above which the oldest are removed by the next load."
    )
    spark_master: str = _setting(
        "", "URL", "Spark master for bulk loads; empty runs Spark in a child process on this machine."
    )
    spark_memory: str = _setting("2g", "size", "Heap of Spark's driver, as Spark writes sizes.")
    spark_timeout: str = _setting(
        "10m", "duration", "Longest time of Spark for one static part; the store is asked then."
    )
    mirror_compact_ratio: float = _setting(
        0.1, "", "Share of the mirror's quads that commits may change before a job compacts it; 0 is never."
    )
    static_spark: bool = _setting(
        True, "", "Spark evaluates static parts where there is a mirror and a rule finds it faster."
    )

    # running
    huge_pages: bool = _setting(
        True, "", "Ask Linux for pages of 2 MB for the memory of the server once it takes 256 MB."
    )
    access_log: str = _setting(
        "", "file", "Log of requests, one line each; `-` is standard error, empty is none."
    )
    shutdown_timeout: float = _setting(
        3.0, "seconds", "How long a stopping server waits for running requests before it cancels them."
    )

    @property
    def in_memory(self) -> bool:
        """True if the server stores no data on disk."""
        return self.data == MEMORY

    @property
    def data_folder(self) -> Path | None:
        """Absolute path of the data folder, or None for a store in memory.

        The path is absolute because workers of a Spark cluster have another working directory than the
        server.
        """
        if self.in_memory:
            return None
        return Path(self.data).expanduser().absolute() if self.data else default_data_folder()


def _table() -> tuple[Setting, ...]:
    hints = get_type_hints(Settings)
    rows = []
    for each in dataclasses.fields(Settings):
        default = () if each.default is dataclasses.MISSING else each.default
        kind = tuple if not isinstance(hints[each.name], type) else hints[each.name]
        rows.append(Setting(each.name, kind, default, each.metadata["unit"], each.metadata["help"]))
    return tuple(rows)


SETTINGS: tuple[Setting, ...] = _table()
_BY_NAME = {row.name: row for row in SETTINGS}


def names_data_folder(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether an environment variable names the data folder."""
    return bool(environment.get(f"{ENVIRONMENT_PREFIX}DATA"))


def default_data_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of ``quadrill`` in the user's data directory, as XDG Base Directory specifies."""
    base = environment.get("XDG_DATA_HOME") or ""
    root = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "share"
    return root / "quadrill"


def load_settings(
    *,
    overrides: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] = os.environ,
    file: Path | None = None,
) -> Settings:
    """Load settings from a TOML file, the environment and ``overrides``, in increasing precedence.

    Raises:
        SettingsError: a name is unknown or a value does not fit its type.
    """
    values: dict[str, Any] = {}
    if file is not None:
        for name, value in _read_file(file).items():
            values[name] = convert(_known(name, f"in {file}"), value, f"in {file}")
    for variable, text in environment.items():
        if variable.startswith(ENVIRONMENT_PREFIX) and not OTHER_VARIABLES.match(variable):
            name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
            place = f"in the environment ({variable})"
            values[name] = parse(_known(name, place), text, place)
    for name, value in (overrides or {}).items():
        values[name] = convert(_known(name, "given"), value, "given")
    return Settings(**values)


def _read_file(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise SettingsError(f"the configuration file {file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"the configuration file {file} is not TOML: {error}") from error


def _known(name: str, place: str) -> Setting:
    row = _BY_NAME.get(name)
    if row is None:
        near = difflib.get_close_matches(name, _BY_NAME, n=1)
        hint = f"Did you mean {near[0]}?" if near else "A server lists all settings at /ui/docs/settings.md."
        raise SettingsError(f"unknown setting {name} {place}", hint=hint)
    return row
