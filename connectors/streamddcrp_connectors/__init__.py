"""Sources, sinks and the runner: a model between a file or a pipe and its results.

One epoch is one batch of rows::

    source --(RecordBatch, offset)--> refuse bad rows --> split by key --> model.step_many
       ^                                                                        |
       |          one transaction: states + offset + lengths of the outputs     v
       +---------------------------- checkpoint <------------------------ sink, dead letters

``docs/way-of-a-batch.md`` names the files on this way, in order. Besides, `live` has servers as
sources and sinks, `page` and `report` show what a run found, `spark` runs on many machines.

Delivery: with a checkpoint every row is learned exactly once and, in a file sink, written exactly
once, whatever moment the process dies at; a pipe (standard output) gets each row at least once.
Nothing is imported here, so that the command line starts quickly.
"""
