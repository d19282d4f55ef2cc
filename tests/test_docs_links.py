"""Every link of the README and the documentation leads somewhere, and every page is in the site."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")])


def without_code(text):
    """Fenced blocks and code spans hold brackets that are no links."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def anchors(page):
    """The anchors of a page's headings, as GitHub and MkDocs make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ +(.+)$", text, flags=re.M)
    return {
        re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in headings
    }


def broken(page):
    """The relative links of a page that lead to no file or no heading."""
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            found.append(target)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_a_file_and_a_heading(page):
    assert broken(page) == []


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One thing\n[a](#one-thing) [b](#other) [c](none.md) `[d](no)` [e](http://x.y)\n"
    )
    assert broken(page) == ["#other", "none.md"]


def names_of(nav):
    if isinstance(nav, str):
        return [nav]
    return [
        name for part in (nav.values() if isinstance(nav, dict) else nav) for name in names_of(part)
    ]


def test_the_site_has_every_page_and_every_package():
    names = set(names_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    written = {page.name for page in ROOT.glob("docs/*.md")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = set(project["tool"]["setuptools"]["packages"])
    # configs holds YAML only; the page of lang_env.sources holds its subpackage too.
    packages -= {"agents.configs", "lang_env.sources.procedural"}
    assert names == written | {"index.md"} | {f"reference/{name}.md" for name in packages}
