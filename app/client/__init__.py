"""``quadrill.client``: a client of a server, for Python; it needs httpx alone.

    from quadrill.client import Client

    with Client("http://127.0.0.1:7878") as server:
        server.register("SELECT ?s { STREAM <urn:s> [NOW] { ?s ?p ?o } }", name="seen")
        for event in server.feed("seen", resume=0):
            print(event.id, event.answer.rows())

Terms of rdflib, and data frames of pandas, polars and Arrow, are made when they are asked for.
"""

from .answers import Answer, FeedEvent
from .asynchronous import AsyncClient
from .errors import QuadrillError
from .sync import Client

__all__ = ["Answer", "AsyncClient", "Client", "FeedEvent", "QuadrillError"]
