"""A server that has just said it is ready takes any number of registrations at once."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

AT_ONCE = 12
TEXTS = (
    "SELECT ?x WHERE { STREAM <http://example.org/s> [NOW] { ?x ?p ?v } }",
    "REGISTER RSTREAM <http://example.org/r> AS SELECT ?x "
    "FROM NAMED WINDOW <w> ON <http://example.org/s> [RANGE 1s STEP 1s] WHERE { WINDOW <w> { ?x ?p ?v } }",
    "REGISTER QUERY q AS SELECT ?x FROM STREAM <http://example.org/s> [RANGE 1s STEP 1s] WHERE { ?x ?p ?v }",
    "SELECT ?x WHERE { ?x ?p ?v }",
)
PARSE = """
import sys, threading
from quadrill.continuous.language import parse
go, faults = threading.Barrier(len(sys.argv) - 1), []
def run(text):
    go.wait()
    try:
        parse(text)
    except BaseException as error:
        faults.append(error)
threads = [threading.Thread(target=run, args=(text,)) for text in sys.argv[1:]]
for each in threads: each.start()
for each in threads: each.join()
sys.exit(str(faults) if faults else 0)
"""


def test_first_texts_of_a_process_may_come_in_many_threads() -> None:
    texts = [TEXTS[number % len(TEXTS)] for number in range(AT_ONCE)]
    done = subprocess.run([sys.executable, "-c", PARSE, *texts], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.always("3")
@pytest.mark.parametrize("start", range(6))
def test_registrations_in_the_first_instant_of_a_server_all_succeed(start: int) -> None:
    command = [sys.executable, "-m", "quadrill.app.cli", "serve", "--data", ":memory:", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            line = next(line for line in server.stdout if "http://" in line)
            url = "http://" + line.split("http://")[1].split()[0].rstrip("/.")

            def register(number: int) -> httpx.Response:
                text = TEXTS[(start + number) % len(TEXTS)]
                return httpx.put(
                    f"{url}/queries/q{number}",
                    content=text,
                    headers={"Content-Type": "text/plain"},
                    timeout=60,
                )

            with ThreadPoolExecutor(AT_ONCE) as pool:
                answers = list(pool.map(register, range(AT_ONCE)))
            assert [each.status_code for each in answers] == [201] * AT_ONCE, [each.text for each in answers]
        finally:
            server.terminate()
