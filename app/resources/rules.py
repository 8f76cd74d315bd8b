"""``/rules``: rule sets, whose graphs hold what their rules derive from other graphs."""

from __future__ import annotations

from quadrill.continuous.language.registration import NO_INFERRED
from quadrill.store.documents.stored_lines import parse_stored_quads
from quadrill.store.terms import in_store_form

from ..http.answers import WholeAnswer, json_answer, violations_header
from ..http.errors import HttpError
from ..http.parameters import check_name
from ..http.request import Request
from ..upkeep.jobs import describe
from ..wiring import Services
from .links import base_url


def list_rules(services: Services, request: Request) -> WholeAnswer:
    """Return all rule sets, oldest first."""
    request.arguments.check()
    return json_answer({"rules": services.rules.describe_all()})


def get_rules(services: Services, request: Request) -> WholeAnswer:
    """Return one rule set: its definition, state, strata, and the number of inferred triples."""
    request.arguments.check()
    return json_answer(services.rules.describe(_name(request)))


def put_rules(services: Services, request: Request) -> WholeAnswer:
    """Create or replace a rule set.

    The answer comes once the graph is complete; with ``?wait=false`` it is 202 and has a job.
    """
    request.arguments.check({"wait", "dry_run"})
    name, waits = _name(request), request.arguments.flag("wait", default=True)
    members = request.json(services.settings.max_query_bytes * 4, "the rule set")
    given = members.pop("name", name)
    if given != name:
        raise HttpError(400, f"the rule set has two names, {name} and {given!r}", code="member")
    if name == NO_INFERRED:
        raise HttpError(
            400,
            f"a rule set cannot be named {NO_INFERRED}, because entailment={NO_INFERRED} hides all sets",
            code="name",
            hint="Choose another name.",
        )
    if request.arguments.flag("dry_run"):
        return json_answer({"change": services.rules.compare(name, members)})
    put = services.rules.put(name, members)
    if put.changed and not waits:
        job = services.jobs.submit_rules(put)
        return json_answer(describe(job), 202, {"Location": f"{base_url(services, request)}jobs/{job.id}"})
    put.run()
    headers = violations_header(put.progress.violations)
    if put.created:
        headers["Location"] = f"{base_url(services, request)}rules/{name}"
    return json_answer(services.rules.describe(name), 201 if put.created else 200, headers)


def get_why(services: Services, request: Request) -> WholeAnswer:
    """Return why a quad is in the store: whether it is asserted, and how rules derive it, one level deep."""
    request.arguments.check({"quad"})
    line = request.arguments.get("quad") or ""
    try:
        quads = parse_stored_quads(f"{line.strip().removesuffix('.')} .\n".encode())
    except SyntaxError as error:
        raise HttpError(
            400,
            f"quad is not a line of N-Quads: {error.msg}",
            code="parameter",
            hint="For instance quad=<http://e/a> <http://e/p> <http://e/b> <http://e/graph> .",
        ) from error
    if len(quads) != 1:
        raise HttpError(400, f"quad has {len(quads)} quads; it must be one line of N-Quads", code="parameter")
    return json_answer(services.rules.why(*in_store_form(quads)))


def remove_rules(services: Services, request: Request) -> WholeAnswer:
    """Remove a rule set and its quads."""
    request.arguments.check()
    violations = services.rules.delete(_name(request))
    return WholeAnswer(204, violations_header(violations))


def _name(request: Request) -> str:
    return check_name(request.name, "the name of the rule set")
