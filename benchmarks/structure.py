"""Print the size of the source tree: lines, modules, packages and modules with one importer.

    python benchmarks/structure.py [SOURCE] [--json] [--single]

`--single` lists the modules with one importer and why each is a file of its own: its importer is in
another layer, the merged file would have more than 600 lines, or the table "Modules with one
importer" in docs/architecture.md has a reason. The exit status is 1 if a module has no reason, or
if an entry of the table has no module.
"""

import argparse
import ast
import json
import re
import sys
from collections import defaultdict
from fnmatch import fnmatchcase
from pathlib import Path

DEFAULT_SOURCE = Path(__file__).parent.parent / "src"
REASONS = DEFAULT_SOURCE.parent / "docs" / "architecture.md"
_HEADING = "### Modules with one importer"
_MAX_LINES = 600


def module_names(source: Path) -> dict[str, Path]:
    """Return the modules below a source folder by dotted name, without `__init__` files."""
    return {
        ".".join(path.relative_to(source).with_suffix("").parts): path
        for path in sorted(source.rglob("*.py"))
        if path.stem != "__init__"
    }


def importers(modules: dict[str, Path], source: Path) -> dict[str, set[str]]:
    """Return for each module the files that import it."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                if name in modules and modules[name] != path:
                    found[name].add(str(path))
    return found


def single_importers(source: Path) -> dict[Path, Path]:
    """Return the modules with one importer, and that importer."""
    modules = module_names(source)
    found = importers(modules, source)
    return {modules[name]: Path(*found[name]) for name in modules if len(found[name]) == 1}


def read_reasons() -> dict[str, str]:
    """Return the rows of the table: pattern of a module, and the reason."""
    section = REASONS.read_text(encoding="utf-8").partition(_HEADING)[2].partition("\n#")[0]
    rows: dict[str, str] = {}
    for line in re.findall(r"(?m)^\|.*$", section):
        modules, _, reason = line.strip("| ").partition("|")
        rows |= dict.fromkeys(re.findall("`([^`]+)`", modules), reason.strip())
    return rows


def print_single_importers(source: Path) -> int:
    """Print the modules with one importer and their reasons; return the exit status."""
    reasons = read_reasons()
    used: set[str] = set()
    unexplained = 0
    for module, importer in sorted(single_importers(source).items()):
        lines = sum(len(one.read_text(encoding="utf-8").splitlines()) for one in (module, importer))
        name, place = (
            str(one.relative_to(source / "acc").with_suffix("")) for one in (module, importer)
        )
        rows = [pattern for pattern in reasons if fnmatchcase(name, pattern)]
        used.update(rows)
        reason = reasons[rows[0]] if rows else ""
        if name.partition("/")[0] != place.partition("/")[0]:
            reason = reason or "another layer"
        if lines > _MAX_LINES:
            reason = reason or f"merged, they would have {lines} lines"
        unexplained += not reason
        print(f"{name} <- {place}: {reason or 'NO REASON: merge them, or add a row'}")
    unused = reasons.keys() - used
    for pattern in sorted(unused):
        print(f"{pattern}: NO MODULE: remove it from the table in {REASONS.name}")
    return 1 if unexplained or unused else 0


def measure(source: Path) -> dict[str, int]:
    """Return the counts of a source tree."""
    modules = module_names(source)
    files = list(source.rglob("*.py"))
    contents = [list(path.parent.iterdir()) for path in files if path.stem == "__init__"]
    return {
        "lines": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files),
        "modules": len(modules),
        "modules with one importer": len(single_importers(source)),
        "packages": len(contents),
        "packages with one module": sum(
            len([entry for entry in entries if _is_part(entry)]) == 1 for entries in contents
        ),
    }


def _is_part(entry: Path) -> bool:
    return (entry / "__init__.py").exists() or (entry.suffix == ".py" and entry.stem != "__init__")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", nargs="?", type=Path, default=DEFAULT_SOURCE)
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.add_argument("--single", action="store_true", help="list modules with one importer")
    options = parser.parse_args()
    if options.single:
        return print_single_importers(options.source)
    counts = measure(options.source)
    if options.json:
        print(json.dumps(counts))
    else:
        for name, count in counts.items():
            print(f"{name:28}{count:>8,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
