"""How the documentation is built: ``make docs``. Nothing here needs a network."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from urllib.request import Request, urlopen

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE / "_ext"), str(ROOT / "src")]
# Figures of examples go to files, wherever the pages are built.
os.environ.setdefault("MPLBACKEND", "agg")

from legs import __version__  # noqa: E402

project = "torch-legs"
author = "The torch-legs authors"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "command_help",
    "mathml",
    "public_names",
    "repository_links",
]
html_math_renderer = "mathml"
exclude_patterns = ["_ext", "pictures"]
nitpicky = False

# Markdown
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# API
# Made by scikit-learn, and about its own machinery.
autodoc_default_options = {"exclude-members": "set_score_request"}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Shapes"]

# Tables of names on the pages of packages; the entries are below them.
autosummary_generate = False


# Types in signatures lead to the documentation of other projects, where it can be reached: without
# a network the pages are built all the same, and no warning stops the build.
def reachable(address: str) -> bool:
    request = Request(f"{address}objects.inv", method="HEAD", headers={"User-Agent": "Sphinx"})
    try:
        with urlopen(request, timeout=5):
            return True
    except OSError:
        return False


PROJECTS = {
    "python": "https://docs.python.org/3/",
    "torch": "https://docs.pytorch.org/docs/stable/",
    "torch_geometric": "https://pytorch-geometric.readthedocs.io/en/stable/",
    "numpy": "https://numpy.org/doc/stable/",
    "scipy": "https://docs.scipy.org/doc/scipy/",
    "sklearn": "https://scikit-learn.org/stable/",
}
intersphinx_mapping = {name: (at, None) for name, at in PROJECTS.items() if reachable(at)}
intersphinx_timeout = 10

# The examples run on a copy: what they write stays out of the repository.
COPY = ROOT / "build" / "docs-examples"
shutil.copytree(ROOT / "examples", COPY, dirs_exist_ok=True, ignore=shutil.ignore_patterns("_*"))
sphinx_gallery_conf = {
    "examples_dirs": str(COPY),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/\d\d_",
    "default_thumb_file": str(HERE / "pictures" / "wavelets.png"),
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("scraper.scrape_figures",),
    "capture_repr": (),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "min_reported_time": 60,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "backreferences_dir": None,
    "write_computation_times": False,
}

# Looks
html_theme = "pydata_sphinx_theme"
html_title = "torch-legs"
html_static_path = []
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "torch-legs"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "navigation_with_keys": False,
}
suppress_warnings = [
    # Results are written by programs; their headings may skip a level.
    "myst.header",
]
