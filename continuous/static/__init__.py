"""Static parts as tables that follow the store (docs/decisions/0170-tables-that-follow-the-store.md).

    writer    commit -> triggers -> rows that match the changed quads, before and after -> a change
    engine    the commit's task runs -> tables apply their changes -> queries apply them in one transaction

`table_registry` contains all tables of an engine. `table` is one table, with the changes that wait for their
commit's task and the steps that wait for a query; `shared_rows` contains the table's rows and the indexes
that joins probe. `trigger_index` finds the tables that a commit may change. `commit_watch` computes the
changes by `keyed_rows`. `table_reading` reads all rows of a table, for registrations and after changes that
are too large. `changed_rows` computes the change of tables that fell behind. `static_evaluator` queries the
store. `static_inputs` provides one query's static parts. `lookup` reads rows by key for parts without a table
in memory. `stored_tables` stores tables on disk.
"""
