"""Rules over arrays: rows of tables become tuples of rows that belong together, step by step as rows come and go.

A rule is a `Query`: members over tables, conditions between them, what must be absent. Times are whole numbers of
ticks, values that are joined are codes of 64 bits (`table.MISSING` is equal to nothing). To run it:

    network = Network()
    network.table("calls", {"ts": np.int64, "vessel": np.int64})             # columns of the rows, by name and type
    tree = choose(query, sampled(query, samples))                            # or read_tree("call meeting owner", query)
    build(network, query, tree)                                              # several queries share what they can

    positions = network.step({"calls": columns}, removed={}, clocks={"calls": now})
    matches = network.take(query.name)                                       # added, decided, removed
    matches.added.values(Column(member, "vessel"))                           # a value for each match
    network.sweep()                                                          # positions change

`step` takes three things: the rows that each table gains, in the order of arrival; the positions of the rows that each
table loses (`select(table).find_by` and `find` give them); and the clocks, each of which promises that all later rows
of its input are at that time or after it. `take` returns the matches since its last call, in the order of (`decided`,
arrival of the rows). Positions stay valid until `sweep`, which drops the rows that nothing can use once there are
enough of them. `save` returns all state as arrays; `restore` loads it into a network with the same `fingerprint`, built
from the same queries and trees (`text_of` writes a tree). `report` says of every node what the planner expected, what
the node did, and what it keeps.

Conditions: `Equal`, `Within` (times), `Near` (places), and `Expression` for any other, a function of arrays. A row that
is valid for a while has two times, each with a `Within` of its own; a column that is set after its row has come is
declared `changing`.

| module | what becomes what |
| --- | --- |
| `table`, `tuples` | rows in columns; tuples of rows, and what changed of them |
| `conditions`, `lookup`, `grid` | conditions; the keys, times and cells by which partners are found |
| `sorted_runs`, `memory`, `lifetime` | entries by key and time; the tuples of a node; how long they are needed |
| `useless_tuples` | tuples that later nodes have no partners for are dropped |
| `node`, `select`, `join`, `antijoin`, `output` | what changed becomes what changed after it |
| `network` | nodes, steps, state |
| `planning` | `query`, `statistics`, `tree`, `planner`, `build`: from a query to nodes |
"""
