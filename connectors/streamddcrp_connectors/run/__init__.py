"""The command `streamddcrp run`: sources, sinks, checkpoints and the loop between them."""
