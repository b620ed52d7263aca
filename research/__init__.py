"""The papers' experiments and what they are compared with: run from a clone, never installed.

`reproduce` holds the commands and imports what is heavy when they run; beside it lie their numbers
(``*_numbers``) and their figures (``*_figures``). `benchmarks` compares models with baselines that
nothing else uses; ``notes`` says what was tried and what came of it.
"""
