"""Static parts as tables that follow the store (docs/decisions/0170-tables-that-follow-the-store.md).

    writer    commit -> triggers -> rows that agree with the changed quads, before and after -> a change
    engine    the commit takes its turn -> tables take their changes -> their queries, one transaction

`table_registry` has the tables, `table` is one of them, with the changes that wait for their turn and the
steps that wait for a query, over `shared_rows`, which joins look into. `trigger_index` finds the tables that
a commit touches, those that differ in constants as one, `commit_watch` works out what it changes, by
`keyed_rows`; `reading` has the thread for changes too large for that, and reads rows for registrations.
`static_evaluator` asks the store. `static_inputs` is what one query sees of its tables. `lookup` reads parts
that are not held by key. `kept` has tables on disk.
"""
