"""Settings of a server, loaded from a TOML file, environment variables and the command line.

A setting has one name everywhere, for instance ``query_timeout`` in a TOML file, ``QUADRILL_QUERY_TIMEOUT``
in the environment, ``settings.query_timeout`` in code. Settings on the command line override those in the
environment, which override those in the TOML file. An unknown setting name prevents the start of the server,
since a misspelt limit would have no effect.
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
"""Prefix of the environment variables that set settings of the server."""
MEMORY = ":memory:"
"""Value of the setting ``data`` for a store that keeps nothing on disk."""


def _setting(default: Any, unit: str, help_text: str) -> Any:
    metadata = {"unit": unit, "help": help_text}
    if isinstance(default, tuple):
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of one server. docs/settings.md lists all settings; a test compares it with this class.

    Raises: SettingsError for a value of a wrong type or range.
    """

    # where
    data: str = _setting(
        "",
        "folder",
        "Data folder; `:memory:` stores nothing on disk; empty means `quadrill` in the user's data "
        "directory.",
    )
    host: str = _setting(
        "127.0.0.1", "address", "Address to listen on; an address other than loopback requires a token."
    )
    port: int = _setting(7878, "port", "Port to listen on; 0 for a free port.")
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
        "HTTP URL",
        "Address of this server as clients see it, with the path of a proxy if there is one, for links, "
        "graph names and the session cookie; empty means the request's own.",
    )

    # who
    token: str = _setting(
        "", "secret", "A bearer token with the role admin; `quadrill token add` creates further tokens."
    )
    max_wrong_tokens: int = _setting(
        10,
        "a minute",
        "Wrong tokens that one address may send before further wrong tokens get 429; 0 for no limit.",
    )
    trusted_proxies: tuple[str, ...] = _setting(
        (),
        "networks",
        "Addresses, or networks such as `10.0.0.0/8`, of reverse proxies. Limits and the access log take the "
        "last hop of their `X-Forwarded-For` for the client's address; without `public_url`, links follow "
        "their `X-Forwarded-Proto` and `X-Forwarded-Prefix`.",
    )
    max_requests_per_token: int = _setting(0, "a minute", "Requests that one token may send; 0 for no limit.")
    host_names: tuple[str, ...] = _setting(
        (), "names", "`Host` names to accept without tokens, in addition to loopback."
    )
    cors_origins: tuple[str, ...] = _setting(
        (), "origins", "Origins whose pages may call the server; `*` allows every origin to read."
    )
    read_only: bool = _setting(False, "", "Reject all requests that write.")
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
        "Worker threads for requests. While all of them wait, up to four times as many run, and 256 "
        "more while those wait for clients; event streams occupy none.",
    )
    max_header_bytes: int = _setting(65536, "bytes", "Largest request line and headers together.")
    max_body_bytes: int = _setting(1 << 28, "bytes", "Largest request body for graphs, uploads and updates.")
    max_request_quads: int = _setting(
        1_000_000,
        "quads",
        "Maximum number of quads in one upload, and in the data of one update; `quadrill load` has no limit.",
    )
    max_query_bytes: int = _setting(1 << 20, "bytes", "Largest query text.")
    max_push_bytes: int = _setting(1 << 26, "bytes", "Largest body of one push to a stream.")
    max_signed_push_bytes: int = _setting(
        1 << 20,
        "bytes",
        "Largest request body for a webhook source with a secret, whose senders need no token.",
    )
    max_message_bytes: int = _setting(
        1 << 20,
        "bytes",
        "Longest line of a push whose body arrives over time, and longest message of a WebSocket.",
    )
    push_idle_timeout: float = _setting(
        300.0, "seconds", "Maximum time without a byte in a push whose body arrives over time."
    )
    request_timeout: float = _setting(
        30.0,
        "seconds",
        "Maximum time that a client may take to send a request, plus one second for each 64 KiB; also "
        "the longest pause of a client while it reads an answer.",
    )
    header_timeout: float = _setting(
        5.0, "seconds", "Maximum time that a client may take to send the request line and headers."
    )
    max_connections: int = _setting(
        8192, "clients", "Maximum number of connections at a time, without event streams."
    )
    max_connections_per_address: int = _setting(
        1024, "clients", "Maximum number of connections of one address."
    )
    max_unfinished_requests: int = _setting(
        1024,
        "requests",
        "Maximum number of requests that are only partly received; above it, the oldest of them gets 408.",
    )
    max_unfinished_per_address: int = _setting(
        128, "requests", "Maximum number of partly received requests of one address."
    )
    workers: int = _setting(
        2,
        "processes",
        "Worker processes for heavy queries and updates, which the server can kill; with 0, heavy "
        "queries run in the server.",
    )
    worker_memory_bytes: int = _setting(
        1 << 32,
        "bytes",
        "Maximum memory of one worker process. A child process that recomputes the answer of a continuous "
        "query may take as much in addition to the memory of the server. 0 for no limit.",
    )
    query_timeout: float = _setting(
        60.0, "seconds", "Longest evaluation of a one-shot query; `timeout` in a request may only shorten it."
    )
    max_result_rows: int = _setting(
        10_000_000, "rows", "Maximum number of rows or triples of one answer; 0 for no limit."
    )
    max_result_bytes: int = _setting(1 << 32, "bytes", "Largest answer; 0 for no limit.")
    max_nesting: int = _setting(
        10_000, "levels", "Deepest nesting in a query or update text, including chains of operators."
    )
    gzip: bool = _setting(True, "", "Compress answers for clients that accept it.")

    # feeds
    sse_heartbeat: float = _setting(
        15.0,
        "seconds",
        "Time between two heartbeats on a feed without events: a comment in an event stream, an empty line "
        "in NDJSON, CSV and RDF Messages, a ping on a WebSocket.",
    )
    sse_retry_ms: int = _setting(
        2000, "ms", "Time that a browser waits before it connects to an event stream again."
    )
    sse_buffer_bytes: int = _setting(
        1 << 20,
        "bytes",
        "Maximum size of the events that are buffered for a slow client; a client that needs more is "
        "disconnected and can resume.",
    )
    max_subscribers: int = _setting(10_000, "clients", "Maximum number of event streams at a time.")
    feed_history: int = _setting(
        10_000, "events", "Number of events that a feed stores for clients that resume."
    )

    # streams and continuous queries
    auto_declare_streams: bool = _setting(
        True, "", "Declare a stream when a query names it or a push to it arrives."
    )
    restart_failed: bool = _setting(
        False,
        "",
        "Restart a failed continuous query with empty windows, up to three times in 10 minutes.",
    )
    dead_letters: int = _setting(
        1_000,
        "elements",
        "Maximum number of dead letters of one stream: late elements, elements at which a query failed, "
        "and unreadable records.",
    )
    lateness: str = _setting("0ms", "duration", "Default lateness of a stream.")
    idle_timeout: str = _setting(
        "5s",
        "duration",
        "Default wall-clock time without an element after which a stream is idle, and queries no longer "
        "wait for it.",
    )
    max_future: str = _setting(
        "1d",
        "duration",
        "Greatest distance of an event time ahead of both the clock and the watermark; an element "
        "further ahead is rejected.",
    )
    retention: str = _setting(
        "1h", "duration", "Default span of event time for which a stream stores its elements."
    )
    max_empty_windows: int = _setting(
        1000,
        "windows",
        "Maximum number of successive empty windows that are reported one by one; a longer run becomes "
        "one progress event.",
    )
    max_push_elements: int = _setting(100_000, "elements", "Maximum number of elements in one push.")
    max_record_time: str = _setting(
        "1s", "duration", "Longest time that the mapping of a stream may take for one record."
    )
    max_record_bytes: int = _setting(
        16 << 20, "bytes", "Maximum memory that the mapping of a stream may take for one record."
    )
    max_queue_elements: int = _setting(
        200_000,
        "elements",
        "Maximum number of accepted elements that wait for the engine; above it, pushes get 429.",
    )
    max_queries: int = _setting(10_000, "queries", "Maximum number of continuous queries.")
    registration_wait: str = _setting(
        "500ms",
        "duration",
        "Time after which a registration is answered although its static parts are still being read "
        "(state `materialising`).",
    )
    max_static_rows: int = _setting(
        0,
        "rows",
        "Maximum number of rows of static parts in memory; rows of a shared table count once; 0 for no "
        "limit.",
    )
    max_query_static_rows: int = _setting(
        10_000_000,
        "rows",
        "Maximum number of rows of the static parts of one continuous query; 0 for no limit.",
    )
    templates: bool = _setting(True, "", "Evaluate queries that differ only in constants by one shared plan.")
    max_waiting_elements: int = _setting(
        1_000_000,
        "elements",
        "Maximum number of elements that are buffered for a query while its static parts are being read.",
    )
    max_static_time: str = _setting(
        "10m", "duration", "Longest evaluation of a static part in a worker process."
    )
    max_evaluation_rows: int = _setting(
        1_000_000,
        "rows",
        "Rows that joins, OPTIONAL and paths may produce in one evaluation of a continuous query before "
        "the query fails (`max_rows` of a registration); 0 for no limit.",
    )
    max_evaluation_time: str = _setting(
        "10s",
        "duration",
        "Longest evaluation of a continuous query before the query fails (`max_time` of a "
        "registration); `0ms` for no limit.",
    )
    max_rows_per_minute: int = _setting(
        1_000_000_000,
        "rows",
        "Rows that a continuous query may produce for the input of one minute before the query fails "
        "(registration member of the same name); 0 for no limit.",
    )
    max_cpu_per_minute: str = _setting(
        "10m",
        "duration",
        "CPU time that a continuous query may take for the input of one minute before the query fails "
        "(registration member of the same name); `0ms` for no limit.",
    )
    max_bytes_per_minute: int = _setting(
        64 << 30,
        "bytes",
        "Bytes that a continuous query may emit for the input of one minute before the query fails "
        "(registration member of the same name); 0 for no limit.",
    )
    max_backlog_elements: int = _setting(
        1_000_000,
        "elements",
        "Maximum number of elements in the backlog of one continuous query; a query with a larger "
        "backlog fails.",
    )
    max_backlog_log: int = _setting(
        256 << 20,
        "bytes",
        "Maximum size of the input log since the last checkpoint. No checkpoint is written while a "
        "continuous query lags; above the limit, the query that has lagged longest fails.",
    )
    max_answer_rows: int = _setting(
        5_000_000,
        "rows",
        "Maximum number of rows of the answer that a continuous query stores; 0 for no limit.",
    )
    max_evaluation_bytes: int = _setting(
        256 << 20,
        "bytes",
        "Maximum number of bytes that one evaluation of a continuous query emits, and of characters "
        "that its expressions concatenate; 0 for no limit.",
    )
    max_text_length: int = _setting(
        1 << 20,
        "characters",
        "Longest value that CONCAT, REPLACE and ENCODE_FOR_URI may produce in continuous queries, in "
        "updates, and in queries that no worker process evaluates, and GROUP_CONCAT in continuous "
        "queries; 0 for no limit.",
    )
    paused: tuple[str, ...] = _setting(
        (),
        "names",
        "Continuous queries that a start pauses without evaluating them; `all` pauses every query. A "
        "resumed query begins with empty windows.",
    )
    input_sync: str = _setting(
        "interval",
        "",
        "When the input log is synced to disk: `always`, `interval` or `off` (a power loss may lose inputs).",
    )
    input_sync_ms: int = _setting(
        2,
        "ms",
        "Longest time that an input waits for further inputs to be synced with it under `interval`; a "
        "single input is synced at once.",
    )
    input_log_bytes: int = _setting(
        256 << 20,
        "bytes",
        "Size of the input log that is stored for the registration member `start`, beyond what recovery "
        "needs.",
    )
    checkpoint_interval: str = _setting(
        "30s", "duration", "Time between two checkpoints of windows and feeds."
    )

    # the store
    durable: bool = _setting(
        True, "", "Acknowledge a commit only after it is synced to disk, so that it survives a power loss."
    )
    change_log_bytes: int = _setting(
        1 << 30, "bytes", "Maximum size of the change log, from which `/changes` resumes."
    )
    change_log_age: str = _setting("7d", "duration", "Maximum age of a change in the change log.")
    remote_hosts: tuple[str, ...] = _setting(
        (),
        "hosts",
        "Hosts that SERVICE, LOAD, sources and sinks may reach, with or without a port; none by default.",
    )
    remote_refresh: str = _setting(
        "5m",
        "duration",
        "Time between two fetches of a SERVICE or remote graph, unless the query or a description in "
        "the data sets the time.",
    )
    remote_timeout: str = _setting(
        "30s",
        "duration",
        "Total time that one fetch of a SERVICE or remote graph, a LOAD, or a SERVICE in a query or "
        "update may take.",
    )
    remote_max_bytes: int = _setting(
        64 << 20,
        "bytes",
        "Largest answer of one fetch of a SERVICE or remote graph, or of a SERVICE in a query or "
        "update, decompressed.",
    )
    remote_max_rows: int = _setting(1_000_000, "rows", "Maximum number of rows or triples of one fetch.")
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
        4 << 30, "bytes", "Largest sources of a load that are loaded without Spark when the engine is `auto`."
    )
    load_kept_age: str = _setting(
        "30d",
        "duration",
        "Time for which the quarantine of a load, and the parts of an abandoned load, are stored.",
    )
    load_kept_bytes: int = _setting(
        4 << 30,
        "bytes",
        "Maximum size of all folders of loads; above it, the next load removes the oldest folders.",
    )
    spark_master: str = _setting(
        "", "URL", "Spark master for bulk loads; empty runs Spark in a child process on this machine."
    )
    spark_memory: str = _setting("2g", "size", "Heap of Spark's driver, as Spark writes sizes.")
    spark_timeout: str = _setting(
        "10m",
        "duration",
        "Longest evaluation of one static part by Spark; after that time, the store evaluates the part.",
    )
    mirror_compact_ratio: float = _setting(
        0.1,
        "",
        "Share of the mirror's quads that commits may change before a job compacts the mirror; 0 for never.",
    )
    static_spark: bool = _setting(
        True,
        "",
        "Let Spark evaluate a static part if there is a mirror and a rule estimates that Spark is faster.",
    )

    # running
    huge_pages: bool = _setting(
        True, "", "Ask Linux for pages of 2 MB for the server's memory when it exceeds 256 MB."
    )
    access_log: str = _setting(
        "", "file", "Log file of requests, one line each; `-` is standard error, empty is no log."
    )
    shutdown_timeout: float = _setting(
        3.0, "seconds", "Time that a stopping server waits for running requests before it cancels them."
    )

    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Where each setting without its default was set, for instance "the environment"; no setting itself."""

    def __post_init__(self) -> None:
        for row in SETTINGS:
            object.__setattr__(self, row.name, convert(row, getattr(self, row.name), "in Settings"))

    @property
    def in_memory(self) -> bool:
        """True if the server stores no data on disk."""
        return self.data == MEMORY

    @property
    def data_folder(self) -> Path | None:
        """Absolute path of the data folder, or None for a store in memory.

        The path of the data folder is absolute because workers of a Spark cluster have another working
        directory than the server.
        """
        if self.in_memory:
            return None
        return Path(self.data).expanduser().absolute() if self.data else default_data_folder()


def _table() -> tuple[Setting, ...]:
    hints = get_type_hints(Settings)
    rows = []
    for each in dataclasses.fields(Settings):
        if "unit" not in each.metadata:
            continue
        default = () if each.default is dataclasses.MISSING else each.default
        kind = tuple if not isinstance(hints[each.name], type) else hints[each.name]
        rows.append(Setting(each.name, kind, default, each.metadata["unit"], each.metadata["help"]))
    return tuple(rows)


SETTINGS: tuple[Setting, ...] = _table()
"""All settings in the order of the class `Settings`."""
_BY_NAME = {row.name: row for row in SETTINGS}


def names_data_folder(environment: Mapping[str, str] = os.environ) -> bool:
    """Return True if an environment variable sets the data folder."""
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
        SettingsError: the file cannot be read or is not TOML, a name is unknown, or a value does not fit its
            type.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    if file is not None:
        for name, value in _read_file(file).items():
            values[name] = convert(_known(name, f"in {file}"), value, f"in {file}")
            origins[name] = f"the file {file}"
    for variable, text in environment.items():
        if variable.startswith(ENVIRONMENT_PREFIX) and not OTHER_VARIABLES.match(variable):
            name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
            place = f"in the environment ({variable})"
            values[name] = parse(_known(name, place), text, place)
            origins[name] = f"the environment, {variable}"
    for name, value in (overrides or {}).items():
        values[name] = convert(_known(name, "given"), value, "given")
        origins[name] = "the command line"
    return Settings(**values, origins=origins)


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
