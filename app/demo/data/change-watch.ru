# Sent half-way through the replay: the answer of watched-destinations changes at this commit.
PREFIX airport: <http://example.org/nyc/airport/>
PREFIX nyc: <http://example.org/nyc/vocabulary#>

INSERT DATA {
  GRAPH <http://example.org/nyc/graph/watch> {
    airport:ATL nyc:watchedFor "fog" .
    airport:ORD nyc:watchedFor "snow" .
  }
}
