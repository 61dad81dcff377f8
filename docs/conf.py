"""Configuration of the documentation site; `make docs` builds it.

The source directory is the root of the repository, so that relative links between README, guides,
examples and decisions work here as they do on a code host. Nothing is loaded from elsewhere.
"""

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

project = "acc"
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "examples/*.md"]
exclude_patterns = [".*", "benchmarks", "build", "dist", "runs", "src", "tests", "node_modules"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4

# Docstrings mark code with single backticks.
default_role = "code"
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
add_module_names = False
maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "acc"
html_last_updated_fmt = None
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_additional_pages = {"index": "redirect.html"}
html_search_language = "en-ja"

_CJK = "\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uff66-\uff9f"
_CJK_RUN = re.compile(f"[{_CJK}]+")
_OBJECT_DEFAULT = re.compile(r"(?<== )<[^<>]+>(?=[,)])|<(?=\w+\.\w+: )[^<>]+>")
_IS_JAPANESE = re.compile(f"[{_CJK}、。，．（）「」]")


class EnglishAndJapanese(SearchEnglish):
    """Index English by stemmed words and Japanese by pairs of characters.

    Sphinx has one search language for a site. Pairs of characters need no dictionary and find any
    part of a word; single characters are indexed too, for queries of one character.
    """

    lang = "en-ja"
    js_splitter_code = """
function splitQuery(query) {
  const words = [];
  for (const word of query.split(/[^\\p{Letter}\\p{Number}_\\p{Emoji_Presentation}]+/gu)) {
    for (const part of word.split(/([CJK]+)/u)) {
      if (!/^[CJK]{2}/u.test(part)) words.push(part);
      else for (let i = 0; i + 1 < part.length; i++) words.push(part.slice(i, i + 2));
    }
  }
  return words.filter(Boolean);
}
""".replace("CJK", _CJK)

    def split(self, input: str) -> list[str]:
        """Return the English words, and the Japanese characters and pairs of characters."""
        words: list[str] = []
        for word in super().split(input):
            words.extend(filter(None, _CJK_RUN.split(word)))
            for run in _CJK_RUN.findall(word):
                words.extend(run)
                words.extend(run[i : i + 2] for i in range(len(run) - 1))
        return words


def show_public_bases(
    app: Sphinx, name: str, obj: object, options: dict[str, Any], bases: list[type]
) -> None:
    """Name only those base classes that a reader can import."""
    import acc

    public = [base for base in bases if getattr(acc, base.__name__, None) is base]
    bases[:] = public or [base for base in bases if base.__module__ == "builtins"] or [object]


def hide_default_objects(*event: Any) -> tuple[str, str] | None:
    """Replace defaults such as `<factory>`, which are not Python, so that signatures are parsed."""
    signature, returns = event[-2:]
    return (_OBJECT_DEFAULT.sub("...", signature), returns) if signature else None


def skip_names_of_acc(app: Sphinx, what: str, name: str, obj: object, *_: Any) -> bool | None:
    """Document a name that another module exports too on the page of `acc` only."""
    import acc

    is_elsewhere = app.env.docname != "docs/api/acc"
    return True if what == "module" and is_elsewhere and name in acc.__all__ else None


def hide_plain_bases(app: Sphinx, doctree: nodes.document) -> None:
    """Remove the line on base classes where it says nothing."""
    for paragraph in list(doctree.findall(nodes.paragraph)):
        if paragraph.astext() == "Bases: object":
            paragraph.parent.remove(paragraph)


def join_japanese_lines(app: Sphinx, doctree: nodes.document) -> None:
    """Remove line breaks within Japanese sentences, which browsers show as spaces."""
    for text in list(doctree.findall(nodes.Text)):
        siblings = text.parent.children
        at = text.parent.index(text)
        if text == "\n" and 0 < at < len(siblings) - 1:
            before, after = siblings[at - 1].astext()[-1:], siblings[at + 1].astext()[:1]
            if _IS_JAPANESE.fullmatch(before) and _IS_JAPANESE.fullmatch(after):
                text.parent.remove(text)


def setup(app: Sphinx) -> None:
    """Register the search language and the changes to the API pages and Japanese text."""
    app.add_search_language(EnglishAndJapanese)
    app.connect("doctree-read", join_japanese_lines)
    app.connect("doctree-read", hide_plain_bases)
    app.connect("autodoc-process-bases", show_public_bases)
    app.connect("autodoc-skip-member", skip_names_of_acc)
    app.connect("autodoc-process-signature", hide_default_objects)
