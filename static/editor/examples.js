// Starting points for the editor, one of each dialect.

export const EXAMPLES = [
  {
    title: "CQELS-QL: join a stream with stored data",
    text: `PREFIX ex: <http://example.org/>
SELECT ?sensor ?value ?room
WHERE {
  STREAM <http://example.org/streams/readings> [NOW] { ?sensor ex:value ?value }
  GRAPH ex:rooms { ?sensor ex:in ?room }
}`,
  },
  {
    title: "CQELS-QL: two streams, sliding window",
    text: `PREFIX ex: <http://example.org/>
SELECT ?room (MAX(?value) AS ?warmest) (COUNT(?person) AS ?people)
WHERE {
  STREAM <http://example.org/streams/readings> [RANGE 10m] { ?sensor ex:value ?value ; ex:in ?room }
  STREAM <http://example.org/streams/doors> [RANGE 1h] { ?person ex:entered ?room }
}
GROUP BY ?room`,
  },
  {
    title: "RSP-QL*: a report each hour",
    text: `PREFIX ex: <http://example.org/>
REGISTER ISTREAM <http://example.org/hourly> AS
SELECT ?sensor (AVG(?value) AS ?mean)
FROM NAMED WINDOW ex:hour ON <http://example.org/streams/readings> [RANGE PT1H STEP PT1H]
WHERE { WINDOW ex:hour { ?sensor ex:value ?value } }
GROUP BY ?sensor
ORDER BY DESC(?mean)`,
  },
  {
    title: "C-SPARQL: count over a tumbling window",
    text: `REGISTER QUERY readings-per-sensor AS
PREFIX ex: <http://example.org/>
SELECT ?sensor (COUNT(?value) AS ?readings)
FROM STREAM <http://example.org/streams/readings> [RANGE 30s TUMBLING]
WHERE { ?sensor ex:value ?value }
GROUP BY ?sensor`,
  },
  {
    title: "SPARQL: a query that stays open over the store",
    text: `PREFIX ex: <http://example.org/>
SELECT ?room (COUNT(?sensor) AS ?sensors)
WHERE { GRAPH ex:rooms { ?sensor ex:in ?room } }
GROUP BY ?room`,
  },
];
