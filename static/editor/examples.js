// Starting points for the editor: the recipes of docs/cookbook/queries.md, whose texts a test compares,
// and one of each other dialect.

export const EXAMPLES = [
  {
    title: "An alert above a threshold",
    dialect: "CQELS-QL",
    text: `PREFIX : <http://example.org/>
SELECT ?sensor ?celsius
WHERE { STREAM :readings [NOW] { ?sensor :celsius ?celsius FILTER(?celsius > 30) } }`,
  },
  {
    title: "One alert, not one a reading",
    dialect: "CQELS-QL",
    text: `PREFIX : <http://example.org/>
SELECT DISTINCT ?sensor
WHERE { STREAM :readings [RANGE 10m] { ?sensor :celsius ?celsius FILTER(?celsius > 30) } }`,
  },
  {
    title: "No reading for five minutes",
    dialect: "CQELS-QL",
    text: `PREFIX : <http://example.org/>
SELECT DISTINCT ?sensor
WHERE {
  STREAM :readings [RANGE 1h] { ?sensor :celsius ?any }
  FILTER NOT EXISTS { STREAM :readings [RANGE 5m] { ?sensor :celsius ?celsius } }
}`,
  },
  {
    title: "A trend: the last five minutes against the last half hour",
    dialect: "RSP-QL*",
    text: `PREFIX : <http://example.org/>
REGISTER RSTREAM :rising AS
SELECT ?sensor ?recent ?usual (?recent - ?usual AS ?rise)
FROM NAMED WINDOW :short ON :readings [RANGE PT5M STEP PT5M]
FROM NAMED WINDOW :long ON :readings [RANGE PT30M STEP PT5M]
WHERE {
  { SELECT ?sensor (AVG(?c) AS ?recent) WHERE { WINDOW :short { ?r :sensor ?sensor ; :celsius ?c } } GROUP BY ?sensor }
  { SELECT ?sensor (AVG(?c) AS ?usual) WHERE { WINDOW :long { ?r :sensor ?sensor ; :celsius ?c } } GROUP BY ?sensor }
  FILTER(?recent - ?usual > 2)
}`,
  },
  {
    title: "How fast it changes",
    dialect: "CQELS-QL",
    text: `PREFIX : <http://example.org/>
SELECT ?sensor (?later - ?earlier AS ?degrees) ((?later - ?earlier) / (?m2 - ?m1) AS ?perMinute)
WHERE {
  STREAM :readings [NOW] { ?b :sensor ?sensor ; :celsius ?later ; :minute ?m2 }
  STREAM :readings [RANGE 10m] { ?a :sensor ?sensor ; :celsius ?earlier ; :minute ?m1 }
  FILTER(?m1 < ?m2)
  FILTER NOT EXISTS {
    STREAM :readings [RANGE 10m] { ?c :sensor ?sensor ; :minute ?m3 }
    FILTER(?m1 < ?m3 && ?m3 < ?m2)
  }
}`,
  },
  {
    title: "Add what the store knows",
    dialect: "CQELS-QL",
    text: `PREFIX : <http://example.org/>
SELECT ?room ?floor ?celsius
WHERE {
  STREAM :readings [NOW] { ?sensor :celsius ?celsius FILTER(?celsius > 30) }
  GRAPH :rooms { ?sensor :in ?room . ?room :floor ?floor }
}`,
  },
  {
    title: "Change the rule while it runs",
    dialect: "CQELS-QL",
    text: `PREFIX : <http://example.org/>
SELECT ?sensor ?celsius ?limit
WHERE {
  STREAM :readings [RANGE 10m] { ?sensor :celsius ?celsius }
  GRAPH :limits { ?sensor :limit ?limit }
  FILTER(?celsius > ?limit)
}`,
  },
  {
    title: "Counts and means per minute",
    dialect: "RSP-QL*",
    text: `PREFIX : <http://example.org/>
REGISTER RSTREAM :per-minute AS
SELECT ?room (COUNT(?r) AS ?readings) (AVG(?celsius) AS ?mean)
FROM NAMED WINDOW :minute ON :readings [RANGE PT1M STEP PT1M]
WHERE {
  WINDOW :minute { ?r :sensor ?sensor ; :celsius ?celsius }
  GRAPH :rooms { ?sensor :in ?room }
}
GROUP BY ?room`,
  },
  {
    title: "The three busiest of each window",
    dialect: "RSP-QL*",
    text: `PREFIX : <http://example.org/>
REGISTER RSTREAM :busiest AS
SELECT ?stop (COUNT(?ride) AS ?rides)
FROM NAMED WINDOW :quarter ON :rides [RANGE PT15M STEP PT15M]
WHERE { WINDOW :quarter { ?ride :from ?stop } }
GROUP BY ?stop
ORDER BY DESC(COUNT(?ride)) ?stop
LIMIT 3`,
  },
  {
    title: "Batches of so many elements",
    dialect: "RSP-QL*",
    text: `PREFIX : <http://example.org/>
REGISTER RSTREAM :batches AS
SELECT (COUNT(?r) AS ?readings) (MIN(?celsius) AS ?least) (MAX(?celsius) AS ?greatest)
FROM NAMED WINDOW :three ON :readings [ELEMENTS 3 STEP 3]
WHERE { WINDOW :three { ?r :celsius ?celsius } }`,
  },
  {
    title: "One thing after another",
    dialect: "CQELS-QL",
    text: `PREFIX : <http://example.org/>
SELECT ?door
WHERE {
  STREAM :doors [NOW] { ?event :opened ?door }
  FILTER NOT EXISTS { STREAM :badges [RANGE 30s] { ?badge :shownAt ?door } }
}`,
  },
  {
    title: "Count over a tumbling window",
    dialect: "C-SPARQL",
    text: `REGISTER QUERY readings-per-sensor AS
PREFIX ex: <http://example.org/>
SELECT ?sensor (COUNT(?value) AS ?readings)
FROM STREAM <http://example.org/streams/readings> [RANGE 30s TUMBLING]
WHERE { ?sensor ex:value ?value }
GROUP BY ?sensor`,
  },
  {
    title: "A query that stays open over the store",
    dialect: "SPARQL",
    text: `PREFIX ex: <http://example.org/>
SELECT ?room (COUNT(?sensor) AS ?sensors)
WHERE { GRAPH ex:rooms { ?sensor ex:in ?room } }
GROUP BY ?room`,
  },
];
