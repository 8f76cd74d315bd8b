# Sent at the end of a round of the replay, when nothing of it is in a window any more: the next one begins as the first.
PREFIX airport: <http://example.org/nyc/airport/>
PREFIX nyc: <http://example.org/nyc/vocabulary#>

DELETE DATA {
  GRAPH <http://example.org/nyc/graph/watch> {
    airport:ATL nyc:watchedFor "fog" .
    airport:ORD nyc:watchedFor "snow" .
  }
}
