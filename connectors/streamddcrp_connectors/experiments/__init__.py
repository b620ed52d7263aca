"""Experiments of the papers, each a command of ``streamddcrp reproduce``.

A module has the command and imports what is heavy when it runs; beside it lie its numbers
(``*_numbers``) and its figures (``*_figures``).
"""
