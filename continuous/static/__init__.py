"""Static parts as tables that follow the store (docs/decisions/0170-tables-that-follow-the-store.md).

    writer    commit -> triggers -> rows that agree with the changed quads, before and after -> a change
    engine    the commit takes its turn -> tables take their changes -> their queries, one transaction

`table_registry` has the tables, `table` is one of them with the changes that wait for their turn,
`table_group` those whose parts differ in constants alone. `index` finds the groups that a commit touches,
`commit_watch` and `commit_delta` work out what it changes, `replay` repeats what a journal tells,
`recompute` has the thread for changes too large for that. `static_evaluator` asks the store.
`static_inputs` is what one query sees of its tables, `steps` what it has not taken of them. `shared_index`
is made once for all queries that look a table up by the same columns; `shared_arrangement` is what the join
of one query looks into. `lookup` reads parts that are not held by key (`keyed_rows`). `budget` says how
many rows registrations may bring into memory, `kept` which tables are on disk, `packed_rows` how they are
written.
"""
