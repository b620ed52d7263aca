"""The papers' experiments, for ``streamddcrp reproduce``: data, methods, tables and figures."""
