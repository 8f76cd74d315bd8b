"""Rule sets: parsing, strata, and the incremental computation of the triples that rules derive."""
