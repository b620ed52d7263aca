"""Sources, sinks and the runner: a model between a file or a pipe and its results.

One epoch is one batch of rows::

    source --(RecordBatch, offset)--> refuse bad rows --> split by key --> model.step_many
       ^                                                                        |
       |          one transaction: states + offset + lengths of the outputs     v
       +---------------------------- checkpoint <------------------------ sink, dead letters

* `streamddcrp_connectors.run.sources`: Parquet, Arrow, CSV, JSON lines, pipes, growing files.
* `streamddcrp_connectors.run.sinks`: JSON lines, Parquet, Arrow, standard output; dead letters.
* `streamddcrp_connectors.live`: servers as sources and sinks, alarms to web addresses, counts.
* `streamddcrp_connectors.run.runner`: the loop; `streamddcrp_connectors.cli`: the command.

Delivery: with a checkpoint every row is learned exactly once and, in a file sink, written exactly
once, whatever moment the process dies at; a pipe (standard output) gets each row at least once.
Nothing is imported here, so that the command line starts quickly.
"""
