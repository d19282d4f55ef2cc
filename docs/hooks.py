"""What MkDocs builds beside the files of docs/: the README as first page, and the API reference.

python -m mkdocs build --strict
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    "graders",
    "lang_env",
    "lang_env.sources",
    "agents",
    "agents.core",
    "agents.engines",
    "agents.adapters",
    "agents.analysis",
)
"""Packages with a page of their own; each page has the package's modules."""


def on_files(files: Files, config: Any) -> Files:
    """Adds index.md, made from the README, and a page of reference for each package."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=readme.replace("](docs/", "](")))
    for package in PAGES:
        text = reference(package)
        files.append(File.generated(config, f"reference/{package}.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Sends links to the README to the page that is made from it."""
    return re.sub(r"\]\(\.\./README\.md", "](index.md", markdown)


def reference(package: str) -> str:
    """Returns the Markdown of a package's page; mkdocstrings fills it from the docstrings."""
    folder = ROOT / package.replace(".", "/")
    modules = [f"{package}.{path.stem}" for path in sorted(folder.glob("[!_]*.py"))]
    children = [
        f"{package}.{path.parent.name}.{path.stem}"
        for path in sorted(folder.glob("*/[!_]*.py"))
        if f"{package}.{path.parent.name}" not in PAGES
    ]
    names = [package, *modules, *children]
    # The package itself only says what it is: its names are described where they are defined.
    blocks = [
        f"::: {names[0]}\n    options:\n      members: false",
        *(f"::: {n}" for n in names[1:]),
    ]
    return f"# {package}\n\n" + "\n\n".join(blocks) + "\n"
