"""Experiments of the papers, each a command of ``streamddcrp reproduce``.

`reproduce` has the commands and imports what is heavy when they run; beside it lie their numbers
(``*_numbers``) and their figures (``*_figures``).
"""
