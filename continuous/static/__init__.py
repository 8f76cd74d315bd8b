"""Static parts of queries as tables that follow the store's commits (docs/decisions/0170).

    writer's thread    commit -> triggers -> rows that match the changed quads, before and after -> change
    engine's thread    the commit's task runs -> tables apply the change -> queries apply the change

The module `table_registry` contains the registry of all tables of static parts in an engine. The module
`table` is the table of one static part, with the changes that wait for the task of their commit and the steps
that wait for a query. `shared_rows` contains the rows of a table and the indexes that joins probe.
`trigger_index` finds the tables that a commit may change, and `commit_watch` computes the changes of these
tables with `keyed_rows`. `table_reading` reads all rows of a table, at a registration or after a change that
is too large. `changed_rows` computes the change of a table that fell behind the store by a large commit.
`static_evaluator` evaluates static parts. `static_inputs` provides the static parts of one query. The module
`lookup` reads rows by key for static parts without a table in memory. `stored_tables` stores tables of static
parts on disk.
"""
