"""Configuration of the documentation; `make docs` builds it into docs/_build.

Sphinx with the theme of NumPy, pandas and scikit-learn reads our numpydoc docstrings and checks the
links between pages. sphinx-gallery runs the tutorials, so that what they show is what comes out.
"""

import logging

import streamddcrp

logging.getLogger("streamddcrp.compilation").setLevel(logging.ERROR)  # no part of a tutorial

project = "streamddcrp"
author = "The streamddcrp developers"
copyright = f"2026, {author}"
version = release = streamddcrp.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
smartquotes_action = "qe"  # quotes and dots; two dashes are an option
exclude_patterns = ["_build", "tutorials/*.ipynb", "tutorials/*.py", "tutorials/*.json"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
templates_path = ["_templates"]
autodoc_typehints = "none"  # the docstrings say types, as readers know them
numpydoc_show_class_members = False  # methods are shown in full, by the template

sphinx_gallery_conf = {
    "examples_dirs": "../examples/tutorials",
    "gallery_dirs": "tutorials",
    "filename_pattern": r".*\.py",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "capture_repr": (),  # what is printed, and pictures
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["phone.css"]
html_title = "streamddcrp"
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 5,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {page: [] for page in ("index", "first-steps", "which-model", "changes")}
html_show_sourcelink = False

# `make docs` treats warnings as errors. Links inside the pages are checked by MyST and by
# tests/unit/test_docs.py; `make docs-links` also asks for those that lead outside.
linkcheck_anchors = False
linkcheck_timeout = 20
