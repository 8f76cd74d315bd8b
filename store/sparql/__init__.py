"""One-shot SPARQL: texts checked, queries and updates evaluated."""
