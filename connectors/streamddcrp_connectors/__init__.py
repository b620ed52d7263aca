"""Sources, sinks and the runner: a model between a file or a pipe and its results.

One epoch is one batch of rows::

    source --(RecordBatch, offset)--> refuse bad rows --> split by key --> model.step_many
       ^                                                                        |
       |          one transaction: states + offset + lengths of the outputs     v
       +---------------------------- checkpoint <------------------------ sink, dead letters

``docs/way-of-a-batch.md`` lists the files on this way, in order. `live` adds servers as sources and
sinks, `page` and `report` show a run's results, and `spark` runs on many machines.

Delivery: with a checkpoint every row is learned exactly once, and written exactly once by a file
sink, whenever the process dies; a pipe (standard output) gets each row at least once. Nothing is
imported here, so that the command line starts quickly.
"""
