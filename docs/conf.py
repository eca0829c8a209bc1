"""Sphinx's settings of the site that `make docs` builds from `docs/`. What is more than a setting is in `docs/_sphinx`."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from docs._sphinx.named_types import named_types  # noqa: E402
from tidegate.wire.versions import VERSION  # noqa: E402

project = "tidegate"
author = "the authors of tidegate"
project_copyright = author
version = release = VERSION

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "docs._sphinx.structure",
    "docs._sphinx.python_api",
    "docs._sphinx.versions",
]
root_doc = "index"
exclude_patterns = ["_build", "README.md"]

# Markdown as repository pages show it: anchors of headings by their words, three levels of them.
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]
suppress_warnings = ["myst.strikethrough"]
highlight_language = "text"

# The signature says the types, as they are written: a docstring need not repeat them.
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {name: name for name in named_types()}
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 96
python_use_unqualified_type_names = True
toc_object_entries = False

html_theme = "furo"
html_title = f"tidegate {VERSION}"
html_static_path = ["_sphinx/static"]
html_css_files = ["site.css"]
html_search_scorer = str(DOCS / "_sphinx" / "search_order.js")
templates_path = ["_sphinx/templates"]
html_favicon = "../jobmanager/web/static/icon.svg"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e8a", "color-brand-content": "#0b6e8a"},
    "dark_css_variables": {"color-brand-primary": "#5cc4e0", "color-brand-content": "#5cc4e0"},
}
html_sidebars = {
    "**": [
        "sidebar/scroll-start.html",
        "sidebar/brand.html",
        "sidebar/versions.html",
        "sidebar/search.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}

# What is copied from a console block is what was typed.
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

linkcheck_timeout = 20
linkcheck_ignore = [r"https?://localhost[:/]", r"https?://127\.0\.0\.1[:/]", r"https?://[a-z0-9-]+(:\d+)?(/|$)"]
