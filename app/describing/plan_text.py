"""EXPLAIN as text or JSON, and the generated Python source of a plan."""

from __future__ import annotations

from typing import Any

from quadrill.store.documents.times import show_duration

_PART_NOTES = {
    "looked_up_because": "looked up, not held: {}",
    "anew_because": "last full read because: {}",
    "held_because": "held, not looked up: {}",
    "engine_reason": "read by {1}: {0}",
    "shared_with": "shared with {}",
    "behind_since": "old rows in use while all rows are read since version {}",
}
"""Templates of EXPLAIN's notes on a static part, for members with a value."""


# Members of a query's description that EXPLAIN as JSON has, always (`_PLAN`) or with ANALYZE (`_LIVE`).
_PLAN = (
    "name", "dialect", "profile", "form", "output", "report", "engine", "result_iri", "into_graph",
    "uncertain_filters", "filter_place", "fan_out",
    "streams", "windows", "sharing_group", "template", "static_parts", "sources", "warnings", "plan",
    "written", "algebra",
)  # fmt: skip
_LIVE = (
    "operators", "steps", "timed_steps", "state", "counters", "rates", "state_size", "waiting_for",
    "last_result", "version", "instant",
)  # fmt: skip


def plan_document(document: dict[str, Any], *, analyze: bool) -> dict[str, Any]:
    """Return EXPLAIN as JSON from the answer of `explain`; ``analyze`` adds measured counts and times."""
    found = {member: document.get(member) for member in (*_PLAN, *(_LIVE if analyze else ()))}
    scale_out = document.get("scale_out")
    return found if scale_out is None else found | {"scale_out": scale_out}


def explain_text(document: dict[str, Any]) -> str:
    """Return EXPLAIN as text from the answer of `explain` or `validate`."""
    report = document["report"]
    when = f"every {report['periodic']}" if isinstance(report, dict) else report
    lines = [
        f"query    {document['name'] or '(no name)'}",
        *(f"           {line}" for line in (document["written"] or "").splitlines()),
        f"dialect  {document['dialect']}, profile {document['profile']}, {document['form'].upper()}",
        f"report   {when}, output {document['output']}",
        f"engine   {document['engine'] or 'chosen once the static parts are read'}",
    ]
    if place := document.get("filter_place"):
        chosen = "" if document["uncertain_filters"] != "auto" else ", by the measured fan-out"
        rows = "" if (found := document.get("fan_out")) is None else f" ({found} rows of a row)"
        where = "before" if place == "early" else "after"
        lines.append(f"filters  uncertain filters are evaluated {where} the joins{chosen}{rows}")
    if document.get("result_iri"):
        lines.append(f"result   <{document['result_iri']}>")
    if document.get("into_graph"):
        lines.append(f"into     <{document['into_graph']}>")
    lines.extend(f"stream   <{stream['iri']}>" for stream in document.get("streams") or ())
    for window in document.get("windows") or ():
        stream = window["stream"] if window["stream"].startswith("?") else f"<{window['stream']}>"
        lines.append(f"window   <{window['name']}> on {stream} {window['window']}")
    if document.get("sharing_group"):
        lines.append(f"sharing  windows are shared by {', '.join(document['sharing_group'])}")
    if document.get("template"):
        template = document["template"]
        here = " ".join(template["constants"]) or "other rows of static parts"
        lines.append(f"template {template['members']} queries are evaluated by one plan, here for {here}")
    for part in document.get("static_parts") or ():
        lines.extend(_part_lines(part))
    lines.extend(_source_line(source) for source in document.get("sources") or ())
    if (scale_out := document.get("scale_out")) is not None:
        lines.append(f"scale    {_scale_text(scale_out)}")
    lines.extend(f"warning  {warning}" for warning in document["warnings"])
    if document.get("plan"):
        lines.append("plan")
        lines.extend(f"  {line}" for line in document["plan"].splitlines())
    lines.append("algebra")
    lines.extend(f"  {line}" for line in document["algebra"].splitlines())
    return "\n".join(lines) + "\n"


def _scale_text(scale_out: dict[str, Any]) -> str:
    """Return EXPLAIN's text for the split of a query into key groups."""
    if not scale_out["splits"]:
        return f"one group of keys, because {scale_out['why']}"
    stages = "one stage" if scale_out["stages"] == 1 else "two stages"
    return f"splits by {' '.join(scale_out['key'])} in {stages}"


def _part_lines(part: dict[str, Any]) -> list[str]:
    """Return EXPLAIN's text lines for one static part of a query."""
    lookup = part.get("lookup")
    how = f"{part['rows']} rows of" if lookup is None else "looked up by key:"
    names = " ".join("?" + name for name in part["variables"])
    notes = []
    if lookup is not None:
        notes.append(
            f"{lookup['rows']} rows of {lookup['keys']} keys cached, "
            f"{lookup['found']} of {lookup['asked']} look-ups answered by the cache"
        )
    for member, said in _PART_NOTES.items():
        value = part.get(member)
        if value not in (None, []):
            shown = ", ".join(value) if isinstance(value, list) else value
            notes.append(said.format(shown, part["engine"]))
    notes += part["pattern"].splitlines()
    first = f"static   {part['name']}: {how} ({names}) at version {part['version']}"
    return [first, *(f"           {note}" for note in notes)]


def _source_line(source: dict[str, Any]) -> str:
    """Return EXPLAIN's text line for a remote source: address, refresh period, and who set the period."""
    every = source["every_ms"]
    how = "by hand" if every is None else f"every {show_duration(every)}"
    why = {
        "query": "the query asks for it",
        "description": "a description in the data says it",
        "setting": "by the setting remote_refresh",
        None: "no running query reads it",
    }[source["every_by"]]
    return f"source   {source['kind']} <{source['source']}> is fetched {how}, {why}"


def code_text(document: dict[str, Any]) -> str:
    """Return the generated Python source of a plan, or a comment for a query without generated source."""
    code = document["code"]
    if code is None:
        return f"# no generated source: the engine {document['engine']} recomputes the answer\n"
    plan = "".join(f"#   {line}\n" for line in (document.get("plan") or "").splitlines())
    return f"# {document['name'] or '(no name)'}\n{plan}{code}"
