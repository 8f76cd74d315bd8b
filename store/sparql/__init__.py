"""One-shot SPARQL: checks texts, evaluates queries and derives the changes of updates."""
