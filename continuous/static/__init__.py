"""Static parts as tables that follow the store (docs/decisions/0170-tables-that-follow-the-store.md).

    writer    commit -> triggers -> rows that agree with the changed quads, before and after -> a change
    engine    the commit takes its turn -> tables take their changes -> their queries, one transaction

`catalogue` keeps the tables, `index` finds those that a commit touches, `deltas` evaluates the rows that it
may have changed, `table` is one table with the changes that wait for their turn, `rows` what one query sees
of its tables, `recompute` the thread for changes too large to be worked out while writers wait, `budget` how
many rows registrations may bring into memory, `kept` which tables are on disk and which a start takes from
there, `packed_rows` how they are written, `lookup` parts that are not held but read by key. `shared_index` is
made once for all queries that look a table up by the same columns; `view` is what the join of
one query looks into. `base` is one table for parts that differ in constants alone, `groups` says which do.
"""
